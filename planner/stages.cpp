#include "planner/stages.h"

#include <algorithm>

#include "sbp/at.h"

namespace boxcar::planner {

int virtual_stage(const std::vector<int>& stage_layers, int layer) {
  int end = 0;
  for (size_t v = 0; v < stage_layers.size(); ++v) {
    end += stage_layers[v];
    if (layer < end) return static_cast<int>(v);
  }
  return static_cast<int>(stage_layers.size()) - 1;
}

std::vector<int> stage_starts(const std::vector<int>& stage_layers) {
  std::vector<int> starts;
  int start = 0;
  for (int layers : stage_layers) {
    starts.push_back(start);
    start += layers;
  }
  return starts;
}

namespace {

Run run_of(const ir::Graph& graph, const ir::Op& op) {
  const bool gradient = graph.tensor(op.outputs[0]).role == ir::Role::gradient;
  switch (op.phase) {
    case ir::Phase::forward:
      return Run::forward;
    case ir::Phase::backward:
      return Run::backward;
    case ir::Phase::update:
      return gradient ? Run::reduce : Run::update;
  }
  return Run::forward;
}

// Whether the inputs of an update op are on several stages, or all of them on every stage.
struct InputStages {
  bool several = false, everywhere = true;
};

InputStages input_stages(const ir::Graph& graph, const ir::Op& op, const std::vector<OpSite>& sites) {
  InputStages result;
  int first = -1;
  for (ir::TensorId t : op.inputs) {
    const int stage = at(sites, graph.tensor(t).producer).stage;
    if (stage < 0) continue;
    result.everywhere = false;
    if (first >= 0 && stage != first) result.several = true;
    first = stage;
  }
  result.everywhere = result.everywhere && !op.inputs.empty();
  return result;
}

}  // namespace

std::vector<OpSite> assign_stages(const ir::Graph& graph, const std::vector<int>& stage_layers,
                                  const PartPlaces& places, const std::vector<char>& later) {
  std::vector<OpSite> sites;
  sites.reserve(graph.ops.size());
  for (const ir::Op& op : graph.ops) {
    const int v = virtual_stage(stage_layers, op.layer);
    const bool second = !later.empty() && later[sites.size()];
    OpSite site{places.stage(v), places.chunk(v), second ? Run::weight : run_of(graph, op), false};
    if (site.run == Run::update) {
      const InputStages inputs = input_stages(graph, op, sites);
      site.joint = inputs.several && op.is(ir::OpKind::sum);
      if (site.joint || inputs.everywhere) site.stage = -1;
    }
    sites.push_back(site);
  }
  return sites;
}

}  // namespace boxcar::planner

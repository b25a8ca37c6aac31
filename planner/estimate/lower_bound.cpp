#include "planner/estimate/lower_bound.h"

#include <algorithm>
#include <vector>

#include "planner/estimate/slow_stages.h"
#include "planner/schedule.h"

namespace boxcar::search {

namespace {

// Total computing of stages, each of which takes `times` as long as the one before, on devices of this
// slowness.
double shares(const std::vector<double>& slowness, double times) {
  double sum = 0, seconds = 1;
  for (const double slow : slowness) sum += seconds / slow, seconds *= times;
  return sum;
}

// Seconds of all kernels of a micro-batch.
double computing(const planner::Job& job, const KindCosts& costs) {
  const auto ends = [](const ModelCost& cost) {
    return cost.first.computing + cost.last.computing + cost.joint.computing;
  };
  const auto layer = [](const ModelCost& cost, size_t l) {
    return (cost.layers.empty() ? cost.layer : cost.layers[l]).computing;
  };
  double all = std::min(ends(costs.recomputed), ends(costs.others));
  size_t l = 0;
  for (size_t stage = 0; stage < job.parallel.stage_layers.size(); ++stage) {
    const int layers = job.parallel.stage_layers[stage],
              recomputed = recomputed_layers(job.train, stage, layers);
    for (int of_stage = 0; of_stage < layers; ++of_stage, ++l)
      all += layer(of_stage < recomputed ? costs.recomputed : costs.others, l);
  }
  return all;
}

}  // namespace

double least_seconds(const planner::Job& job, const KindCosts& costs) {
  const planner::Hints& h = job.parallel;
  const double all = computing(job, costs), m = job.train.micro_batches, v = h.virtual_stages;
  const std::vector<double> slowness = least_slowness(h, job.cluster);
  const double alone = m * all / shares(slowness, 1);  // where every stage takes as long
  const bool split = planner::splits_backward(planner::pipeline_of(h, job.train.micro_batches).kind);
  if (!costs.recomputed.layers.empty() || split || h.pp == 1) return alone;
  // With virtual stages, only the first chunk, a v-th, of a stage is before the next one. Kernels of a
  // backward pass after the gradient that the stage before waits for run beside that stage.
  const double boundary = std::max(costs.recomputed.behind_boundary, costs.others.behind_boundary);
  double least = alone;
  for (const double slow : {1.0, slowness.back()}) {  // of the slowest device's line, with any others
    std::vector<double> line(slowness.size(), 1);
    line.back() = slow;
    const double behind = slow * boundary;
    const double left = shares(line, 1 - 1 / (v * m)) / (v * m);
    least = std::max(least, (all / v - shares(line, 1) * behind) / left + v * m * behind);
  }
  return least;
}

}  // namespace boxcar::search

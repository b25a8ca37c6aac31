#include "cli/report_document.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <vector>

#include "backends/machines/device_profile.h"
#include "backends/machines/framework.h"
#include "cli/explain_text.h"
#include "cli/job.h"
#include "cli/job_labels.h"
#include "cli/report_text.h"
#include "cli/report_timeline.h"
#include "cli/simulated_plans.h"
#include "cli/verdict.h"
#include "planner/solve/pareto.h"
#include "planner/verify.h"
#include "sbp/at.h"
#include "sim/campaign/campaign.h"
#include "sim/explain/link_traffic.h"
#include "sim/explain/plan_explanation.h"
#include "sim/explain/report.h"
#include "sim/explain/tensor_explanation.h"
#include "sim/simulate.h"

namespace boxcar::cli {
namespace {

using nlohmann::ordered_json;

constexpr int schema_version = 1;
constexpr size_t most_layer_tensors = 60;  // of a layer, in the graph's order
constexpr size_t most_blocks = 256;        // of a tensor
constexpr size_t most_error_rows = 10;

ordered_json verdict_json(const explain::Report& r) {
  ordered_json lines = ordered_json::array();
  for (const auto& [name, text] : verdict_lines(r)) lines.push_back({{"name", name}, {"text", text}});
  return lines;
}

std::set<std::string> recomputed_ops(const planner::LaidOut* laid) {
  std::set<std::string> names;
  if (!laid) return names;
  for (const ir::Op& op : laid->graph.ops)
    if (op.recomputed) names.insert(op.name);
  return names;
}

// The whole training run, as in `boxcar campaign --plan --json`.
ordered_json run_json(const SavedPlan& saved, const explain::Report& r, const ReportRequest& request) {
  CampaignReport report = request.run.conditions();
  CampaignRow row;
  row.name = request.name, row.gpus = saved.plan.devices;
  row.configuration = saved.plan.labels;
  row.run.step_seconds = r.step_seconds;
  add_cost(request.run, report, {saved.plan, saved.cluster}, row);
  report.rows.push_back(std::move(row));
  return ordered_json::parse(to_json(report));
}

ordered_json links_json(const std::vector<explain::LinkTraffic>& rows) {
  ordered_json all = ordered_json::array();
  for (const explain::LinkTraffic& row : rows)
    all.push_back({{"stage", row.stage},
                   {"link", row.link},
                   {"link_bandwidth_bytes_per_s", row.link_bandwidth},
                   {"what", row.what},
                   {"over", row.over},
                   {"acts", row.acts},
                   {"bytes", row.bytes},
                   {"alone_s", row.alone_seconds},
                   {"simulated_s", row.simulated_seconds}});
  return all;
}

// Fastest first; the front is that of step time and memory.
ordered_json candidates_json(const std::vector<SimulatedPlan>& plans) {
  std::vector<std::vector<double>> values;
  for (const SimulatedPlan& p : plans) values.push_back({p.step_seconds, static_cast<double>(p.peak_bytes)});
  const std::vector<size_t> front = search::pareto_front(values);
  std::vector<size_t> order(plans.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return values[a] < values[b]; });
  ordered_json all = ordered_json::array();
  for (const size_t i : order)
    all.push_back({{"step_time_s", plans[i].step_seconds},
                   {"peak_memory_bytes", plans[i].peak_bytes},
                   {"gpus", plans[i].gpus},
                   {"flags", plans[i].flags},
                   {"layouts_found", plans[i].layouts_found},
                   {"front", std::binary_search(front.begin(), front.end(), i)},
                   {"this_plan", i == 0}});
  return all;
}

// How near a row of published steps is to a job: the device counts most, then the framework.
int nearness(const campaign::StepError& row, const campaign::ErrorBar& bar, const std::string& framework,
             const std::string& device) {
  const bool same_chip = row.device.starts_with(device);
  return (row.device == bar.device ? 8
          : same_chip              ? 4
                                   : 0) +
         (row.framework == framework ? 4 : 0) + (row.framework == bar.error.framework ? 1 : 0) +
         (row.least_gpus == bar.error.least_gpus ? 2 : 0);
}

ordered_json errors_json(const explain::Report& r, const backends::Cluster& cluster) {
  const std::string& framework = cluster.framework->name;
  const std::string& device = cluster.device->name;
  const auto is_used = [&](const campaign::StepError& row) {
    const campaign::StepError& used = r.error.error;
    return row.framework == used.framework && row.device == used.device && row.least_gpus == used.least_gpus;
  };
  std::vector<const campaign::StepError*> rows;
  for (const campaign::StepError& row : campaign::step_errors())
    if ((row.framework == "boxcar") == (framework == "boxcar")) rows.push_back(&row);
  std::stable_sort(rows.begin(), rows.end(), [&](const auto* a, const auto* b) {
    if (is_used(*a) != is_used(*b)) return is_used(*a);
    return nearness(*a, r.error, framework, device) > nearness(*b, r.error, framework, device);
  });
  rows.resize(std::min(rows.size(), most_error_rows));
  ordered_json all = ordered_json::array();
  for (const campaign::StepError* row : rows) {
    const auto [least, most] = campaign::step_range(r.step_seconds, row->share);
    all.push_back({{"framework", row->framework},
                   {"device", row->device},
                   {"least_gpus", row->least_gpus},
                   {"published_steps", row->steps},
                   {"share", row->share},
                   {"step_time_range_s", {least, most}},
                   {"used", is_used(*row)}});
  }
  return {{"text", campaign::to_text(r.error)}, {"rows", all}};
}

ordered_json tensor_json(const planner::LaidOut& laid, const ir::Tensor& tensor) {
  const explain::TensorExplanation e = explain::explain_tensor(laid, tensor.name);
  ordered_json ranges = ordered_json::array(), devices = ordered_json::array();
  for (const auto& [block, holders] : e.blocks) {
    if (ranges.size() == most_blocks) break;
    ordered_json axes = ordered_json::array();
    for (const sbp::Range& range : block) axes.push_back({range.begin, range.end});
    ranges.push_back(axes);
    devices.push_back(explain::ranges_text(holders));
  }
  return {
      {"name", e.name},     {"role", to_text(tensor.role)}, {"type", e.type},   {"shape", tensor.type.shape},
      {"layout", e.layout}, {"blocks", e.blocks.size()},    {"ranges", ranges}, {"devices", devices}};
}

// Parameters that the ops of a layer read, each after the state of which it is a copy in fewer bits, and the
// ops' results; all in the forward pass and in the graph's order.
std::vector<ir::TensorId> layer_tensors(const ir::Graph& graph, int layer) {
  std::vector<ir::TensorId> tensors;
  const auto add = [&](ir::TensorId t) {
    if (std::find(tensors.begin(), tensors.end(), t) == tensors.end()) tensors.push_back(t);
  };
  const auto producer = [&](ir::TensorId t) -> const ir::Op& {
    return at(graph.ops, graph.tensor(t).producer);
  };
  for (const ir::Op& op : graph.ops) {
    if (op.layer != layer || op.phase != ir::Phase::forward || op.recomputed) continue;
    for (const ir::TensorId input : op.inputs) {
      const bool is_cast = producer(input).is(ir::OpKind::cast);
      const ir::TensorId whole = is_cast ? producer(input).inputs.front() : input;
      const auto is_parameter = [&](ir::TensorId t) { return graph.tensor(t).role == ir::Role::parameter; };
      if (!is_parameter(whole) && !is_parameter(input)) continue;
      add(whole);
      add(input);
    }
    const bool makes = !op.is(ir::OpKind::alias) && !op.is(ir::OpKind::cast) && !op.is(ir::OpKind::parameter);
    for (const ir::TensorId output : op.outputs)
      if (makes && graph.tensor(output).role == ir::Role::activation) add(output);
  }
  return tensors;
}

ordered_json layouts_json(const planner::LaidOut& laid) {
  int last = 0;
  for (const ir::Op& op : laid.graph.ops) last = std::max(last, op.layer);
  const int layer = last / 2;  // in the middle of the model, where all layers are alike
  std::vector<ir::TensorId> shown = layer_tensors(laid.graph, layer);
  const size_t left_out = shown.size() - std::min(shown.size(), most_layer_tensors);
  shown.resize(shown.size() - left_out);
  ordered_json mesh = ordered_json::array(), tensors = ordered_json::array();
  for (size_t d = 0; d < laid.mesh.dims(); ++d)
    mesh.push_back({{"name", laid.mesh.names[d]}, {"devices", laid.mesh.extents[d]}});
  int stage = 0;
  for (const ir::TensorId t : shown) {
    stage = std::max(stage, at(laid.sites, laid.graph.tensor(t).producer).stage);
    tensors.push_back(tensor_json(laid, laid.graph.tensor(t)));
  }
  return {{"layer", layer}, {"stage", stage}, {"mesh", mesh}, {"tensors", tensors}, {"left_out", left_out}};
}

}  // namespace

ordered_json report_document(const SavedPlan& saved, const planner::LaidOut* laid,
                             const ReportRequest& request) {
  const auto tell = [&](const char* what) {
    if (request.tell) request.tell(what);
  };
  tell("simulating");
  sim::Options options;
  options.timeline = true;
  const sim::Result result = sim::simulate(saved.plan, saved.cluster, options);
  const sim::StepTimeline timeline(saved.plan, result);
  explain::Report r = explain::report(saved.plan, saved.cluster, planner::memory_use(saved.plan), result);
  r.wall_seconds = result.wall_seconds;
  tell("explaining");
  const explain::PlanExplanation explanation = explain::explain_plan(saved.plan, saved.cluster, r, laid);
  ordered_json explained = to_json(explanation);
  ordered_json doc;
  doc["schema_version"] = schema_version;
  doc["plan"] = request.name;
  if (const std::string model = known_model(saved.plan.labels); !model.empty()) doc["model"] = model;
  doc["cluster"] = saved.cluster.name;
  doc["device"] = saved.cluster.device->name;
  doc["framework"] = saved.cluster.framework->name;
  doc["gpus"] = saved.plan.devices;
  doc["verdict"] = verdict_json(r);
  doc["result"] = ordered_json::parse(to_json(r));
  if (request.run.has_amount()) doc["run"] = run_json(saved, r, request);
  doc["stages"] = std::move(explained["stages"]);
  doc["communications"] = std::move(explained["communications"]);
  doc["links"] = links_json(explain::link_traffic(saved.plan, saved.cluster, timeline));
  doc["memory"] = memory_json(result, timeline);
  doc["memory"]["limit_bytes"] = r.memory_limit_bytes;
  doc["layouts"] = laid ? layouts_json(*laid) : ordered_json(nullptr);
  doc["candidates"] = candidates_json(simulated_plans(saved.plan.labels));
  if (request.sensitivity)
    doc["sensitivity"] =
        to_json(explain::sensitivity(saved.plan, saved.cluster, [&](const explain::Constant& c) {
          if (request.tell) request.tell(fmt::format("simulating with other {}", c.name));
        }));
  doc["errors"] = errors_json(r, saved.cluster);
  doc["timeline"] = timeline_json(saved.plan, result, timeline, recomputed_ops(laid));
  return doc;
}

}  // namespace boxcar::cli

#include "cli/explain_command.h"

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/arguments.h"
#include "cli/explain.h"
#include "cli/layout_labels.h"
#include "cli/output.h"
#include "cli/plan_file.h"
#include "ir/op.h"
#include "planner/laid_out.h"
#include "sim/simulate.h"

namespace boxcar::cli {
namespace {

using nlohmann::ordered_json;

// Layouts of a model with more nodes of problems are not found dozens of times over.
constexpr int most_solved = 2000;

struct ExplainArguments {
  std::string plan, op, tensor;
  bool json = false;
};

void explain_whole(const SavedPlan& saved, const planner::LaidOut* laid, bool json) {
  const sim::Result result = sim::simulate(saved.plan, saved.cluster);
  Report r = report(saved.plan, saved.cluster, planner::memory_use(saved.plan), result);
  r.wall_seconds = result.wall_seconds;
  const PlanExplanation explanation = explain_plan(saved.plan, saved.cluster, r, laid);
  print(json ? to_json(explanation).dump(2) + "\n" : to_text(explanation));
}

// Every op but updates as it is.
search::LayoutRequest as_laid_out(const planner::LaidOut& laid) {
  search::LayoutRequest request;
  for (size_t o = 0; o < laid.graph.ops.size(); ++o)
    if (const ir::Op& op = laid.graph.ops[o]; ir::has_op(op.type) && op.phase != ir::Phase::update)
      request.ops[op.name] = laid.layouts.ops[o].signatures;
  return request;
}

// Where layouts were found, all others are found anew with the op's; where hints decided, they stay.
StepWith step_with(const planner::Job& job, const planner::LaidOut& laid, const std::string& op,
                   const std::optional<search::LayoutRequest>& layouts,
                   const search::FoundLayouts& as_found) {
  StepWith step;
  if (laid.mesh.devices() == 1) return step;
  const search::LayoutRequest base = layouts ? *layouts : as_laid_out(laid);
  step.anew = layouts.has_value();
  step.by_memory = base.weights.memory > 0;
  const planner::Layouts as = layouts ? as_found.layouts : planner::Layouts{laid.layouts.ops, {}};
  const auto find = [job, &laid, base, op, as](size_t dimension,
                                               const std::vector<sbp::Signature>& signatures,
                                               const backends::Cluster& cluster, bool free_memory) {
    planner::Job on = job;
    on.cluster = cluster;
    search::LayoutRequest request = base;
    request.dimension = dimension;
    request.as = as;
    if (!signatures.empty()) request.ops[op] = signatures;
    if (free_memory) request.weights.memory = 0;
    search::FoundLayouts found;
    search::chooser(on, request, &found)(laid.graph, on.parallel, laid.mesh);
    return found;
  };
  step.quick = !layouts || find(0, {}, job.cluster, false).solved <= most_solved;
  step.seconds = [find](size_t dimension, const std::vector<sbp::Signature>& signatures,
                        const backends::Cluster& cluster,
                        bool free_memory) { return find(dimension, signatures, cluster, free_memory).value; };
  return step;
}

void run(const ExplainArguments& arguments, Extent extent) {
  const SavedPlan saved = load_plan(arguments.plan, {});
  const bool whole = arguments.op.empty() && arguments.tensor.empty();
  const bool labelled = saved.plan.labels.contains("model.family");
  if (extent == Extent::reading) {
    if (labelled) job_of(saved.plan, arguments.plan);
    return;
  }
  if (whole && !labelled) return explain_whole(saved, nullptr, arguments.json);
  const planner::Job job = job_of(saved.plan, arguments.plan).request.job;
  const auto layouts = layouts_of(saved.plan.labels);
  planner::Choose choose;
  search::FoundLayouts found;
  if (layouts) choose = search::chooser(job, *layouts, &found);
  const planner::LaidOut laid = planner::lay_out(job, choose);
  if (whole) return explain_whole(saved, &laid, arguments.json);
  std::string text;
  ordered_json doc{{"schema_version", 1}};
  if (!arguments.op.empty()) {
    const OpExplanation op =
        explain_op(laid, saved.cluster, arguments.op, step_with(job, laid, arguments.op, layouts, found));
    text += to_text(op);
    doc["op"] = to_json(op);
  }
  if (!arguments.tensor.empty()) {
    const TensorExplanation tensor = explain_tensor(laid, arguments.tensor);
    text += (text.empty() ? "" : "\n") + to_text(tensor);
    doc["tensor"] = to_json(tensor);
  }
  print(arguments.json ? doc.dump(2) + "\n" : text);
}

}  // namespace

void add_explain_command(CLI::App& app, Extent extent) {
  CLI::App* command = app.add_subcommand("explain", "say why a saved plan is as it is");
  auto arguments = std::make_shared<ExplainArguments>();
  command->add_option("plan", arguments->plan, "a plan that search or simulate saved")
      ->required()
      ->type_name("PLAN");
  command->add_option("--op", arguments->op, "the signatures that an op could have, and their costs")
      ->type_name("NAME");
  command->add_option("--tensor", arguments->tensor, "which device holds which block of a tensor")
      ->type_name("NAME");
  command->add_flag("--json", arguments->json, "print one JSON document instead of text");
  command->allow_extras();
  command->callback([command, arguments, extent] {
    refuse_extras(*command);
    run(*arguments, extent);
  });
}

}  // namespace boxcar::cli

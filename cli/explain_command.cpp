#include "cli/explain_command.h"

#include <memory>

#include "cli/arguments.h"
#include "cli/explain.h"
#include "cli/layout_labels.h"
#include "cli/output.h"
#include "cli/plan_file.h"
#include "sim/simulate.h"

namespace boxcar::cli {
namespace {

struct ExplainArguments {
  std::string plan, op, tensor;
};

void run(const ExplainArguments& arguments) {
  const SavedPlan saved = load_plan(arguments.plan, {});
  if (arguments.op.empty() && arguments.tensor.empty()) {
    const sim::Result result = sim::simulate(saved.plan, saved.cluster);
    Report r = report(saved.plan, saved.cluster, planner::memory_use(saved.plan), result);
    r.wall_seconds = result.wall_seconds;
    return print(explain_plan(saved.plan, saved.cluster, r));
  }
  const planner::Job job = job_of(saved.plan, arguments.plan).request.job;
  const auto layouts = layouts_of(saved.plan.labels);
  planner::Choose choose;
  if (layouts) choose = search::chooser(job, *layouts, nullptr);
  const planner::LaidOut laid = planner::lay_out(job, choose);
  StepWith step;
  if (layouts)
    step = [&](const std::vector<sbp::Signature>& signatures) {
      search::LayoutRequest request = *layouts;
      request.ops[arguments.op] = signatures;
      search::FoundLayouts found;
      search::chooser(job, request, &found)(laid.graph, job.parallel, laid.mesh);
      return found.value;
    };
  std::string text;
  if (!arguments.op.empty()) text += explain_op(laid, saved.cluster, arguments.op, step);
  if (!arguments.tensor.empty()) text += (text.empty() ? "" : "\n") + explain_tensor(laid, arguments.tensor);
  print(text);
}

}  // namespace

void add_explain_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("explain", "say why a saved plan is as it is");
  auto arguments = std::make_shared<ExplainArguments>();
  command->add_option("plan", arguments->plan, "a plan that search or simulate saved")
      ->required()
      ->type_name("PLAN");
  command->add_option("--op", arguments->op, "the signatures that an op could have, and their costs")
      ->type_name("NAME");
  command->add_option("--tensor", arguments->tensor, "which device holds which block of a tensor")
      ->type_name("NAME");
  command->allow_extras();
  command->callback([command, arguments] {
    refuse_extras(*command);
    run(*arguments);
  });
}

}  // namespace boxcar::cli

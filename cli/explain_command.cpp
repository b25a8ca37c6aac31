#include "cli/explain_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/arguments.h"
#include "cli/comparison.h"
#include "cli/explain_text.h"
#include "cli/output.h"
#include "cli/plan_file.h"
#include "cli/search_report.h"
#include "cli/simulated_plans.h"
#include "cli/verdict.h"
#include "ir/units.h"
#include "planner/estimate/layout_labels.h"
#include "planner/laid_out.h"
#include "planner/verify.h"
#include "sbp/error.h"
#include "sim/explain/report.h"
#include "sim/simulate.h"

namespace boxcar::cli {
namespace {

using nlohmann::ordered_json;

struct ExplainArguments {
  std::string plan, op, tensor;
  std::vector<std::string> why_not;  // flags of a job, as one text each
  bool no_sensitivity = false, json = false;
};

void explain_whole(const SavedPlan& saved, const planner::LaidOut* laid, const ExplainArguments& arguments) {
  const sim::Result result = sim::simulate(saved.plan, saved.cluster);
  explain::Report r = explain::report(saved.plan, saved.cluster, planner::memory_use(saved.plan), result);
  r.wall_seconds = result.wall_seconds;
  explain::PlanExplanation explanation = explain::explain_plan(saved.plan, saved.cluster, r, laid);
  if (!arguments.no_sensitivity) {
    Progress progress;
    explanation.sensitivity =
        explain::sensitivity(saved.plan, saved.cluster, [&](const explain::Constant& constant) {
          progress.part(fmt::format("simulating with other {}", constant.name));
        });
  }
  print(arguments.json ? to_json(explanation).dump(2) + "\n"
                       : to_text(explanation, laid ? slow_stages_text(laid->hints, saved.cluster) : ""));
}

// The keys of a text of flags, "--tp 4 --zero 1".
GivenKeys keys_of_flags(const std::string& text) {
  if (const size_t begin = text.find_first_not_of(' '); begin != std::string::npos && text[begin] != '-')
    throw Error::input("--why-not", fmt::format("got \"{}\", expected flags such as \"--tp 4\"", text));
  if (text.find("--what-if") != std::string::npos)
    throw Error::input("--why-not", fmt::format("got \"{}\": plans are placed on the plan's cluster; "
                                                "`boxcar simulate --plan PLAN --what-if` changes constants",
                                                text));
  CLI::App app("", "simulate");  // the command of these flags
  JobArguments job;
  job.add_to(app);
  try {
    app.parse(text, false);
  } catch (const CLI::ArgumentMismatch& e) {  // "--tp: 1 required 1..10000 missing"
    const std::string what = e.what();
    throw Error::input("--why-not", fmt::format("{} needs a value", what.substr(0, what.find(':'))));
  } catch (const CLI::ParseError& e) {
    throw Error::input("--why-not", fmt::format("got \"{}\": {}", text, e.what()));
  }
  if (!job.file().empty())
    throw Error::input("--why-not", fmt::format("got \"{}\", expected flags such as \"--tp 4\"", job.file()));
  GivenKeys given = job.given();
  if (given.empty()) throw Error::input("--why-not", "needs flags such as \"--tp 4\"");
  return given;
}

// Of the plans that the search simulated, the best that has these keys.
std::optional<SimulatedPlan> best_simulated(const SavedPlan& saved, const GivenKeys& given) {
  for (const SimulatedPlan& one : simulated_plans(saved.plan.labels)) {
    const GivenKeys keys = keys_of_flags(one.flags);
    const bool has = std::all_of(given.begin(), given.end(), [&](const auto& key) {
      const auto found = keys.find(key.first);
      return found != keys.end() && found->second.text == key.second.text;
    });
    if (has) return one;
  }
  return std::nullopt;
}

// The plan beside variants with other keys, a text of flags at a time.
void place_others(const ExplainArguments& arguments, const SavedPlan& saved) {
  const explain::Report base = explain::report(saved.plan, saved.cluster, planner::memory_use(saved.plan),
                                               sim::simulate(saved.plan, saved.cluster));
  const GivenKeys keys = keys_of(saved.plan, arguments.plan);
  std::string text;
  ordered_json rows = ordered_json::array();
  for (const std::string& flags : arguments.why_not) {
    const GivenKeys given = keys_of_flags(flags);
    const Variation v = place(keys, given, search::layouts_of(saved.plan.labels));
    text += fmt::format("{}\n  {}\n", flags, placed_text(base, v));
    if (v.why_not.empty()) text += bound_text(v.report);
    if (!v.plan.empty()) text += fmt::format("  plan      {}\n", v.plan);
    if (!v.chosen.empty())
      text +=
          fmt::format("  with      {}, {}\n", v.chosen,
                      v.why_not.empty() ? "the fewest recomputed layers that fit" : "in place of the plan's");
    rows.push_back({{"flags", flags}});
    rows.back().update(placed_json(base, v));
    if (const auto known = best_simulated(saved, given)) {
      text += fmt::format("  searched  {}, the best with these flags that the search simulated: {}\n",
                          ir::format_seconds(known->step_seconds), known->flags);
      rows.back()["searched"] = {{"step_time_s", known->step_seconds}, {"plan", known->flags}};
    }
  }
  print(arguments.json ? ordered_json{{"schema_version", 1}, {"why_not", rows}}.dump(2) + "\n" : text);
}

void run(const ExplainArguments& arguments, Extent extent) {
  const SavedPlan saved = load_plan(arguments.plan, {});
  const bool whole = arguments.op.empty() && arguments.tensor.empty();
  const bool labelled = saved.plan.labels.contains("model.family");
  if (!arguments.why_not.empty() && !whole)
    throw Error::input("--why-not",
                       fmt::format("another plan is placed as a whole; leave {} out, or ask for it alone",
                                   arguments.op.empty() ? "--tensor" : "--op"));
  for (const std::string& flags : arguments.why_not) keys_of_flags(flags);
  if (extent == Extent::reading) {
    if (labelled) job_of(saved.plan, arguments.plan);
    return;
  }
  if (whole) check_fits(saved, arguments.plan);
  if (!arguments.why_not.empty()) return place_others(arguments, saved);
  if (whole && !labelled) return explain_whole(saved, nullptr, arguments);
  const planner::ResolvedJob job = job_of(saved.plan, arguments.plan).job;
  const auto layouts = search::layouts_of(saved.plan.labels);
  planner::Choose choose;
  search::FoundLayouts found;
  if (layouts) choose = search::chooser(job, *layouts, &found);
  const planner::LaidOut laid = planner::lay_out(job, choose);
  if (whole) return explain_whole(saved, &laid, arguments);
  std::string text;
  ordered_json doc{{"schema_version", 1}};
  if (!arguments.op.empty()) {
    const explain::OpExplanation op = explain::explain_op(
        laid, saved.cluster, arguments.op, explain::step_with(job, laid, arguments.op, layouts, found));
    text += to_text(op);
    doc["op"] = to_json(op);
  }
  if (!arguments.tensor.empty()) {
    const explain::TensorExplanation tensor = explain::explain_tensor(laid, arguments.tensor);
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
  command
      ->add_option(
          "--why-not", arguments->why_not,
          "the plan with other flags: how much slower it is, or the limit that it breaks; may be repeated")
      ->type_name("\"--tp 4\"")
      ->take_all();
  command->add_flag("--no-sensitivity", arguments->no_sensitivity,
                    "leave out the steps with other constants of the cluster, each a simulation");
  command->add_flag("--json", arguments->json, "print one JSON document instead of text");
  command->allow_extras();
  command->callback([command, arguments, extent] {
    refuse_extras(*command);
    run(*arguments, extent);
  });
}

}  // namespace boxcar::cli

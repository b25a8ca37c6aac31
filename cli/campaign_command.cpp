#include "cli/campaign_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <sstream>
#include <utility>

#include "backends/machines/cluster.h"
#include "backends/machines/device_profile.h"
#include "backends/machines/framework.h"
#include "cli/advice_text.h"
#include "cli/arguments.h"
#include "cli/campaign_conditions.h"
#include "cli/campaign_fleet.h"
#include "cli/campaign_report.h"
#include "cli/effects.h"
#include "cli/job_labels.h"
#include "cli/output.h"
#include "cli/plan_file.h"
#include "cli/quantities.h"
#include "cli/search_job.h"
#include "cli/search_report.h"
#include "cli/what_if.h"
#include "ir/read_number.h"
#include "ir/units.h"
#include "planner/sizes.h"
#include "planner/verify.h"
#include "sbp/error.h"
#include "sim/explain/report.h"
#include "sim/simulate.h"

namespace boxcar::cli {
namespace {

struct CampaignArguments {
  JobArguments job;
  CampaignFlags conditions;
  FleetFlags fleet;
  std::vector<std::string> plans, changes, stragglers;
  std::string max_stack;
  bool json = false, search = false;
};

// A training run to be simulated: a job, a job whose plan is searched, or a saved plan.
struct Run {
  std::string name;
  ir::Plan plan;
  backends::Cluster cluster;
  std::optional<planner::ResolvedJob> job;  // to compile; none for a saved plan
  std::optional<OpenJob> open = {};         // to search
  GivenKeys given = {};                     // of a job
  std::vector<std::string> notes = {};      // notes for the user
  std::optional<Error> refused = {};        // why it cannot be planned; then it has only a name
  int gpus = 0;                             // as given; 0: not given
  backends::Cluster whole = {};             // of a job to compile: the cluster of which its own is a part
};

void make_changes(const CampaignArguments& a, backends::Cluster& cluster) {
  for (const std::string& text : a.changes) change(cluster, text);
  for (const std::string& text : a.stragglers) slow_down(cluster, text);
}

// "256,512" as given, or of a job file: each number is its own run.
std::vector<Given> take_gpus(const GivenKeys& given) {
  const auto found = given.find("cluster.gpus");
  if (found == given.end()) return {};
  std::string text = found->second.text, one;
  std::erase_if(text, [](char c) { return c == '[' || c == ']' || c == ' '; });
  std::vector<Given> all;
  for (std::istringstream numbers(text); std::getline(numbers, one, ',');) {
    Request checked;
    if (!ir::read_number<int64_t>(one))
      throw Error::input(found->second.where,
                         fmt::format("got \"{}\", expected numbers of GPUs, as in 256,512", one));
    set(checked, "cluster.gpus", {one, found->second.where});
    for (const Given& other : all)
      if (other.text == one) throw Error::input(found->second.where, one + " is given twice");
    all.push_back({one, found->second.where});
  }
  return all;
}

std::string name_of(const GivenKeys& given, const std::string& file) {
  const auto model = given.find("model.family");
  return !file.empty() ? file : model == given.end() ? "flags" : model->second.text;
}

Run open_run(const CampaignArguments& a, const GivenKeys& given, const std::string& name) {
  OpenJob open = open_job(given, a.max_stack);
  make_changes(a, open.request.job.cluster);
  tell_stack(given, a.max_stack);
  Run run{name, {}, open.request.job.cluster, std::nullopt};
  run.open = std::move(open);
  return run;
}

Run resolved_run(const CampaignArguments& a, const GivenKeys& given, const std::string& name) {
  Resolved resolved = resolve(given);
  std::vector<std::string> notes = without_effect(given, resolved.request.job);
  for (std::string& text : notes)
    text += fmt::format(" ({} on {})", name, counted(resolved.request.job.gpus, "GPU"));
  planner::Job job = resolved.job;
  make_changes(a, job.cluster);
  resolved.request.job.cluster = job.cluster;
  Run run{name, {}, job.cluster, planner::resolve(std::move(job))};
  run.whole = as_described(resolved.request);
  run.plan.labels = std::move(resolved.labels);
  run.notes = std::move(notes);
  return run;
}

// A job that cannot be planned is a run with a reason: others may be possible.
Run run_of(const CampaignArguments& a, const GivenKeys& given, const std::string& name) {
  try {
    Run run = a.search ? open_run(a, given, name) : resolved_run(a, given, name);
    run.given = given;
    return run;
  } catch (const Error& error) {
    if (error.code() == Exit::fault) throw;
    Run run{name, {}, {}, std::nullopt};
    run.refused = error;
    return run;
  }
}

GivenKeys job_given(const CampaignArguments& a, const std::string& file) {
  if (!file.empty() && read_file(file).starts_with("plan "))
    throw Error::input(file, fmt::format("is a saved plan; give it as --plan {}", file));
  GivenKeys given = a.job.given(file);
  if (!given.contains("train.global_batch"))
    throw Error::input(file.empty() ? "train.global_batch" : file + ": train.global_batch",
                       "missing; give it in the job file or as --global-batch");
  return given;
}

std::vector<Run> runs_of(const CampaignArguments& a) {
  std::vector<std::string> files = a.job.files();
  const GivenKeys flags = files.empty() ? a.job.given("") : GivenKeys{};  // flags for plans
  if (files.empty() && a.plans.empty()) files.emplace_back();             // the flags alone
  if (files.empty() && a.search) throw Error::input("--search", "has no effect on a saved plan");
  std::vector<Run> runs;
  const auto add = [&](Run run) {
    for (const std::string& note : run.notes) tell(note);
    runs.push_back(std::move(run));
  };
  for (const std::string& file : files) {
    GivenKeys given = job_given(a, file);
    const std::string name = name_of(given, file);
    std::vector<Given> gpus = take_gpus(given);
    if (gpus.empty()) add(run_of(a, given, name));
    for (const Given& number : gpus) {
      given["cluster.gpus"] = number;
      add(run_of(a, given, name));
      runs.back().gpus = ir::read_number<int>(number.text).value_or(0);
    }
  }
  for (const std::string& path : a.plans) {
    SavedPlan saved = load_plan(path, flags);
    make_changes(a, saved.cluster);
    runs.push_back({path, std::move(saved.plan), saved.cluster, std::nullopt});
  }
  return runs;
}

std::string why_not(const explain::Report& r) {
  const explain::StageReport& worst = explain::fullest(r);
  const bool shared = r.node_peak_bytes > 0;
  return fmt::format("does not fit: needs {} on a {} that has {}",
                     ir::format_bytes(static_cast<double>(shared ? r.node_peak_bytes : worst.peak_bytes)),
                     shared ? "node" : "GPU", ir::format_bytes(static_cast<double>(r.memory_limit_bytes)));
}

void find_step(Run& run, CampaignRow& row) {
  OpenJob& open = *run.open;
  open.options.described = as_described(open.request);
  search::Outcome outcome;
  try {
    outcome = search::search(open.request.job, open.options, simulating_oracle());
  } catch (const Error& error) {
    throw located(open.given, error);
  }
  if (outcome.best.empty())
    throw Error::cannot_run("", fmt::format("does not fit: none of {} (`boxcar search` on the same job says "
                                            "what would help)",
                                            counted(outcome.points, "plan")));
  const search::Candidate& best = outcome.best.front();
  row.run.step_seconds = best.seconds;
  row.plan_flags = flags_of(best.job);
  open.request.job = best.job;
  run.job = planner::resolve(best.job);
  run.plan = best.plan ? std::move(*best.plan) : search::plan_of(best);
  run.plan.labels = labels_of(open.request);
}

void compile_run(Run& run) {
  std::map<std::string, std::string> labels = std::move(run.plan.labels);
  run.plan = planner::compile(*run.job);
  run.plan.labels = std::move(labels);
}

void simulate_step(Run& run, CampaignRow& row) {
  const auto advice = [&] { return run.job ? advice_text(*run.job, run.whole) : std::string(); };
  try {
    if (run.job) compile_run(run);
  } catch (const planner::TooLarge& error) {
    throw Error::cannot_run("", error.what() + advice());
  }
  const explain::Report memory = explain::memory_report(run.plan, run.cluster, planner::memory_use(run.plan));
  if (!memory.fits)
    throw Error::cannot_run("", why_not(memory) + (memory.node_peak_bytes > 0 ? "" : advice()));
  planner::verify(run.plan, run.cluster.device->memory_bytes);
  row.run.step_seconds = sim::simulate(run.plan, run.cluster, {}).step_seconds;
}

// Also for a run that has no plan.
int gpus_of(const Run& run) {
  if (run.plan.devices > 0) return run.plan.devices;
  if (run.refused) return run.gpus;
  return run.job ? (*run.job)->gpus : run.open->request.job.gpus;
}

void find_or_simulate_step(Run& run, CampaignRow& row) {
  if (run.refused) throw *run.refused;
  run.open ? find_step(run, row) : simulate_step(run, row);
}

// The job on fewer nodes, if it can be planned there and takes less time than on fewer still.
void plan_fewer_nodes(const CampaignArguments& a, const CampaignReport& report, const Run& run,
                      Progress& progress, CampaignRow& row) {
  for (const int nodes : fewer_nodes(report, row)) {
    progress.step(fmt::format("planning {} for {}", row.name, counted(nodes, "node")));
    GivenKeys given = run.given;
    given["cluster.gpus"] = {fmt::format("{}", nodes * run.cluster.node.gpus), "--replan"};
    Run fewer = run_of(a, given, row.name);
    CampaignRow step;
    try {
      find_or_simulate_step(fewer, step);
    } catch (const Error& error) {
      if (error.code() == Exit::fault) throw;
      continue;
    }
    row.step_seconds_on[nodes] = step.run.step_seconds;
  }
  leave_out_slower(row.step_seconds_on);
}

void cost_row(const CampaignArguments& a, const CampaignReport& report, Progress& progress, Run& run,
              CampaignRow& row) {
  find_or_simulate_step(run, row);
  const planner::ResolvedJob* const job = run.job ? &*run.job : nullptr;
  add_cost(a.conditions, report, {run.plan, run.cluster, job}, row);
  const int on_node = run.cluster.node.gpus;
  row.nodes = (row.gpus + on_node - 1) / on_node;
  plan_fewer_nodes(a, report, run, progress, row);
  add_weeks(report, row);
}

// Rows without a cost say why. Throws if none has one: their reason if it is one, otherwise below the table
// of reasons.
CampaignReport filled(CampaignReport report, const CampaignArguments& arguments, std::vector<Run>& runs) {
  Progress progress;
  std::vector<Error> refused;
  for (Run& one : runs) {
    progress.step(fmt::format("{} run {} of {}", one.open ? "searching" : "simulating",
                              report.rows.size() + 1, runs.size()));
    CampaignRow& row = report.rows.emplace_back();
    row.name = one.name, row.gpus = gpus_of(one);
    try {
      cost_row(arguments, report, progress, one, row);
    } catch (const Error& error) {
      if (error.code() == Exit::fault) throw;
      row.why_not = error.what();
      refused.push_back(error);
    }
    row.configuration = one.plan.labels;
    one = {};  // its plan may be large
  }
  if (refused.size() < report.rows.size()) return report;
  if (arguments.json) print(to_json(report));
  const bool same = std::all_of(report.rows.begin(), report.rows.end(), [&](const CampaignRow& row) {
    return row.why_not == report.rows.front().why_not;
  });
  if (same) throw refused.front();
  if (!arguments.json) print(to_table(report));
  throw Error::cannot_run("", "no row can be run; each says why");
}

int run(const CampaignArguments& arguments, Extent extent) {
  const TellOnce once;
  CampaignReport report = arguments.conditions.conditions();
  if (!arguments.max_stack.empty() && !arguments.search)
    throw Error::input("--max-stack", "has no effect without --search");
  arguments.fleet.conditions(arguments.conditions, report);
  if (arguments.fleet.replan && !arguments.plans.empty())
    throw Error::input("--replan", "a saved plan is for its nodes alone (give the job in place of --plan)");
  std::vector<Run> runs = runs_of(arguments);
  if (extent == Extent::reading) return 0;
  report = filled(std::move(report), arguments, runs);
  print(arguments.json ? to_json(report) : to_table(report));
  return 0;
}

}  // namespace

void add_campaign_command(CLI::App& app, int& exit_code, Extent extent) {
  CLI::App* command =
      app.add_subcommand("campaign", "days, GPU hours, money and energy of whole training runs");
  auto arguments = std::make_shared<CampaignArguments>();
  arguments->job.add_to(*command);
  arguments->conditions.add_to(*command, "needed, or --samples");
  arguments->fleet.add_to(*command);
  command->add_option("--plan", arguments->plans, "a saved plan; may be repeated, also beside job files")
      ->type_name("FILE")
      ->check(not_empty())
      ->allow_extra_args(false)
      ->take_all();
  command->add_flag("--search", arguments->search,
                    "choose the parallel settings not given, as `boxcar search` does");
  add_max_stack(*command, arguments->max_stack, "with --search: ");
  command->add_flag("--json", arguments->json, "print one JSON document instead of the table");
  command->add_option("--what-if", arguments->changes, "change a constant of the cluster; may be repeated")
      ->type_name("NAME=NUMBER|NAME=FACTORx")
      ->allow_extra_args(false)
      ->take_all();
  command->add_option("--straggler", arguments->stragglers, "a slow device; may be repeated")
      ->type_name("rank=NUMBER,slowdown=FACTOR")
      ->allow_extra_args(false)
      ->take_all();
  command->footer(
      "Several job files, several --plan and a list for --gpus (256,512) are compared, a row each. Defaults "
      "are in "
      "brackets. See docs/campaign.md.");
  command->callback([arguments, extent, &exit_code] { exit_code = run(*arguments, extent); });
}

}  // namespace boxcar::cli

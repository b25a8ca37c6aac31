#include "cli/simulate_command.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <iostream>
#include <memory>
#include <optional>

#include "backends/machines/device_profile.h"
#include "cli/advice_text.h"
#include "cli/arguments.h"
#include "cli/effects.h"
#include "cli/job.h"
#include "cli/output.h"
#include "cli/plan_file.h"
#include "cli/report_text.h"
#include "cli/search_job.h"
#include "cli/verdict.h"
#include "cli/what_if.h"
#include "planner/verify.h"
#include "sbp/error.h"
#include "sim/explain/report.h"
#include "sim/jitter.h"
#include "sim/trace.h"

namespace boxcar::cli {
namespace {

using Clock = std::chrono::steady_clock;

struct SimulateArguments {
  JobArguments job;
  std::string trace, save_plan, plan;
  bool json = false;
  sim::Options options;
  std::vector<std::string> changes, stragglers;
  sim::Jitter jitter;
};

struct Loaded {
  ir::Plan plan;
  backends::Cluster cluster;
  std::optional<planner::ResolvedJob> job;  // none for a saved plan
  backends::Cluster described = {};         // before the requested changes
  backends::Cluster whole = {};             // the job's cluster is a part of it
};

void make_changes(const SimulateArguments& arguments, backends::Cluster& cluster) {
  for (const std::string& text : arguments.changes) change(cluster, text);
  for (const std::string& text : arguments.stragglers) slow_down(cluster, text);
}

Loaded read_job(const SimulateArguments& arguments) {
  const GivenKeys given = arguments.job.given();
  Resolved resolved = resolve(given);
  for (const std::string& text : without_effect(given, resolved.request.job)) tell(text);
  Loaded loaded;
  planner::Job job = resolved.job;
  loaded.described = job.cluster;
  make_changes(arguments, job.cluster);
  resolved.request.job.cluster = job.cluster;
  loaded.whole = as_described(resolved.request);
  loaded.cluster = job.cluster;
  loaded.job = planner::resolve(std::move(job));
  loaded.plan.labels = resolved.labels;
  return loaded;
}

void compile_job(const SimulateArguments& arguments, Loaded& loaded) {
  std::map<std::string, std::string> labels = std::move(loaded.plan.labels);
  try {
    loaded.plan = planner::compile(*loaded.job);
  } catch (const planner::TooLarge& error) {
    if (arguments.json) print(to_json(labels, *loaded.job, error));
    throw Error::cannot_run("", error.what() + advice_text(*loaded.job, loaded.whole));
  }
  loaded.plan.labels = std::move(labels);
}

// The refusal of a job that does not fit, and changes that would help.
std::string why_not(const explain::Report& r, const Loaded& loaded) {
  std::string text = why_not_text(r);
  if (loaded.job && r.node_peak_bytes <= r.memory_limit_bytes) text += advice_text(*loaded.job, loaded.whole);
  return text;
}

std::vector<std::string> changes_of(const SimulateArguments& arguments) {
  std::vector<std::string> all = arguments.changes;
  for (const std::string& text : arguments.stragglers) all.push_back("straggler " + text);
  return all;
}

// The step as described beside the requested one, if it fits; and the spread under jitter.
void add_comparisons(const SimulateArguments& arguments, const Loaded& loaded,
                     const std::vector<planner::MemoryUse>& memory, Progress& progress, explain::Report& r) {
  r.changes = changes_of(arguments);
  sim::Options options = arguments.options;
  options.timeline = false;
  if (!r.changes.empty() && explain::memory_report(loaded.plan, loaded.described, memory).fits)
    r.described_step_seconds = sim::simulate(loaded.plan, loaded.described, options).step_seconds;
  if (arguments.jitter.deviation == 0) return;
  const sim::Spread times = sim::spread(loaded.plan, loaded.cluster, options, arguments.jitter, [&](int run) {
    progress.part(fmt::format("simulating run {} of {} with jitter", run + 1, arguments.jitter.runs));
  });
  r.jitter_runs = arguments.jitter.runs;
  r.jitter_mean_seconds = times.mean_seconds;
  r.jitter_p95_seconds = times.p95_seconds;
}

int run(const SimulateArguments& arguments, Extent extent) {
  Clock::time_point start = Clock::now();
  Progress progress;
  check_apart({{"JOB.yaml", arguments.job.file()},
               {"--plan", arguments.plan},
               {"--trace", arguments.trace},
               {"--save-plan", arguments.save_plan}});
  for (const std::string& output : {arguments.trace, arguments.save_plan})
    if (!output.empty()) check_writable(output);
  Loaded loaded;
  if (arguments.plan.empty()) {
    loaded = read_job(arguments);
  } else {
    SavedPlan saved = load_plan(arguments.plan, arguments.job.given());
    loaded = {std::move(saved.plan), saved.cluster, std::nullopt, saved.cluster};
    make_changes(arguments, loaded.cluster);
    if (const auto precision = explain::precision_of(loaded.plan.labels))
      check_rate(loaded.cluster.device, *precision, arguments.plan);
  }
  if (extent == Extent::reading) return 0;
  if (loaded.job) {
    progress.step("compiling");
    compile_job(arguments, loaded);
  }
  const ir::Plan& plan = loaded.plan;
  if (!arguments.save_plan.empty())
    write_file(arguments.save_plan, [&](std::ostream& out) { out << ir::to_text(plan); });

  progress.step("verifying");
  std::vector<planner::MemoryUse> memory = planner::memory_use(plan);
  explain::Report r = explain::memory_report(plan, loaded.cluster, memory);
  r.changes = changes_of(arguments);
  if (!r.fits) {
    if (arguments.json) print(to_json(r));
    throw Error::cannot_run("", why_not(r, loaded));
  }
  planner::verify(plan, loaded.cluster.device->memory_bytes);

  progress.step("simulating");
  sim::Options options = arguments.options;
  options.timeline = !arguments.trace.empty();
  sim::Result result = sim::simulate(plan, loaded.cluster, options);
  if (!arguments.trace.empty())
    write_file(arguments.trace, [&](std::ostream& out) { sim::write_chrome_trace(plan, result, out); });
  r = explain::report(plan, loaded.cluster, memory, result);
  add_comparisons(arguments, loaded, memory, progress, r);
  r.wall_seconds = std::chrono::duration<double>(Clock::now() - start).count();
  print(arguments.json ? to_json(r) : to_table(r));
  return 0;
}

}  // namespace

void add_simulate_command(CLI::App& app, int& exit_code, Extent extent) {
  CLI::App* command = app.add_subcommand("simulate", "simulate a training job on a cluster");
  auto arguments = std::make_shared<SimulateArguments>();
  arguments->job.add_to(*command);
  command->add_option("--trace", arguments->trace, "write a Chrome trace (opens in Perfetto)")
      ->type_name("FILE")
      ->check(not_empty());
  command->add_flag("--json", arguments->json, "print one JSON document instead of the table");
  command->add_option("--save-plan", arguments->save_plan, "write the plan as text")
      ->type_name("FILE")
      ->check(not_empty());
  command->add_option("--plan", arguments->plan, "simulate a saved plan")
      ->type_name("FILE")
      ->check(not_empty());
  auto off = [&](const std::string& flag, bool sim::Options::*option, const std::string& help) {
    command->add_flag_callback(
        flag, [arguments, option] { arguments->options.*option = false; }, help);
  };
  off("--no-fold", &sim::Options::fold, "simulate every rank");
  off("--no-merge", &sim::Options::merge, "every act as an activity of its own");
  off("--no-periodic", &sim::Options::periodic, "never repeat a periodic regime by arithmetic");
  command->add_flag("--every-flow", arguments->options.every_flow, "collectives as all their flows");
  command
      ->add_option("--steps", arguments->options.steps,
                   "optimizer steps to simulate, 0: until two are alike [0]")
      ->type_name("0..10000")
      ->check(whole_number(0, 10000));
  command
      ->add_option("--what-if", arguments->changes,
                   "a constant of the cluster otherwise than described; may be repeated")
      ->type_name("NAME=NUMBER|NAME=FACTORx")
      ->allow_extra_args(false)
      ->take_all();
  command->add_option("--straggler", arguments->stragglers, "a slow device; may be repeated")
      ->type_name("rank=NUMBER,slowdown=FACTOR")
      ->allow_extra_args(false)
      ->take_all();
  CLI::Option* jitter = command
                            ->add_option("--jitter", arguments->jitter.deviation,
                                         "devices differ by this standard deviation of their kernel times")
                            ->type_name("0..1")
                            ->check(number(0, 1));
  command->add_option("--seed", arguments->jitter.seed, "seed of the jitter [1]")
      ->type_name("0..1000000000")
      ->check(whole_number(0, 1000000000))
      ->needs(jitter);
  command
      ->add_option("--runs", arguments->jitter.runs,
                   "runs of the jitter, over which mean and 95th percentile are [20]")
      ->type_name("1..1000")
      ->check(whole_number(1, 1000))
      ->needs(jitter);
  command->callback([arguments, extent, &exit_code] { exit_code = run(*arguments, extent); });
}

}  // namespace boxcar::cli

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
#include "cli/arguments.h"
#include "cli/campaign_report.h"
#include "cli/effects.h"
#include "cli/output.h"
#include "cli/plan_file.h"
#include "cli/quantities.h"
#include "cli/search_job.h"
#include "cli/search_report.h"
#include "cli/what_if.h"
#include "ir/read_number.h"
#include "ir/units.h"
#include "planner/checkpoint_bytes.h"
#include "planner/sizes.h"
#include "planner/verify.h"
#include "sbp/error.h"
#include "sim/explain/report.h"
#include "sim/simulate.h"

namespace boxcar::cli {
namespace {

constexpr double most_steps = 1e12, least_goodput = 0.001;

struct CampaignArguments {
  JobArguments job;
  std::vector<std::string> plans, changes, stragglers;
  std::string tokens, samples, mtbf, bandwidth, restart;
  std::optional<double> price, watts, pue;
  bool json = false, search = false;
};

// A training run to be simulated: a job, a job whose plan is searched, or a saved plan.
struct Run {
  std::string name;
  ir::Plan plan;
  backends::Cluster cluster;
  std::optional<planner::ResolvedJob> job;  // to compile; none for a saved plan
  std::optional<Request> open = {};         // to search, as far as `given` leaves it open
  GivenKeys given = {};
};

void check_together(const CampaignArguments& a) {
  if (a.tokens.empty() && a.samples.empty())
    throw Error::input("--tokens", "missing; give the tokens of the whole run, such as 300B, or --samples");
  if (!a.tokens.empty() && !a.samples.empty())
    throw Error::input("--samples", "--tokens is given too; give one of them");
  if (!a.mtbf.empty() && a.bandwidth.empty())
    throw Error::input(
        "--mtbf",
        "has no effect without --checkpoint-bandwidth: the time of a checkpoint decides how much "
        "work a failure loses");
  if (!a.restart.empty() && a.mtbf.empty()) throw Error::input("--restart", "has no effect without --mtbf");
  if (a.pue && !a.watts) throw Error::input("--pue", "has no effect without --watts");
}

// "3h/1024" into `report`.
void read_mtbf(const std::string& text, CampaignReport& report) {
  const size_t slash = text.find('/');
  const auto gpus =
      slash == std::string::npos ? std::nullopt : ir::read_number<int64_t>(text.substr(slash + 1));
  if (!gpus || *gpus < 1)
    throw Error::input("--mtbf",
                       fmt::format("got \"{}\", expected a time and the GPUs among which it passes from "
                                   "one failure to the next, such as 3h/1024 or 50000h/1",
                                   text));
  report.mtbf_seconds = read_seconds("--mtbf", text.substr(0, slash), "3h in 3h/1024");
  report.mtbf_gpus = *gpus;
}

CampaignReport conditions(const CampaignArguments& a) {
  check_together(a);
  CampaignReport report;
  report.unit = a.tokens.empty() ? "samples" : "tokens";
  report.amount = a.tokens.empty() ? read_count("--samples", a.samples) : read_count("--tokens", a.tokens);
  if (!a.mtbf.empty()) {
    read_mtbf(a.mtbf, report);
    report.restart_seconds = read_seconds("--restart", a.restart.empty() ? "10m" : a.restart, "10m or 90s");
  }
  if (!a.bandwidth.empty()) report.checkpoint_bandwidth = read_rate("--checkpoint-bandwidth", a.bandwidth);
  report.pue = a.pue.value_or(1);
  return report;
}

void make_changes(const CampaignArguments& a, backends::Cluster& cluster) {
  for (const std::string& text : a.changes) change(cluster, text);
  for (const std::string& text : a.stragglers) slow_down(cluster, text);
}

// "256,512" as given, or of a job file: each number is a run of its own.
std::vector<Given> take_gpus(const GivenKeys& given) {
  const auto found = given.find("cluster.gpus");
  if (found == given.end()) return {};
  std::string text = found->second.text, one;
  std::erase_if(text, [](char c) { return c == '[' || c == ']' || c == ' '; });
  std::vector<Given> all;
  for (std::istringstream numbers(text); std::getline(numbers, one, ',');)
    all.push_back({one, found->second.where});
  return all;
}

std::string name_of(const GivenKeys& given, const std::string& file) {
  const auto model = given.find("model.family");
  return !file.empty() ? file : model == given.end() ? "flags" : model->second.text;
}

Run open_run(const CampaignArguments& a, const GivenKeys& given, const std::string& file) {
  Request request = open_request(given);
  check_effects(given, request, open_keys(given));
  if (request.job.global_batch == 0)
    throw Error::input("train.global_batch", "missing; give it in the job file or as --global-batch");
  make_changes(a, request.job.cluster);
  Run run{name_of(given, file), {}, request.job.cluster, std::nullopt};
  run.open = std::move(request);
  run.given = given;
  return run;
}

Run run_of(const CampaignArguments& a, const GivenKeys& given, const std::string& file) {
  if (a.search) return open_run(a, given, file);
  Resolved resolved = resolve(given);
  for (const std::string& text : without_effect(given, resolved.request.job)) tell(text);
  planner::Job job = resolved.job;
  make_changes(a, job.cluster);
  Run run{name_of(given, file), {}, job.cluster, planner::resolve(std::move(job))};
  run.plan.labels = std::move(resolved.labels);
  return run;
}

std::vector<Run> runs_of(const CampaignArguments& a) {
  std::vector<std::string> files = a.job.files();
  if (files.empty() && a.plans.empty()) files.emplace_back();  // the flags alone
  if (files.empty() && a.search) throw Error::input("--search", "has no effect on a saved plan");
  std::vector<Run> runs;
  for (const std::string& file : files) {
    GivenKeys given = a.job.given(file);
    const std::vector<Given> gpus = take_gpus(given);
    if (gpus.size() < 2) runs.push_back(run_of(a, given, file));
    for (size_t i = 0; gpus.size() > 1 && i < gpus.size(); ++i) {
      given["cluster.gpus"] = gpus[i];
      runs.push_back(run_of(a, given, file));
    }
  }
  for (const std::string& path : a.plans) {
    SavedPlan saved = load_plan(path, a.job.given(""));
    make_changes(a, saved.cluster);
    runs.push_back({path, std::move(saved.plan), saved.cluster, std::nullopt});
  }
  return runs;
}

// Tokens or samples of a step.
double amount_per_step(const Run& run, const std::string& unit) {
  const auto fact = run.plan.facts.find(unit);
  if (fact != run.plan.facts.end() && fact->second > 0) return fact->second;
  throw Error::input("--" + unit,
                     fmt::format("a step of {} has none{}", run.name,
                                 unit == "tokens" ? "; give --samples" : " that its plan tells of"));
}

int64_t steps_for(double amount, double per_step, const std::string& unit) {
  const double steps = std::ceil(amount / per_step);
  if (steps <= most_steps) return static_cast<int64_t>(steps);
  throw Error::input("--" + unit,
                     fmt::format("{} are {} steps, more than {} (use a larger global_batch)",
                                 number_text(amount), number_text(steps), number_text(most_steps)));
}

std::string why_not(const explain::Report& r) {
  const auto worst = std::max_element(r.stages.begin(), r.stages.end(), [](const auto& a, const auto& b) {
    return a.peak_bytes < b.peak_bytes;
  });
  const bool shared = r.node_peak_bytes > 0;
  return fmt::format("does not fit: {} needs {} of {}", shared ? "a node" : worst->name,
                     ir::format_bytes(static_cast<double>(shared ? r.node_peak_bytes : worst->peak_bytes)),
                     ir::format_bytes(static_cast<double>(r.memory_limit_bytes)));
}

void find_step(Run& run, CampaignRow& row) {
  const search::SearchOptions options{.pinned = pinned_keys(run.given), .described = as_described(*run.open)};
  search::Outcome outcome;
  try {
    outcome = search::search(run.open->job, options, simulating_oracle());
  } catch (const Error& error) {
    throw located(run.given, error);
  }
  if (outcome.best.empty()) {
    row.why_not = fmt::format("does not fit: none of {} plans", outcome.points);
    return;
  }
  const search::Candidate& best = outcome.best.front();
  row.run.step_seconds = best.seconds;
  row.plan_flags = flags_of(best.job);
  run.open->job = best.job;
  run.job = planner::resolve(best.job);
  run.plan = best.plan ? std::move(*best.plan) : search::plan_of(best);
  run.plan.labels = labels_of(*run.open);
}

void compile_run(Run& run) {
  std::map<std::string, std::string> labels = std::move(run.plan.labels);
  run.plan = planner::compile(*run.job);
  run.plan.labels = std::move(labels);
}

// Simulates a step. Where the run does not fit, `row` says why, and has no step.
void simulate_step(Run& run, CampaignRow& row) {
  try {
    if (run.job) compile_run(run);
  } catch (const planner::TooLarge& error) {
    row.why_not = error.what();
    return;
  }
  const explain::Report memory = explain::memory_report(run.plan, run.cluster, planner::memory_use(run.plan));
  if (!memory.fits) {
    row.why_not = why_not(memory);
    return;
  }
  planner::verify(run.plan, run.cluster.device->memory_bytes);
  row.run.step_seconds = sim::simulate(run.plan, run.cluster, {}).step_seconds;
}

// Also of a run that has no plan.
int gpus_of(const Run& run) {
  if (run.plan.devices > 0) return run.plan.devices;
  return run.job ? (*run.job)->gpus : run.open->job.gpus;
}

double bytes_of_checkpoint(const Run& run) {
  const planner::ResolvedJob job = run.job ? *run.job : job_of(run.plan, run.name).job;
  return static_cast<double>(planner::checkpoint_bytes(job));
}

void check_goodput(const CampaignReport& report, const CampaignRow& row) {
  if (row.cost.low.goodput >= least_goodput) return;  // not where it is no number
  throw Error::cannot_run(
      "--mtbf",
      fmt::format("less than {:g} % of the time goes into steps that are kept: {} GPUs fail every {}, a "
                  "checkpoint takes {} and a restart {} (use more bandwidth or a shorter --restart)",
                  100 * least_goodput, row.gpus, duration_text(row.run.mtbf_seconds),
                  duration_text(row.run.checkpoint_seconds), duration_text(report.restart_seconds)));
}

CampaignRow row_of(const CampaignArguments& a, const CampaignReport& report, Run& run) {
  CampaignRow row;
  row.name = run.name;
  run.open ? find_step(run, row) : simulate_step(run, row);
  row.configuration = run.plan.labels;
  row.gpus = row.run.gpus = gpus_of(run);
  if (!row.why_not.empty()) return row;
  row.amount_per_step = amount_per_step(run, report.unit);
  row.run.steps = steps_for(report.amount, row.amount_per_step, report.unit);
  if (report.checkpoint_bandwidth > 0) {
    row.checkpoint_bytes = bytes_of_checkpoint(run);
    row.run.checkpoint_seconds = row.checkpoint_bytes / report.checkpoint_bandwidth;
  }
  if (report.mtbf_seconds > 0) {
    row.run.mtbf_seconds = campaign::mtbf_of(report.mtbf_seconds, report.mtbf_gpus, row.gpus);
    row.run.restart_seconds = report.restart_seconds;
  }
  row.run.price_per_gpu_hour = a.price;
  if (!a.price && run.cluster.price_per_gpu_hour > 0)
    row.run.price_per_gpu_hour = run.cluster.price_per_gpu_hour;
  row.run.watts_per_gpu = a.watts;
  row.run.pue = report.pue;
  row.error = campaign::step_error(run.cluster.framework->name, row.gpus);
  const auto [least, most] = campaign::step_range(row.run.step_seconds, row.error);
  row.cost = campaign::cost_range(row.run, least, most);
  check_goodput(report, row);
  return row;
}

int run(const CampaignArguments& arguments, Extent extent) {
  Progress progress;
  CampaignReport report = conditions(arguments);
  std::vector<Run> runs = runs_of(arguments);
  if (extent == Extent::reading) return 0;
  for (Run& one : runs) {
    progress.step(fmt::format("{} run {} of {}", one.open ? "searching" : "simulating",
                              report.rows.size() + 1, runs.size()));
    report.rows.push_back(row_of(arguments, report, one));
    one = {};  // its plan may be large
  }
  const bool none = std::all_of(report.rows.begin(), report.rows.end(),
                                [](const CampaignRow& row) { return !row.why_not.empty(); });
  if (none) {
    if (arguments.json) print(to_json(report));
    const CampaignRow& first = report.rows.front();
    throw Error::cannot_run(
        report.rows.size() > 1 ? fmt::format("{} on {} GPUs", first.name, first.gpus) : "",
        fmt::format("{} (`boxcar {}` on the same job says what would help)", first.why_not,
                    arguments.search ? "search" : "simulate"));
  }
  print(arguments.json ? to_json(report) : to_table(report));
  return 0;
}

}  // namespace

void add_campaign_command(CLI::App& app, int& exit_code, Extent extent) {
  CLI::App* command =
      app.add_subcommand("campaign", "days, GPU hours, money and energy of whole training runs");
  auto arguments = std::make_shared<CampaignArguments>();
  arguments->job.add_to(*command);
  const auto text = [&](const char* flag, std::string& value, const char* help, const char* form) {
    command->add_option(flag, value, help)->type_name(form)->check(not_empty());
  };
  text("--tokens", arguments->tokens, "tokens of the whole run [needed, or --samples]", "15T|300B|4M");
  text("--samples", arguments->samples, "sequences or images of the whole run, in place of tokens", "90M");
  text("--mtbf", arguments->mtbf,
       "mean time between failures of so many GPUs; it is taken to be half as long on twice as many [no "
       "failures]",
       "3h/1024");
  text("--restart", arguments->restart,
       "from a failure to the next step: finding it, other nodes, reading the checkpoint [10m]", "10m");
  text("--checkpoint-bandwidth", arguments->bandwidth,
       "of the storage, for a whole checkpoint; all GPUs wait while it is written [no checkpoints]",
       "200GB/s");
  command
      ->add_option("--price", arguments->price,
                   "dollars per GPU and hour [price_per_gpu_hour of the cluster file]")
      ->type_name("2.50")
      ->check(number(0, 1e6));
  command
      ->add_option("--watts", arguments->watts,
                   "of a GPU, all the time, with its share of the node [no energy]")
      ->type_name("700")
      ->check(number(0, 1e6));
  command->add_option("--pue", arguments->pue, "energy of the building over that of its computers [1]")
      ->type_name("1..10")
      ->check(number(1, 10));
  command->add_option("--plan", arguments->plans, "a saved plan; may be repeated, also beside job files")
      ->type_name("FILE")
      ->check(not_empty())
      ->take_all();
  command->add_flag("--search", arguments->search,
                    "find the fastest plan of each job, as `boxcar search` does, where keys leave it open");
  command->add_flag("--json", arguments->json, "print one JSON document instead of the table");
  command
      ->add_option("--what-if", arguments->changes,
                   "a constant of the cluster otherwise than described; may be repeated")
      ->type_name("NAME=NUMBER|NAME=FACTORx")
      ->take_all();
  command->add_option("--straggler", arguments->stragglers, "a slow device; may be repeated")
      ->type_name("rank=NUMBER,slowdown=FACTOR")
      ->take_all();
  command->footer(
      "Several job files, several --plan and a list for --gpus (256,512) are compared, a row each. Defaults "
      "are in "
      "brackets. See docs/campaign.md.");
  command->callback([arguments, extent, &exit_code] { exit_code = run(*arguments, extent); });
}

}  // namespace boxcar::cli

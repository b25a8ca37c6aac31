#include "cli/search_command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <any>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <memory>
#include <optional>
#include <set>
#include <sstream>

#include "backends/machines/device_profile.h"
#include "backends/machines/named_constants.h"
#include "cli/arguments.h"
#include "cli/effects.h"
#include "cli/job.h"
#include "cli/job_labels.h"
#include "cli/keys.h"
#include "cli/output.h"
#include "cli/quantities.h"
#include "cli/search_effort.h"
#include "cli/search_job.h"
#include "cli/search_report.h"
#include "cli/simulated_plans.h"
#include "cli/time_budget.h"
#include "cli/what_if.h"
#include "ir/units.h"
#include "planner/estimate/layout_labels.h"
#include "planner/laid_out.h"
#include "planner/search/dimensions.h"
#include "planner/search/making.h"
#include "planner/verify.h"
#include "sbp/error.h"
#include "sim/explain/plan_explanation.h"
#include "sim/simulate.h"

namespace boxcar::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double for_points = 0.5;  // of the budget, the rest for plans
constexpr double for_report = 1;    // the report and freeing plans, in times of ending the search

struct SearchArguments {
  JobArguments job;
  std::string out, memory, budget, objective = "time", max_step_time, pareto, max_stack;
  std::vector<std::string> pins, changes, stragglers, without_moves;
  std::optional<double> price;
  Effort effort;
  bool json = false, no_partial = false, both = false, explain_moves = false, sensitivity = false;
  int simulate = 12, threads = 0;
};

int64_t memory_of(const std::string& text, const backends::DeviceProfile& device) {
  if (text.empty()) return device.memory_bytes;
  const double bytes = read_bytes("--memory", text, "72GB or 80GiB");
  const auto most = static_cast<double>(device.memory_bytes);
  if (bytes > most * 1.02)  // 80GiB of a device that is called so, and shows 79.25
    throw Error::input(
        "--memory",
        fmt::format("{} is more than the {} that a plan may take of a device ({}); say less, or leave it out",
                    text, ir::format_bytes(most), device.name));
  return static_cast<int64_t>(std::min(bytes, most));
}

double seconds_of(const std::string& flag, const std::string& text) {
  if (text.empty()) return std::numeric_limits<double>::infinity();
  return read_seconds(flag, text, "5s or 2m");
}

search::Goal objective_of(const std::string& flag, const std::string& text) {
  const std::pair<const char*, search::Goal> known[] = {
      {"time", search::Goal::time}, {"memory", search::Goal::memory}, {"cost", search::Goal::cost}};
  for (const auto& [name, goal] : known)
    if (text == name) return goal;
  throw Error::input(flag, fmt::format("got \"{}\", expected time, memory or cost", text));
}

// "time,memory", each once.
std::vector<search::Goal> objectives_of(const std::string& text) {
  std::vector<search::Goal> goals;
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, ',');) {
    goals.push_back(objective_of("--pareto", word));
    if (std::count(goals.begin(), goals.end(), goals.back()) > 1)
      throw Error::input("--pareto", fmt::format("{} is given twice", word));
  }
  if (goals.size() == 1) throw Error::input("--pareto", "needs two objectives or more, as time,memory");
  return goals;
}

// The job in each precision of a list, "fp16,fp32" or of a job file; otherwise as it is given.
std::vector<OpenJob> open_jobs(GivenKeys given, const std::string& max_stack) {
  std::vector<OpenJob> jobs;
  const auto found = given.find("train.precision");
  if (found == given.end() || found->second.text.find(',') == std::string::npos) {
    jobs.push_back(open_job(given, max_stack));
    return jobs;
  }
  std::string text = found->second.text, one;
  std::erase_if(text, [](char c) { return c == '[' || c == ']' || c == ' '; });
  std::set<std::string> seen;
  for (std::istringstream words(text); std::getline(words, one, ',');) {
    if (!seen.insert(one).second) continue;
    found->second.text = one;
    jobs.push_back(open_job(given, max_stack));
  }
  return jobs;
}

// Limits of memory between the smallest and the fastest plan, evenly by their ratio: plans between those two
// are found by searching with less memory. None if memory is not one of the objectives.
std::vector<int64_t> limits_between(const std::vector<search::Goal>& goals,
                                    const std::vector<search::Candidate>& others,
                                    const std::vector<search::Candidate>& fastest) {
  constexpr int between = 5;
  if (std::count(goals.begin(), goals.end(), search::Goal::memory) == 0 || fastest.empty()) return {};
  auto least = static_cast<double>(fastest.front().peak_bytes);
  const double most = least;
  for (const search::Candidate& c : others) least = std::min(least, static_cast<double>(c.peak_bytes));
  std::vector<int64_t> limits;
  for (int i = 1; i <= between && least < most; ++i)
    limits.push_back(
        static_cast<int64_t>(least * std::pow(most / least, static_cast<double>(i) / (between + 1))));
  return limits;
}

volatile std::sig_atomic_t interrupted = 0;
// The first Ctrl-C ends the search with its results so far, the second one the program.
void interrupt(int) {
  interrupted = 1;
  std::signal(SIGINT, SIG_DFL);
}

// "with --recompute full, on 16 GPUs or with --memory 35GB"
std::string enough(const search::Outcome& outcome, const std::string& memory) {
  std::vector<std::string> changes;
  for (const search::Alternative& w : outcome.alternatives) changes.push_back(change_text(w));
  if (!memory.empty()) changes.push_back(memory);
  if (changes.empty()) return "by estimate neither other keys nor more GPUs would help";
  const std::string last = changes.back();
  changes.pop_back();
  return fmt::format("by estimate one would do {}{}{}", fmt::join(changes, ", "),
                     changes.empty() ? "" : " or ", last);
}

std::string too_slow(const search::Outcome& outcome, double limit) {
  const search::Candidate& fastest = *outcome.fastest;
  const bool simulated = fastest.seconds > 0;
  const double seconds = simulated ? fastest.seconds : fastest.estimated_seconds;
  return fmt::format(
      "--max-step-time: no plan was found that fits and takes {} or less: the fastest of {} takes {}{}, {} "
      "too "
      "long ({}); "
      "{}",
      ir::format_seconds(limit), std::max<int64_t>(1, outcome.points - outcome.over_memory),
      simulated ? "" : "about ", ir::format_seconds(seconds), ir::format_seconds(seconds - limit),
      flags_of(fastest.job), enough(outcome, ""));
}

// Rounds up, so that the printed number is enough when typed.
double in_three_digits(double bytes) {
  const double last = std::pow(10, std::floor(std::log10(std::max(1.0, bytes))) - 2);
  return std::ceil(bytes / last) * last;
}

// Memory with which the smallest plan fits: part of a device's, or more than the described device has.
std::string enough_memory(double bytes, const backends::DeviceProfile& device) {
  std::string size = ir::format_bytes(in_three_digits(bytes));
  if (bytes > static_cast<double>(device.memory_bytes))
    return fmt::format("on devices with {} each for a plan ({} has {})", size, device.name,
                       ir::format_bytes(static_cast<double>(device.memory_bytes)));
  std::erase(size, ' ');
  return "with --memory " + size;
}

// The reason why there is no plan.
std::string why_none(const SearchReport& r) {
  const search::Outcome& outcome = r.outcome;
  const int64_t fitting = outcome.points - outcome.over_memory - search::left_out(outcome.dropped);
  const bool all_slow = outcome.fastest && outcome.over_time > 0 && outcome.over_time >= fitting;
  if (outcome.spent && !all_slow) return "the plans that --effort allows are too slow; allow more of them";
  if (outcome.told_to_end())
    return fmt::format("ended before a point was found that fits; give it more time{}",
                       interrupted ? "" : " with --budget");
  if (outcome.fastest && (outcome.fastest->seconds > 0 || outcome.over_time > 0))
    return too_slow(outcome, r.max_step_seconds);
  const search::Candidate& least = outcome.smallest;
  const bool compiled = least.peak_bytes > 0;
  const double bytes = compiled ? static_cast<double>(least.peak_bytes) : least.estimated_bytes;
  const double most = static_cast<double>(r.memory_limit_bytes);
  return fmt::format(
      "nothing fits: the smallest of {} points needs {}{} of {} on each device of stage {}, {} too much "
      "({}); "
      "{}",
      outcome.points, compiled ? "" : "about ", ir::format_bytes(bytes), ir::format_bytes(most),
      least.fullest_stage, ir::format_bytes(std::max(0.0, bytes - most)), flags_of(least.job),
      // With a limit of time more memory may not be enough.
      enough(outcome,
             std::isfinite(r.max_step_seconds) ? "" : enough_memory(bytes, least.job.cluster.device)));
}

// The step of the best candidate if ops may read partial values; 0 if that does not fit, or `time_is_up`
// before it is known.
double with_partial(const search::Candidate& best, const std::function<bool()>& time_is_up) {
  search::LayoutRequest request = *best.layouts;
  request.partial = true;
  const auto look = [&] {
    if (time_is_up()) throw search::Stopped{};
  };
  try {
    const planner::ResolvedJob job = planner::resolve(best.job);
    const planner::LaidOut laid = planner::lay_out(job, search::chooser(job, request, nullptr, look));
    look();
    return sim::simulate(planner::compile(laid, job), job->cluster, {.look = look}).step_seconds;
  } catch (const Error&) {
    return 0;
  } catch (const search::Stopped&) {
    return 0;
  }
}

// A refusal is a document too.
search::Outcome outcome_of(const planner::Job& job, const search::SearchOptions& options,
                           const GivenKeys& given, const SearchReport& r, bool json) {
  try {
    return search::search(job, options, simulating_oracle());
  } catch (const Error& error) {
    SearchReport refused = r;
    refused.outcome = {};
    refused.outcome.smallest.estimated_bytes = search::infinity;
    if (json && error.code() == Exit::cannot_run) print(to_json(refused, error.what()));
    throw located(given, error);
  }
}

// Throws Error (bad input) if other flags leave nothing to compare plans by, or no time.
void check_sensitivity(const SearchArguments& arguments, search::Goal goal, size_t precisions) {
  constexpr const char* flag = "--sensitivity";
  if (goal == search::Goal::memory)
    throw Error::input(flag, "needs --objective time or cost; memory depends on no constant");
  if (precisions > 1)
    throw Error::input(flag, "needs one precision; the search is made again for each constant");
  if (!arguments.budget.empty())
    throw Error::input(flag,
                       "cannot be given with --budget: it makes the search some 18 times; Ctrl-C ends it");
}

std::vector<explain::StaysBest> sensitivity_of(const Request& request, const search::SearchOptions& options,
                                               const SearchReport& r,
                                               const std::function<void(const std::string&)>& tell) {
  const search::Candidate& best = r.outcome.best.front();
  const ir::Plan plan = best.plan ? *best.plan : search::plan_of(best);
  const auto again = [&](const explain::Constant& constant, double factor) -> std::optional<search::Outcome> {
    if (interrupted) return std::nullopt;
    tell(fmt::format("{}={:g}x: ", constant.name, factor));
    planner::Job job = request.job;
    search::SearchOptions changed = options;
    backends::scale(job.cluster, constant.name, factor);
    if (changed.described) backends::scale(*changed.described, constant.name, factor);
    search::Outcome outcome = search::search(job, changed, simulating_oracle());
    if (outcome.told_to_end()) return std::nullopt;
    return outcome;
  };
  return explain::stays_best(best, plan, options, again);
}

// Each once, in their order.
std::vector<SimulatedPlan> compared_plans(
    const std::vector<const std::vector<search::Candidate>*>& candidates, bool precisions) {
  std::vector<SimulatedPlan> plans;
  for (const auto* some : candidates)
    for (const search::Candidate& c : *some) {
      SimulatedPlan plan{c.seconds, c.peak_bytes, c.job.gpus, c.layouts.has_value(),
                         flags_of(c.job, precisions)};
      if (std::find(plans.begin(), plans.end(), plan) == plans.end()) plans.push_back(std::move(plan));
    }
  return plans;
}

// Up to three others, fastest first: the best of other degrees than those before it; if there are too few
// degrees, others too. The same flags with other layouts are not another plan.
std::vector<const search::Candidate*> runners_up(const std::vector<search::Candidate>& best) {
  constexpr size_t most = 3;
  std::set<size_t> chosen;
  std::set<search::Degrees> degrees{search::degrees_of(best.front().job)};
  std::set<std::string> told{flags_of(best.front().job, true)};
  for (const bool other_degrees : {true, false})
    for (size_t c = 1; c < best.size() && chosen.size() < most; ++c)
      if ((!other_degrees || degrees.insert(search::degrees_of(best[c].job)).second) &&
          told.insert(flags_of(best[c].job, true)).second)
        chosen.insert(c);
  std::vector<const search::Candidate*> some;
  for (const size_t c : chosen) some.push_back(&best[c]);
  return some;
}

// The jobs that the flags ask for, on the cluster as the flags change it.
std::vector<OpenJob> jobs_of(const SearchArguments& arguments, const GivenKeys& asked) {
  std::vector<OpenJob> jobs = open_jobs(asked, arguments.max_stack);
  for (OpenJob& one : jobs) {
    backends::Cluster& cluster = one.request.job.cluster;
    for (const std::string& text : arguments.changes) change(cluster, text);
    for (const std::string& text : arguments.stragglers) slow_down(cluster, text);
    cluster.price_per_gpu_hour = arguments.price.value_or(cluster.price_per_gpu_hour);
  }
  return jobs;
}

// The input that all searches of a command have in common.
struct Searches {
  std::vector<OpenJob> jobs;  // by precision
  search::SearchOptions options;
  std::vector<search::Goal> front_goals;
  double budget_seconds = 0;
};

// Throws Error (bad input).
Searches searches_of(const SearchArguments& arguments, const GivenKeys& asked) {
  Searches all{jobs_of(arguments, asked), {}, {}, 0};
  const planner::Job& job = all.jobs.front().request.job;
  search::SearchOptions& options = all.options;
  options = all.jobs.front().options;
  options.partial = !arguments.no_partial;
  options.both = arguments.both;
  for (const std::string& pin : arguments.pins) options.pins.push_back(search::parse_pin(pin));
  if (job.global_batch == 0)
    throw Error::input("train.global_batch", "missing; give it in the job file or as --global-batch");
  all.budget_seconds = seconds_of("--budget", arguments.budget);
  options.goal = objective_of("--objective", arguments.objective);
  all.front_goals = objectives_of(arguments.pareto);
  const bool costs = options.goal == search::Goal::cost ||
                     std::count(all.front_goals.begin(), all.front_goals.end(), search::Goal::cost) > 0;
  if (costs && job.cluster.price_per_gpu_hour <= 0)
    throw Error::input(
        "--price", arguments.price ? "is 0, at which all plans cost the same; give what a GPU costs an hour"
                                   : fmt::format("missing; {} has no price_per_gpu_hour", job.cluster.name));
  options.max_step_seconds = seconds_of("--max-step-time", arguments.max_step_time);
  if (arguments.sensitivity) check_sensitivity(arguments, options.goal, all.jobs.size());
  options.memory_bytes = memory_of(arguments.memory, job.cluster.device);
  options.simulate = arguments.simulate;
  set_effort(arguments.effort, options);
  options.threads = arguments.threads;
  for (const std::string& name : arguments.without_moves)
    options.without_moves.insert(search::move_named(name).name);
  return all;
}

SearchReport empty_report(const SearchArguments& arguments, const Searches& searches) {
  SearchReport r;
  r.memory_limit_bytes = searches.options.memory_bytes;
  r.goal = searches.options.goal;
  r.max_step_seconds = searches.options.max_step_seconds;
  r.precisions = searches.jobs.size() > 1;
  r.recompute_given = searches.options.pinned.contains("recompute");
  r.explain_moves = arguments.explain_moves;
  r.front_goals = searches.front_goals;
  return r;
}

// Searches each precision: for the objective, whose outcome goes into the report, then for the front's other
// goals and at limits of memory, whose candidates are returned. Sets the options that each job has of its
// own.
std::vector<search::Candidate> search_all(const std::vector<OpenJob>& jobs, search::SearchOptions& options,
                                          TimeBudget& budget, bool json, SearchReport& r) {
  std::vector<search::Candidate> simulated;
  for (const OpenJob& one : jobs) {
    const planner::Job& job = one.request.job;
    options.rules = one.options.rules;
    options.described = as_described(one.request);
    options.described->price_per_gpu_hour = job.cluster.price_per_gpu_hour;
    budget.begin_share(static_cast<size_t>(&jobs.back() - &one) + 1);
    search::Outcome outcome = outcome_of(job, options, one.given, r, json);
    const bool first = &one == &jobs.front();
    r.outcome = first ? std::move(outcome) : search::merged(std::move(r.outcome), std::move(outcome), r.goal);
    const auto add = [&](search::SearchOptions other) {
      if (interrupted) r.front_ended = false;
      if (interrupted) return;
      search::Outcome found = outcome_of(job, other, one.given, r, false);
      r.front_ended &= !found.told_to_end();
      for (search::Candidate& c : found.best) {
        c.plan.reset();
        simulated.push_back(std::move(c));
      }
    };
    for (search::Goal goal : r.front_goals) {
      search::SearchOptions other = options;
      other.goal = goal;
      if (goal != r.goal) add(std::move(other));
    }
    for (int64_t limit : limits_between(r.front_goals, simulated, r.outcome.best)) {
      search::SearchOptions other = options;
      other.memory_bytes = limit;
      add(std::move(other));
    }
  }
  return simulated;
}

[[noreturn]] void throw_why_none(const SearchReport& r, bool json) {
  const std::string why = why_none(r);
  if (json) print(to_json(r, why));
  std::string line;
  for (std::istringstream lines(left_out_text(r.outcome)); std::getline(lines, line);) tell(line.substr(2));
  throw Error::cannot_run("", why);
}

void tell_without_effect(const GivenKeys& asked, const search::Candidate& best, bool both) {
  for (const std::string& text : without_effect(asked, best.job, true))
    if (!best.layouts || !text.starts_with("--zero:")) tell(text);  // found layouts shard over tp too
  if (const planner::Mesh mesh = planner::mesh_of(best.job.parallel); both && mesh.dims() != 2)
    tell(fmt::format("--both-dimensions: has no effect unless a stage's mesh has two dimensions (it has {})",
                     mesh.dims() == 0 ? "none" : fmt::format("{}", fmt::join(mesh.names, ", "))));
}

// The best candidate's plan, which says in its labels what it was compared with.
ir::Plan labelled_plan(const SearchReport& r, const Request& request,
                       const std::vector<SimulatedPlan>& compared) {
  const search::Candidate& best = r.outcome.best.front();
  ir::Plan plan = best.plan ? std::move(*best.plan) : search::plan_of(best);
  plan.labels = labels_of(request);
  if (best.layouts) search::add_labels(*best.layouts, plan.labels);
  add_labels(compared, plan.labels);
  int place = 0;
  for (const search::Candidate* c : runners_up(r.outcome.best))
    plan.labels[fmt::format("{}{}", explain::runner_up, ++place)] =
        fmt::format("{}: {}", against(r.goal, *c, best),
                    flags_of(c->job, r.precisions) + (c->layouts ? ", layouts found" : ""));
  return plan;
}

int run(const SearchArguments& arguments, Extent extent) {
  const Clock::time_point start = Clock::now();
  const auto passed = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  const GivenKeys asked = arguments.job.given();
  Searches searches = searches_of(arguments, asked);
  search::SearchOptions& options = searches.options;
  TimeBudget budget(searches.budget_seconds, passed);
  std::optional<Progress> progress(std::in_place);
  std::string part;  // of a search that consists of several
  options.go_on = [&](const search::Progress& p) {
    progress->part(
        fmt::format("{}{} points, {} over memory, {} simulated{}", part, p.points, p.over_memory, p.simulated,
                    p.best_seconds > 0 ? ", best " + ir::format_seconds(p.best_seconds) : ""),
        std::chrono::minutes(1));
    budget.keep((1 + for_report) * p.ending_seconds);
    return interrupted == 0 && !budget.is_spent();
  };
  options.more_points = [&] { return !budget.is_spent(for_points); };
  check_apart({{"JOB.yaml", arguments.job.file()}, {"--output", arguments.out}});
  if (!arguments.out.empty()) check_writable(arguments.out);
  if (extent == Extent::reading) return 0;
  tell_stack(asked, arguments.max_stack);
  interrupted = 0;
  std::signal(SIGINT, interrupt);
  SearchReport r = empty_report(arguments, searches);
  std::vector<search::Candidate> simulated = search_all(searches.jobs, options, budget, arguments.json, r);
  if (arguments.sensitivity && !r.outcome.best.empty()) {
    r.sensitivity = sensitivity_of(searches.jobs.front().request, options, r,
                                   [&](const std::string& now) { part = now; });
    r.sensitivity_ended = !interrupted;
  }
  std::signal(SIGINT, SIG_DFL);
  progress.reset();
  const std::vector<SimulatedPlan> compared = compared_plans({&r.outcome.best, &simulated}, r.precisions);
  if (!r.front_goals.empty()) {
    for (const search::Candidate& c : r.outcome.best) simulated.push_back(c), simulated.back().plan.reset();
    r.front = search::pareto_front(std::move(simulated), r.front_goals);
  }
  if (r.outcome.best.empty()) {
    r.wall_seconds = passed();
    throw_why_none(r, arguments.json);
  }

  const search::Candidate& best = r.outcome.best.front();
  Request request = searches.jobs.front().request;
  request.job = best.job;
  tell_without_effect(asked, best, options.both);
  const ir::Plan plan = labelled_plan(r, request, compared);
  if (arguments.no_partial && !r.outcome.told_to_end())
    r.partial_seconds = with_partial(best, [&] { return budget.is_spent(); });
  if (!arguments.out.empty()) write_file(arguments.out, [&](std::ostream& out) { out << ir::to_text(plan); });
  const auto& result = std::any_cast<const sim::Result&>(best.record);
  r.best = explain::report(plan, request.job.cluster, planner::memory_use(plan), result);
  r.best.memory_limit_bytes = r.memory_limit_bytes;
  r.best.changes = arguments.changes;
  r.best.wall_seconds = result.wall_seconds;
  r.wall_seconds = passed();
  print(arguments.json ? to_json(r) : to_table(r));
  return 0;
}

}  // namespace

void add_search_command(CLI::App& app, int& exit_code, Extent extent) {
  CLI::App* command = app.add_subcommand("search", "find the fastest plan for a model on a cluster");
  auto arguments = std::make_shared<SearchArguments>();
  std::map<std::string, std::string> defaults{{"cluster.gpus", "needed"}, {"train.global_batch", "needed"}};
  for (const std::string& path : searched_keys()) defaults[path] = "searched";
  arguments->job.add_to(*command, false, defaults);
  command->add_option("-o,--output,--out", arguments->out, "write the plan found as text")
      ->type_name("FILE")
      ->check(not_empty());
  command->add_flag("--json", arguments->json, "print one JSON document instead of the tables");
  command->add_option("--memory", arguments->memory, "use no more on a device [what it has]")
      ->type_name("72GB")
      ->check(not_empty());
  command
      ->add_option("--price", arguments->price,
                   "dollars per GPU and hour, for costs [price_per_gpu_hour of the cluster file]")
      ->type_name("2.50")
      ->check(number(0, 1e6));
  command
      ->add_option("--objective", arguments->objective,
                   "what is least: time of a step, memory of a device, or cost of a step [time]")
      ->type_name("time|memory|cost");
  command
      ->add_option("--pareto", arguments->pareto,
                   "also the plans of which none is better in one of these without being worse in another")
      ->type_name("time,memory,cost")
      ->check(not_empty());
  add_max_stack(*command, arguments->max_stack);
  command->add_option("--max-step-time", arguments->max_step_time, "no step takes longer [any time]")
      ->type_name("2s")
      ->check(not_empty());
  command
      ->add_option("--effort", arguments->effort.effort,
                   "how many plans to simulate: quick (4), normal, thorough (all that could be better) or a "
                   "number [normal]")
      ->type_name("quick|normal|thorough|N")
      ->check(not_empty());
  command
      ->add_option("--gap", arguments->effort.gap,
                   "simulate until no other degrees can be better by more than this [what --effort leaves]")
      ->type_name("2%")
      ->check(not_empty());
  command->add_flag("--prove", arguments->effort.prove, "as --gap 0%: simulate all that could be better");
  command->add_option("--budget", arguments->budget, "end after this time with the best so far [none]")
      ->type_name("5s")
      ->check(not_empty());
  command
      ->add_option("--pin", arguments->pins, "keep tensors in a layout, \"NAME=(B, S(1))\"; may be repeated")
      ->type_name("NAME=LAYOUT")
      ->take_all();
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
  command->add_flag("--no-partial", arguments->no_partial,
                    "no op reads partial values: what sharding in two kinds would give");
  command->add_flag("--both-dimensions", arguments->both,
                    "layouts of ops are open on both dimensions of a mesh of two at once, not in turn; slow");
  command->add_flag("--sensitivity", arguments->sensitivity,
                    "over which range of each constant of the cluster the plan found stays the best: some 18 "
                    "more searches");
  command->add_flag("--explain-moves", arguments->explain_moves,
                    "what was tried around the best, what that took and what it gained");
  command
      ->add_option("--without-move", arguments->without_moves,
                   "do not try one of those that --explain-moves lists; may be repeated")
      ->type_name("NAME")
      ->take_all();
  command->add_option("--simulate", arguments->simulate, "candidates to simulate [12]")
      ->type_name("1..1000")
      ->check(whole_number(1, 1000));
  command->add_option("--threads", arguments->threads, "to search on [one a core]; what is found is the same")
      ->type_name("1..1024")
      ->check(whole_number(1, 1024));
  command->callback([arguments, extent, &exit_code] { exit_code = run(*arguments, extent); });
}

}  // namespace boxcar::cli

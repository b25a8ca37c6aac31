#include "planner/search/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <optional>
#include <string_view>
#include <thread>
#include <tuple>

#include "planner/laid_out.h"
#include "planner/resolve.h"
#include "planner/search/candidates.h"
#include "planner/search/changes.h"
#include "planner/search/contradiction.h"
#include "planner/search/making.h"
#include "sbp/error.h"

namespace boxcar::search {
namespace {

using planner::Job;

constexpr double memory_error = 0.25;  // as time_error, of an estimate of memory
constexpr double short_error = 0.05;   // of an estimate of time of a short step
constexpr double nearly = 0.1;         // by estimate as good as the best, where estimates know little
constexpr size_t most_ahead = 3;       // plans made before their turn
constexpr int alike = 3;               // of the same degrees that are simulated
constexpr size_t pipelines_split = 2;  // tried with backward passes in two parts; three times where short
constexpr int most_changed = 24;       // tried of what differs from the best in one thing
constexpr double most_hope = 0.25;     // that layouts may save of a step, as a share
constexpr double most_gained = 0.6;    // and of what it takes more than its kernels
constexpr int most_solved = 1000;      // nodes of a problem of layouts that takes some ms
constexpr int most_acts = 4000;        // in the graph that slots are looked for in

// Whether compiling and simulating it takes some ms.
bool is_short(const Job& job) {
  const planner::Hints& h = job.parallel;
  return int64_t{h.pp} * h.virtual_stages * job.train.micro_batches <= 64;
}

bool fewest_bytes(Goal goal) { return goal == Goal::memory; }

bool has_partial(const sbp::NdSbp& layout) {
  return std::any_of(layout.begin(), layout.end(), [](const sbp::Sbp& s) { return s.is_partial(); });
}

// Of a stage.
int most_layers(const Job& job) {
  const std::vector<int>& stages = job.parallel.stage_layers;
  return *std::max_element(stages.begin(), stages.end());
}

// By layer.
std::vector<ir::Recompute> recomputation(const Job& job) {
  std::vector<ir::Recompute> kinds;
  for (size_t stage = 0; stage < job.parallel.stage_layers.size(); ++stage) {
    const int layers = job.parallel.stage_layers[stage], again = recomputed_layers(job.train, stage, layers);
    kinds.insert(kinds.end(), static_cast<size_t>(again), job.train.recompute);
    kinds.insert(kinds.end(), static_cast<size_t>(layers - again), job.train.recompute_others);
  }
  return kinds;
}

// What is searched of a job.
auto key(const Job& j) {
  const planner::Hints& h = j.parallel;
  return std::tuple(j.gpus, h.dp, h.tp, h.pp, h.cp, h.ep, h.virtual_stages, h.stage_layers, h.micro_batch,
                    h.zero, h.sequence_parallel, h.schedule, h.mesh_order, h.stage_order, recomputation(j));
}

// With slow devices under other stages a pipeline has room for others.
using Degrees = std::tuple<int, int, int, int, std::vector<int>>;
Degrees degrees(const Job& job) {
  const planner::Hints& h = job.parallel;
  return {h.dp, h.tp, h.pp, h.cp, h.stage_order};
}

class Search {
 public:
  Search(const Job& job, const SearchOptions& options, const Oracle& oracle)
      : job_(job), options_(options), oracle_(oracle) {
    job_.model = ir::models::complete(job_.model);
    if (job_.gpus == 0) job_.gpus = job_.cluster.devices();
    if (options.goal == Goal::cost && job_.cluster.price_per_gpu_hour <= 0)
      throw Error::input("cluster", fmt::format("{} has no price; give price_per_gpu_hour in a cluster file",
                                                job_.cluster.name));
    for (const LayoutPin& pin : options.pins)
      if (!options.partial && has_partial(pin.layout))
        throw Error::cannot_run("--pin " + to_text(pin),
                                "contradicts --no-partial: no op reads a partial value");
    limit_ = options.memory_bytes > 0 ? options.memory_bytes : job_.cluster.device.memory_bytes;
    points_.emplace(options_, static_cast<double>(limit_), oracle_.act_seconds);
    outcome_.smallest.estimated_bytes = infinity;
  }

  Outcome run() {
    for (const int gpus : gpu_counts())
      if (outcome_.ended && !cut_) add_candidates(on_gpus(job_, job_.cluster, gpus));
    if (outcome_.points == 0 && outcome_.ended) refuse();
    std::stable_sort(candidates_.begin(), candidates_.end(), [&](const Candidate& a, const Candidate& b) {
      return std::pair(estimated(a), a.estimated_seconds) < std::pair(estimated(b), b.estimated_seconds);
    });
    if (cut_) quick_ones_first();
    try_candidates();
    take_best_estimate();
    lay_out_smallest();
    std::optional<Job> before;
    for (int round = 0; round < 2 && outcome_.ended && !outcome_.best.empty(); ++round) {
      const Job job = outcome_.best.front().job;
      if (before && key(*before) == key(job)) break;  // all of it was tried
      before = job;
      if (fewest_bytes(options_.goal))
        recompute_more(outcome_.best.front());
      else
        recompute_less(outcome_.best.front());
    }
    if (outcome_.ended) split_backward();
    if (outcome_.ended) change_a_little();
    lay_out_best();
    if (fewest_bytes(options_.goal)) lay_out_all_degrees();
    const size_t with_slots = fewest_bytes(options_.goal) ? alike : 1;  // elsewhere they make no other faster
    std::vector<Candidate> finalists = outcome_.best;
    if (finalists.size() > with_slots) finalists.resize(with_slots);
    for (Candidate& finalist : finalists)
      if (outcome_.ended) take_fewest_slots(std::move(finalist));
    if (cut_) outcome_.ended = false;
    if (outcome_.best.empty() && refused_ && (layouts_asked() || !measured_)) throw *refused_;
    if (options_.goal == Goal::time)
      std::erase_if(outcome_.best, [&](const Candidate& c) { return c.seconds > options_.max_step_seconds; });
    else if (outcome_.best.empty() && outcome_.ended && outcome_.fastest)
      return in_least_time();
    if (outcome_.best.empty() && outcome_.ended && says_what_would_do_) {
      outcome_.would_do = changes_that_do(
          on_gpus(job_, job_.cluster, job_.gpus), options_.described ? *options_.described : job_.cluster,
          fixed(), [&](const Job& job, const Fixed& fixed) { return fastest_of(job, fixed); });
      outcome_.ended = true;  // all points were looked at, if not all changes
    }
    bound();
    return std::move(outcome_);
  }

 private:
  // Where time is short: of those that are best by estimate what is compiled and simulated soonest.
  void quick_ones_first() {
    const auto worse = [&](const Candidate& c) {
      return estimated(c) > (1 + nearly) * estimated(candidates_.front());
    };
    const auto acts = [](const Candidate& c) {
      const planner::Hints& h = c.job.parallel;
      return int64_t{h.pp} * h.virtual_stages * c.job.train.micro_batches;
    };
    std::stable_sort(candidates_.begin(), std::find_if(candidates_.begin(), candidates_.end(), worse),
                     [&](const Candidate& a, const Candidate& b) { return acts(a) < acts(b); });
  }

  // Estimates said that nothing keeps the time, or what they said does so was too slow: the fastest plans of
  // each number of GPUs, simulated, by the objective.
  Outcome in_least_time() const {
    SearchOptions fastest = options_;
    fastest.goal = Goal::time;
    std::optional<Outcome> all;
    std::optional<Error> none;
    for (const int gpus : gpu_counts()) {
      Search search(on_gpus(job_, job_.cluster, gpus), fastest, oracle_);
      search.says_what_would_do_ = gpus == job_.gpus && (!all || all->best.empty());
      try {
        Outcome one = search.run();
        all = all ? merged(std::move(*all), std::move(one), options_.goal) : std::move(one);
      } catch (const Error& error) {  // no point is legal there
        none = error;
      }
      if (all && !all->ended) break;
    }
    if (!all) throw *none;
    std::stable_sort(all->best.begin(), all->best.end(), [&](const Candidate& a, const Candidate& b) {
      return std::pair(simulated(a), a.seconds) < std::pair(simulated(b), b.seconds);
    });
    all->least.reset();
    all->unknown_least = "only the fastest plans keep the time";
    return std::move(*all);
  }

  // There is no point; or none of which a small plan could be made.
  [[noreturn]] void refuse() const {
    if (unmeasured_) throw *unmeasured_;
    throw Error::cannot_run("parallel", contradiction(job_, fixed()));
  }

  // Of a step, by the objective.
  double value(const Job& job, double seconds, double bytes) const {
    switch (options_.goal) {
      case Goal::memory:
        return bytes;
      case Goal::cost:
        return price_of(job, seconds);
      case Goal::time:
        break;
    }
    return seconds;
  }
  double estimated(const Candidate& c) const { return value(c.job, c.estimated_seconds, c.estimated_bytes); }
  double simulated(const Candidate& c) const {
    return value(c.job, c.seconds, static_cast<double>(c.peak_bytes));
  }

  Fixed fixed() const {
    Fixed fixed{options_.pinned, options_.ranges, fewest_bytes(options_.goal)};
    for (const LayoutPin& pin : options_.pins)
      fixed.layouts.emplace_back("--pin " + to_text(pin), pin.layout.size());
    return fixed;
  }

  // The least price may need fewer than there are: parts of a node, and whole nodes, that divide them.
  std::vector<int> gpu_counts() const {
    if (options_.goal != Goal::cost) return {job_.gpus};
    std::vector<int> counts;
    const int node = job_.cluster.node.gpus;
    for (int n = 1; n <= job_.gpus; ++n)
      if (job_.gpus % n == 0 && (n < node || n % node == 0)) counts.push_back(n);
    return counts;
  }

  bool asked_to_stop() {
    if (last_) return false;
    if (!outcome_.ended) return true;
    const double best = outcome_.best.empty() ? 0 : outcome_.best.front().seconds;
    if (options_.go_on && !options_.go_on({outcome_.points, outcome_.over_memory,
                                           static_cast<int>(outcome_.best.size()), best, ending_seconds_}))
      outcome_.ended = false;
    return !outcome_.ended;
  }

  void add_candidates(const Job& job) {
    const int64_t points = outcome_.points, over_memory = outcome_.over_memory;
    const auto enough = [&](int64_t more, int64_t over, bool any_fits) {
      outcome_.points = points + more;
      outcome_.over_memory = over_memory + over;
      const bool any = any_fits || !candidates_.empty();
      if (any && options_.more_points && !options_.more_points()) cut_ = true;
      return asked_to_stop() || cut_;
    };
    Estimated found = points_->of(job, fixed(), enough);
    outcome_.points = points + found.points;
    outcome_.over_memory = over_memory + found.over_memory;
    outcome_.over_time += found.over_time;
    if (found.smallest && found.smallest->estimated_bytes < outcome_.smallest.estimated_bytes)
      outcome_.smallest = std::move(*found.smallest);
    if (found.fastest) note_fastest(*found.fastest);
    if (found.unmeasured) unmeasured_ = std::move(found.unmeasured);
    std::move(found.fitting.begin(), found.fitting.end(), std::back_inserter(candidates_));
  }

  bool fits(const Candidate& c) const { return c.estimated_bytes <= static_cast<double>(limit_); }
  // Of the smallest known: by its plan, or by an estimate that does not fit.
  double smallest_bytes() const {
    const Candidate& known = outcome_.smallest;
    if (known.peak_bytes > 0) return static_cast<double>(known.peak_bytes);
    return fits(known) ? infinity : known.estimated_bytes;
  }
  // Where estimates of memory were too low, messages go by plans, and changes are to leave as much room.
  void note_smallest(const Candidate& c) {
    if (static_cast<double>(c.peak_bytes) < smallest_bytes()) outcome_.smallest = c;
    if (c.estimated_bytes > 0 && !c.layouts)
      too_low_ = std::max(too_low_, static_cast<double>(c.peak_bytes) / c.estimated_bytes);
  }

  // What was simulated counts more than what was not.
  static bool is_faster(const Candidate& a, const Candidate& b) {
    const auto rank = [](const Candidate& x) {
      return std::pair(x.seconds == 0, x.seconds == 0 ? x.estimated_seconds : x.seconds);
    };
    return rank(a) < rank(b);
  }
  void note_fastest(const Candidate& c) {
    if (!outcome_.fastest || is_faster(c, *outcome_.fastest))
      outcome_.fastest = c, outcome_.fastest->plan.reset();
  }

  void try_candidates() {
    const double error = fewest_bytes(options_.goal) ? memory_error : time_error;
    std::map<Degrees, int> done;
    const auto of_these = [&](const Candidate& c) -> int& { return done[degrees(c.job)]; };
    const auto too_much = [&](const Candidate& c) {
      const double own = is_short(c.job) ? std::max(error, short_error) : error;
      return !outcome_.best.empty() && estimated(c) > (1 + own) * simulated(outcome_.best.front());
    };
    std::map<size_t, Making> begun;  // by candidate
    int tried = 0;
    for (size_t c = 0; c < candidates_.size(); ++c) {
      Candidate& candidate = candidates_[c];
      if (!outcome_.ended || tried >= options_.simulate || too_much(candidate)) break;
      if (options_.goal != Goal::time && is_over(candidate.estimated_seconds, options_)) continue;
      auto making = begun.extract(c);
      if (of_these(candidate) >= alike) {
        if (making) leave(std::move(making.mapped()));
        continue;
      }
      Making own = making ? std::move(making.mapped()) : begin(candidate);
      // What comes next if this one does.
      const size_t most = std::min<size_t>(threads_of(options_), most_ahead + 1) - 1;
      const double as_good = (1 + error) * estimated(candidate);
      for (size_t next = c + 1; next < candidates_.size() && begun.size() < most; ++next) {
        if (too_much(candidates_[next]) || estimated(candidates_[next]) > as_good) break;
        if (of_these(candidates_[next]) + 1 < alike && !begun.count(next))
          begun.emplace(next, begin(candidates_[next]));
      }
      const bool does = attempt_within(candidate, std::move(own));
      candidate.seconds = last_seconds_;
      of_these(candidate) += does ? 1 : 0;
      tried += does || too_slow_ ? 1 : 0;
    }
    for (auto& [c, making] : begun) leave(std::move(making));
  }

  // By estimate nothing fits: what the smallest needs indeed.
  void measure_smallest() {
    const Candidate smallest = outcome_.smallest;
    const std::optional<Error> refused = refused_;
    outcome_.smallest.estimated_bytes = infinity;
    attempt(begin(smallest));
    if (outcome_.smallest.peak_bytes == 0) outcome_.smallest = smallest;  // it may even fit, or have no plan
    refused_ = refused;
  }

  // Nothing fits as degrees lay it out: the smallest of it with layouts in which bytes come first.
  void lay_out_smallest() {
    const auto none_fits = [&] {
      const double bytes = smallest_bytes();
      return outcome_.best.empty() && outcome_.ended && bytes > static_cast<double>(limit_) &&
             bytes < infinity;
    };
    if (none_fits() && outcome_.smallest.peak_bytes == 0) measure_smallest();
    if (!none_fits() || options_.lay_out == 0) return;
    Candidate candidate = anew(outcome_.smallest);
    const planner::Mesh mesh = planner::mesh_of(candidate.job.parallel);
    if (mesh.devices() == 1) return;
    candidate.layouts = asked();
    candidate.layouts->weights = {1, seconds_per_byte};
    attempt(begin(std::move(candidate)));
  }

  // Told to end before anything was simulated: the first by estimate that can be made and fits.
  void take_best_estimate() {
    if (outcome_.ended || !outcome_.best.empty()) return;
    last_ = true;
    for (size_t c = 0; c < candidates_.size() && c < static_cast<size_t>(options_.simulate); ++c)
      if (attempt(begin(candidates_[c]))) break;
    last_ = false;
    outcome_.by_estimate = !outcome_.best.empty();
  }

  // What the points that were not simulated take at least.
  void bound() {
    const auto unknown = [&]() -> const char* {
      if (!outcome_.ended) return "the search ended early";
      if (options_.goal == Goal::memory) return "estimates of memory bound nothing";
      if (layouts_asked()) return "every point has its own layouts";
      for (const Candidate& c : candidates_)
        if (needs_layouts(c.job)) return "every point has its own layouts";
      return "";
    };
    outcome_.unknown_least = unknown();
    if (!outcome_.unknown_least.empty()) return;
    outcome_.least = infinity;
    for (const Candidate& c : candidates_)
      if (c.seconds == 0) outcome_.least = std::min(*outcome_.least, value(c.job, c.least_seconds, 0));
  }

  LayoutRequest asked() const {
    return {options_.partial, options_.both ? Open::both : Open::one, options_.pins};
  }

  Making begin(Candidate candidate) { return {std::move(candidate), asked(), graphs_}; }

  // Its plan is not needed: whatever it is at is not waited for.
  void leave(Making making) {
    making.stop();
    left_.push_back(std::move(making));
  }

  // Into the list, if it is legal, fits and keeps the time. Where the memory of one that was estimated to fit
  // is over, nothing is lost: the next one is taken. False where it does not do.
  bool attempt(Making making) {
    if (asked_to_stop()) {
      leave(std::move(making));
      return false;
    }
    ++outcome_.compiled;
    too_slow_ = false;
    last_seconds_ = 0;
    excess_ = 0;
    stage_bytes_.clear();
    error_.reset();
    Candidate candidate;
    try {
      Made made = making.take(look_);
      candidate = std::move(made.candidate);
      ending_seconds_ = std::max(ending_seconds_, made.deaf_seconds);
      measured_ = true;
      solved_ = std::max(solved_, candidate.found.solved);
      stage_bytes_ = candidate.stage_bytes;
      if (candidate.peak_bytes > limit_) {
        excess_ = candidate.peak_bytes - limit_;
        note_smallest(candidate);
        layouts_bytes_ = candidate.found.found ? candidate.found.cost[memory] : 0;
        return false;
      }
      if (const Candidate* known = with_these_layouts(candidate)) {
        last_value_ = simulated(*known);
        return true;
      }
      Oracle::Step step = oracle_.step(made.plan, candidate.job.cluster, look_);
      last_seconds_ = candidate.seconds = step.seconds;
      candidate.record = std::move(step.record);
      candidate.plan = std::make_shared<ir::Plan>(std::move(made.plan));
    } catch (const Stopped&) {
      leave(std::move(making));
      return false;
    } catch (const Error& error) {
      error_ = error;
      if (!layouts_asked() || error.where().starts_with("--pin")) refused_ = error;
      return false;
    }
    note_fastest(candidate);
    too_slow_ = options_.goal != Goal::time && candidate.seconds > options_.max_step_seconds;
    if (too_slow_) return false;
    last_value_ = simulated(candidate);
    insert(std::move(candidate));
    return true;
  }

  // Where it needs too much memory, again with as much less: more layers compute again on stages that have
  // too much, or, of what was made to have other layouts, these need less on every stage.
  bool attempt_within(Candidate candidate, Making making, int most_tries = 3) {
    bool does = attempt(std::move(making));
    int64_t most = std::numeric_limits<int64_t>::max();  // that it may be over by: half of what it was before
    for (int tries = 1; tries < most_tries && outcome_.ended && !does && excess_ > 0 && excess_ < most;
         ++tries) {
      most = excess_ / 2;
      if (!candidate.job.train.recompute_layers.empty() && !candidate.layouts) {
        candidate.stage_bytes = stage_bytes_;
        std::optional<Candidate> fewest = points_->with_fewest_again(candidate);
        if (!fewest) break;
        candidate = std::move(*fewest);
      } else {
        if (layouts_bytes_ == 0) break;
        candidate = anew(std::move(candidate));
        if (!candidate.layouts) candidate.layouts = asked();
        candidate.layouts->memory = layouts_bytes_ - candidate.job.parallel.pp * static_cast<double>(excess_);
      }
      does = attempt(begin(candidate));
    }
    return does;
  }

  void attempt_all(std::vector<Making> makings) {
    for (Making& making : makings) attempt(std::move(making));
  }

  void insert(Candidate candidate) {
    for (const Candidate& known : outcome_.best)
      if (is_same(known, candidate)) return;
    const auto place = std::upper_bound(outcome_.best.begin(), outcome_.best.end(), candidate,
                                        [&](const Candidate& a, const Candidate& b) {
                                          return std::tuple(simulated(a), a.seconds, a.peak_bytes) <
                                                 std::tuple(simulated(b), b.seconds, b.peak_bytes);
                                        });
    outcome_.best.insert(place, std::move(candidate));
    for (size_t c = 1; c < outcome_.best.size(); ++c) outcome_.best[c].plan.reset();
  }

  // Only as many layers computed again as memory asks for, now that a plan says how much there is.
  void recompute_less(Candidate known) {
    for (int tries = 0; tries < 3 && outcome_.ended && !known.stage_bytes.empty(); ++tries) {
      std::optional<Candidate> fewest = points_->with_fewest_again(known);
      if (!fewest || key(fewest->job) == key(known.job) || is_known(fewest->job)) return;
      attempt(begin(*fewest));
      known = std::move(*fewest);
      known.stage_bytes = stage_bytes_;
    }
  }

  // For the least memory: as many layers as the time lets be computed again.
  void recompute_more(const Candidate& some) {
    if (options_.pinned.count("recompute") || options_.pinned.count("recompute_layers")) return;
    if (some.job.train.recompute == ir::Recompute::full) return;
    const Candidate start = some;
    int least = 0, most = most_layers(start.job);
    while (least < most && outcome_.ended) {
      const int middle = (least + most + 1) / 2;
      attempt(begin(with_whole_layers_again(start, middle)));
      if (too_slow_)
        most = middle - 1;
      else
        least = middle;
    }
  }

  // Pipelines without virtual stages with backward passes in two parts: that is idle less, but hides less of
  // collectives, which estimates do not say. First the fastest of those simulated, then what could be
  // fastest.
  void split_backward() {
    if (outcome_.best.empty() || options_.pinned.count("schedule") || fewest_bytes(options_.goal)) return;
    const auto is_whole = [](const Candidate& c) {
      return c.job.parallel.pp > 1 && c.job.parallel.virtual_stages == 1;
    };
    const auto hoped = [&](const Candidate& c) {
      return value(c.job, (c.seconds > 0 ? c.seconds : c.estimated_seconds) - c.split_saves, 0);
    };
    std::vector<Candidate> some;
    for (const std::vector<Candidate>* list : {&outcome_.best, &candidates_})
      std::copy_if(list->begin(), list->end(), std::back_inserter(some), is_whole);
    if (some.empty()) return;
    std::stable_sort(some.begin() + (some.front().seconds > 0 ? 1 : 0), some.end(),
                     [&](const Candidate& a, const Candidate& b) { return hoped(a) < hoped(b); });
    std::set<Degrees> done;
    for (const Candidate& whole : some) {
      if (done.size() == (is_short(whole.job) ? 3 : 1) * pipelines_split) break;
      if (!done.empty() && hoped(whole) >= simulated(outcome_.best.front())) break;
      if (!done.insert(degrees(whole.job)).second) continue;
      std::vector<std::pair<Candidate, Making>> both;
      for (const char* schedule : {"zb-h1", "zb-h2"}) {
        if (schedule == std::string_view("zb-h2") && whole.job.train.micro_batches <= 2)
          continue;  // the same
        Candidate split = anew(whole);
        split.job.parallel.schedule = schedule;
        if (!split.job.train.recompute_layers.empty())
          if (auto fewest = points_->with_fewest_again(split)) split = std::move(*fewest);
        both.emplace_back(split, begin(split));
      }
      bool over = false;  // what splits more needs more memory
      for (auto& [split, making] : both) {
        if (over)
          leave(std::move(making));
        else
          over = !attempt_within(split, std::move(making), 2) && excess_ > 0;
      }
    }
  }

  // The best, and where steps are short those of other degrees that could be, so many at most.
  std::vector<Candidate> hopeful(double share, int most) const {
    std::vector<Candidate> some;
    std::set<Degrees> done;
    for (const Candidate& c : outcome_.best) {
      if (some.size() == static_cast<size_t>(most)) break;
      const bool may_win = (1 - share) * simulated(c) < simulated(outcome_.best.front());
      if ((some.empty() || (may_win && is_short(c.job))) && done.insert(degrees(c.job)).second)
        some.push_back(c);
    }
    return some;
  }

  // Of the best, and while that helps of what comes out, all that differ in one thing of which estimates know
  // little.
  void change_a_little() {
    if (fewest_bytes(options_.goal)) return;
    int left = most_changed;
    std::vector<Candidate> starts = hopeful(nearly, alike);
    while (!starts.empty() && left > 0 && outcome_.ended) {
      const double before = simulated(starts.front());
      std::vector<Making> others;
      for (const Candidate& start : starts)
        for (Job& job : changed_jobs(start.job, &start == &starts.front()))
          if (auto other = changed(start, std::move(job)); other && left-- > 0)
            others.push_back(begin(std::move(*other)));
      attempt_all(std::move(others));
      starts = {outcome_.best.front()};
      if (simulated(starts.front()) >= before || !is_short(starts.front().job)) break;
    }
  }

  // With its states sharded less and more, of which it depends what hides behind kernels. Of the best where
  // its steps are short: with experts in larger and in smaller groups, and with a layer moved to a stage
  // beside.
  std::vector<Job> changed_jobs(const Job& job, bool best) const {
    const planner::Hints& h = job.parallel;
    std::vector<Job> jobs;
    const auto add = [&](const char* name, int planner::Hints::*key, int value) {
      if (!fixed().is_free(name, value)) return;
      jobs.push_back(job);
      jobs.back().parallel.*key = value;
    };
    for (const int zero : {h.zero - 1, h.zero + 1})
      if (zero >= 0 && zero <= 3 && h.dp > 1) add("zero", &planner::Hints::zero, zero);
    if (!best || !is_short(job)) return jobs;
    for (const int ep : {1, h.ep / 2, 2 * h.ep})
      if (ep > 0 && ep != h.ep && h.dp % ep == 0 && job.model.experts > 0 && job.model.experts % ep == 0)
        add("ep", &planner::Hints::ep, ep);
    if (h.virtual_stages > 1 || fixed().is_pinned("stage_layers")) return jobs;
    for (size_t s = 0; s + 1 < h.stage_layers.size(); ++s)
      for (const int more : {1, -1}) {
        Job moved = job;
        int &one = moved.parallel.stage_layers[s], &next = moved.parallel.stage_layers[s + 1];
        one += more, next -= more;
        if (one > 0 && next > 0) jobs.push_back(std::move(moved));
      }
    return jobs;
  }

  // Nothing where it was tried or has no chance by estimate.
  std::optional<Candidate> changed(const Candidate& start, Job job) {
    if (is_known(job) || !changed_.insert(key(job)).second) return {};
    const auto estimate = points_->one(job);
    // Of split backward passes estimates are too long, of both alike.
    const double best = std::max(simulated(start), estimated(start));
    if (!estimate || !fits(*estimate) || estimated(*estimate) > (1 + nearly) * best) return {};
    Candidate other = anew(start);
    other.job = std::move(job);
    other.estimated_seconds = estimate->estimated_seconds;
    other.estimated_bytes = estimate->estimated_bytes;
    return other;
  }

  // The same plan, found again; or the same layouts, at other weights.
  static bool is_same(const Candidate& a, const Candidate& b) {
    if (a.seconds != b.seconds || a.peak_bytes != b.peak_bytes ||
        a.layouts.has_value() != b.layouts.has_value())
      return false;
    if (b.layouts) return a.found.cost == b.found.cost;
    return key(a.job) == key(b.job) && a.slots.changes == b.slots.changes;
  }

  // Whether it was simulated.
  bool is_known(const Job& job) const {
    return std::any_of(outcome_.best.begin(), outcome_.best.end(),
                       [&](const Candidate& c) { return key(c.job) == key(job); });
  }

  // Of whom layouts were found that cost what these do; null: of nobody.
  const Candidate* with_these_layouts(const Candidate& c) const {
    if (!c.layouts) return nullptr;
    for (const Candidate& known : outcome_.best)
      if (known.layouts && key(known.job) == key(c.job) && known.found.cost == c.found.cost &&
          known.peak_bytes == c.peak_bytes && known.slots.changes == c.slots.changes)
        return &known;
    return nullptr;
  }

  // To be changed and tried: nothing is known of its plan.
  static Candidate anew(Candidate candidate) {
    candidate.found = {};
    candidate.plan.reset();
    candidate.peak_bytes = 0;
    candidate.stage_bytes.clear();
    return candidate;
  }

  Candidate with_whole_layers_again(const Candidate& known, int layers) {
    Candidate candidate = anew(known);
    ir::TrainOptions& train = candidate.job.train;
    if (train.recompute == ir::Recompute::selective) train.recompute_others = train.recompute;
    train.recompute = ir::Recompute::full;
    train.recompute_layers = {layers};
    if (const auto estimate = points_->one(candidate.job)) {
      candidate.estimated_seconds = estimate->estimated_seconds;
      candidate.estimated_bytes = estimate->estimated_bytes;
    }
    return candidate;
  }

  bool layouts_asked() const { return !options_.partial || !options_.pins.empty(); }

  // How layouts are looked for.
  struct Way {
    Open open = Open::one;
    LayoutWeights weights = {};
  };
  Way all_open(const Job& job) const {
    if (planner::mesh_of(job.parallel).dims() == 1) return {};
    return {options_.both ? Open::both : Open::each, {}};
  }

  // For the least time, collectives of states count in full, or as such that run beside other work. Of a mesh
  // of several dimensions one is open, and all of them. For the least memory bytes come first.
  std::vector<Way> ways(const Job& job) const {
    const Open most = all_open(job).open;
    std::vector<Way> all{{Open::one, {}}};
    if (most != Open::one) all.push_back({most, {}});
    if (most == Open::one || is_short(job)) all.push_back({most, {0.1, 0}});
    if (fewest_bytes(options_.goal)) all.push_back({most, {1, seconds_per_byte}});
    return all;
  }

  // The best again, with the layout of every op chosen; then those of other degrees that could win by it. In
  // one way each; of what comes out the best in all others.
  void lay_out_best() {
    for (const Candidate& c : hopeful(most_hope, options_.lay_out)) {
      if (!outcome_.ended || solved_ > most_solved) break;
      if (planner::mesh_of(c.job.parallel).devices() == 1 || !could_win(c)) continue;
      std::vector<Candidate> laid;
      for (const Candidate& one : sharded_otherwise(c)) lay_out(one, all_open(c.job), laid);
      attempt_within(std::move(laid));
    }
    if (!outcome_.ended || outcome_.best.empty() || options_.lay_out == 0) return;
    const Candidate best = outcome_.best.front();
    if (planner::mesh_of(best.job.parallel).devices() == 1) return;
    std::vector<Candidate> laid;
    for (const Way& way : ways(best.job)) lay_out(best, way, laid);
    attempt_within(std::move(laid));
    change_found();
  }

  // Layouts gained at most so much of what a step takes more than its kernels alone.
  bool could_win(const Candidate& c) const {
    const double best = outcome_.best.front().seconds;
    return c.seconds - most_gained * (c.seconds - c.least_seconds) <= best;
  }

  // Where steps are short the best found, and while that helps what comes out, with other micro-batches and
  // backward passes split otherwise: each has layouts of its own.
  void change_found() {
    if (fewest_bytes(options_.goal)) return;
    for (size_t left = most_changed; outcome_.ended;) {
      const Candidate best = outcome_.best.front();
      if (!best.layouts || !is_short(best.job)) return;
      std::vector<Candidate> others;
      for (Job& job : otherwise_in_time(best.job)) {
        Candidate other = best;
        other.job = std::move(job);
        other.layouts.reset();
        other.estimated_seconds = 0;  // is of the degrees' layouts
        lay_out(other, {best.layouts->open, best.layouts->weights}, others);
      }
      if (others.empty() || others.size() > left) return;
      left -= others.size();
      attempt_within(std::move(others));
      if (simulated(outcome_.best.front()) >= simulated(best)) return;
    }
  }

  std::vector<Job> otherwise_in_time(const Job& job) const {
    const planner::Hints& h = job.parallel;
    std::vector<Job> jobs;
    for (const int samples : {h.micro_batch / 2, 2 * h.micro_batch}) {
      if (samples == 0 || job.global_batch % (int64_t{h.dp} * samples) != 0) continue;
      if (!fixed().is_free("micro_batch", samples)) continue;
      jobs.push_back(job);
      jobs.back().parallel.micro_batch = samples;
      jobs.back().train.micro_batches = planner::micro_batches(jobs.back());
    }
    if (h.pp == 1 || h.virtual_stages > 1 || fixed().is_pinned("schedule")) return jobs;
    for (const char* schedule : {"zb-h1", "zb-h2"}) {
      if (h.schedule == schedule) continue;
      jobs.push_back(job);
      jobs.back().parallel.schedule = schedule;
    }
    return jobs;
  }

  // What layouts make of bytes degrees do not say: the smallest of each, as many as are simulated.
  void lay_out_all_degrees() {
    std::set<Degrees> done;
    std::vector<Candidate> laid;
    for (const Candidate& c : candidates_) {
      if (laid.size() == static_cast<size_t>(options_.simulate)) break;
      if (options_.lay_out == 0 || planner::mesh_of(c.job.parallel).devices() == 1) continue;
      if (done.insert(degrees(c.job)).second) lay_out(c, {all_open(c.job).open, {1, seconds_per_byte}}, laid);
    }
    attempt_within(std::move(laid));
  }

  // Onto those to be tried, if it was not yet.
  void lay_out(const Candidate& known, const Way& way, std::vector<Candidate>& into) {
    const bool done = known.layouts && known.layouts->open == way.open && known.found.weights == way.weights;
    if (done || !laid_.insert({key(known.job), way.open, way.weights.states, way.weights.memory}).second)
      return;
    into.push_back(anew(known));
    into.back().layouts = asked();
    into.back().layouts->open = way.open;
    into.back().layouts->weights = way.weights;
  }

  void attempt_within(std::vector<Candidate> candidates) {
    std::vector<Making> makings;
    for (const Candidate& candidate : candidates) makings.push_back(begin(candidate));
    for (size_t i = 0; i < candidates.size(); ++i) {
      attempt_within(candidates[i], std::move(makings[i]));
      if (error_) outcome_.no_layouts = error_->what();
      if (excess_ > 0) outcome_.no_layouts = "what was found does not fit";
    }
  }

  // And those that differ in what layouts decide anew: on the tensor dimension they may split samples, and
  // then reduce whole gradients where degrees reduce shares of them; and from experts that each device has
  // whole they come to others than from groups of them. In pipelines shares are reduced every micro-batch.
  std::vector<Candidate> sharded_otherwise(const Candidate& one) const {
    const planner::Hints& h = one.job.parallel;
    std::vector<Candidate> all{one};
    if (h.tp == 1 || fewest_bytes(options_.goal)) return all;
    std::set<int> zeros{h.zero}, experts{h.ep};
    if (is_short(one.job))
      zeros.insert({1, 2}), experts.insert(1);
    else
      zeros.insert(h.zero > 1 ? 1 : 2);
    for (const int ep : experts)
      for (const int zero : zeros) {
        const bool free = (zero == h.zero || (fixed().is_free("zero", zero) && (h.pp == 1 || zero == 1))) &&
                          (ep == h.ep || fixed().is_free("ep", ep));
        if (!free || (zero == h.zero && ep == h.ep)) continue;
        Candidate other = anew(one);
        other.job.parallel.zero = zero;
        other.job.parallel.ep = ep;
        other.estimated_seconds = 0;  // is of the degrees' layouts
        all.push_back(std::move(other));
      }
    return all;
  }

  // As good, with fewer slots of what moves between queues and devices.
  void take_fewest_slots(Candidate candidate) {
    try {
      if (!candidate.plan)
        candidate.plan = std::make_shared<ir::Plan>(plan_of(candidate, nullptr, graphs_, look_));
      candidate.slots =
          fewest_slots(*candidate.plan, candidate.job.cluster, oracle_.act_seconds, most_acts, look_);
    } catch (const Stopped&) {
      return;
    }
    candidate.plan.reset();
    candidate.peak_bytes = 0;
    if (!candidate.slots.changes.empty()) attempt(begin(std::move(candidate)));
  }

  // The fastest that fits and keeps the time, by estimate.
  std::optional<Candidate> fastest_of(const Job& job, const Fixed& fixed) {
    points_->set_bytes(static_cast<double>(limit_) / too_low_);
    const auto enough = [&](int64_t, int64_t, bool) { return asked_to_stop(); };
    std::optional<Candidate> fastest = points_->of(job, fixed, enough).fastest;
    if (fastest && fastest->estimated_seconds > options_.max_step_seconds) fastest.reset();
    return fastest;
  }

  // Worth more than any time that layouts take.
  static constexpr double seconds_per_byte = 1e-6;

  Job job_;
  const SearchOptions& options_;
  const Oracle& oracle_;
  int64_t limit_ = 0;
  std::optional<Candidates> points_;
  Graphs graphs_{4};  // of candidates
  std::vector<Candidate> candidates_;
  std::optional<Error> error_;       // of the last candidate, where no plan could be made
  std::optional<Error> refused_;     // why the last candidate of which no plan could be made could not
  bool measured_ = false;            // the memory of any
  std::optional<Error> unmeasured_;  // why the last small plan that could not be made could not
  double too_low_ = 1;               // by how much estimates of memory were, at most
  int64_t excess_ = 0;               // bytes by which the last one that was compiled did not fit
  bool too_slow_ = false;            // the last one that was simulated
  double last_seconds_ = 0;          // of the last one that was compiled: 0 where it was not simulated
  double last_value_ = 0;            // of the last one that does
  bool says_what_would_do_ = true;   // where nothing does
  double ending_seconds_ = 0;        // after go_on says no, by the plans made so far
  bool last_ = false;                // told to end: one more all the same
  bool cut_ = false;                 // points were left out
  std::function<void()> look_ = [this] {
    if (asked_to_stop() && !outcome_.best.empty()) throw Stopped{};  // the first is finished: it may be all
  };
  double layouts_bytes_ = 0;  // by the costs of its layouts
  int solved_ = 0;            // nodes of the largest problem of layouts
  std::set<decltype(key(Job()))> changed_;
  std::set<std::tuple<decltype(key(Job())), Open, double, double>> laid_;
  std::vector<double> stage_bytes_;  // of the last plan, by stage
  Outcome outcome_;
  std::vector<Making> left_;  // waits, and so ends before the graphs do
};

}  // namespace

planner::Choose Candidate::choose(FoundLayouts* into, const std::function<void()>& look) const {
  if (!layouts) return nullptr;
  if (!found.found) return chooser(job, *layouts, into, look);
  return [known = found.layouts](const ir::Graph&, const planner::Hints&, const planner::Mesh&) {
    return known;
  };
}

ir::Plan plan_of(const Candidate& candidate, FoundLayouts* found) {
  Graphs graphs(1);
  return plan_of(candidate, found, graphs);
}

ir::Plan plan_of(const Candidate& candidate, FoundLayouts* found, Graphs& graphs,
                 const std::function<void()>& look) {
  const planner::LaidOut laid = graphs.lay_out(candidate.job, candidate.choose(found, look));
  if (look) look();
  ir::Plan plan = planner::compile(laid, candidate.job);
  if (look) look();
  if (!candidate.slots.changes.empty()) set_slots(plan, candidate.slots.changes);
  return plan;
}

size_t threads_of(const SearchOptions& options) {
  const unsigned cores = std::thread::hardware_concurrency();
  return options.threads > 0 ? static_cast<size_t>(options.threads) : std::max(1U, cores);
}

Outcome search(const Job& job, const SearchOptions& options, const Oracle& oracle) {
  return Search(job, options, oracle).run();
}

}  // namespace boxcar::search

#include "planner/search/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <thread>
#include <tuple>

#include "backends/machines/device_profile.h"
#include "planner/search/attempts.h"
#include "planner/search/candidates.h"
#include "planner/search/changes.h"
#include "planner/search/contradiction.h"
#include "planner/search/refine.h"
#include "sbp/error.h"

namespace boxcar::search {
namespace {

using planner::Job;

constexpr double memory_error = 0.25;        // like time_error, of an estimate of memory
constexpr double short_error = 0.05;         // of an estimate of time of a short step
constexpr double long_error_spread = 0.015;  // of the errors of estimates of long steps
constexpr int enough_long_steps = 4;         // simulated, to know the least of these errors
constexpr size_t most_ahead = 3;             // plans made before their turn

bool has_partial(const sbp::NdSbp& layout) {
  return std::any_of(layout.begin(), layout.end(), [](const sbp::Sbp& s) { return s.is_partial(); });
}

class Search {
 public:
  Search(const Job& job, const SearchOptions& options, const Oracle& oracle)
      : job_(completed(job)),
        options_(options),
        oracle_(oracle),
        limit_(options.memory_bytes > 0 ? options.memory_bytes : job_.cluster.device->memory_bytes) {
    if (options.goal == Goal::cost && job_.cluster.price_per_gpu_hour <= 0)
      throw Error::input("cluster", fmt::format("{} has no price; give price_per_gpu_hour in a cluster file",
                                                job_.cluster.name));
    for (const LayoutPin& pin : options.pins)
      if (!options.partial && has_partial(pin.layout))
        throw Error::cannot_run("--pin " + to_text(pin),
                                "contradicts --no-partial: no op reads a partial value");
    for (const LayoutPin& pin : options.pins)
      fixed_.layouts.emplace_back("--pin " + to_text(pin), pin.layout.size());
    outcome_.smallest.estimated_bytes = infinity;
  }

  Outcome run() {
    add_all_candidates();
    // Nothing fits, so now also try points that only save memory.
    if (candidates_.empty() && outcome_.over_memory > 0 && outcome_.ended && !fixed_.least_memory) {
      fixed_.least_memory = true;
      add_all_candidates();
    }
    if (outcome_.points == left_out(outcome_.dropped) && outcome_.ended) refuse();
    std::stable_sort(candidates_.begin(), candidates_.end(), [&](const Candidate& a, const Candidate& b) {
      return std::pair(estimated(a), a.estimated_seconds) < std::pair(estimated(b), b.estimated_seconds);
    });
    if (left_points_out_) quick_ones_first();
    try_candidates();
    take_best_estimate();
    lay_out_smallest();
    if (!outcome_.best.empty()) refine();
    close_gap();
    attempts_.prefer_faster_among_equal();
    if (left_points_out_) outcome_.ended = false;
    if (outcome_.best.empty() && attempts_.refused() &&
        (attempts_.layouts_asked() || !attempts_.measured_any()))
      throw *attempts_.refused();
    if (options_.goal == Goal::time)
      std::erase_if(outcome_.best, [&](const Candidate& c) { return c.seconds > options_.max_step_seconds; });
    else if (outcome_.best.empty() && outcome_.ended && outcome_.fastest)
      return in_least_time();
    if (outcome_.best.empty() && outcome_.ended && proposes_changes_) {
      outcome_.alternatives = changes_that_do(
          on_gpus(job_, job_.cluster, job_.gpus), options_.described ? *options_.described : job_.cluster,
          fixed_, [&](const Job& job, const Fixed& fixed) { return fastest_of(job, fixed); });
      outcome_.ended = true;  // all points were examined, if not all changes
    }
    bound();
    return std::move(outcome_);
  }

 private:
  static Job completed(Job job) {
    job.model = ir::models::complete(job.model);
    if (job.gpus == 0) job.gpus = job.cluster.devices();
    return job;
  }

  // The best by estimate are simulated. Now come refinements for which estimates are poor.
  void refine() {
    const Refinement of{attempts_, points_, candidates_, options_, fixed_};
    change_degrees(of);
    lay_out_best(of);
    const size_t with_slots =
        options_.goal == Goal::memory ? most_of_degrees : 1;  // for other goals they make nothing faster
    std::vector<Candidate> finalists = outcome_.best;
    if (finalists.size() > with_slots) finalists.resize(with_slots);
    for (Candidate& finalist : finalists) {
      finalist.move = move_of(options_, "drop-slots");
      if (outcome_.ended && finalist.move) attempts_.take_fewest_slots(std::move(finalist));
    }
  }

  // If time is short: among the best by estimate, puts those first that are compiled and simulated soonest.
  void quick_ones_first() {
    const auto worse = [&](const Candidate& c) {
      return estimated(c) > (1 + near_best) * estimated(candidates_.front());
    };
    const auto acts = [](const Candidate& c) {
      const planner::Hints& h = c.job.parallel;
      return int64_t{h.pp} * h.virtual_stages * c.job.train.micro_batches;
    };
    std::stable_sort(candidates_.begin(), std::find_if(candidates_.begin(), candidates_.end(), worse),
                     [&](const Candidate& a, const Candidate& b) { return acts(a) < acts(b); });
  }

  // If no estimate keeps the time, or those candidates were too slow: the fastest plans of each number of
  // GPUs, simulated, by the objective.
  Outcome in_least_time() const {
    SearchOptions fastest = options_;
    fastest.goal = Goal::time;
    std::optional<Outcome> all;
    std::optional<Error> none;
    for (const int gpus : gpu_counts()) {
      Search search(on_gpus(job_, job_.cluster, gpus), fastest, oracle_);
      search.proposes_changes_ = gpus == job_.gpus && (!all || all->best.empty());
      try {
        Outcome one = search.run();
        all = all ? merged(std::move(*all), std::move(one), options_.goal) : std::move(one);
      } catch (const Error& error) {  // no point is legal with that number
        none = error;
      }
      if (all && !all->ended) break;
    }
    if (!all) throw *none;
    std::stable_sort(all->best.begin(), all->best.end(), [&](const Candidate& a, const Candidate& b) {
      return std::pair(attempts_.value(a), a.seconds) < std::pair(attempts_.value(b), b.seconds);
    });
    all->least.reset();
    all->unknown_least = "only the fastest plans keep the time";
    add(all->moves, outcome_.moves);
    return std::move(*all);
  }

  // Throws: there is no point, or none with a small plan.
  [[noreturn]] void refuse() const {
    if (unmeasured_) throw *unmeasured_;
    throw Error::cannot_run("parallel", contradiction(job_, fixed_));
  }

  double estimated(const Candidate& c) const { return search::estimated(options_.goal, c); }

  // The least price may need fewer GPUs than available: parts of a node, and numbers of nodes that divide
  // theirs.
  std::vector<int> gpu_counts() const {
    if (options_.goal != Goal::cost) return {job_.gpus};
    std::vector<int> counts;
    const int node = job_.cluster.node.gpus;
    for (int n = 1; n <= job_.gpus; ++n)
      if (job_.gpus % n == 0 && (n < node || n % node == 0)) counts.push_back(n);
    return counts;
  }

  void add_all_candidates() {
    outcome_.points = outcome_.over_memory = outcome_.over_time = 0;
    outcome_.dropped.clear();
    smallest_.clear();
    for (const int gpus : gpu_counts())
      if (outcome_.ended && !left_points_out_) add_candidates(on_gpus(job_, job_.cluster, gpus));
  }

  void add_candidates(const Job& job) {
    const int64_t points = outcome_.points, over_memory = outcome_.over_memory;
    const auto enough = [&](int64_t more, int64_t over, bool any_fits) {
      outcome_.points = points + more;
      outcome_.over_memory = over_memory + over;
      const bool any = any_fits || !candidates_.empty();
      if (any && options_.more_points && !options_.more_points()) left_points_out_ = true;
      return attempts_.asked_to_stop() || left_points_out_;
    };
    Estimated found = points_.of(job, fixed_, enough);
    outcome_.points = points + found.points;
    outcome_.over_memory = over_memory + found.over_memory;
    outcome_.over_time += found.over_time;
    add(outcome_.dropped, found.dropped);
    if (found.smallest && found.smallest->estimated_bytes < outcome_.smallest.estimated_bytes)
      outcome_.smallest = std::move(*found.smallest);
    std::move(found.over_memory_least.begin(), found.over_memory_least.end(), std::back_inserter(smallest_));
    if (found.fastest) attempts_.note_fastest(*found.fastest);
    if (found.unmeasured) unmeasured_ = std::move(found.unmeasured);
    std::move(found.fitting.begin(), found.fitting.end(), std::back_inserter(candidates_));
  }

  void try_candidates() {
    const double error = options_.goal == Goal::memory ? memory_error : time_error;
    std::map<Degrees, int> done;
    const auto of_these = [&](const Candidate& c) -> int& { return done[degrees_of(c.job)]; };
    // Estimates of long steps err in one direction; simulated steps give the least error.
    double least_off = infinity;
    int long_steps = 0;
    const auto too_much = [&](const Candidate& c) {
      if (outcome_.best.empty()) return false;
      double least = 1 / (1 + (is_short(c.job) ? std::max(error, short_error) : error));
      if (!is_short(c.job) && long_steps >= enough_long_steps)
        least = std::max(least, least_off - long_error_spread);
      return least * estimated(c) > attempts_.value(outcome_.best.front());
    };
    std::map<size_t, Making> begun;  // by candidate
    int tried = 0;
    for (size_t c = 0; c < candidates_.size(); ++c) {
      Candidate& candidate = candidates_[c];
      if (!outcome_.ended || tried >= options_.simulate || too_much(candidate)) break;
      if (options_.goal != Goal::time && is_over(candidate.estimated_seconds, options_)) continue;
      auto making = begun.extract(c);
      if (of_these(candidate) >= most_of_degrees) {
        if (making) attempts_.leave(std::move(making.mapped()));
        continue;
      }
      Making own = making ? std::move(making.mapped()) : attempts_.begin(candidate);
      // Begins the candidates that come next if this one fits.
      const size_t most = std::min<size_t>(threads_of(options_), most_ahead + 1) - 1;
      const double as_good = (1 + error) * estimated(candidate);
      for (size_t next = c + 1; next < candidates_.size() && begun.size() < most; ++next) {
        if (too_much(candidates_[next]) || estimated(candidates_[next]) > as_good) break;
        if (of_these(candidates_[next]) + 1 < most_of_degrees && !begun.count(next))
          begun.emplace(next, attempts_.begin(candidates_[next]));
      }
      const Attempt last = try_point(candidate, std::move(own));
      of_these(candidate) += last.succeeded ? 1 : 0;
      tried += last.succeeded || last.too_slow ? 1 : 0;
      if (last.seconds == 0 || is_short(candidate.job) || options_.goal == Goal::memory) continue;
      least_off = std::min(least_off, last.seconds / candidate.estimated_seconds);
      ++long_steps;
    }
    for (auto& [c, making] : begun) attempts_.leave(std::move(making));
  }

  Attempt try_point(Candidate& candidate, Making making) {
    const Attempt last = attempts_.attempt_within(candidate, std::move(making));
    candidate.tried = outcome_.ended || last.seconds > 0;
    candidate.seconds = last.seconds;
    return last;
  }

  double least(const Candidate& c) const { return value_of(options_.goal, c.job, c.least_seconds, 0); }

  // Simulates points that could be better by more than options.gap by their bounds, the least bound first. If
  // one is the best, refines it too, and continues.
  void close_gap() {
    if (!options_.gap || outcome_.best.empty() || attempts_.asked_to_stop() || *unknown_least() != 0) return;
    std::vector<Candidate*> order;
    for (Candidate& c : candidates_)
      if (!c.tried) order.push_back(&c);
    std::stable_sort(order.begin(), order.end(),
                     [&](const Candidate* a, const Candidate* b) { return least(*a) < least(*b); });
    const auto may_win = [&](const Candidate& c) {
      return least(c) < (1 - *options_.gap) * attempts_.value(outcome_.best.front());
    };
    size_t next = 0;
    std::deque<std::pair<Candidate*, Making>> begun;
    const size_t most = std::min<size_t>(threads_of(options_), most_ahead + 1);
    for (JobKey refined = key_of(outcome_.best.front().job);;) {
      for (; next < order.size() && begun.size() < most && may_win(*order[next]); ++next)
        begun.emplace_back(order[next], attempts_.begin(*order[next]));
      if (begun.empty()) return;
      auto [candidate, making] = std::move(begun.front());
      begun.pop_front();
      if (attempts_.asked_to_stop() || !may_win(*candidate)) {
        attempts_.leave(std::move(making));
        next = order.size();  // no later one may win
        continue;
      }
      try_point(*candidate, std::move(making));
      if (key_of(outcome_.best.front().job) == refined) continue;
      refine();
      refined = key_of(outcome_.best.front().job);
    }
  }

  // If nothing fits with the degrees' layouts: tries the smallest, then those of other degrees, with layouts
  // in which bytes come first.
  void lay_out_smallest() {
    const auto none_fits = [&] {
      const double bytes = attempts_.smallest_bytes();
      return outcome_.best.empty() && outcome_.ended && bytes > static_cast<double>(limit_) &&
             bytes < infinity;
    };
    if (none_fits() && outcome_.smallest.peak_bytes == 0) attempts_.measure_smallest();
    const Move* const move = move_of(options_, "smallest-plan");
    if (!none_fits() || options_.lay_out == 0 || !move) return;
    std::ranges::stable_sort(smallest_, {}, &Candidate::estimated_bytes);
    smallest_.insert(smallest_.begin(), outcome_.smallest);
    std::set<std::tuple<JobKey, Open, double>> tried;
    const LayoutWeights bytes{1, bytes_first_weight};
    const auto lay_out = [&](const Candidate& small, Open open, LayoutWeights weights) {
      const bool enough = !none_fits() || tried.size() == static_cast<size_t>(options_.simulate);
      if (enough || planner::mesh_of(small.job.parallel).devices() == 1) return;
      if (!tried.insert({key_of(small.job), open, weights.memory}).second) return;
      Candidate candidate = anew(small);
      candidate.move = move;
      candidate.layouts = attempts_.asked();
      candidate.layouts->open = open;
      candidate.layouts->weights = weights;
      attempts_.attempt(attempts_.begin(std::move(candidate)));
    };
    const Open asked = attempts_.asked().open, most = options_.both ? Open::both : Open::each;
    lay_out(smallest_.front(), asked, bytes);
    lay_out(smallest_.front(), asked, {});
    for (const Candidate& small : smallest_)
      lay_out(small, planner::mesh_of(small.job.parallel).dims() > 1 ? most : asked, bytes);
  }

  // If told to end before anything was simulated: takes the first by estimate that can be made and fits.
  void take_best_estimate() {
    if (!outcome_.told_to_end() || !outcome_.best.empty()) return;
    for (size_t c = 0; c < candidates_.size() && c < static_cast<size_t>(options_.simulate); ++c)
      if (attempts_.attempt_at_the_end(candidates_[c]).succeeded) break;
    outcome_.by_estimate = !outcome_.best.empty();
  }

  // Why no bound is known for points that were not tried; empty if it is known.
  const char* unknown_least() const {
    if (outcome_.told_to_end()) return "the search ended early";
    if (options_.goal == Goal::memory) return "estimates of memory bound nothing";
    if (attempts_.layouts_asked()) return "every point has its own layouts";
    for (const Candidate& c : candidates_)
      if (needs_layouts(c.job)) return "every point has its own layouts";
    return "";
  }

  // Bounds the steps of points that were not tried.
  void bound() {
    outcome_.unknown_least = unknown_least();
    if (!outcome_.unknown_least.empty()) return;
    outcome_.least = infinity;
    for (const Candidate& c : candidates_)
      if (!c.tried) outcome_.least = std::min(*outcome_.least, least(c));
  }

  // The fastest that fits and keeps the time, by estimate.
  std::optional<Candidate> fastest_of(const Job& job, const Fixed& fixed) {
    points_.set_bytes(static_cast<double>(limit_) / attempts_.memory_underestimate());
    const auto enough = [&](int64_t, int64_t, bool) { return attempts_.asked_to_stop(); };
    std::optional<Candidate> fastest = points_.of(job, fixed, enough).fastest;
    if (fastest && fastest->estimated_seconds > options_.max_step_seconds) fastest.reset();
    return fastest;
  }

  const Job job_;
  const SearchOptions& options_;
  const Oracle& oracle_;
  const int64_t limit_;  // bytes of a device
  Fixed fixed_{options_.pinned, options_.ranges, options_.goal == Goal::memory, {}, options_.rules};
  Candidates points_{options_, static_cast<double>(limit_), oracle_.act_seconds};
  Outcome outcome_;
  Attempts attempts_{options_, oracle_, points_, limit_, outcome_};
  std::vector<Candidate> smallest_;  // of those that do not fit by estimate, for each number of GPUs
  std::vector<Candidate> candidates_;
  std::optional<Error> unmeasured_;  // why the last point without a small plan has none
  bool proposes_changes_ = true;     // if nothing fits
  bool left_points_out_ = false;     // for lack of time
};

}  // namespace

size_t threads_of(const SearchOptions& options) {
  const unsigned cores = std::thread::hardware_concurrency();
  return options.threads > 0 ? static_cast<size_t>(options.threads) : std::max(1U, cores);
}

Outcome search(const Job& job, const SearchOptions& options, const Oracle& oracle) {
  return Search(job, options, oracle).run();
}

}  // namespace boxcar::search

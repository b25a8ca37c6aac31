#include "planner/search/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <tuple>

#include "planner/laid_out.h"
#include "planner/resolve.h"
#include "planner/search/changes.h"
#include "planner/search/contradiction.h"
#include "planner/search/lower_bound.h"
#include "planner/search/points.h"
#include "planner/search/step_estimate.h"
#include "planner/verify.h"
#include "sbp/error.h"

namespace boxcar::search {
namespace {

using planner::Job;

// Of an estimate, at most: what is estimated to be worse than the best by more is not looked at.
constexpr double time_error = 0.03, memory_error = 0.25;
constexpr double nearly = 0.1;            // by estimate as good as the best, where time is short
constexpr int alike = 3;                  // of the same degrees that are simulated
constexpr size_t pipelines_split = 3;     // tried with backward passes in two parts
constexpr int most_acts = 4000;           // in the graph that slots are looked for in
constexpr int points_between_looks = 64;  // at the clock

struct Stopped {};  // in the middle of a candidate

bool fewest_bytes(Goal goal) { return goal == Goal::memory; }

class Search {
 public:
  Search(const Job& job, const SearchOptions& options, const Oracle& oracle)
      : job_(job), options_(options), oracle_(oracle) {
    job_.model = ir::models::complete(job_.model);
    if (job_.gpus == 0) job_.gpus = job_.cluster.devices();
    if (options.goal == Goal::cost && job_.cluster.price_per_gpu_hour <= 0)
      throw Error::input("cluster", fmt::format("{} has no price; give price_per_gpu_hour in a cluster file",
                                                job_.cluster.name));
    limit_ = options.memory_bytes > 0 ? options.memory_bytes : job_.cluster.device.memory_bytes;
    outcome_.smallest.estimated_bytes = infinity;
  }

  Outcome run() {
    for (const int gpus : gpu_counts())
      each_point(on_gpus(job_, job_.cluster, gpus), fixed(), [&](const Job& point) { return add(point); });
    if (outcome_.points == 0 && outcome_.ended) refuse();
    estimating_ = false;
    std::stable_sort(candidates_.begin(), candidates_.end(), [&](const Candidate& a, const Candidate& b) {
      return std::pair(estimated(a), a.estimated_seconds) < std::pair(estimated(b), b.estimated_seconds);
    });
    if (cut_) quick_ones_first();
    try_candidates();
    take_best_estimate();
    for (int round = 0; round < 2 && outcome_.ended && !outcome_.best.empty(); ++round) {
      if (fewest_bytes(options_.goal))
        recompute_more(outcome_.best.front());
      else
        recompute_less(outcome_.best.front());
    }
    if (outcome_.ended) split_backward();
    if (outcome_.ended) shard_otherwise();
    if (!layouts_asked()) lay_out_best();
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
    if (outcome_.best.empty() && outcome_.ended) {
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

  // Estimates said that nothing keeps the time, or what they said does so was too slow: the fastest plans,
  // simulated, by the objective.
  Outcome in_least_time() const {
    SearchOptions fastest = options_;
    fastest.goal = Goal::time;
    Outcome outcome = Search(job_, fastest, oracle_).run();
    std::stable_sort(outcome.best.begin(), outcome.best.end(), [&](const Candidate& a, const Candidate& b) {
      return std::pair(simulated(a), a.seconds) < std::pair(simulated(b), b.seconds);
    });
    outcome.least.reset();
    outcome.unknown_least = "only the fastest plans keep the time";
    return outcome;
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

  Fixed fixed() const { return {options_.pinned, options_.ranges, fewest_bytes(options_.goal)}; }

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
                                           static_cast<int>(outcome_.best.size()), best}))
      outcome_.ended = false;
    return !outcome_.ended;
  }

  bool has_enough_points() {
    if (estimating_ && !candidates_.empty() && options_.more_points && !options_.more_points()) cut_ = true;
    return cut_ && estimating_;
  }

  // Nothing where no small plan can be made, or where the search is to end.
  const ModelCost* cost_of_point(const Job& point) {
    const CostKey key = cost_key(point);
    if (const auto known = costs_.find(key); known != costs_.end())
      return known->second ? &*known->second : nullptr;
    if (asked_to_stop() || has_enough_points()) return nullptr;
    std::optional<ModelCost>& cost = costs_[key];
    try {
      cost = measuring_.of(point);
    } catch (const Error& error) {
      unmeasured_ = error;
    }
    return cost ? &*cost : nullptr;
  }

  // The point with its layers cut into stages, in one way or two, each with its estimate.
  std::vector<Candidate> estimates(const Job& point) {
    const ModelCost* cost = cost_of_point(point);
    if (!cost) return {};
    std::vector<Job> jobs{point};
    Job& job = jobs.front();
    job.train.micro_batches = planner::micro_batches(job);
    const planner::Hints& h = job.parallel;
    if (h.stage_layers.empty()) {
      const auto layers = job.model.layers;
      job.parallel.stage_layers = planner::balanced_layers(layers, h.pp * h.virtual_stages);
      Job level = job;
      if (h.virtual_stages == 1 && h.pp > 1) level.parallel.stage_layers = level_layers(layers, h.pp, *cost);
      if (level.parallel.stage_layers != h.stage_layers) jobs.push_back(std::move(level));
    }
    std::vector<Candidate> result;
    for (Job& cut : jobs) {
      result.push_back(with_estimate(std::move(cut), *cost));
      for (Candidate& more : with_more_under_way(result.back(), *cost)) result.push_back(std::move(more));
    }
    for (size_t i = 0, plain = result.size(); i < plain; ++i)
      add_other_orders(Candidate(result[i]), *cost, result);
    return result;
  }

  // The same in those orders of the mesh on the cluster that are faster by estimate. Groups inside of a stage
  // are nowhere faster than in the usual order, so with its cost an order's estimate is a bound.
  void add_other_orders(const Candidate& usual, const ModelCost& cost, std::vector<Candidate>& all) {
    if (options_.pinned.count("mesh_order")) return;
    for (const std::string& order : other_orders(usual.job)) {
      Job job = usual.job;
      job.parallel.mesh_order = order;
      const auto gains = [&](const Candidate& c) {
        return c.estimated_seconds < (1 - time_error / 3) * usual.estimated_seconds;
      };
      if (!gains(with_estimate(job, cost))) continue;
      const ModelCost* own = cost_of_point(job);
      if (!own) continue;
      if (Candidate other = with_estimate(std::move(job), *own); gains(other))
        all.push_back(std::move(other));
    }
  }

  static Candidate with_estimate(Job job, const ModelCost& cost) {
    const Estimate e = estimate(job, cost);
    const double least = least_seconds(job, cost);
    return {std::move(job), e.seconds, e.bytes, e.fullest_stage, e.split_saves, least};
  }

  // The same with as many micro-batches under way as hide transfers; where those do not fit, with as many as
  // hide some of them, and with sharded gradients.
  std::vector<Candidate> with_more_under_way(const Candidate& plain, const ModelCost& cost) const {
    std::vector<Candidate> result;
    if (options_.pinned.count("schedule")) return result;
    for (const double slack : {0.02, 0.1, 0.3}) {
      Job job = plain.job;
      job.parallel.schedule = schedule_for(job, cost, slack);
      if (job.parallel.schedule.empty()) break;
      Candidate more = with_estimate(job, cost);
      if (more.estimated_seconds >= (1 - time_error / 3) * plain.estimated_seconds) break;
      if (fits(more)) {
        result.push_back(std::move(more));
        break;
      }
      if (job.parallel.zero != 1 || !is_free("zero", 2) || !result.empty()) continue;
      job.parallel.zero = 2;
      if (more = with_estimate(std::move(job), cost); fits(more)) result.push_back(std::move(more));
    }
    return result;
  }

  bool fits(const Candidate& c) const { return c.estimated_bytes <= static_cast<double>(limit_); }
  bool in_time(const Candidate& c) const {
    return c.estimated_seconds <= (1 + time_error) * options_.max_step_seconds;
  }

  // Whether it fits in memory, by estimate.
  bool add(const Job& point) {
    if (!outcome_.ended || cut_) return false;
    bool any = false;
    for (Candidate& c : estimates(point)) {
      if (++outcome_.points % points_between_looks == 0 && (asked_to_stop() || has_enough_points())) break;
      if (c.estimated_bytes < outcome_.smallest.estimated_bytes) outcome_.smallest = c;
      if (!fits(c)) {
        ++outcome_.over_memory;
        continue;
      }
      any = true;
      note_fastest(c);
      if (!in_time(c)) ++outcome_.over_time;
      if (in_time(c) || options_.goal == Goal::time) candidates_.push_back(std::move(c));
    }
    return any;
  }

  // Where estimates of memory were too low, messages go by plans, and changes are to leave as much room.
  void note_smallest(const Candidate& c) {
    const Candidate& known = outcome_.smallest;
    if (known.peak_bytes == 0 ? fits(known) : c.peak_bytes < known.peak_bytes) outcome_.smallest = c;
    if (c.estimated_bytes > 0)
      too_low_ = std::max(too_low_, static_cast<double>(c.peak_bytes) / c.estimated_bytes);
  }

  // What was simulated counts more than what was not.
  void note_fastest(const Candidate& c) {
    const auto key = [](const Candidate& x) {
      return std::pair(x.seconds == 0, x.seconds == 0 ? x.estimated_seconds : x.seconds);
    };
    if (!outcome_.fastest || key(c) < key(*outcome_.fastest)) outcome_.fastest = c;
  }

  void try_candidates() {
    const bool bytes = fewest_bytes(options_.goal);
    const double error = bytes ? memory_error : time_error;
    std::map<std::array<int, 4>, int> done;
    int tried = 0;
    for (Candidate& candidate : candidates_) {
      if (!outcome_.ended || tried >= options_.simulate) break;
      if (!outcome_.best.empty() && estimated(candidate) > (1 + error) * simulated(outcome_.best.front()))
        break;
      const planner::Hints& h = candidate.job.parallel;
      int& of_these = done[{h.dp, h.tp, h.pp, h.cp}];
      if (of_these >= alike) continue;
      bool does = attempt(candidate);
      candidate.seconds = last_seconds_;
      if (const auto sharded = with_sharded_gradients(candidate); sharded && excess_ > 0)
        if (outcome_.best.empty() || estimated(*sharded) <= (1 + error) * simulated(outcome_.best.front()))
          does = attempt(*sharded);
      of_these += does ? 1 : 0;
      tried += does || too_slow_ ? 1 : 0;
    }
  }

  // Of a pipeline whose plan does not fit, which its estimate said it would: a point that none looked at, for
  // gradients are sharded there only where memory asks for it.
  std::optional<Candidate> with_sharded_gradients(const Candidate& candidate) {
    Job job = candidate.job;
    if (job.parallel.pp == 1 || job.parallel.zero != 1 || !is_free("zero", 2)) return std::nullopt;
    job.parallel.zero = 2;
    const ModelCost* cost = cost_of_point(job);
    if (!cost) return std::nullopt;
    return with_estimate(std::move(job), *cost);
  }

  // Told to end before anything was simulated: the first by estimate that can be made and fits.
  void take_best_estimate() {
    if (outcome_.ended || !outcome_.best.empty()) return;
    last_ = true;
    for (size_t c = 0; c < candidates_.size() && c < static_cast<size_t>(options_.simulate); ++c)
      if (attempt(candidates_[c])) break;
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

  // Into the list, if it is legal, fits and keeps the time. Where the memory of one that was estimated to fit
  // is over, nothing is lost: the next one is taken. False where it does not do.
  bool attempt(Candidate candidate) {
    if (asked_to_stop()) return false;
    ++outcome_.compiled;
    too_slow_ = false;
    last_seconds_ = 0;
    excess_ = 0;
    try {
      candidate.job = planner::resolve(std::move(candidate.job));
      if (!candidate.layouts && (layouts_asked() || needs_layouts(candidate.job)))
        candidate.layouts = {options_.partial, options_.both, options_.pins};
      FoundLayouts found;
      const ir::Plan plan = plan_of(candidate, &found, graphs_, look_);
      if (found.found) candidate.found = std::move(found);
      if (candidate.layouts)
        candidate.layouts->weights = candidate.found.weights, candidate.layouts->memory = infinity;
      note_memory(plan, candidate);
      measured_ = true;
      if (candidate.peak_bytes > limit_) {
        excess_ = candidate.peak_bytes - limit_;
        note_smallest(candidate);
        layouts_bytes_ = candidate.found.cost[memory];
        return false;
      }
      Oracle::Step step = oracle_.step(plan, candidate.job.cluster, look_);
      last_seconds_ = candidate.seconds = step.seconds;
      candidate.record = std::move(step.record);
    } catch (const Stopped&) {
      return false;
    } catch (const Error& error) {
      if (!layouts_asked() || error.where().starts_with("--pin")) refused_ = error;
      return false;
    }
    note_fastest(candidate);
    too_slow_ = options_.goal != Goal::time && candidate.seconds > options_.max_step_seconds;
    if (too_slow_) return false;
    insert(std::move(candidate));
    return true;
  }

  static void note_memory(const ir::Plan& plan, Candidate& candidate) {
    const planner::Mesh mesh = planner::mesh_of(candidate.job.parallel);
    for (const planner::MemoryUse& use : planner::memory_use(plan)) {
      if (use.total <= candidate.peak_bytes) continue;
      const int device = plan.classes[static_cast<size_t>(use.cls)].devices.front();
      candidate.peak_bytes = use.total;
      candidate.fullest_stage = device / mesh.stage_stride % candidate.job.parallel.pp;
    }
  }

  void insert(Candidate candidate) {
    for (const Candidate& known : outcome_.best)  // the same layouts at other weights
      if (candidate.layouts && known.found.cost == candidate.found.cost &&
          known.seconds == candidate.seconds && known.peak_bytes == candidate.peak_bytes)
        return;
    const auto place = std::upper_bound(outcome_.best.begin(), outcome_.best.end(), candidate,
                                        [&](const Candidate& a, const Candidate& b) {
                                          return std::tuple(simulated(a), a.seconds, a.peak_bytes) <
                                                 std::tuple(simulated(b), b.seconds, b.peak_bytes);
                                        });
    outcome_.best.insert(place, std::move(candidate));
  }

  // Of what computes whole layers again: only as many of each stage's as memory asks for.
  void recompute_less(const Candidate& whole) {
    if (options_.pinned.count("recompute_layers") || whole.job.train.recompute != ir::Recompute::full) return;
    if (whole.job.train.recompute_layers >= 0) return;
    const Candidate start = whole;
    int least = 0, most = most_layers(start.job);
    while (least < most && outcome_.ended) {  // the fewest that fit
      const int middle = (least + most) / 2;
      if (attempt(with_recompute(start, middle)))
        most = middle;
      else
        least = middle + 1;
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
      attempt(with_recompute(start, middle));
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
    const auto hoped = [](const Candidate& c) {
      return (c.seconds > 0 ? c.seconds : c.estimated_seconds) - c.split_saves;
    };
    std::vector<Candidate> some;
    for (const std::vector<Candidate>* list : {&outcome_.best, &candidates_})
      std::copy_if(list->begin(), list->end(), std::back_inserter(some), is_whole);
    if (some.empty()) return;
    std::stable_sort(some.begin() + (some.front().seconds > 0 ? 1 : 0), some.end(),
                     [&](const Candidate& a, const Candidate& b) { return hoped(a) < hoped(b); });
    std::set<std::array<int, 4>> done;
    for (const Candidate& whole : some) {
      const planner::Hints& h = whole.job.parallel;
      if (done.size() == pipelines_split) break;
      if (!done.empty() && hoped(whole) >= outcome_.best.front().seconds) break;
      if (!done.insert({h.dp, h.tp, h.pp, h.cp}).second) continue;
      for (const char* schedule : {"zb-h1", "zb-h2"}) {
        Candidate split = anew(whole);
        split.job.parallel.schedule = schedule;
        if (outcome_.ended) attempt(std::move(split));
      }
    }
  }

  // The best with its states sharded less and more: how much of that hides behind kernels estimates know
  // least.
  void shard_otherwise() {
    if (outcome_.best.empty() || fewest_bytes(options_.goal)) return;
    const Candidate start = outcome_.best.front();
    const planner::Hints& h = start.job.parallel;
    if (h.dp == 1) return;
    for (const int zero : {h.zero - 1, h.zero + 1}) {
      Candidate other = anew(start);
      other.job.parallel.zero = zero;
      if (!outcome_.ended || zero < 0 || zero > 3 || !is_free("zero", zero) || is_known(other.job)) continue;
      if (const ModelCost* cost = cost_of_point(other.job); cost && fits(with_estimate(other.job, *cost)))
        attempt(std::move(other));
    }
  }

  bool is_free(const char* key, int value) const {
    const Fixed given = fixed();
    return !given.is_pinned(key) && given.in_range(key, value);
  }

  // Whether it was simulated.
  bool is_known(const Job& job) const {
    const auto key = [](const Job& j) {
      const planner::Hints& h = j.parallel;
      return std::tuple(j.gpus, h.dp, h.tp, h.pp, h.cp, h.ep, h.virtual_stages, h.stage_layers, h.micro_batch,
                        h.zero, h.sequence_parallel, h.schedule, h.mesh_order, j.train.recompute,
                        j.train.recompute_layers);
    };
    return std::any_of(outcome_.best.begin(), outcome_.best.end(),
                       [&](const Candidate& c) { return key(c.job) == key(job); });
  }

  static int most_layers(const Job& job) {
    const std::vector<int>& stages = job.parallel.stage_layers;
    return *std::max_element(stages.begin(), stages.end());
  }

  // To be changed and tried: nothing is known of its plan.
  static Candidate anew(Candidate candidate) {
    candidate.found = {};
    candidate.peak_bytes = 0;
    return candidate;
  }

  static Candidate with_recompute(const Candidate& known, int layers) {
    Candidate candidate = anew(known);
    candidate.job.train.recompute = ir::Recompute::full;
    candidate.job.train.recompute_layers = layers;
    return candidate;
  }

  bool layouts_asked() const { return !options_.partial || !options_.pins.empty(); }

  // For the least time, collectives of states count in full, or as such that run beside other work; where
  // other dimensions hold the samples these hardly differ. For the least memory bytes come first.
  std::vector<LayoutWeights> weights(const planner::Mesh& mesh) const {
    std::vector<LayoutWeights> all{{1, 0}};
    if (mesh.dims() == 1) all.push_back({0.1, 0});
    if (fewest_bytes(options_.goal)) all.push_back({1, seconds_per_byte});
    return all;
  }

  // The best again, with the layout of every op chosen. Where they need too much memory, once more with as
  // much less on every stage.
  void lay_out_best() {
    std::vector<Candidate> best = outcome_.best;
    if (best.size() > static_cast<size_t>(options_.lay_out))
      best.resize(static_cast<size_t>(options_.lay_out));
    for (Candidate& candidate : best) {
      const planner::Mesh mesh = planner::mesh_of(candidate.job.parallel);
      if (!has_free_dimension(mesh) || mesh.devices() == 1) continue;
      candidate.peak_bytes = 0;
      for (const LayoutWeights& weights : weights(mesh)) {
        if (candidate.layouts && candidate.found.weights == weights) continue;  // as it is laid out already
        candidate.found = {};
        candidate.layouts = {true, options_.both, {}, weights, infinity, {}};
        for (int tries = 0; tries < 3 && outcome_.ended; ++tries) {
          excess_ = 0;
          if (attempt(candidate) || excess_ == 0) break;
          candidate.layouts->memory =
              layouts_bytes_ - candidate.job.parallel.pp * static_cast<double>(excess_);
        }
      }
    }
  }

  // As good, with fewer slots of what moves between queues and devices.
  void take_fewest_slots(Candidate candidate) {
    try {
      candidate.slots = fewest_slots(plan_of(candidate, nullptr, graphs_, look_), candidate.job.cluster,
                                     oracle_.act_seconds, most_acts);
    } catch (const Stopped&) {
      return;
    }
    candidate.peak_bytes = 0;
    if (!candidate.slots.changes.empty()) attempt(std::move(candidate));
  }

  // The fastest that fits and keeps the time, by estimate.
  std::optional<Candidate> fastest_of(const Job& job, const Fixed& fixed) {
    std::optional<Candidate> fastest;
    each_point(job, fixed, [&](const Job& point) {
      bool any = false;
      for (Candidate& c : estimates(point)) {
        if (too_low_ * c.estimated_bytes > static_cast<double>(limit_)) continue;
        any = true;
        if (c.estimated_seconds <= options_.max_step_seconds &&
            (!fastest || c.estimated_seconds < fastest->estimated_seconds))
          fastest = std::move(c);
      }
      return any;
    });
    return fastest;
  }

  // Worth more than any time that layouts take.
  static constexpr double seconds_per_byte = 1e-6;

  Job job_;
  const SearchOptions& options_;
  const Oracle& oracle_;
  int64_t limit_ = 0;
  Measuring measuring_{oracle_.act_seconds};
  Graphs graphs_{4};  // of candidates
  std::map<CostKey, std::optional<ModelCost>> costs_;
  std::vector<Candidate> candidates_;
  std::optional<Error> refused_;          // why the last candidate of which no plan could be made could not
  bool measured_ = false;                 // the memory of any
  std::optional<Error> unmeasured_;       // why the last small plan that could not be made could not
  double too_low_ = 1;                    // by how much estimates of memory were, at most
  int64_t excess_ = 0;                    // bytes by which the last one that was compiled did not fit
  bool too_slow_ = false;                 // the last one that was simulated
  double last_seconds_ = 0;               // of the last one that was compiled: 0 where it was not simulated
  bool last_ = false;                     // told to end: one more all the same
  bool estimating_ = true, cut_ = false;  // points were left out
  std::function<void()> look_ = [this] {
    if (asked_to_stop() && !outcome_.best.empty()) throw Stopped{};  // the first is finished: it may be all
  };
  double layouts_bytes_ = 0;  // by the costs of its layouts
  Outcome outcome_;
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

Outcome search(const Job& job, const SearchOptions& options, const Oracle& oracle) {
  return Search(job, options, oracle).run();
}

}  // namespace boxcar::search

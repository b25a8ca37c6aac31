#include "planner/search/candidates.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <numeric>
#include <random>
#include <utility>

#include "planner/estimate/fewest_recomputed.h"
#include "planner/estimate/level_layers.h"
#include "planner/estimate/lower_bound.h"
#include "planner/estimate/slow_stages.h"
#include "planner/estimate/step_estimate.h"
#include "planner/resolve.h"
#include "planner/search/dimensions.h"
#include "planner/search/points.h"

namespace boxcar::search {
namespace {

using planner::Job;

constexpr double slacks[] = {0.02, 0.1, 0.3};  // of a period, for fewer micro-batches in flight
constexpr auto between_looks = std::chrono::milliseconds(5);

// Messages between the threads and the one that waits for them.
struct Shared {
  std::atomic<int64_t> points = 0, over_memory = 0;
  std::atomic<bool> any_fits = false, stop = false;
  std::atomic<size_t> next = 0;  // branch
};

Candidate with_estimate(Job job, const KindCosts& costs, const InFlight& in_flight) {
  const Estimate e = estimate(job, costs, in_flight);
  const double least = least_seconds(job, costs), kernels = least_seconds(job, costs, Counted::kernels);
  return {std::move(job), e.seconds, e.bytes, e.fullest_stage, e.split_saves, least, kernels};
}

// Found layouts may avoid collectives, which pays in short steps.
Counted counted(const Job& job) { return is_short(job) ? Counted::kernels : Counted::waits; }

double bound_of(const Candidate& c) {
  return counted(c.job) == Counted::kernels ? c.kernel_seconds : c.least_seconds;
}

Candidate with_estimate(Job job, const KindCosts& costs) {
  const InFlight in_flight = in_flight_of(job);
  return with_estimate(std::move(job), costs, in_flight);
}

// The order in which branches are estimated.
std::vector<size_t> order_of(size_t branches, uint64_t shuffle) {
  std::vector<size_t> order(branches);
  std::iota(order.begin(), order.end(), size_t{0});
  if (shuffle != 0) std::shuffle(order.begin(), order.end(), std::mt19937_64(shuffle));
  return order;
}

// Works on all branches, on several threads. Looks every few ms, on this thread.
void for_each_branch(const std::vector<size_t>& order, size_t threads, Shared& shared,
                     const std::function<void()>& look, const std::function<void(size_t branch)>& work) {
  shared.next = 0;
  std::vector<std::future<void>> working;
  for (size_t t = 0; t < std::min(threads, order.size()); ++t)
    working.push_back(std::async(std::launch::async, [&] {
      for (size_t next = shared.next++; next < order.size(); next = shared.next++) work(order[next]);
    }));
  try {
    for (std::future<void>& thread : working)
      while (thread.wait_for(between_looks) != std::future_status::ready) look();
  } catch (...) {
    shared.stop = true;
    throw;
  }
  for (std::future<void>& thread : working) thread.get();
}

bool keep_less(std::optional<Candidate>& least, const Candidate& c, double Candidate::*number) {
  if (least && least.value().*number <= c.*number) return false;
  least = c;
  return true;
}

// Points are varied if their bounds are below this many times the best estimate. The best by estimate may not
// fit, or be slower when simulated.
constexpr double varied_up_to = 1.1;
constexpr double layouts_save = 1.3;  // of the limit: layouts save no more

void keep_smallest(std::vector<Candidate>& kept, const Candidate& c, size_t most_kept) {
  const auto bytes = [](const Candidate& x) { return x.estimated_bytes; };
  if (kept.size() >= most_kept && (kept.empty() || bytes(c) >= bytes(kept.back()))) return;
  const auto same = std::find_if(kept.begin(), kept.end(),
                                 [&](const Candidate& x) { return degrees_of(x.job) == degrees_of(c.job); });
  if (same != kept.end() && bytes(*same) <= bytes(c)) return;
  if (same != kept.end()) kept.erase(same);
  kept.insert(std::ranges::upper_bound(kept, bytes(c), {}, bytes), c);
  if (kept.size() > most_kept) kept.pop_back();
}

}  // namespace

// The points of a branch, on one thread.
class Candidates::Branch {
 public:
  // `job` gives the fields that its points have in common; `known` holds costs measured for such jobs before.
  Branch(const Candidates& all, const Job& job, const Costs& known, Shared& shared)
      : all_(all),
        options_(all.options_),
        known_(known),
        shared_(shared),
        measuring_(undecided(job), all.seconds_, all.graphs_) {}

  void run(const Job& job, const Fixed& fixed, const planner::Hints& branch) {
    each_point(job, fixed, branch, [&](const Job& point) { return add(point); });
  }

  // After all branches have run: adds the same points with fewer recomputed layers, in other orders of the
  // mesh and of slow stages. Leaves out those whose bound is above `most` seconds.
  void vary(double most) {
    for (std::vector<Candidate>& whole : varied_)
      if (!shared_.stop)
        for (Candidate& c : variants(whole, most)) take(std::move(c));
    varied_.clear();
  }

  std::optional<Candidate> cut(const Job& point) {
    std::optional<Candidate> best;
    for (const Candidate& c : estimates(point)) keep_less(best, c, &Candidate::estimated_seconds);
    return best;
  }

  // Null if no small plan can be made, or if there are enough points.
  const ModelCost* cost_of(const Job& point) {
    const CostKey key = cost_key(point);
    const auto* cost = known_cost(key);
    if (!cost && shared_.stop) return nullptr;
    if (!cost) cost = &costs.emplace(key, measured(key)).first->second;
    return std::get_if<ModelCost>(cost);
  }

  // Costs for the job's recomputed layers and for its others.
  std::optional<KindCosts> costs_of(const Job& job) {
    const ModelCost* recomputed = cost_of(job);
    const ModelCost* others = recomputed;
    if (recomputed && !job.train.recompute_layers.empty())
      others = cost_of(all_of(job, job.train.recompute_others));
    if (!recomputed || !others) return std::nullopt;
    return KindCosts(*recomputed, *others);
  }

  // See Candidates::with_fewest_recomputed; bytes by stage.
  std::optional<Candidate> with_fewest_recomputed(const Job& job, const std::vector<double>& bytes) {
    std::optional<Candidate> best;
    const InFlight in_flight = in_flight_of(job);
    for (const ir::Recompute less : lesser(job)) {
      const ModelCost* recomputed = cost_of(job);
      const ModelCost* others = cost_of_lesser(job, less);
      if (!recomputed || !others) continue;
      const KindCosts both(*recomputed, *others);
      Job mixed = job;
      mixed.train.recompute_others = less;
      if (recuts(job, *recomputed)) mixed.parallel.stage_layers = level_layers(mixed, both, in_flight, bytes);
      if (mixed.parallel.stage_layers.empty()) continue;
      const auto fewest = search::with_fewest_recomputed(std::move(mixed), both, in_flight, bytes);
      if (!fewest) continue;
      const std::vector<int>& counts = fewest->train.recompute_layers;
      const bool none = !counts.empty() && std::ranges::max(counts) == 0;
      keep_less(best,
                none && !options_.pinned.count("recompute")
                    ? with_estimate(all_of(*fewest, less), *others, in_flight)
                    : with_estimate(*fewest, both, in_flight),
                &Candidate::estimated_seconds);
    }
    return best;
  }

  // By stage, the bytes by which its estimate is too low; none if no plan was made.
  std::vector<double> errors_of(const Candidate& tried) {
    std::vector<double> errors = tried.stage_bytes;
    errors.resize(static_cast<size_t>(tried.job.parallel.pp));
    if (const auto kinds = tried.stage_bytes.empty() ? std::nullopt : costs_of(tried.job)) {
      const std::vector<double> known = bytes_by_stage(tried.job, *kinds, in_flight_of(tried.job));
      std::transform(errors.begin(), errors.end(), known.begin(), errors.begin(), std::minus<>());
    }
    return errors;
  }

  Estimated estimated;
  Costs costs;  // that were not known before

 private:
  const std::variant<ModelCost, Error>* known_cost(const CostKey& key) const {
    for (const Costs* known : {&known_, static_cast<const Costs*>(&costs)})
      if (const auto found = known->find(key); found != known->end()) return &found->second;
    return nullptr;
  }

  // Counts a point that has no estimate, and the reason: for its recomputed layers, or for the others.
  void drop(const Job& point) {
    for (const Job& job : {point, all_of(point, point.train.recompute_others)})
      if (const auto* cost = known_cost(cost_key(job)); cost && std::holds_alternative<Error>(*cost)) {
        estimated.unmeasured = std::get<Error>(*cost);
        ++estimated.dropped[estimated.unmeasured->what()];
        ++estimated.points, ++shared_.points;
        return;
      }
  }

  std::variant<ModelCost, Error> measured(const CostKey& key) {
    try {
      return measuring_.of(key);
    } catch (const Error& error) {
      return error;
    }
  }

  // If all layers differ, the small plan is the whole plan, so none is made only for this.
  const ModelCost* cost_of_lesser(const Job& job, ir::Recompute kind) {
    const Job all = all_of(job, kind);
    return ir::models::layers_differ(job.model) && !known_cost(cost_key(all)) ? nullptr : cost_of(all);
  }

  static Job all_of(Job job, ir::Recompute kind) {
    job.train.recompute = kind;
    job.train.recompute_layers.clear();
    job.train.recompute_others = ir::Recompute::none;
    return job;
  }

  // Kinds of recomputation for layers that do not have the job's kind.
  std::vector<ir::Recompute> lesser(const Job& job) const {
    std::vector<ir::Recompute> kinds;
    if (options_.goal == Goal::memory || options_.pinned.count("recompute_layers")) return kinds;
    if (job.train.recompute != ir::Recompute::none) kinds.push_back(ir::Recompute::none);
    if (job.train.recompute == ir::Recompute::full &&
        ir::models::has_any(job.model, job.train.recompute_modules))
      kinds.push_back(ir::Recompute::selective);
    if (options_.pinned.count("recompute_others"))
      std::erase_if(kinds, [&](ir::Recompute kind) { return kind != job.train.recompute_others; });
    return kinds;
  }

  // Whether the cut of the layers is open, and level_layers can choose it.
  bool recuts(const Job& job, const ModelCost& cost) const {
    return job.parallel.pp > 1 && job.parallel.virtual_stages == 1 && cost.layers.empty() &&
           !options_.pinned.count("stage_layers");
  }

  // A point that recomputes only the necessary layers, in place of one that recomputes all layers and fits.
  // If less recomputation of all layers fits, that is a separate point. If layouts do not come from hints,
  // estimates of memory are too poor for it.
  std::optional<Candidate> with_some_recomputed(const std::vector<Candidate>& whole, double most) {
    std::optional<Candidate> best;
    const Job& first = whole.front().job;
    std::vector<ir::Recompute> kinds = lesser(first);
    std::erase_if(kinds, [&](ir::Recompute kind) {
      const ModelCost* cost = cost_of_lesser(first, kind);
      return cost && least_seconds(all_of(first, kind), *cost, counted(first)) > most;
    });
    if (kinds.empty() || needs_layouts(first) ||
        (!options_.pinned.count("recompute") && any_fits(whole, kinds)))
      return best;
    const std::vector<double> bytes(static_cast<size_t>(first.parallel.pp), all_.bytes_);
    for (const ir::Recompute kind : kinds)
      if (!cost_of_lesser(first, kind)) drop(all_of(first, kind));
    for (const Candidate& c : whole) {
      if (auto some = with_fewest_recomputed(c.job, bytes))
        keep_less(best, *some, &Candidate::estimated_seconds);
      if (recuts(first, *cost_of(first))) break;  // all others have the same cut
    }
    if (best && !options_.pinned.count("schedule"))
      for (const double slack : slacks) {
        Job job = best->job;
        const auto schedule = schedule_for(job, *costs_of(job), slack);
        if (!schedule) break;
        job.parallel.schedule = *schedule;
        if (auto more = with_fewest_recomputed(job, bytes))
          keep_less(best, *more, &Candidate::estimated_seconds);
      }
    for (const Candidate& c : whole)
      if (best && fits(c) && !gains(*best, c)) best.reset();
    return best;
  }

  // Whether any fits with one of these kinds for all layers of all stages.
  bool any_fits(const std::vector<Candidate>& some, const std::vector<ir::Recompute>& kinds) {
    for (const Candidate& c : some) {
      const InFlight in_flight = in_flight_of(c.job);
      for (const ir::Recompute kind : kinds) {
        const ModelCost* cost = cost_of_lesser(c.job, kind);
        if (cost && std::ranges::max(bytes_by_stage(c.job, *cost, in_flight)) <= all_.bytes_) return true;
      }
    }
    return false;
  }

  static bool gains(double seconds, const Candidate& over) {
    return seconds < (1 - time_error / 3) * over.estimated_seconds;
  }
  static bool gains(const Candidate& c, const Candidate& over) { return gains(c.estimated_seconds, over); }

  // Whether it fits in memory by estimate; nothing if there is no estimate.
  std::optional<bool> add(const Job& point) {
    if (shared_.stop) return false;
    std::vector<Candidate> all = estimates(point);
    if (all.empty()) return std::nullopt;
    const bool any = std::any_of(all.begin(), all.end(), [&](const Candidate& c) { return fits(c); });
    if (any) varied_.push_back(all);
    for (Candidate& c : all) take(std::move(c));
    return any;
  }

  void take(Candidate c) {
    ++estimated.points, ++shared_.points;
    keep_less(estimated.smallest, c, &Candidate::estimated_bytes);
    if (!fits(c)) {
      ++estimated.over_memory, ++shared_.over_memory;
      if (c.estimated_bytes <= layouts_save * all_.bytes_)
        keep_smallest(estimated.over_memory_least, c, static_cast<size_t>(options_.simulate));
      return;
    }
    shared_.any_fits = true;
    keep_less(estimated.fastest, c, &Candidate::estimated_seconds);
    const bool slow = is_over(c.estimated_seconds, options_);
    if (slow) ++estimated.over_time;
    // With split backward passes it may keep the time.
    const bool may_keep =
        options_.goal == Goal::cost && !is_over(c.estimated_seconds - c.split_saves, options_);
    if (!slow || may_keep || options_.goal == Goal::time) estimated.fitting.push_back(std::move(c));
  }

  // The point with its layers cut into stages, in one way or two, each with its estimate.
  std::vector<Candidate> estimates(const Job& point) {
    const std::optional<KindCosts> kinds = costs_of(point);
    if (!kinds) return drop(point), std::vector<Candidate>();
    std::vector<Job> jobs{point};
    Job& job = jobs.front();
    job.train.micro_batches = planner::micro_batches(job);
    const planner::Hints& h = job.parallel;
    if (h.stage_layers.empty()) {
      const int stages = h.pp * h.virtual_stages;
      const bool pinned = options_.pinned.count("stage_layers") > 0;
      job.parallel.stage_layers = planner::balanced_layers(job.model.layers(), stages);
      Job level = job;
      if (!pinned) level.parallel.stage_layers = level_cut(job, kinds->recomputed);
      const bool even = h.virtual_stages == 1 || job.model.layers() % stages == 0;
      if (!even && !pinned)
        job = std::move(level);
      else if (level.parallel.stage_layers != h.stage_layers)
        jobs.push_back(std::move(level));
    }
    std::vector<Candidate> result;
    for (Job& cut : jobs) {
      result.push_back(with_estimate(std::move(cut), *kinds));
      if (auto more = with_more_in_flight(result.back(), *kinds)) result.push_back(std::move(*more));
    }
    return result;
  }

  // See vary. `whole`: the candidates of a point, of which at least one fits.
  std::vector<Candidate> variants(std::vector<Candidate>& whole, double most) {
    const size_t plain = whole.size();
    if (auto some = with_some_recomputed(whole, most)) whole.push_back(std::move(*some));
    for (size_t i = 0, all = whole.size(); i < all; ++i)
      if (fits(whole[i]) && bound_of(whole[i]) <= most) add_other_orders(Candidate(whole[i]), whole);
    if (bound_of(whole.front()) <= most) add_stage_orders(*costs_of(whole.front().job), whole);
    return {std::make_move_iterator(whole.begin() + static_cast<std::ptrdiff_t>(plain)),
            std::make_move_iterator(whole.end())};
  }

  // Adds the first candidate with its slow devices under other stages, if that is faster or takes less memory
  // by estimate than each known one.
  void add_stage_orders(const KindCosts& kinds, std::vector<Candidate>& all) const {
    const std::vector<std::vector<int>> orders =
        slow_orders(all.front().job.parallel, all.front().job.cluster);
    if (orders.empty() || options_.pinned.count("stage_order") || all.front().job.parallel.virtual_stages > 1)
      return;
    const Job usual = all.front().job;
    const auto add = [&](Candidate other) {
      const auto is_as_good = [&](const Candidate& known) {
        return (1 - time_error / 3) * known.estimated_seconds <= other.estimated_seconds &&
               (1 - time_error / 3) * known.estimated_bytes <= other.estimated_bytes;
      };
      if (std::none_of(all.begin(), all.end(), is_as_good)) all.push_back(std::move(other));
    };
    for (const std::vector<int>& order : orders) {
      Job job = usual;
      job.parallel.stage_order = order;
      if (!options_.pinned.count("stage_layers"))
        job.parallel.stage_layers = level_cut(job, kinds.recomputed);
      Candidate plain = with_estimate(std::move(job), kinds);
      std::optional<Candidate> more = with_more_in_flight(plain, kinds);
      add(std::move(plain));
      if (more) add(std::move(*more));
    }
  }

  // The job's cut of its layers, or a level one if stages may have any number. Virtual stages are cut as if
  // no device were slow.
  static std::vector<int> level_cut(const Job& job, const ModelCost& cost) {
    const planner::Hints& h = job.parallel;
    if (h.pp == 1 || (h.virtual_stages > 1 && !cost.layers.empty())) return h.stage_layers;
    const std::vector<double> slowness =
        h.virtual_stages == 1 ? slowness_by_stage(h, job.cluster)
                              : std::vector<double>(static_cast<size_t>(h.pp * h.virtual_stages), 1);
    return level_layers(job.model, cost, slowness, job.train.micro_batches);
  }

  // Adds the same candidate in orders of the mesh on the cluster that are faster by estimate. If stages are
  // level, they are so in each order. Groups inside a stage are never faster than in the usual order, so an
  // order's estimate with the usual cost is a bound.
  void add_other_orders(const Candidate& usual, std::vector<Candidate>& all) {
    if (options_.pinned.count("mesh_order")) return;
    const KindCosts kinds = *costs_of(usual.job);
    const bool level = slowest_device(usual.job) > 1 && !options_.pinned.count("stage_layers") &&
                       usual.job.parallel.stage_layers == level_cut(usual.job, kinds.recomputed);
    const std::vector<planner::MeshOrder> orders = other_orders(usual.job);
    if (orders.empty()) return;
    const InFlight in_flight = in_flight_of(usual.job);
    for (const planner::MeshOrder& order : orders) {
      Job job = usual.job;
      job.parallel.mesh_order = order;
      if (level) job.parallel.stage_layers = level_cut(job, kinds.recomputed);
      if (!gains(estimate(job, kinds, in_flight).seconds, usual)) continue;
      const std::optional<KindCosts> own = costs_of(job);
      if (!own) {
        drop(job);
        continue;
      }
      if (Candidate other = with_estimate(std::move(job), *own, in_flight); gains(other, usual))
        all.push_back(std::move(other));
    }
  }

  // The same with enough micro-batches in flight to hide transfers or, if those do not fit, to hide some.
  std::optional<Candidate> with_more_in_flight(const Candidate& plain, const KindCosts& kinds) const {
    if (options_.pinned.count("schedule")) return std::nullopt;
    for (const double slack : slacks) {
      Job job = plain.job;
      const auto schedule = schedule_for(job, kinds, slack);
      if (!schedule) break;
      job.parallel.schedule = *schedule;
      Candidate more = with_estimate(job, kinds);
      if (!gains(more, plain)) break;
      if (fits(more)) return more;
    }
    return std::nullopt;
  }

  bool fits(const Candidate& c) const { return c.estimated_bytes <= all_.bytes_; }

  const Candidates& all_;
  const SearchOptions& options_;
  const Costs& known_;
  Shared& shared_;
  Measuring measuring_;
  std::vector<std::vector<Candidate>> varied_;  // by point, if one of its candidates fits
};

Candidates::Candidates(const SearchOptions& options, double bytes, ActSeconds seconds)
    : options_(options), bytes_(bytes), seconds_(std::move(seconds)) {}

Candidates::Costs& Candidates::costs_of(const Job& job) {
  Job alike = undecided(job);
  alike.train.micro_batches = 1;
  for (auto& [known, costs] : costs_)
    if (known == alike) return costs;
  return costs_.emplace_back(std::move(alike), Costs{}).second;
}

Estimated Candidates::of(const Job& job, const Fixed& fixed, const Enough& enough) {
  const std::vector<planner::Hints> parts = branches(job, fixed);
  Costs& known = costs_of(job);
  Shared shared;
  std::vector<std::unique_ptr<Branch>> done(parts.size());
  const std::vector<size_t> order = order_of(parts.size(), options_.shuffle);
  const auto look = [&] {
    if (enough && enough(shared.points, shared.over_memory, shared.any_fits)) shared.stop = true;
  };
  look();
  for_each_branch(order, threads_of(options_), shared, look, [&](size_t part) {
    done[part] = std::make_unique<Branch>(*this, job, known, shared);
    done[part]->run(job, fixed, parts[part]);
  });
  // All cost as much a second, so the fastest is the best, unless bytes are the goal.
  double most = infinity;
  if (options_.goal != Goal::memory)
    for (const std::unique_ptr<Branch>& branch : done)
      if (branch->estimated.fastest)
        most = std::min(most, varied_up_to * branch->estimated.fastest->estimated_seconds);
  for_each_branch(order, threads_of(options_), shared, look, [&](size_t part) { done[part]->vary(most); });

  Estimated all;
  for (std::unique_ptr<Branch>& branch : done) {
    add(all, std::move(branch->estimated));
    known.merge(branch->costs);
  }
  return all;
}

void Candidates::add(Estimated& all, Estimated part) const {
  std::move(part.fitting.begin(), part.fitting.end(), std::back_inserter(all.fitting));
  all.points += part.points;
  search::add(all.dropped, part.dropped);
  all.over_memory += part.over_memory;
  all.over_time += part.over_time;
  if (part.smallest) keep_less(all.smallest, *part.smallest, &Candidate::estimated_bytes);
  for (const Candidate& c : part.over_memory_least)
    keep_smallest(all.over_memory_least, c, static_cast<size_t>(options_.simulate));
  if (part.fastest) keep_less(all.fastest, *part.fastest, &Candidate::estimated_seconds);
  if (part.unmeasured) all.unmeasured = part.unmeasured;
}

std::optional<Candidate> Candidates::one(Job job) {
  Shared shared;
  Costs& known = costs_of(job);
  Branch branch(*this, job, known, shared);
  std::optional<Candidate> result;
  if (const auto kinds = branch.costs_of(job)) result = with_estimate(std::move(job), *kinds);
  known.merge(branch.costs);
  return result;
}

std::optional<Candidate> Candidates::cut(const Job& point) {
  Shared shared;
  Costs& known = costs_of(point);
  Branch branch(*this, point, known, shared);
  std::optional<Candidate> best = branch.cut(point);
  known.merge(branch.costs);
  return best;
}

std::optional<Candidate> Candidates::with_fewest_recomputed(const Candidate& tried) {
  Shared shared;
  Costs& known = costs_of(tried.job);
  Branch branch(*this, tried.job, known, shared);
  std::vector<double> bytes = branch.errors_of(tried);
  for (double& most : bytes) most = bytes_ - most;
  std::optional<Candidate> result = branch.with_fewest_recomputed(tried.job, bytes);
  known.merge(branch.costs);
  return result;
}

}  // namespace boxcar::search

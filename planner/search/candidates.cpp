#include "planner/search/candidates.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <utility>

#include "planner/resolve.h"
#include "planner/search/lower_bound.h"
#include "planner/search/points.h"
#include "planner/search/slow_stages.h"
#include "planner/search/step_estimate.h"

namespace boxcar::search {
namespace {

using planner::Job;

constexpr auto between_looks = std::chrono::milliseconds(5);

// What the threads tell whoever waits for them, and the other way round.
struct Shared {
  std::atomic<int64_t> points = 0, over_memory = 0;
  std::atomic<bool> any_fits = false, stop = false;
  std::atomic<size_t> next = 0;  // branch
};

Candidate with_estimate(Job job, const ModelCost& cost) {
  const Estimate e = estimate(job, cost);
  const double least = least_seconds(job, cost);
  return {std::move(job), e.seconds, e.bytes, e.fullest_stage, e.split_saves, least};
}

bool keep_less(std::optional<Candidate>& least, const Candidate& c, double Candidate::*number) {
  if (least && least.value().*number <= c.*number) return false;
  least = c;
  return true;
}

}  // namespace

// The points of a branch, on one thread.
class Candidates::Branch {
 public:
  Branch(const Candidates& all, Shared& shared)
      : all_(all), options_(all.options_), shared_(shared), measuring_(all.seconds_, all.graphs_) {}

  void run(const Job& job, const Fixed& fixed, const planner::Hints& branch) {
    each_point(job, fixed, branch, [&](const Job& point) { return add(point); });
  }

  // Nothing where no small plan can be made, or where there are enough points.
  const ModelCost* cost_of(const Job& point) {
    const CostKey key = cost_key(point);
    for (const Costs* known : {&all_.costs_, &std::as_const(costs)})
      if (const auto found = known->find(key); found != known->end())
        return found->second ? &*found->second : nullptr;
    if (shared_.stop) return nullptr;
    std::optional<ModelCost>& cost = costs[key];
    try {
      cost = measuring_.of(point);
    } catch (const Error& error) {
      estimated.unmeasured = error;
    }
    return cost ? &*cost : nullptr;
  }

  Estimated estimated;
  Costs costs;  // that were not known

 private:
  // Whether it fits in memory, by estimate.
  bool add(const Job& point) {
    bool any = false;
    if (shared_.stop) return any;
    for (Candidate& c : estimates(point)) {
      ++estimated.points, ++shared_.points;
      keep_less(estimated.smallest, c, &Candidate::estimated_bytes);
      if (!fits(c)) {
        ++estimated.over_memory, ++shared_.over_memory;
        continue;
      }
      any = true;
      shared_.any_fits = true;
      keep_less(estimated.fastest, c, &Candidate::estimated_seconds);
      const bool slow = is_over(c.estimated_seconds, options_);
      if (slow) ++estimated.over_time;
      // With its backward passes split it may keep the time.
      const bool may_keep =
          options_.goal == Goal::cost && !is_over(c.estimated_seconds - c.split_saves, options_);
      if (!slow || may_keep || options_.goal == Goal::time) estimated.fitting.push_back(std::move(c));
    }
    return any;
  }

  // The point with its layers cut into stages, in one way or two, each with its estimate.
  std::vector<Candidate> estimates(const Job& point) {
    const ModelCost* cost = cost_of(point);
    if (!cost) return {};
    std::vector<Job> jobs{point};
    Job& job = jobs.front();
    job.train.micro_batches = planner::micro_batches(job);
    const planner::Hints& h = job.parallel;
    if (h.stage_layers.empty()) {
      job.parallel.stage_layers = planner::balanced_layers(job.model.layers, h.pp * h.virtual_stages);
      Job level = job;
      level.parallel.stage_layers = level_cut(job, *cost);
      if (level.parallel.stage_layers != h.stage_layers) jobs.push_back(std::move(level));
    }
    std::vector<Candidate> result;
    for (Job& cut : jobs) {
      result.push_back(with_estimate(std::move(cut), *cost));
      if (auto more = with_more_under_way(result.back(), *cost)) result.push_back(std::move(*more));
    }
    for (size_t i = 0, plain = result.size(); i < plain; ++i)
      add_other_orders(Candidate(result[i]), *cost, result);
    return result;
  }

  // As the job has its layers, or on stages that may have any so that these are level.
  static std::vector<int> level_cut(const Job& job, const ModelCost& cost) {
    const planner::Hints& h = job.parallel;
    if (h.virtual_stages > 1 || h.pp == 1) return h.stage_layers;
    return level_layers(job.model.layers, cost, slowness_by_stage(h, job.cluster), job.train.micro_batches);
  }

  // The same in those orders of the mesh on the cluster that are faster by estimate; where stages are level,
  // they are in each. Groups inside of a stage are nowhere faster than in the usual order, so with its cost
  // an order's estimate is a bound.
  void add_other_orders(const Candidate& usual, const ModelCost& cost, std::vector<Candidate>& all) {
    if (options_.pinned.count("mesh_order")) return;
    const bool level = slowest_device(usual.job) > 1 && !options_.pinned.count("stage_layers") &&
                       usual.job.parallel.stage_layers == level_cut(usual.job, cost);
    for (const std::string& order : other_orders(usual.job)) {
      Job job = usual.job;
      job.parallel.mesh_order = order;
      if (level) job.parallel.stage_layers = level_cut(job, cost);
      const auto gains = [&](const Candidate& c) {
        return c.estimated_seconds < (1 - time_error / 3) * usual.estimated_seconds;
      };
      if (!gains(with_estimate(job, cost))) continue;
      const ModelCost* own = cost_of(job);
      if (!own) continue;
      if (Candidate other = with_estimate(std::move(job), *own); gains(other))
        all.push_back(std::move(other));
    }
  }

  // The same with as many micro-batches under way as hide transfers; where those do not fit, with as many as
  // hide some of them.
  std::optional<Candidate> with_more_under_way(const Candidate& plain, const ModelCost& cost) const {
    if (options_.pinned.count("schedule")) return std::nullopt;
    for (const double slack : {0.02, 0.1, 0.3}) {
      Job job = plain.job;
      job.parallel.schedule = schedule_for(job, cost, slack);
      if (job.parallel.schedule.empty()) break;
      Candidate more = with_estimate(job, cost);
      if (more.estimated_seconds >= (1 - time_error / 3) * plain.estimated_seconds) break;
      if (fits(more)) return more;
    }
    return std::nullopt;
  }

  bool fits(const Candidate& c) const { return c.estimated_bytes <= all_.bytes_; }

  const Candidates& all_;
  const SearchOptions& options_;
  Shared& shared_;
  Measuring measuring_;
};

Candidates::Candidates(const SearchOptions& options, double bytes, ActSeconds seconds)
    : options_(options), bytes_(bytes), seconds_(std::move(seconds)) {}

Estimated Candidates::of(const Job& job, const Fixed& fixed, const Enough& enough) {
  const std::vector<planner::Hints> parts = branches(job, fixed);
  Shared shared;
  std::vector<std::unique_ptr<Branch>> done(parts.size());
  const auto work = [&] {
    for (size_t b = shared.next++; b < parts.size(); b = shared.next++) {
      done[b] = std::make_unique<Branch>(*this, shared);
      done[b]->run(job, fixed, parts[b]);
    }
  };
  const auto look = [&] {
    if (enough && enough(shared.points, shared.over_memory, shared.any_fits)) shared.stop = true;
  };
  look();
  std::vector<std::future<void>> threads;
  for (size_t t = 0; t < parts.size() && t < threads_of(options_); ++t)
    threads.push_back(std::async(std::launch::async, work));
  const auto end = [&](std::future<void>& thread) {
    while (thread.wait_for(between_looks) != std::future_status::ready) look();
  };
  try {
    for (std::future<void>& thread : threads) end(thread);
  } catch (...) {
    shared.stop = true;
    throw;
  }
  for (std::future<void>& thread : threads) thread.get();

  Estimated all;
  for (std::unique_ptr<Branch>& branch : done) {
    Estimated& part = branch->estimated;
    std::move(part.fitting.begin(), part.fitting.end(), std::back_inserter(all.fitting));
    all.points += part.points;
    all.over_memory += part.over_memory;
    all.over_time += part.over_time;
    if (part.smallest) keep_less(all.smallest, *part.smallest, &Candidate::estimated_bytes);
    if (part.fastest) keep_less(all.fastest, *part.fastest, &Candidate::estimated_seconds);
    if (part.unmeasured) all.unmeasured = part.unmeasured;
    costs_.merge(branch->costs);
  }
  return all;
}

std::optional<Candidate> Candidates::one(Job job) {
  Shared shared;
  Branch branch(*this, shared);
  const ModelCost* cost = branch.cost_of(job);
  std::optional<Candidate> result;
  if (cost) result = with_estimate(std::move(job), *cost);
  costs_.merge(branch.costs);
  return result;
}

}  // namespace boxcar::search

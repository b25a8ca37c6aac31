// Every point of a job as candidates: cuts of the layers into stages, numbers of recomputed layers of each
// stage, micro-batches in flight, orders of ranks on the cluster, each with its estimate.
//
//   Candidates candidates(options, limit, sim::act_seconds);
//   const Estimated found = candidates.of(job, fixed, {});
//
// Branches of the points (points.h) are estimated on several threads and put together in their order, so the
// result depends neither on the number of threads nor on the branch that ends first. First come the points
// with every layer and rank in its usual way. Then those that fit are varied, if their bounds do not exclude
// that they become the best: fewer recomputed layers, other orders of the mesh, slow devices in other stages.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "planner/estimate/estimate.h"
#include "planner/search/candidate.h"
#include "planner/search/options.h"
#include "sbp/error.h"

namespace boxcar::search {

// The largest error of an estimate of time: candidates that are worse than the best by more are not tried.
constexpr double time_error = 0.03;

// Whether a step of this estimate breaks the limit of time, even allowing for the estimate's error.
inline bool is_over(double seconds, const SearchOptions& options) {
  return seconds > (1 + time_error) * options.max_step_seconds;
}

struct Estimated {
  std::vector<Candidate> fitting;  // in the order of points; none over the time, unless time is the goal
  int64_t points = 0;              // with every cut and order
  Dropped dropped = {};            // points without a small plan
  int64_t over_memory = 0;         // of the others
  int64_t over_time = 0;           // of those that fit
  std::optional<Candidate> smallest, fastest;  // fastest: of those that fit
  // The smallest point of each set of degrees among those that do not fit, the smallest first, as many as
  // SearchOptions::simulate allows to try. Found layouts may make them fit.
  std::vector<Candidate> over_memory_least;
  std::optional<Error> unmeasured;  // why the last point without a small plan has none
};

// Called every few ms with the numbers so far, on the thread that waits; true ends the search for points,
// with those found so far.
using Enough = std::function<bool(int64_t points, int64_t over_memory, bool any_fits)>;

class Candidates {
 public:
  // `options` has to outlive it. A point fits with at most `bytes` on a device.
  Candidates(const SearchOptions& options, double bytes, ActSeconds seconds);

  Estimated of(const planner::Job& job, const Fixed& fixed, const Enough& enough);
  // One point unchanged; nothing if it has no small plan.
  std::optional<Candidate> one(planner::Job job);
  // The fastest cut of a point's layers into stages, by estimate.
  std::optional<Candidate> cut(const planner::Job& point);

  // The same degrees with the fewest recomputed layers that fit, and the cut of the layers that goes with
  // them: the fastest by estimate. If `tried` has a plan, estimates of each stage's memory are corrected by
  // their error there. Nothing if no layer recomputes, or if recomputation is given.
  std::optional<Candidate> with_fewest_recomputed(const Candidate& tried);

  void set_bytes(double bytes) { bytes_ = bytes; }

 private:
  class Branch;
  // A measured cost, or why it could not be measured.
  using Costs = std::map<CostKey, std::variant<ModelCost, Error>>;
  // Costs of jobs that differ from this one only in searched fields.
  Costs& costs_of(const planner::Job& job);
  void add(Estimated& all, Estimated part) const;

  const SearchOptions& options_;
  double bytes_;
  ActSeconds seconds_;
  std::shared_ptr<Graphs> graphs_ = std::make_shared<Graphs>(64);
  std::list<std::pair<planner::Job, Costs>> costs_;  // keyed by the fields that jobs have in common
};

}  // namespace boxcar::search

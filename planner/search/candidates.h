// Every point of a job as candidates: its layers cut into stages, how many of each compute again,
// micro-batches in flight, ranks in an order on the cluster, each with its estimate.
//
//   Candidates candidates(options, limit, sim::act_seconds);
//   const Estimated found = candidates.of(job, fixed, {});
//
// Branches of the points (points.h) are looked at on several threads and put together in their order, so that
// what is found hangs on no number of threads, nor on which branch is looked at first.
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

// Of an estimate of time, at most: what is estimated to be worse than the best by more is not looked at.
constexpr double time_error = 0.03;

// Whether a step that is estimated so long breaks the limit of time, estimates being what they are.
inline bool is_over(double seconds, const SearchOptions& options) {
  return seconds > (1 + time_error) * options.max_step_seconds;
}

struct Estimated {
  std::vector<Candidate> fitting;  // in the order of points; of those too slow none, unless time is least
  int64_t points = 0;              // with every cut and order
  Dropped dropped = {};            // of them, those that no small plan could be made of
  int64_t over_memory = 0;         // of the others
  int64_t over_time = 0;           // of those that fit
  std::optional<Candidate> smallest, fastest;  // fastest: of those that fit
  std::optional<Error> unmeasured;             // why the last small plan that could not be made could not
};

// Called every few ms with the numbers so far, on the thread that waits; true ends the search for points with
// those there are.
using Enough = std::function<bool(int64_t points, int64_t over_memory, bool any_fits)>;

class Candidates {
 public:
  // `options` has to outlive it. At most `bytes` a device fit.
  Candidates(const SearchOptions& options, double bytes, ActSeconds seconds);

  Estimated of(const planner::Job& job, const Fixed& fixed, const Enough& enough);
  // One point as it is; nothing where no small plan of it can be made.
  std::optional<Candidate> one(planner::Job job);

  // The same degrees with as few layers computed again as fit, and the cut of the layers that goes with it:
  // the fastest by estimate. Where a plan was made of `tried`, estimates of each stage's memory are taken to
  // be off by as much as they were there. Nothing where nothing is computed again, or that is given.
  std::optional<Candidate> with_fewest_recomputed(const Candidate& tried);

  void set_bytes(double bytes) { bytes_ = bytes; }

 private:
  class Branch;
  // What was measured, or why it could not be.
  using Costs = std::map<CostKey, std::variant<ModelCost, Error>>;
  // Costs are of jobs that have all alike but what is searched.
  Costs& costs_of(const planner::Job& job);

  const SearchOptions& options_;
  double bytes_;
  ActSeconds seconds_;
  std::shared_ptr<Graphs> graphs_ = std::make_shared<Graphs>(64);
  std::list<std::pair<planner::Job, Costs>> costs_;  // by what jobs have alike
};

}  // namespace boxcar::search

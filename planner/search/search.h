// The fastest job among all degrees, micro-batches, recomputation and sharding that fit: what `boxcar search`
// runs.
//
//   GPT-3 175B, 1,024 GPUs, nothing pinned: some thousand points are estimated (estimate.h), those that fit
//   in memory are sorted by step time, the best dozen are compiled and simulated, and the fastest of them is
//   taken.
//
// The goal is the least time of a step, the least memory of the fullest device, or the least price of a step,
// for which the search also chooses how many of the GPUs to use. A step may be given a time that it may not
// exceed.
//
// Estimates only choose candidates; the answer is by simulation. Keys that a user gives are pinned and stay.
// The best are then laid out again, with the layout of every op chosen exactly (layouts.h), and simulated
// too. Where layouts are pinned or partial values switched off, every candidate is laid out so.
#pragma once

#include <any>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "planner/estimate/estimate.h"
#include "planner/search/candidate.h"
#include "planner/search/moves.h"
#include "planner/search/options.h"

namespace boxcar::search {

// Times of acts and simulated steps, which the caller supplies.
struct Oracle {
  struct Step {
    double seconds = 0;
    std::any record = {};  // whatever the caller wants of the best
  };
  ActSeconds act_seconds;
  // Asked on the thread that searches, act_seconds on several at once. `plan` is verified. `look` is to be
  // called now and then; what it throws is let through.
  std::function<Step(const ir::Plan& plan, const backends::Cluster& cluster,
                     const std::function<void()>& look)>
      step;
};

// A way out, by estimate, where no point does.
struct Alternative {
  std::vector<std::string> without = {};  // given keys that it changes
  Candidate candidate = {};               // the fastest such one
  int gpus = 0;  // of it, where they are others than the job's; else 0. Both: one change together
  bool fused_attention = false;  // where the job has none (fitting.h)
};

struct Outcome {
  std::vector<Candidate> best;  // simulated, least by the objective first; the first mostly has its plan
  // go_on said no before anything was simulated; the best by estimate was simulated all the same.
  bool by_estimate = false;
  // Lower bound on the time of a step, for cost on its price, of points that fit by estimate and were not
  // tried; infinite where there are none. Nothing where no bound is known, for the reason below.
  std::optional<double> least;
  std::string unknown_least;
  int64_t points = 0;       // legal ones
  Dropped dropped = {};     // those of them without an estimate
  int64_t over_memory = 0;  // of the others, by estimate
  int64_t over_time = 0;    // of those that fit, by estimate
  int compiled = 0;         // plans: those that did or did not fit,
  Dropped unmade = {};      // and those that could not be made
  std::string no_layouts;  // why none could be chosen for every op of the best; empty: they were, or there is
                           // nothing to choose
  bool ended = true;       // false: go_on or more_points said no, or so many plans were simulated (spent)
  bool spent = false;      // options.plans were simulated before all was tried
  bool told_to_end() const { return !ended && !spent; }  // by go_on or more_points
  // For messages where best is empty:
  Candidate smallest;                // by estimate, with its plan's peak where one could be made
  std::optional<Candidate> fastest;  // that fits: simulated where any was, else by estimate (seconds 0)
  MoveUses moves = no_uses();
  // The smallest changes with which a point does: one key changed, else two, else one on more GPUs; and the
  // fewest GPUs that do, to a 64th of them.
  std::vector<Alternative> alternatives;
};

// Outcomes of two searches (with two precisions, or two numbers of GPUs) as one.
Outcome merged(Outcome a, Outcome b, Goal goal);

// The simulated candidates that no other beats by one of the objectives without losing by another, least by
// the first objective first; of equal ones the first.
std::vector<Candidate> pareto_front(std::vector<Candidate> simulated, const std::vector<Goal>& goals);

// `job`: a model, a cluster, gpus, a global batch; hints that are not pinned do not matter. Throws Error (bad
// input) where no legal point exists, or where pinned layouts leave none, or cost is asked without a price.
Outcome search(const planner::Job& job, const SearchOptions& options, const Oracle& oracle);

}  // namespace boxcar::search

// Finds the fastest job that fits among all degrees, micro-batches, recomputation and sharding. `boxcar
// search` runs it.
//
//   GPT-3 175B, 1,024 GPUs, nothing pinned: some thousand points are estimated (estimate.h), those that fit
//   in memory are sorted by step time, the best dozen are compiled and simulated, and the fastest of them is
//   taken.
//
// The goal is the least time of a step, the least memory of the fullest device, or the least price of a step,
// for which the search also chooses how many of the GPUs to use. There may be a limit on the time of a step.
//
// Estimates only choose candidates; the answer comes from simulation. Keys that a user gives are pinned. The
// best are then laid out again, with the layout of every op chosen exactly (layouts.h), and simulated too. If
// layouts are pinned or partial values are switched off, every candidate is laid out this way.
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
    std::any record = {};  // any data that the caller wants for the best
  };
  ActSeconds act_seconds;
  // `step` is called on the thread that searches, act_seconds on several at once. `plan` is verified. The
  // function has to call `look` regularly and let its exceptions through.
  std::function<Step(const ir::Plan& plan, const backends::Cluster& cluster,
                     const std::function<void()>& look)>
      step;
};

// A change by which a point would fit, by estimate, if none does.
struct Alternative {
  std::vector<std::string> without = {};  // given keys that it changes
  Candidate candidate = {};               // the fastest such one
  int gpus = 0;                  // its number if not the job's; else 0. With `without`: both are one change
  bool fused_attention = false;  // if the job has none (fitting.h)
};

struct Outcome {
  std::vector<Candidate> best;  // simulated, least by the objective first; usually the first has its plan
  // go_on returned false before anything was simulated, and the best by estimate was simulated anyway.
  bool by_estimate = false;
  // Lower bound on the time of a step (for cost: on its price) of points that fit by estimate and were not
  // tried; infinite if there are none. Nothing if no bound is known, for the reason in unknown_least.
  std::optional<double> least;
  std::string unknown_least;
  int64_t points = 0;       // legal ones
  Dropped dropped = {};     // points without an estimate
  int64_t over_memory = 0;  // of the others, by estimate
  int64_t over_time = 0;    // of those that fit, by estimate
  int compiled = 0;         // plans that did or did not fit,
  Dropped unmade = {};      // and plans that could not be made
  std::string no_layouts;   // why layouts of the best could not be chosen; empty: they were, or there is
                            // nothing to choose
  bool ended = true;        // false: go_on or more_points returned false, or `spent`
  bool spent = false;       // options.plans were simulated before all were tried
  bool told_to_end() const { return !ended && !spent; }  // by go_on or more_points
  // For messages if `best` is empty:
  Candidate smallest;                // by estimate, with its plan's peak if one could be made
  std::optional<Candidate> fastest;  // that fits: simulated if any was, else by estimate (seconds 0)
  MoveUses moves = no_uses();
  // The smallest changes with which a point fits: one key changed, else two, else one with more GPUs; and the
  // fewest GPUs with which one fits, to a 64th of them.
  std::vector<Alternative> alternatives;
};

// The outcomes of two searches (with two precisions, or two numbers of GPUs) as one.
Outcome merged(Outcome a, Outcome b, Goal goal);

// The simulated candidates that no other beats by one objective without losing by another, least by the first
// objective first; of equal ones only the first.
std::vector<Candidate> pareto_front(std::vector<Candidate> simulated, const std::vector<Goal>& goals);

// `job`: a model, a cluster, gpus, a global batch. Hints that are not pinned do not matter. Throws Error (bad
// input) if no legal point exists, if pinned layouts leave none, or if cost is the goal without a price.
Outcome search(const planner::Job& job, const SearchOptions& options, const Oracle& oracle);

}  // namespace boxcar::search

// The fastest job among all degrees, micro-batches, recomputation and sharding that fit: what `boxcar search`
// runs.
//
//   GPT-3 175B, 1,024 GPUs, nothing pinned: some thousand points are estimated (estimate.h), those that fit
//   in memory are sorted by step time, the best dozen are compiled and simulated, and the fastest of them is
//   taken.
//
// Least may be the time of a step, the memory of the fullest device, or the price of a step, for which the
// search also chooses how many of the GPUs to use; and a step may be given a time that it may not exceed.
//
// Estimates only choose what is simulated; the answer is by simulation. What a user gives is pinned and
// stays. The best are then laid out again, with the layout of every op chosen exactly (layouts.h), and
// simulated too; where layouts are pinned or partial values switched off, every candidate is laid out so.
#pragma once

#include <any>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "planner/search/estimate.h"
#include "planner/search/graphs.h"
#include "planner/search/layout_request.h"
#include "planner/search/plan_slots.h"

namespace boxcar::search {

// What the planner has no simulator for.
struct Oracle {
  struct Step {
    double seconds = 0;
    std::any record = {};  // whatever the caller wants of the best
  };
  ActSeconds act_seconds;
  // `look` is to be called now and then; what it throws is let through.
  std::function<Step(const ir::Plan& plan, const backends::Cluster& cluster,
                     const std::function<void()>& look)>
      step;
};

enum class Goal : uint8_t { time, memory, cost };

struct Candidate {
  planner::Job job;  // resolved; its gpus and cluster are what it uses
  double estimated_seconds = 0, estimated_bytes = 0;
  int fullest_stage = 0;     // by its plan where there is one, else by estimate
  double split_saves = 0;    // at most, where backward passes are in two parts (step_estimate.h)
  double least_seconds = 0;  // no such step takes less (lower_bound.h), with layouts that degrees lead to
  double seconds = 0;        // simulated
  std::any record = {};      // of that simulation, as the oracle gave it
  int64_t peak_bytes = 0;    // of the plan, on its fullest device
  // Where the layout of every op was chosen; else the hints decide.
  std::optional<LayoutRequest> layouts = {};
  FoundLayouts found = {};
  // Where the slots of transfers were chosen: those that differ from the schedule's.
  PlanSlots slots = {};

  // What lays its job's graph out: the layouts found, or where they are not known yet what finds them.
  planner::Choose choose(FoundLayouts* found = nullptr, const std::function<void()>& look = {}) const;
};

// What a candidate stands for. `found`, which may be null, gets what is known of its layouts.
ir::Plan plan_of(const Candidate& candidate, FoundLayouts* found = nullptr);
// The same with a training graph that may be known. `look` is called between steps and inside of those that
// take long; what it throws ends the work.
ir::Plan plan_of(const Candidate& candidate, FoundLayouts* found, Graphs& graphs,
                 const std::function<void()>& look = {});

// Of a step on all of the job's GPUs, in the currency of the cluster's price_per_gpu_hour.
inline double price_of(const planner::Job& job, double step_seconds) {
  return job.gpus * job.cluster.price_per_gpu_hour * step_seconds / 3600;
}

struct Progress {
  int64_t points = 0;       // estimated
  int64_t over_memory = 0;  // of them, by estimate
  int simulated = 0;
  double best_seconds = 0;  // 0: none yet
};

struct SearchOptions {
  Goal goal = Goal::time;  // what is least; cost needs a price
  double max_step_seconds = infinity;
  // Keys that stay as the job has them: "tp", "pp", "dp", "cp", "ep", "micro_batch", "zero",
  // "sequence_parallel", "recompute", "recompute_layers", "virtual_stages", "stage_layers", "schedule",
  // "mesh_order".
  std::set<std::string> pinned = {};
  // Keys of those (not stage_layers, not schedule) that stay between two values.
  std::map<std::string, std::pair<int, int>> ranges = {};
  bool partial = true;               // ops may read partial values
  bool both = false;                 // layouts are open on both dimensions of a mesh of two
  std::vector<LayoutPin> pins = {};  // layouts that stay
  int lay_out = 1;                   // of the fastest, with the layout of every op chosen
  int64_t memory_bytes = 0;          // on a device; 0: what it has
  int simulate = 12;                 // candidates that fit, at most
  // Where the job's cluster is a part of it: what more GPUs than the job's would be of.
  std::optional<backends::Cluster> described = {};
  // Asked now and then, also in the middle of a candidate; false ends the search with what there is.
  std::function<bool(const Progress&)> go_on = {};
  // The same once a point fits by estimate; false leaves out the points that are left, so that there is time
  // to simulate.
  std::function<bool()> more_points = {};
};

// What would do, by estimate, where nothing does.
struct WouldDo {
  std::vector<std::string> without;  // keys that are given, which it has otherwise; empty: other GPUs alone
  Candidate candidate;               // the fastest such one
};

struct Outcome {
  std::vector<Candidate> best;  // simulated, least by the objective first
  // go_on said no before anything was simulated; the best by estimate was, all the same.
  bool by_estimate = false;
  // Of the points that fit by estimate and were not simulated: no step takes less than this (infinite where
  // there are none), or is dearer for cost; nothing where that is not known, and why.
  std::optional<double> least;
  std::string unknown_least;
  int64_t points = 0;       // legal ones
  int64_t over_memory = 0;  // of them, by estimate
  int64_t over_time = 0;    // of those that fit, by estimate
  int compiled = 0;         // did or did not fit by plan
  bool ended = true;        // false: go_on or more_points said no
  // For messages where best is empty:
  Candidate smallest;  // by estimated memory; of plans (peak_bytes) where estimates said they fit
  std::optional<Candidate> fastest;  // of what fits: simulated where any was, else by estimate (seconds 0)
  // The smallest changes with which something would do: one key otherwise, else two; and the fewest GPUs
  // that do, to a 64th of them.
  std::vector<WouldDo> would_do;
};

// `job`: a model, a cluster, gpus, a global batch; hints that are not pinned do not matter. Throws Error (bad
// input) where no legal point exists, or where pinned layouts leave none, or cost is asked without a price.
Outcome search(const planner::Job& job, const SearchOptions& options, const Oracle& oracle);

}  // namespace boxcar::search

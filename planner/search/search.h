// The fastest job among all degrees, micro-batches, recomputation and sharding that fit: what `boxcar search`
// runs.
//
//   GPT-3 175B, 1,024 GPUs, nothing pinned: some thousand points are estimated (estimate.h), those that fit
//   in memory are sorted by step time, the best dozen are compiled and simulated, and the fastest of them is
//   taken.
//
// Estimates only choose what is simulated; the answer is by simulation. What a user gives is pinned and
// stays. The fastest are then laid out again, with the layout of every op chosen exactly (layouts.h), and
// simulated too; where layouts are pinned or partial values switched off, every candidate is laid out so.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "planner/search/estimate.h"
#include "planner/search/layout_request.h"

namespace boxcar::search {

// What the planner has no simulator for.
struct Oracle {
  ActSeconds act_seconds;
  std::function<double(const ir::Plan& plan, const backends::Cluster& cluster)> step_seconds;
};

struct Candidate {
  planner::Job job;  // resolved
  double estimated_seconds = 0, estimated_bytes = 0;
  double seconds = 0;      // simulated
  int64_t peak_bytes = 0;  // of the plan, on its fullest device
  // Where the layout of every op was chosen; else the hints decide.
  std::optional<LayoutRequest> layouts = {};
  FoundLayouts found = {};  // its layouts left out

  planner::Choose choose() const { return layouts ? chooser(job, *layouts, nullptr) : nullptr; }
};

struct Progress {
  int64_t points = 0;  // estimated
  int simulated = 0;
  double best_seconds = 0;  // 0: none yet
};

struct SearchOptions {
  // Keys that stay as the job has them: "tp", "pp", "dp", "cp", "micro_batch", "zero", "sequence_parallel",
  // "recompute", "recompute_layers", "virtual_stages", "stage_layers".
  std::set<std::string> pinned = {};
  // Keys of those (not stage_layers) that stay between two values.
  std::map<std::string, std::pair<int, int>> ranges = {};
  bool partial = true;               // ops may read partial values
  std::vector<LayoutPin> pins = {};  // layouts that stay
  int lay_out = 1;                   // of the fastest, with the layout of every op chosen
  int64_t memory_bytes = 0;          // on a device; 0: what it has
  int simulate = 12;                 // candidates that fit, at most
  // Asked now and then; false ends the search with what there is.
  std::function<bool(const Progress&)> go_on = {};
};

struct Outcome {
  std::vector<Candidate> best;  // simulated, fastest first
  int64_t points = 0;           // legal ones
  int64_t over_memory = 0;      // of them, by estimate
  int compiled = 0;             // did or did not fit by plan
  bool ended = true;            // false: go_on said no
  Candidate smallest;           // by estimated memory, for messages where nothing fits
};

// `job`: a model, a cluster, gpus, a global batch; hints that are not pinned do not matter. Throws Error (bad
// input) where no legal point exists, or where pinned layouts leave none.
Outcome search(const planner::Job& job, const SearchOptions& options, const Oracle& oracle);

}  // namespace boxcar::search

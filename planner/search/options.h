// Options of a search.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "planner/estimate/layout_request.h"
#include "planner/search/rules.h"

namespace boxcar::search {

enum class Goal : uint8_t { time, memory, cost };

struct Progress {
  int64_t points = 0;       // estimated
  int64_t over_memory = 0;  // of these, points over memory, by estimate
  int simulated = 0;
  double best_seconds = 0;  // 0: none yet
  // Time that ending takes on request, as far as is known: the longest time for which making a plan could not
  // be interrupted. 0: no plan was made yet.
  double ending_seconds = 0;
};

struct SearchOptions {
  Goal goal = Goal::time;  // the value to minimise; cost needs a price
  double max_step_seconds = infinity;
  // Keys of dimensions (dimensions.h) that keep the job's values.
  std::set<std::string> pinned = {};
  // Keys of number dimensions that stay between two values.
  std::map<std::string, std::pair<int, int>> ranges = {};
  std::vector<Rule> rules = {};              // that plans keep, besides those of the dimensions
  bool partial = true;                       // ops may read partial values
  bool both = false;                         // layouts are open on both dimensions of a mesh of two
  std::vector<LayoutPin> pins = {};          // fixed layouts
  std::set<std::string> without_moves = {};  // names of moves (moves.h) that are not tried
  int lay_out = 4;           // number of the fastest whose layouts of all ops are chosen, at most
  int64_t memory_bytes = 0;  // on a device; 0: its own memory
  int simulate = 12;         // candidates that fit, at most, before anything else is tried
  int plans = 0;             // simulated in total, at most: the first ones; 0: any number
  // Finally, points are simulated in the order of their bounds (lower_bound.h), until no remaining one can be
  // better by more than this share. Nothing: this is not done.
  std::optional<double> gap = {};
  // The whole cluster, if the job's is a part of it. Further GPUs come from it.
  std::optional<backends::Cluster> described = {};
  // Called regularly, also in the middle of a candidate; false ends the search with the results so far.
  std::function<bool(const Progress&)> go_on = {};
  // The same once a point fits by estimate; false leaves out the remaining points, so that there is time to
  // simulate.
  std::function<bool()> more_points = {};
  int threads = 0;       // for estimating points and making plans; 0: one per core
  uint64_t shuffle = 0;  // for tests: seed of a random order of the points' branches; 0: the usual order
};

// Numbers of points or plans that a search had to leave out, by the reason why no plan could be made.
using Dropped = std::map<std::string, int64_t>;
void add(Dropped& all, const Dropped& more);
int64_t left_out(const Dropped& dropped);  // in total

size_t threads_of(const SearchOptions& options);

}  // namespace boxcar::search

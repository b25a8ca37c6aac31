// What a search is asked for.
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
  int64_t over_memory = 0;  // of them, by estimate
  int simulated = 0;
  double best_seconds = 0;  // 0: none yet
  // What ending takes where it is told to, as far as is known: the longest that making a plan could not be
  // interrupted. 0: none was made yet.
  double ending_seconds = 0;
};

struct SearchOptions {
  Goal goal = Goal::time;  // what is least; cost needs a price
  double max_step_seconds = infinity;
  // Keys of dimensions (dimensions.h) that stay as the job has them.
  std::set<std::string> pinned = {};
  // Keys of those that are numbers, which stay between two values.
  std::map<std::string, std::pair<int, int>> ranges = {};
  bool partial = true;                       // ops may read partial values
  bool both = false;                         // layouts are open on both dimensions of a mesh of two
  std::vector<LayoutPin> pins = {};          // layouts that stay
  std::set<std::string> without_moves = {};  // names of moves (moves.h) that are not tried
  int lay_out = 4;                           // of the fastest at most, with the layout of every op chosen
  int64_t memory_bytes = 0;                  // on a device; 0: what it has
  int simulate = 12;                         // candidates that fit, at most
  // Where the job's cluster is a part of it: what more GPUs than the job's would be of.
  std::optional<backends::Cluster> described = {};
  // Asked now and then, also in the middle of a candidate; false ends the search with what there is.
  std::function<bool(const Progress&)> go_on = {};
  // The same once a point fits by estimate; false leaves out the points that are left, so that there is time
  // to simulate.
  std::function<bool()> more_points = {};
  int threads = 0;       // that points are estimated on, and plans made; 0: as many as there are cores
  uint64_t shuffle = 0;  // for tests: branches of the points in an order drawn by this; 0: as they come
};

// What a search had to leave out: how many, by why no plan of it could be made.
using Dropped = std::map<std::string, int64_t>;
void add(Dropped& all, const Dropped& more);
int64_t left_out(const Dropped& dropped);  // in all

size_t threads_of(const SearchOptions& options);

}  // namespace boxcar::search

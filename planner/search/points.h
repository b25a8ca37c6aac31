// The points of the search: every legal combination of what is not pinned.
#pragma once

#include <functional>

#include "planner/search/search.h"

namespace boxcar::search {

// What stays: keys as they are, or between two values.
struct Fixed {
  std::set<std::string> pinned = {};
  std::map<std::string, std::pair<int, int>> ranges = {};
};

// Calls `visit` with each point; hints only, not resolved. Points come in an order in which those that share
// their ModelCost follow each other.
void each_point(const planner::Job& job, const Fixed& fixed,
                const std::function<bool(const planner::Job&)>& visit);

// Whether two points have the same ModelCost.
bool same_cost(const planner::Job& a, const planner::Job& b);

struct Estimate {
  double seconds = 0;  // of a step
  double bytes = 0;    // on the fullest stage
};
// `job` has dp, stage_layers and micro_batches filled in.
Estimate estimate(const planner::Job& job, const ModelCost& cost);

// Layers of each stage so that the slowest stage is fastest: the ends of the model have fewer.
std::vector<int> level_layers(int64_t layers, int stages, const ModelCost& cost);

}  // namespace boxcar::search

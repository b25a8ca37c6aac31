// Branch and bound over the tables of an elimination: nodes are chosen in the reverse of its order. The open
// branch with the least bound is followed down to a complete choice, always along the least bound. The other
// branches stay open until no open bound is below the best value.
//
//   nothing was cut: the bound is exact, so the first descent ends at the optimum
#pragma once

#include <functional>
#include <vector>

#include "planner/solve/tables.h"

namespace boxcar::search {

struct Branches {
  const Tables* bound = nullptr;  // of the value, minus `offset`
  double offset = 0;
  const Tables* row = nullptr;  // may be null; the sum that must not exceed `row_limit`
  double row_limit = infinity;
  std::function<double(const std::vector<int>&)> value;  // of a complete choice; infinity: not allowed
  int64_t most = 0;                                      // choices that may be opened
  std::function<void()> look = {};                       // see Effort
};

struct Branched {
  std::vector<int> choice;  // empty: nothing below `best` was found
  double value = infinity;
  double lower = 0;  // of all allowed choices; infinity if there is none
};

// `best`: a value known to be attained; the search is for lower ones.
Branched branch_and_bound(const Assignment& problem, const Order& order, const Branches& branches,
                          double best = infinity);

}  // namespace boxcar::search

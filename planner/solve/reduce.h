// A problem with fewer choices and the same optimum, and the same front.
//
//   node a: choice 1 costs 3 more than choice 0; its edges save at most 2 against choice 0, for any choice of
//   the neighbour: choice 1 is dropped
//
// A choice is dropped if it is forbidden with all choices of a neighbour, or if another choice of the node is
// no worse in every coordinate for every choice of the neighbours (Goldstein's criterion for dead ends).
#pragma once

#include <vector>

#include "planner/solve/assignment.h"

namespace boxcar::search {

struct Reduced {
  Assignment problem;                      // edges merged: one for each pair, a < b
  std::vector<std::vector<int>> original;  // node, choice: its original number
  // The choice in the original problem.
  std::vector<int> restore(const std::vector<int>& choice) const;
};

// `kept` nodes keep all their choices. A node may be left without choices; then nothing is possible.
Reduced reduce(const Assignment& problem, const std::vector<int>& kept = {});

}  // namespace boxcar::search

// An order for eliminating the nodes of a graph in which the resulting functions have few variables.
//
//   chain a - b - c - d: a, b, c, d; each function has one variable
//   cycle a - b - c - d - a: a, then b, c, d; two
//
// Eliminating a node joins its neighbours to one another. The next node is the one that adds the fewest edges
// (min-fill), the one whose added edges have the fewest pairs of choices (weighted min-fill), or the one with
// the smallest function (min-size). Of the three orders the one with the least work is taken, if possible
// among those without too large a function.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "planner/solve/assignment.h"

namespace boxcar::search {

struct Order {
  std::vector<int> nodes;               // in order; without the kept ones
  std::vector<int> position;            // by node; kept ones come after all others
  std::vector<std::vector<int>> scope;  // by position: the neighbours at that time, in order of position
  double largest = 1;                   // entries of the largest function, over scopes
  double work = 0;  // sums of entries: those of all functions, for each choice of the node
};

// `most`: entries above which a function is too large.
Order order_of(const Assignment& problem, const std::vector<int>& kept = {},
               int64_t most = std::numeric_limits<int64_t>::max());

}  // namespace boxcar::search

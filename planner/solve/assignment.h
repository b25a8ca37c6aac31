// One choice for every node of a graph that minimises the total cost of nodes and edges. Here a choice is the
// signature of an op, and an edge is the boxing between two ops.
//
//   nodes a {0, 5}, b {0, 1}; edge a-b {{9, 2}, {0, 1}}   one coordinate
//   solve: a = 0, b = 1: 0 + 1 + 2 = 3, optimal (a = 1, b = 0 costs 5 + 0 + 0)
//
// Exact if costs add up (or are peaks) over nodes and edges. The method:
//   1. choices that another choice of the node covers for any choices of its neighbours go (reduce.h);
//   2. nodes are eliminated along an order of small width (order.h): a node's functions give a function of
//      its neighbours; for a node of degree 0, 1 or 2 it is a constant, a cost of a node or of an edge;
//   3. without limits, tables of numbers (tables.h). A function that would be too large is split, which
//      gives a lower bound instead of a minimum; branch and bound (branch.h) continues from it;
//   4. with binding limits, Lagrange multipliers for a bound, branch and bound under the best of them and,
//      if that does not close the gap, tables of fronts (fronts.h).
// `lower` is always a proved bound. The same input gives the same answer.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "planner/solve/cost.h"
#include "sbp/at.h"

namespace boxcar::search {

struct Assignment {
  struct Edge {
    int a = 0, b = 0;         // two nodes
    std::vector<Cost> costs;  // by choice of a, then choice of b
  };
  Space space;
  std::vector<std::vector<Cost>> nodes;  // node, choice: its cost
  std::vector<Edge> edges;               // parallel ones add up

  int choices(int node) const { return static_cast<int>(at(nodes, node).size()); }
};

// Minimise weights x cost with cost <= limits in every coordinate. Weights are at least 0, and 0 for maxima.
struct Objective {
  Cost weights{1};
  Cost limits = unlimited();
};

// Limits on the work of a search. Higher ones give a better bound, never a different optimum.
struct Effort {
  int64_t table = 1 << 21;     // entries of one table
  int64_t small = 1 << 11;     // of one table at first, then 32 times as many; few often prove the optimum
  double enough = 0;           // a gap of this share of the value is accepted
  int points = 256;            // of one front
  int64_t sums = 20'000'000;   // of pairs of points, when fronts close a gap
  int64_t branches = 200'000;  // nodes of branch and bound, for each run
  // Called regularly, many times a second. An exception from it ends the work.
  std::function<void()> look = {};
};

struct Answer {
  bool found = false;       // a choice within the limits
  std::vector<int> choice;  // by node
  Cost cost{};
  double value = infinity;  // weights x cost
  double lower = 0;         // no choice within the limits is below; infinity: there is none

  // Up to rounding (1e-9 of the value).
  bool optimal() const;
};

// Errors: input (a cost that is negative or not a number, a shape that does not fit, a weighted maximum).
Answer solve(const Assignment& problem, const Objective& objective = {}, const Effort& effort = {});

// The front over all choices, each point with a choice that attains it. `slack` is 0 if the front is
// complete; else for every missing point there is one that is no larger in the other coordinates and at most
// `slack` larger in the first. Points above `limits` are left out. Errors: as solve; cannot_run if a table
// would be larger than the effort.
struct ChoiceFront {
  struct Point {
    Cost cost{};
    std::vector<int> choice;
  };
  std::vector<Point> points;
  double slack = 0;
};
ChoiceFront front(const Assignment& problem, const Cost& limits = unlimited(), const Effort& effort = {});

// The cost of a choice, by definition.
Cost cost_of(const Assignment& problem, const std::vector<int>& choice);

// Throws Error (input) if the problem is not valid: see solve.
void check(const Assignment& problem);

}  // namespace boxcar::search

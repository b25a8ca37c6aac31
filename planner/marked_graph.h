// A plan's step as a marked graph: one node per act (joint acts are one), edges with tokens.
//
//   a -> %x (2 slots) -> b, once each per step:  a.0 -> b.0 (data, 0 tokens), b.0 -> a.0 (ack, 2 tokens),
//   each on its own queue: a.0 -> a.0, b.0 -> b.0 (1 token: an actor acts one act at a time)
//   with a 3 s, b 5 s: cycles 3/1, 5/1, 8/2; the period is 5 s
//
// An edge's tokens are the number of steps between its ends: the act of step s waits for that of step s -
// tokens.
#pragma once

#include <vector>

#include "planner/step_view.h"

namespace boxcar::planner {

struct MarkedGraph {
  struct Edge {
    int from = 0, to = 0, tokens = 0;
  };
  std::vector<double> seconds;  // by node: how long the act takes
  std::vector<Edge> edges;
};

// Node first_act[u] + k is act k of unit u of the view. `seconds` is by node of the view; a joint act takes
// its longest member's time.
struct StepGraph {
  MarkedGraph graph;
  std::vector<int> first_act;
};
// The nodes of a station, in the order in which it runs them in one step.
std::vector<int> station_order(const StepView& view, const Station& station,
                               const std::vector<int>& first_act);
// For times, the view must be made without the issue order, because those edges order starts, not ends.
StepGraph step_graph(const StepView& view, const std::vector<double>& seconds = {});

// The nodes of a directed cycle whose edges hold no token, in order; empty if there is none. Linear time.
std::vector<int> cycle_without_token(const MarkedGraph& graph);

// The largest time / tokens of any directed cycle, and the nodes of a cycle that attains it; 0 if there is no
// cycle. REQUIRES: every cycle holds a token. Howard's policy iteration, as in A. Dasdan, "Experimental
// analysis of the fastest optimum cycle ratio and mean algorithms" (2004); exact up to rounding.
struct CycleRatio {
  double seconds = 0;
  std::vector<int> cycle;
};
CycleRatio max_cycle_ratio(const MarkedGraph& graph);

// A bound on a plan's mean step time: the larger of the ratio above and, for any queue that is not ordered,
// its total work in a step.
double period_bound(const StepView& view, const std::vector<double>& seconds);

}  // namespace boxcar::planner

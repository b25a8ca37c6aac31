// Symmetric devices are simulated once: classes are split until all members of a class see the same.
//
//   8 GPUs, dp 8, one program:             one class of 8, simulated as one device
//   device 3 slower than the others:       classes {0 1 2 4 5 6 7} and {3}
//   2 stages of 4, stage 1 across two nodes, transfers to its first half inside a node: 2 + 2 classes
//
// Members of a class run the same program at the same speed; their groups have the same span and consist of
// the same classes. Their pulls, the pulls from them and the kinds of path of both are the same, and so are
// the classes on their links. The result is the coarsest equitable partition of plan and platform that
// refines the plan's classes, found by refining colours until nothing splits. If links between nodes differ
// for every pair (fat trees, tori, dragonflies), every device of a plan that leaves a node is a class.
#pragma once

#include <vector>

#include "backends/machines/forward.h"
#include "ir/plan.h"

namespace boxcar::sim {

// The plan's classes, split as far as the cluster makes their members differ. Classes stay in order; parts of
// one are ordered by their first device.
std::vector<ir::RankClass> refine(const ir::Plan& plan, const backends::Cluster& cluster);

// Every device a class of its own, by device.
std::vector<ir::RankClass> unfold(const ir::Plan& plan);

}  // namespace boxcar::sim

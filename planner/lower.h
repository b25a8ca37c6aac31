// From a deduced training graph to a plan: one program per stage and class of ranks, linked by pulls.
#pragma once

#include "planner/stage_lowering.h"

namespace boxcar::planner {

// Ranks of a mesh that hold the same local shapes of everything: one list of row-major places per class, each
// in the order of their devices, in the order of their first place. One class where all splits are even.
//   [10] S(0) on mesh {4}: {0, 1} with 3 elements, {2, 3} with 2
std::vector<std::vector<int>> rank_classes(const ir::Graph& graph, const Deduction& layouts,
                                           const Mesh& mesh);

// Programs, classes, comms and peers; the memory plan is not made yet.
ir::Plan lower(const LoweringInput& input);

}  // namespace boxcar::planner

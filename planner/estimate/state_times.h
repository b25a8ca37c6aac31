// The time that sharing states and reducing gradients adds to a step, after the passes of its stages.
//
//   ends of two stages on one node 10 s and 8 s, 3 s of gradients each, alone on the node's NIC: the first
//   stage ends at 13 s; the second waits for it: 8 + 3 + 3 = 14 s
#pragma once

#include <vector>

#include "planner/estimate/estimate.h"
#include "planner/mesh.h"

namespace boxcar::search {

// Bytes of an element of a gradient: as it is made, summed over micro-batches, and reduced.
struct GradientBytes {
  double made = 4, summed = 4, reduced = 4;
  bool is_cast(bool often) const { return reduced != (often ? made : summed); }
};
GradientBytes gradient_bytes(const planner::Job& job);

// The stage of a layer; layer -1 is before the first.
int stage_of(const planner::Hints& hints, int layer);

// The number of a stage's devices on one node.
int on_node(const planner::Job& job, const planner::Mesh& mesh);

// The end of a step, in s, from the `ends` of its stages' passes. Stages on one node share its NICs for the
// communication of their states. They are served in the order of their ends, as if all of it came after their
// passes. So a stage waits for those that end no earlier; the last one never waits.
double step_end(const planner::Job& job, const planner::Mesh& mesh, const ModelCost& cost,
                const std::vector<StageCost>& stages, const std::vector<double>& ends);

// Communication of the gradients of a head that shares the word embedding, between the last stage and the
// first. No work is left to hide it.
double tied_seconds(const planner::Job& job, const planner::Mesh& mesh, const ModelCost& cost);

}  // namespace boxcar::search

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

// Seconds that a stage's states add to its passes and its update, with the NICs of its node to itself. If
// gradients are reduced for each micro-batch, or parameters gathered for each pass, `forward` and `backward`
// are of a micro-batch. Of these, the first parameters are gathered before a pass has its input or gradient,
// and the last gradients are reduced when the previous stage has its own.
struct StateTimes {
  double once = 0;
  double forward = 0, backward = 0;
  double before_input = 0, before_gradient = 0, behind_gradient = 0;

  double of_step(int micro_batches) const { return once + micro_batches * (forward + backward); }
};
// By stage.
std::vector<StateTimes> state_times(const planner::Job& job, const planner::Mesh& mesh, const ModelCost& cost,
                                    const std::vector<StageCost>& stages);

// The end of a step, in s, from the `ends` of its stages' passes. `in_passes`: these have the times of a
// micro-batch in them. Stages on one node share its NICs for the communication of their states. They are
// served in the order of their ends, as if all of it came after their passes. So a stage waits for those that
// end no earlier; the last one never waits.
double step_end(const planner::Job& job, const planner::Mesh& mesh, const ModelCost& cost,
                const std::vector<StageCost>& stages, const std::vector<StateTimes>& times,
                const std::vector<double>& ends, bool in_passes);

// Communication of the gradients of a head that shares the word embedding, between the last stage and the
// first. No work is left to hide it.
double tied_seconds(const planner::Job& job, const planner::Mesh& mesh, const ModelCost& cost);

}  // namespace boxcar::search

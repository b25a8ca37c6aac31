// Lowering of one pipeline stage: passes over its part of the laid-out graph, then its program. Each pass has
// its own file and is followed by a check of its promise.
//
//   shard_states      values that live from step to step, and gathers of shards
//   order_ops         ops in program order, for each micro-batch and once per step
//   reduce_gradients  when gradients are reduced, and in which buckets
//   insert_boxing     the value that each reader reads; boxes, loads and pulls for them
//   offload           activations that lie on the host between passes
//   serve             gradients and parameters that go over parameter servers
//   update_on_host    states that lie on the host, and are updated there
//   overlap           tasks that wait for kernels that they do not read
//   emit              actors and registers
//
// A pass reads the stage and the results of earlier passes (tasks.h), and changes only these results.
#pragma once

#include <string>
#include <vector>

#include "planner/lowering/emit.h"
#include "planner/lowering/stage.h"

namespace boxcar::planner {

// `places`: the row-major mesh indices of the ranks of the class. Throws Error (fault) naming a pass that
// broke its promise.
StageProgram lower_stage(const LoweringInput& input, int stage, std::vector<int> places, std::string name);

}  // namespace boxcar::planner

// Lowering of one pipeline stage: passes over its part of the laid-out graph, each in a file of its own and
// followed by a check of what it promises, then its program.
//
//   shard_states      what lives from step to step, and how shards become whole again
//   order_ops         ops in program order, for each micro-batch and once a step
//   reduce_gradients  when gradients are reduced, and in which buckets
//   insert_boxing     who reads which value, and the boxes, loads and pulls that make them
//   overlap           what waits for kernels that it does not read
//   emit              actors and registers
//
// A pass reads the stage and what the passes before it have left (tasks.h), and changes nothing else.
#pragma once

#include <string>
#include <vector>

#include "planner/lowering/emit.h"
#include "planner/lowering/stage.h"

namespace boxcar::planner {

// `places`: the row-major mesh indices of the ranks of the class. Throws Error (fault) naming a pass whose
// promise is broken.
StageProgram lower_stage(const LoweringInput& input, int stage, std::vector<int> places, std::string name);

}  // namespace boxcar::planner

// From a deduced training graph to a plan: one program per stage and class of ranks, linked by pulls.
#pragma once

#include "ir/plan.h"
#include "planner/lowering/stage.h"

namespace boxcar::planner {

// Makes programs, classes, comms and peers, but not the memory plan.
ir::Plan lower(const LoweringInput& input);

}  // namespace boxcar::planner

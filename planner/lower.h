// From a deduced training graph to a plan: one program per stage and class of ranks, linked by pulls.
#pragma once

#include "ir/plan.h"
#include "planner/lowering/stage.h"

namespace boxcar::planner {

// Programs, classes, comms and peers; the memory plan is not made yet.
ir::Plan lower(const LoweringInput& input);

}  // namespace boxcar::planner

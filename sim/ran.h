// Acts that really ran, as a result of the simulator, so that both are written and compared alike.
#pragma once

#include <vector>

#include "actors/runtime.h"
#include "sim/simulate.h"

namespace boxcar::sim {

// All of `acts`, with each device a class of its own. Steps count from the first one in `acts`.
Result result_of(const ir::Plan& plan, const std::vector<actors::RunAct>& acts);

}  // namespace boxcar::sim

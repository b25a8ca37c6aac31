// What ran for real, as the simulator has it: so that the two are written and compared alike.
#pragma once

#include <vector>

#include "actors/runtime.h"
#include "sim/simulate.h"

namespace boxcar::sim {

// Every device by itself, every act, as if it had begun with the first step that is there.
Result result_of(const ir::Plan& plan, const std::vector<actors::RunAct>& acts);

}  // namespace boxcar::sim

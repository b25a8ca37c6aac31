// One order for all communication of a step: collectives, and pulls from other devices, each time they act. A
// step can run in it, so devices that keep to it, each with its own part, never wait for one another in a
// circle, even where a device carries out one at a time.
//
//   two stages, 1F1B:   x[0] x[1] dx[0] x[2] dx[1] ...     a device's own part of that is what it takes part
//   in
//
// Where a step can run in several orders, what could begin earlier comes first, as dry_run.h has it.
#pragma once

#include <utility>
#include <vector>

#include "ir/plan.h"

namespace boxcar::planner {

// Device and actor, a pull's being the puller's, and a collective's all members one after the other. Looks at
// the acts of all devices. Throws Error (cannot run) where the plan would deadlock. `plan` has passed
// ir::check.
std::vector<std::pair<int, int>> communication_order(const ir::Plan& plan);

}  // namespace boxcar::planner

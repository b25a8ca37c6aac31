// One order for all acts of communication in a step: collectives and pulls from other devices. A step can run
// in this order. So devices that follow it, each for its own part, never wait for one another in a circle,
// even if a device carries out one act at a time.
//
//   two stages, 1F1B:   x[0] x[1] dx[0] x[2] dx[1] ...     a device's own part is the acts that it takes part
//   in
//
// If a step can run in several orders, acts that could begin earlier come first (dry_run.h).
#pragma once

#include <utility>
#include <vector>

#include "ir/plan.h"

namespace boxcar::planner {

// Pairs of device and actor: of a pull, those of the puller; of a collective, those of all members in turn.
// Looks at the acts of all devices. Throws Error (cannot run) if the plan would deadlock. REQUIRES: `plan`
// has passed ir::check.
std::vector<std::pair<int, int>> communication_order(const ir::Plan& plan);

}  // namespace boxcar::planner

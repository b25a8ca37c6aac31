// How much longer the acts of experts take where tokens are routed unevenly.
//
//   16 experts on 8 devices, the fullest gets 1.5 times the mean, the others share the rest: the device that
//   has it has 1.5 + 14.5 / 15 of 2, 1.233 times the mean, and all wait for it
//
// What lies in slots of experts is what moe_dispatch makes and moe_combine's gradient, and what follows from
// them until moe_combine and moe_dispatch's gradient. A plan's fact "routing_skew" says how uneven; memory is
// that of the slots.
#pragma once

#include <vector>

#include "ir/plan.h"

namespace boxcar::sim {

// By actor of the program: 1 where it has nothing to do with experts.
std::vector<double> routing_times(const ir::Plan& plan, const ir::Program& program);

}  // namespace boxcar::sim

// How much longer the acts of experts take if tokens are routed unevenly.
//
//   16 experts on 8 devices, the fullest expert gets 1.5 times the mean, the others share the rest: its
//   device gets 1.5 + 14.5 / 15 instead of 2, 1.233 times the mean, and all wait for it
//
// Slots of experts hold the results of moe_dispatch and of moe_combine's gradient, and all tensors derived
// from these up to moe_combine and moe_dispatch's gradient. A plan's fact "routing_skew" is the fullest
// expert's load over the mean; memory is that of the slots.
#pragma once

#include <vector>

#include "ir/plan.h"

namespace boxcar::sim {

// By actor of the program; 1 if it has nothing to do with experts.
std::vector<double> routing_times(const ir::Plan& plan, const ir::Program& program);

}  // namespace boxcar::sim

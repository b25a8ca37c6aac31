// Whether registers that share bytes of a device's arena are ever in use at one time.
#pragma once

#include "ir/plan.h"

namespace boxcar::planner {

// Throws Error (cannot run) where two registers of a program share bytes and are in use at one time under
// some interleaving (lifetimes.h proves most pairs apart, uses.h decides the rest), naming both; where a
// register shares the workspace's bytes, or acts of two queues the workspace; where one lies outside the
// arena. Registers without a place (offset -1) or without bytes share nothing. Linear in registers, up to a
// logarithm, where only registers that live inside runs share.
void check_memory(const ir::Plan& plan);

}  // namespace boxcar::planner

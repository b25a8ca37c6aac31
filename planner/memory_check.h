// Whether registers that share bytes of a device's arena are ever in use at the same time.
#pragma once

#include "ir/plan.h"

namespace boxcar::planner {

// Throws Error (cannot run) if two registers of a program share bytes and are in use at the same time under
// some interleaving, naming both (lifetimes.h proves most pairs apart, uses.h decides the rest). Also throws
// it if a register shares bytes with the workspace, if acts of two queues share the workspace, or if a
// register lies outside the arena. Registers without a place (offset -1) or without bytes share nothing.
// Linear in registers, up to a logarithm, if only registers that live inside runs share bytes.
void check_memory(const ir::Plan& plan);

}  // namespace boxcar::planner

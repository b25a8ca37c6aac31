// The memory plan: the place of each register in its device's arena.
//
// A register that lives across phase runs (state, gradients, activations kept for the backward pass, values
// that another rank reads) has its own memory. A register that is written and read within one run of a phase
// shares memory with others whose lifetimes are disjoint *in every execution*. Lifetimes are counted in acts
// of the compute queue, whose order is fixed. A register used on another queue lives from the last compute
// act known to have ended before its use to the first one known to wait for it. Phases share this transient
// memory, since one run ends before the next begins.
//
//   matmul -> x -> all_reduce (net.tp) -> y -> add     x and y overlap; x's memory is free again once add
//   acts
//
// A register in memory of the host has its own place there.
//
// Arena: [ persistent | transient, by phase | workspace ].
#pragma once

#include <vector>

#include "ir/plan.h"

namespace boxcar::planner {

// By register: whether it is written and read within one run of a phase and thus shares memory.
std::vector<bool> shares_memory(const ir::Program& program);

// Sets offsets, arena_bytes, host_bytes, workspace_offset and workspace_bytes.
void plan_memory(ir::Program& program);

}  // namespace boxcar::planner

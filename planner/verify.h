// Proves that a plan ends and fits, over all ranks, before it runs.
#pragma once

#include <string>
#include <vector>

#include "ir/plan.h"

namespace boxcar::planner {

// One memory figure per class, in bytes, with its parts by ir::MemoryKind: its arena, or what registers hold
// at once where an allocator gives memory (holdings.h).
struct MemoryUse {
  int cls = 0;
  int64_t total = 0;
  std::vector<int64_t> by_kind;  // size ir::memory_kinds; what each kind holds at the moment of the peak
  // The most bytes that forward passes leave to backward passes at once. An arena has more where several
  // stages share a device: each stage's most.
  int64_t kept_activations = 0;
};
std::vector<MemoryUse> memory_use(const ir::Plan& plan);

// Properties proved of a plan, whoever wrote it, given that ir::check and ir::check_types have passed:
//
// - Structure. Every index names something, every rate is balanced, every member of a group takes part.
//   (ir::check)
// - Shapes and types. A slot holds its type; every act gives, on every rank, what its op makes of what it
//   reads. (ir::check_types)
// - Order. An act on a version of a register sees what ir/plan.h says of it, of its own micro-batch where
//   both ends run for each, and all of it: nothing is written over while others read it, in one slot
//   (actors/actor.h), in shared bytes (memory_check.h) or in place (overwrite_check.h). So a step leaves the
//   same numbers whatever the order of messages.
// - It ends: no acts wait for one another, over all ranks.
// - It fits: registers and workspace lie in the arena, and a class needs at most the memory that there is.
//
// Nothing is promised of the plan's purpose. Another operand of the same type, other attributes, another
// member of a group or one more initial slot make another program, and it is proved like any other. Fields
// for reports or times alone (names, facts, labels, bytes moved, seconds, kinds of memory) are taken as they
// stand, as is an op outside the registry.
//
// Throws Error (cannot run):
// - a directed cycle without a token in the step unfolded over all ranks
//   (collectives are joint, queues in order, communicators consistent with
//   one global order), naming the acts on it;
// - two registers that share arena bytes while one still has readers, naming both;
// - a collective that writes over what another act may read at that time, naming both;
// - a class that needs more than `memory_bytes` (0: no limit), by how much.
// Where the proof would have to look at acts of all devices and they are too many, the error says so instead.
void verify(const ir::Plan& plan, int64_t memory_bytes = 0);

}  // namespace boxcar::planner

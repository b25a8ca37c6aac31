// Proves that a plan ends and fits, over all ranks, before it runs.
#pragma once

#include <string>
#include <vector>

#include "ir/plan.h"

namespace boxcar::planner {

// One memory figure per class, in bytes, with its parts by ir::MemoryKind: its arena or, with an allocator,
// the most that registers hold at once (holdings.h).
struct MemoryUse {
  int cls = 0;
  int64_t total = 0;
  std::vector<int64_t> by_kind;  // size ir::memory_kinds; bytes of each kind at the peak
  // The most bytes that forward passes leave to backward passes at once. If several stages share a device, an
  // arena needs more: the sum over its stages of what each leaves at most.
  int64_t kept_activations = 0;
};
std::vector<MemoryUse> memory_use(const ir::Plan& plan);

// Properties proved for any plan that has passed ir::check and ir::check_types:
//
// - Structure. Every index names something, every rate is balanced, every member of a group takes part.
//   (ir::check)
// - Shapes and types. A slot holds its type. On every rank, the results of every act have the types that its
//   op infers from its operands. (ir::check_types)
// - Order. An act on a version of a register sees the values defined in ir/plan.h, of its own micro-batch if
//   both ends run for each, and all of them. Nothing is overwritten while others read it: in one slot
//   (actors/actor.h), in shared bytes (memory_check.h) or in place (overwrite_check.h). So a step gives the
//   same numbers in any order of messages.
// - It ends: no acts wait for one another in a circle, over all ranks.
// - It fits: registers and workspace lie in the arena, and no class needs more than the available memory.
//
// The plan's purpose is not proved. Another operand of the same type, other attributes, another member of a
// group or one more initial slot make another program, which is proved like any other. Fields used only for
// reports or times (names, facts, labels, bytes moved, seconds, kinds of memory) are not checked, and neither
// is an op outside the registry.
//
// Throws Error (cannot run):
// - a directed cycle without a token in the step unfolded over all ranks
//   (collectives are joint, queues in order, communicators consistent with
//   one global order), naming the acts on it;
// - two registers that share arena bytes while one still has readers, naming both;
// - a collective that writes over a value that another act may read at that time, naming both;
// - a class that needs more than `memory_bytes` (0: no limit), saying how much more. If the proof would have
// to look at too many acts of all devices, the error says so instead.
void verify(const ir::Plan& plan, int64_t memory_bytes = 0);

}  // namespace boxcar::planner

// Proves that a plan ends and fits, over all ranks, before it runs.
#pragma once

#include <string>
#include <vector>

#include "ir/plan.h"

namespace boxcar::planner {

// One memory figure per class, in bytes, with its parts by ir::MemoryKind.
struct MemoryUse {
  int cls = 0;
  int64_t total = 0;
  std::vector<int64_t> by_kind;  // size ir::memory_kinds; what each kind holds at the moment of the peak
  // The most that forward passes leave to backward passes at once. Registers are there for good, so a
  // device's arena has more where several stages share it: each stage's most.
  int64_t kept_activations = 0;
};
std::vector<MemoryUse> memory_use(const ir::Plan& plan);

// Throws Error (cannot run):
// - a directed cycle without a token in the step unfolded over all ranks
//   (collectives are joint, queues in order, communicators consistent with
//   one global order), naming the acts on it;
// - two registers that share arena bytes while one still has readers, naming both;
// - a class that needs more than `memory_bytes` (0: no limit), by how much.
void verify(const ir::Plan& plan, int64_t memory_bytes = 0);

}  // namespace boxcar::planner

#include <algorithm>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "planner/holdings.h"
#include "planner/verify.h"
#include "sbp/at.h"

namespace boxcar::planner {
namespace {

int64_t largest_workspace(const ir::Program& program) {
  int64_t most = program.workspace_bytes;
  for (const ir::Actor& actor : program.actors) most = std::max(most, actor.workspace);
  return most;
}

// Bytes lost to an allocator's fragmentation: a share of the memory that is freed and reused, whose blocks it
// splits.
int64_t held_in_vain(const ir::Plan& plan, const MemoryUse& use) {
  const auto share = plan.facts.find("fragmentation");
  if (share == plan.facts.end()) return 0;
  int64_t states = 0;
  for (const auto kind : {ir::MemoryKind::parameters, ir::MemoryKind::gradients, ir::MemoryKind::optimizer})
    states += at(use.by_kind, kind);
  return static_cast<int64_t>(share->second * static_cast<double>(std::max<int64_t>(0, use.total - states)));
}

// The parts add up to the total. With an allocator (the fact "caching_allocator") the total is the most held
// at once; else it is the arena. Gaps in the arena and bytes lost to fragmentation count as workspace. If
// registers that live across runs share bytes, activations count so much less.
MemoryUse use_of(const ir::Plan& plan, int program) {
  const ir::Program& p = at(plan.programs, program);
  MemoryUse use;
  const bool allocates = is_allocated(plan);
  use.by_kind = Holdings(plan, program, allocates).most();
  use.kept_activations = kept_activations(p);
  int64_t held = std::accumulate(use.by_kind.begin(), use.by_kind.end(), int64_t{0}),
          workspace = largest_workspace(p), unplaced = 0;
  for (const ir::Register& reg : p.registers) {
    if (reg.offset < 0) unplaced += reg.bytes * reg.count;
  }
  const bool planned = p.arena_bytes > 0 && !allocates;
  use.total =
      planned ? p.arena_bytes + unplaced + (p.workspace_offset < 0 ? workspace : 0) : held + workspace;
  use.total += held_in_vain(plan, use);
  auto& activations = at(use.by_kind, ir::MemoryKind::activations);
  auto& scratch = at(use.by_kind, ir::MemoryKind::workspace);
  int64_t rest = use.total - held;
  int64_t shared = std::min(activations, std::max<int64_t>(0, -rest));
  activations -= shared;
  scratch += rest + shared;
  return use;
}

}  // namespace

std::vector<MemoryUse> memory_use(const ir::Plan& plan) {
  std::vector<MemoryUse> by_program;
  for (size_t p = 0; p < plan.programs.size(); ++p) by_program.push_back(use_of(plan, static_cast<int>(p)));
  std::vector<MemoryUse> uses;
  for (size_t c = 0; c < plan.classes.size(); ++c) {
    uses.push_back(at(by_program, plan.classes[c].program));
    uses.back().cls = static_cast<int>(c);
  }
  return uses;
}

}  // namespace boxcar::planner

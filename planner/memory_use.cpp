#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>

#include "planner/lifetimes.h"
#include "planner/verify.h"
#include "sbp/at.h"

namespace boxcar::planner {
namespace {

using Kinds = std::vector<int64_t>;

int64_t sum(const Kinds& kinds) { return std::accumulate(kinds.begin(), kinds.end(), int64_t{0}); }

// Bytes that the registers hold at a moment: those that live inside runs count where they live, all others
// always.
class Peak {
 public:
  Peak(const ir::Plan& plan, int program)
      : program_(at(plan.programs, program)), lifetimes_(plan, program), always_(ir::memory_kinds) {
    for (size_t r = 0; r < program_.registers.size(); ++r) {
      if (lifetimes_.in_run(static_cast<int>(r)).phase < 0 || program_.registers[r].offset < 0) {
        add(always_, program_.registers[r], 1);
      }
    }
  }

  Kinds find() const {
    Kinds best = always_;
    for (int phase = 0; phase < static_cast<int>(program_.phases.size()); ++phase) {
      Kinds kinds = in_phase(phase);
      if (sum(kinds) > sum(best)) best = kinds;
    }
    return best;
  }

 private:
  static void add(Kinds& kinds, const ir::Register& reg, int64_t sign) {
    at(kinds, reg.memory) += sign * reg.bytes * reg.count;
  }

  Kinds in_phase(int phase) const {
    std::vector<std::pair<int64_t, int>> events;  // time, register + 1: starts; -(register + 1): ends
    for (size_t r = 0; r < program_.registers.size(); ++r) {
      const Lifetimes::InRun& in = lifetimes_.in_run(static_cast<int>(r));
      if (in.phase != phase || program_.registers[r].offset < 0) continue;
      int id = static_cast<int>(r) + 1;
      events.push_back({in.life.begin, id});
      events.push_back({in.life.end, -id});
    }
    std::sort(events.begin(), events.end());
    Kinds now = always_, best = always_;
    for (const auto& [time, id] : events) {
      add(now, at(program_.registers, std::abs(id) - 1), id > 0 ? 1 : -1);
      if (sum(now) > sum(best)) best = now;
    }
    return best;
  }

  const ir::Program& program_;
  Lifetimes lifetimes_;
  Kinds always_;
};

// Bytes of one micro-batch of a chunk, by the pass that leaves them and the one that is the last to read
// them: forward to backward, and where the backward pass is split forward to weight and backward to weight.
struct Span {
  int chunk;
  ir::PhaseKind from, to;
  friend auto operator<=>(const Span&, const Span&) = default;
};

std::map<Span, int64_t> left_behind(const ir::Program& program) {
  std::vector<ir::PhaseKind> last(program.registers.size(), ir::PhaseKind::forward);
  for (const ir::Actor& actor : program.actors)
    for (const ir::Input& input : actor.inputs)
      if (const ir::PlanPhase& by = program.phase_of(actor); input.program < 0 && by.is_pass()) {
        ir::PhaseKind& latest = at(last, input.reg);
        latest = std::max(latest, by.kind);  // kinds stand as a micro-batch runs them
      }
  std::map<Span, int64_t> left;
  for (size_t r = 0; r < program.registers.size(); ++r) {
    const ir::Register& reg = program.registers[r];
    if (reg.memory != ir::MemoryKind::activations || reg.producer < 0) continue;
    const ir::PlanPhase& made = program.phase_of(at(program.actors, reg.producer));
    if (made.kind < last[r]) left[{made.chunk, made.kind, last[r]}] += reg.bytes;
  }
  return left;
}

int64_t kept_activations(const ir::Program& program) {
  const std::map<Span, int64_t> left = left_behind(program);
  int64_t now = 0, most = 0;
  for (const ir::PhaseRun& run : program.schedule) {
    const ir::PlanPhase& phase = at(program.phases, run.phase);
    for (const auto& [span, bytes] : left)
      if (span.chunk == phase.chunk && span.from == phase.kind) now += bytes;
    most = std::max(most, now);
    for (const auto& [span, bytes] : left)
      if (span.chunk == phase.chunk && span.to == phase.kind) now -= bytes;
  }
  return most;
}

int64_t largest_workspace(const ir::Program& program) {
  int64_t most = program.workspace_bytes;
  for (const ir::Actor& actor : program.actors) most = std::max(most, actor.workspace);
  return most;
}

// Bytes lost to an allocator's fragmentation: a share of the memory that comes and goes, whose blocks it
// splits.
int64_t held_in_vain(const ir::Plan& plan, const MemoryUse& use) {
  const auto share = plan.facts.find("fragmentation");
  if (share == plan.facts.end()) return 0;
  int64_t states = 0;
  for (const auto kind : {ir::MemoryKind::parameters, ir::MemoryKind::gradients, ir::MemoryKind::optimizer})
    states += at(use.by_kind, kind);
  return static_cast<int64_t>(share->second * static_cast<double>(std::max<int64_t>(0, use.total - states)));
}

// The parts add up to the total. Gaps of the arena count as workspace, as do bytes lost to fragmentation;
// where registers that live across runs share bytes, activations count that much less.
MemoryUse use_of(const ir::Plan& plan, int program) {
  const ir::Program& p = at(plan.programs, program);
  MemoryUse use;
  use.by_kind = Peak(plan, program).find();
  use.kept_activations = kept_activations(p);
  int64_t held = sum(use.by_kind), workspace = largest_workspace(p), unplaced = 0;
  for (const ir::Register& reg : p.registers) {
    if (reg.offset < 0) unplaced += reg.bytes * reg.count;
  }
  bool planned = p.arena_bytes > 0;
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

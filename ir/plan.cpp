#include "ir/plan.h"

#include <algorithm>
#include <charconv>

#include "sbp/at.h"

namespace boxcar::ir {
namespace {

constexpr const char* queue_kinds[] = {"compute", "copy_in", "copy_out", "network", "disk", "host"};
constexpr const char* kinds_of_memory[] = {"parameters", "gradients", "optimizer", "activations",
                                           "workspace"};
constexpr const char* actor_kinds[] = {"kernel", "collective", "pull", "copy", "host"};
constexpr std::string_view phase_letters = "FBWGU";  // by kind

}  // namespace

const char* to_text(QueueKind kind) { return at(queue_kinds, kind); }
const char* to_text(MemoryKind kind) { return at(kinds_of_memory, kind); }
const char* to_text(ActorKind kind) { return at(actor_kinds, kind); }

PlanPhase::PlanPhase(std::string text) : name(std::move(text)) {
  const size_t letter = name.empty() ? std::string_view::npos : phase_letters.find(name[0]);
  const char *number = name.data() + 1, *end = name.data() + name.size();
  int its_chunk = 0;
  if (letter == std::string_view::npos) return;
  if (number != end && std::from_chars(number, end, its_chunk).ptr != end) return;
  kind = static_cast<PhaseKind>(letter), chunk = its_chunk;
}

PlanPhase::PlanPhase(PhaseKind its_kind, int its_chunk)
    : name(1, at(phase_letters, its_kind)), kind(its_kind), chunk(its_chunk) {
  if (is_pass()) name += std::to_string(chunk);
}

int Program::acts_per_step(int actor) const {
  int phase = at(actors, actor).phase;
  return static_cast<int>(std::count_if(schedule.begin(), schedule.end(),
                                        [&](const PhaseRun& run) { return run.phase == phase; }));
}

double register_bytes(const Program& program) {
  double bytes = 0;
  for (const Register& reg : program.registers) bytes += static_cast<double>(slot_bytes(reg)) * reg.count;
  return bytes;
}

PlanSize size_of(const Plan& plan) {
  PlanSize size;
  for (const RankClass& cls : plan.classes) {
    const Program& program = at(plan.programs, cls.program);
    auto devices = static_cast<int64_t>(cls.devices.size());
    std::vector<int64_t> actors_in(program.phases.size());
    for (const Actor& actor : program.actors) ++at(actors_in, actor.phase);
    for (const PhaseRun& run : program.schedule) {
      size.acts_per_step += devices * at(actors_in, run.phase);
    }
    size.actors += devices * static_cast<int64_t>(program.actors.size());
    size.registers += devices * static_cast<int64_t>(program.registers.size());
    size.queues += devices * static_cast<int64_t>(program.queues.size());
  }
  for (const Comm& comm : plan.comms) size.groups += static_cast<int64_t>(comm.groups.size());
  return size;
}

}  // namespace boxcar::ir

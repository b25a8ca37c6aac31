#include "planner/checkpoints.h"

#include <algorithm>
#include <utility>

#include "planner/host_registers.h"
#include "sbp/at.h"

namespace boxcar::planner {
namespace {

int add_queue(ir::Program& program, const std::string& name, ir::QueueKind kind) {
  for (size_t q = 0; q < program.queues.size(); ++q)
    if (program.queues[q].name == name) return static_cast<int>(q);
  program.queues.push_back({name, kind, true});
  return static_cast<int>(program.queues.size()) - 1;
}

// Registers of which some device of the class has the part to be saved. Those that are read before their
// update come first, because one act may update them and others, whose saves wait for it.
std::vector<int> state_of(const ir::Program& program, const ir::RankClass& cls, const Places& places) {
  std::vector<int> result;
  for (size_t r = 0; r < program.registers.size(); ++r) {
    const Place* place = places.find(program.registers[r].name);
    if (place && is_state(*place) && std::any_of(cls.devices.begin(), cls.devices.end(), [&](int device) {
          return at(place->first, device);
        }))
      result.push_back(static_cast<int>(r));
  }
  std::stable_partition(result.begin(), result.end(),
                        [&](int r) { return at(program.registers, r).initial > 0; });
  return result;
}

}  // namespace

void add_checkpoints(ir::Plan& plan, const Places& places, int slots) {
  for (const ir::RankClass& cls : plan.classes) {
    ir::Program& program = at(plan.programs, cls.program);
    const int update = program.schedule.back().phase;
    const std::vector<int> state = state_of(program, cls, places);
    if (state.empty()) continue;
    const int copy_out = add_queue(program, "copy_out", ir::QueueKind::copy_out);
    for (int r : state) {
      const ir::Register& reg = at(program.registers, r);
      ir::Actor save;
      save.name = reg.name + ".save";
      save.kind = ir::ActorKind::copy;
      save.op = "save";
      save.attrs["behind"] = int64_t{reg.initial > 0 ? 0 : 1};
      save.inputs.push_back({r, 1, -1, -1, {}});
      save.queue = copy_out;
      save.phase = update;
      save.comm_bytes = reg.type.bytes();
      program.actors.push_back(std::move(save));
    }
    if (cls.devices.front() != 0) continue;
    const int last = static_cast<int>(program.actors.size()) - 1;
    // The last save of a step lets the writer act; all other saves come before it.
    const int copied = add_host_register(program, "checkpoint.copied", last, slots);
    program.actors.back().outputs = {copied};
    ir::Actor write;
    write.name = "checkpoint";
    write.kind = ir::ActorKind::host;
    write.op = "write";
    write.inputs.push_back({copied, 1, -1, -1, {}});
    write.queue = add_queue(program, "disk", ir::QueueKind::disk);
    write.phase = update;
    program.actors.push_back(std::move(write));
  }
}

}  // namespace boxcar::planner

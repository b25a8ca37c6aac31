#include "planner/program_builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "ir/plan_roles.h"
#include "sbp/at.h"
#include "sbp/error.h"

namespace boxcar::planner {

int64_t aligned(int64_t bytes) { return (bytes + arena_alignment - 1) / arena_alignment * arena_alignment; }

std::vector<ir::PlanPhase> Phases::all() const {
  std::vector<ir::PlanPhase> result;
  for (int c = 0; c < chunks; ++c) result.emplace_back(ir::PhaseKind::forward, c);
  for (int c = 0; c < chunks; ++c) result.emplace_back(ir::PhaseKind::backward, c);
  for (int c = 0; split && c < chunks; ++c) result.emplace_back(ir::PhaseKind::weight, c);
  result.emplace_back(ir::PhaseKind::reduce, 0);
  result.emplace_back(ir::PhaseKind::update, 0);
  return result;
}

namespace {

ir::QueueKind kind_of(const std::string& queue) {
  if (queue == "compute") return ir::QueueKind::compute;
  if (queue == "copy_in" || queue == "fetch") return ir::QueueKind::copy_in;
  if (queue == "offload") return ir::QueueKind::copy_out;
  if (queue == "host" || queue == "update") return ir::QueueKind::host;
  return ir::QueueKind::network;
}

}  // namespace

ProgramBuilder::ProgramBuilder(std::string name, const Pipeline& pipeline, int stage)
    : phases{pipeline.chunks, splits_backward(pipeline, stage)}, pipeline_(pipeline) {
  program.name = std::move(name);
  program.phases = phases.all();
  program.schedule = stage_order(pipeline, stage);
  program.schedule.push_back({phases.reduce(), 0});
  program.schedule.push_back({phases.update(), 0});
  queue("compute");
}

int ProgramBuilder::queue(const std::string& name) {
  for (size_t q = 0; q < program.queues.size(); ++q)
    if (program.queues[q].name == name) return static_cast<int>(q);
  program.queues.push_back({name, kind_of(name), true});
  return static_cast<int>(program.queues.size()) - 1;
}

int ProgramBuilder::add_register(std::string name, ir::TensorType type, ir::MemoryKind memory,
                                 int64_t bytes) {
  ir::Register reg;
  reg.name = std::move(name);
  reg.type = std::move(type);
  reg.bytes = aligned(bytes);
  reg.memory = memory;
  program.registers.push_back(std::move(reg));
  remote_.push_back(false);
  return static_cast<int>(program.registers.size()) - 1;
}

int ProgramBuilder::add_actor(ir::Actor actor) {
  const auto index = static_cast<int>(program.actors.size());
  for (int reg : actor.outputs) at(program.registers, reg).producer = index;
  program.actors.push_back(std::move(actor));
  return index;
}

void ProgramBuilder::control(int before, int after, int every) {
  ir::Actor& producer = at(program.actors, before);
  const int reg = add_register(fmt::format("{}.done{}", producer.name, producer.outputs.size()),
                               {{}, ir::DType::int8}, ir::MemoryKind::workspace, 0);
  at(program.registers, reg).producer = before;
  at(program.registers, reg).every = every;
  at(program.actors, before).outputs.push_back(reg);
  at(program.actors, after).inputs.push_back({reg, 1, -1, -1, {}});
}

void ProgramBuilder::read_remotely(int reg) { at(remote_, reg) = true; }

int ProgramBuilder::phase_of(int reg) const {
  const int producer = at(program.registers, reg).producer;
  return producer < 0 ? -1 : at(program.actors, producer).phase;
}

// The readers of a register.
struct ProgramBuilder::Readers {
  std::set<int> passes;               // phases that run for each micro-batch
  bool step = false, before = false;  // once per step: after its producer; before it
};

bool ProgramBuilder::once_per_step(const ir::Register& reg) const {
  return reg.every > 1 || !phases.per_micro_batch(at(program.actors, reg.producer).phase);
}

void ProgramBuilder::finish_register(int index, const Readers& readers) {
  ir::Register& reg = at(program.registers, index);
  const ir::Actor& producer = at(program.actors, reg.producer);
  if (once_per_step(reg)) {
    const bool early = readers.before || (reg.every == 1 && !readers.passes.empty());
    if (early && readers.step)
      throw Error::fault(fmt::format("{}: {}", program.name, reg.name),
                         "is read before and after its update in a step");
    reg.initial = early ? 1 : 0;
    return;
  }
  // A value that is sent may be read while the next is made.
  const bool moving = ir::arrives_ahead(producer) || at(remote_, index);
  reg.count = 1;
  for (const int pass : readers.passes)  // a later pass, or one of another chunk
    if (pass != producer.phase)
      reg.count = std::max(reg.count, in_flight(program.schedule, producer.phase, pass));
  if (moving) reg.count = producer.kind == ir::ActorKind::kernel ? std::max(reg.count, 2) : reg.count + 1;
  reg.count = std::min(reg.count, std::max(pipeline_.micro_batches, moving ? 2 : 1));
}

void ProgramBuilder::finish() {
  std::vector<Readers> readers(program.registers.size());
  for (const ir::Register& reg : program.registers)
    if (reg.producer < 0)
      throw Error::fault(fmt::format("{}: {}", program.name, reg.name), "has no producer");
  for (size_t a = 0; a < program.actors.size(); ++a) {
    ir::Actor& actor = program.actors[a];
    for (ir::Input& input : actor.inputs) {
      if (input.program >= 0) continue;
      const ir::Register& reg = at(program.registers, input.reg);
      if (reg.producer == static_cast<int>(a)) continue;  // in place
      Readers& who = at(readers, input.reg);
      const int phase = actor.phase;
      if (!phases.per_micro_batch(phase)) {
        const std::pair reader(phase, static_cast<int>(a)), producer(phase_of(input.reg), reg.producer);
        (reader < producer ? who.before : who.step) = true;
      } else {
        who.passes.insert(phase);
        if (once_per_step(reg)) input.repeat = pipeline_.micro_batches;
      }
    }
  }
  for (size_t r = 0; r < program.registers.size(); ++r) finish_register(static_cast<int>(r), readers[r]);
}

}  // namespace boxcar::planner

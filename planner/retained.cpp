#include "planner/retained.h"

#include <vector>

#include "ir/plan_roles.h"
#include "planner/program_builder.h"
#include "sbp/at.h"

namespace boxcar::planner {
namespace {

bool is_weight_gradient(const ir::Program& program, const ir::Actor& actor) {
  if (actor.kind != ir::ActorKind::kernel || !ir::has_op(actor.op)) return false;
  const ir::OpDef& def = ir::op(actor.op);
  return def.family == ir::Family::matmul && actor.layer >= 0 &&
         ir::role_of(def, actor.attrs) == ir::ProductRole::weight_grad && ir::is_of_weight(program, actor);
}

}  // namespace

void keep_operands_in_float8(ir::Program& program) {
  struct Later {
    bool products = false, others = false;
    bool stays = false;  // from pass to pass
  };
  std::vector<Later> readers(program.registers.size());
  const auto is_later = [&](const ir::Actor& actor, const ir::Input& input) {
    const ir::Actor* const producer = ir::producer_of(program, input);
    return producer && program.phase_of(actor).is_pass() &&
           program.phase_of(actor).kind > program.phase_of(*producer).kind;
  };
  const auto is_gathered = [&](const ir::Input& input) {
    const ir::Actor* const producer = ir::producer_of(program, input);
    return producer && ir::gathers(*producer);
  };
  for (const ir::Actor& actor : program.actors) {
    if (ir::gathers(actor)) continue;
    const bool product = is_weight_gradient(program, actor);
    for (const ir::Input& input : actor.inputs) {
      const bool later = is_later(actor, input);
      if (!later && !is_gathered(input)) continue;
      Later& own = at(readers, input.reg);
      (product ? own.products : own.others) = true;
      own.stays |= later;
    }
  }
  for (const ir::Actor& actor : program.actors)  // gathered tensors are cast before the gather
    if (ir::gathers(actor))
      for (const ir::Input& input : actor.inputs) {
        if (!is_later(actor, input)) continue;
        Later& own = at(readers, input.reg);
        own.stays = true;
        for (const int whole : actor.outputs) {
          own.products |= at(readers, whole).products;
          own.others |= at(readers, whole).others;
        }
      }
  for (size_t r = 0; r < program.registers.size(); ++r) {
    ir::Register& reg = program.registers[r];
    if (!readers[r].products || !readers[r].stays || reg.bytes < reg.type.bytes() ||
        reg.memory != ir::MemoryKind::activations || ir::size_of(reg.type.dtype) != 2)
      continue;
    reg.bytes = aligned(reg.bytes + (readers[r].others ? 1 : -1) * reg.type.bytes() / 2);
    reg.over = reg.bytes < reg.type.bytes();
  }
}

void keep_results_of_experts_in_float8(ir::Program& program) {
  const auto kind_of = [&program](const ir::Actor& actor) { return program.phase_of(actor).kind; };
  for (const ir::Actor& actor : program.actors) {
    if (!program.phase_of(actor).is_pass() || kind_of(actor) == ir::PhaseKind::forward) continue;
    for (const ir::Input& input : actor.inputs) {
      const ir::Actor* const made = ir::producer_of(program, input);
      if (!made || !made->is(ir::OpKind::batched_product) || !ir::is_of_weight(program, *made) ||
          kind_of(*made) != ir::PhaseKind::forward)
        continue;
      ir::Register& reg = at(program.registers, input.reg);
      if (reg.over || ir::size_of(reg.type.dtype) != 2) continue;
      reg.bytes = aligned(reg.type.bytes() / 2);
      reg.over = true;
    }
  }
}

void keep_as_here(Hints& hints) {
  hints.retained_bytes.clear();
  hints.gathered_stay = false;
  hints.keeps_float8 = hints.keeps_float8_of_experts = false;
}

}  // namespace boxcar::planner

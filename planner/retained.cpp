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
  };
  std::vector<Later> readers(program.registers.size());
  const auto kind_of = [&program](const ir::Actor& actor) { return program.phase_of(actor).kind; };
  const auto is_later = [&](const ir::Actor& actor) {
    return program.phase_of(actor).is_pass() && kind_of(actor) != ir::PhaseKind::forward;
  };
  for (const ir::Actor& actor : program.actors) {
    if (!is_later(actor) || ir::gathers(actor)) continue;
    const bool product = is_weight_gradient(program, actor);
    for (const ir::Input& input : actor.inputs)
      if (input.program < 0)
        (product ? at(readers, input.reg).products : at(readers, input.reg).others) = true;
  }
  for (const ir::Actor& actor : program.actors)  // gathered tensors are cast before the gather
    if (is_later(actor) && ir::gathers(actor))
      for (const ir::Input& input : actor.inputs) {
        Later& own = at(readers, input.reg);
        for (const int whole : actor.outputs) {
          own.products |= at(readers, whole).products;
          own.others |= at(readers, whole).others;
        }
      }
  for (size_t r = 0; r < program.registers.size(); ++r) {
    ir::Register& reg = program.registers[r];
    if (!readers[r].products || reg.bytes < reg.type.bytes() || reg.memory != ir::MemoryKind::activations ||
        ir::size_of(reg.type.dtype) != 2 ||
        kind_of(at(program.actors, reg.producer)) != ir::PhaseKind::forward)
      continue;
    reg.bytes = aligned(reg.bytes + (readers[r].others ? 1 : -1) * reg.type.bytes() / 2);
    reg.over = reg.bytes < reg.type.bytes();
  }
}

void keep_as_here(Hints& hints) {
  hints.retained_bytes.clear();
  hints.gathered_stay = false;
  hints.keeps_float8 = false;
}

}  // namespace boxcar::planner

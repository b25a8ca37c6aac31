// Roles of a plan's acts for weights, gradients and parts of tensors, by the memory that they read and write.
#pragma once

#include "ir/plan.h"
#include "ir/product_role.h"
#include "sbp/at.h"

namespace boxcar::ir {

// The act that makes what `input` reads; null if nothing here does, or another program.
inline const Actor* producer_of(const Program& program, const Input& input) {
  if (input.program >= 0) return nullptr;
  const int producer = at(program.registers, input.reg).producer;
  return producer >= 0 ? &at(program.actors, producer) : nullptr;
}

// Whether `input` of `reader` is a sum of gradients, which passes accumulate for a phase that runs once per
// step.
inline bool is_sum_of_gradients(const Program& program, const Actor& reader, const Input& input) {
  const PhaseKind phase = program.phase_of(reader).kind;
  if (phase != PhaseKind::reduce && phase != PhaseKind::update) return false;
  const Actor* const producer = producer_of(program, input);
  return producer && program.phase_of(*producer).is_pass() &&
         at(program.registers, input.reg).memory == MemoryKind::gradients;
}

// Whether an act of an op of Family::matmul reads a weight or makes the gradient of one. A batch_matmul of
// attention does neither; one of experts does.
inline bool is_of_weight(const Program& program, const Actor& product) {
  const auto memory = [&program](int reg) { return at(program.registers, reg).memory; };
  if (role_of(op(product.op), product.attrs) == ProductRole::weight_grad)
    return memory(at(product.outputs, 0)) == MemoryKind::gradients;
  const Input& second = at(product.inputs, 1);
  return second.program < 0 && memory(second.reg) == MemoryKind::parameters;
}

// Whether an act's result may arrive while the previous one is in use.
inline bool arrives_ahead(const Actor& actor) {
  return actor.kind == ActorKind::pull || actor.is(OpKind::load);
}

inline bool gathers(const Actor& actor) {
  return actor.kind == ActorKind::collective && actor.collective == sbp::Collective::all_gather;
}

}  // namespace boxcar::ir

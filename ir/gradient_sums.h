// Sums of gradients in a plan: what passes add up for a phase that runs once a step.
#pragma once

#include "ir/plan.h"
#include "sbp/at.h"

namespace boxcar::ir {

inline bool is_sum_of_gradients(const Program& program, const Actor& reader, const Input& input) {
  const PhaseKind phase = program.phase_of(reader).kind;
  if (input.program >= 0 || (phase != PhaseKind::reduce && phase != PhaseKind::update)) return false;
  const Register& reg = at(program.registers, input.reg);
  return reg.memory == MemoryKind::gradients && reg.producer >= 0 &&
         program.phase_of(at(program.actors, reg.producer)).is_pass();
}

}  // namespace boxcar::ir

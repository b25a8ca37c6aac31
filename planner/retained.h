// Bytes that a simulated framework keeps for the backward pass.
#pragma once

#include "ir/plan.h"
#include "planner/planner.h"

namespace boxcar::planner {

// Gives activations of 16 bits that forward passes leave to gradients of weights alone half of their bytes,
// and one and a half of them where other acts of later passes read them too: in both types.
//
//   %h0.mlp.swiglu: bfloat16[1, 8192, 7168] bytes 58720256 over      fc2's gradient reads it
//   %h0.attn.merge: bfloat16[...] bytes half, %h0.attn.core.flash whole       where the projection reads a
//   copy
void keep_operands_in_float8(ir::Program& program);

// For a plan that runs: every result is kept as it is.
void keep_as_here(Hints& hints);

}  // namespace boxcar::planner

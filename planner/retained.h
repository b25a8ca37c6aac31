// Bytes that a simulated framework keeps for the backward pass.
#pragma once

#include "ir/plan.h"
#include "planner/planner.h"

namespace boxcar::planner {

// Changes activations of 16 bits that a pass leaves to later ones: a forward pass, or the first part of a
// split backward pass. If only gradients of weights read one there, half of its bytes are kept. If other acts
// read it too, it is kept in both types.
//
//   // the gradient of fc2's weight reads it, and SwiGLU's own gradient reads what SwiGLU read
//   %h0.mlp.swiglu: bfloat16[1, 8192, 7168] x4 activations bytes 58720256 over
void keep_operands_in_float8(ir::Program& program);

// Halves the bytes of results of experts' products in forward passes that later passes read, such as the
// input of SwiGLU.
void keep_results_of_experts_in_float8(ir::Program& program);

// For a plan that runs: every result is kept unchanged.
void keep_as_here(Hints& hints);

}  // namespace boxcar::planner

// Kinds of ops that passes, lowering and time models treat specially. Only kind_of() maps an op's type to its
// kind.
#pragma once

#include <cstdint>
#include <string_view>

namespace boxcar::ir {

enum class OpKind : uint8_t {
  compute,  // all others
  input,
  parameter,
  constant,
  to_global,       // a boxing op
  alias,           // reshape, identity: its result lies where its operand does
  cast,            // to another type
  add,             // of two tensors
  sum,             // of any number of tensors
  accumulate,      // a sum over micro-batches
  reduction,       // over axes
  square_sum,      // over all axes, of squares
  moving_average,  // the next value of a state, in its place, from it and a new value
  norm,            // of layers: layer_norm, rms_norm
  fused,           // pointwise ops as one kernel
  softmax,         // of scaled and masked scores
  softmax_grad,
  product,                // with a weight, alone
  product_with_epilogue,  // with the ops after it: a bias, a residual, an activation
  weight_grad,
  weight_grad_with_bias,
  batched_product,  // of two activations, or of each expert
  convolution,
  convolution_input_grad,
  convolution_weight_grad,
  attention,  // fused, as one kernel
  attention_grad,
  dispatch,  // of tokens to experts
  combine,   // of experts' results, by token
  combine_grad,
  // of plans
  load,    // a batch's part onto the device
  read,    // of a batch's part, as files
  decode,  // of samples that were read
  copy,    // tensors between the device and host memory
  save,    // a copy of a state for a checkpoint
  write,   // of a saved state
};

OpKind kind_of(std::string_view op_type);

}  // namespace boxcar::ir

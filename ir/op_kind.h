// Kinds of ops that passes and lowering treat in a way of their own. Only kind_of() maps an op's type to its
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
  to_global,   // a boxing op
  alias,       // reshape, identity: its result lies where its operand does
  cast,        // to another type
  sum,         // add, sum: of two or more tensors
  accumulate,  // a sum over micro-batches
  product,     // with a weight, alone or with what is fused behind it
  attention,   // fused, as one kernel
  attention_grad,
  dispatch,  // of tokens to experts
  combine,   // of experts' results, by token
  // of plans
  load,    // a batch's part onto the device
  read,    // of a batch's part, as files
  decode,  // of samples that were read
  save,    // a copy of a state for a checkpoint
  write,   // of a saved state
};

OpKind kind_of(std::string_view op_type);

}  // namespace boxcar::ir

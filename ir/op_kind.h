// What an op is to the compiler, beside what it computes: the kinds that passes and lowering treat in a way
// of their own. Found by the op's type, here alone.
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
  attention,   // fused, as one kernel
  attention_grad,
  // of plans
  load,   // a batch's part onto the device
  save,   // a copy of a state for a checkpoint
  write,  // of what was saved
};

OpKind kind_of(std::string_view op_type);

}  // namespace boxcar::ir

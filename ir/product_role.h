// Which of the three products of a linear layer an op is.
//
//   matmul(x, w)                       forward
//   matmul(dy, w) {transpose_b}        input_grad
//   matmul_weight_grad(x, dy), batch_matmul(x, dy) {transpose_a}     weight_grad
#pragma once

#include <cstdint>

#include "ir/op.h"

namespace boxcar::ir {

enum class ProductRole : uint8_t { forward, input_grad, weight_grad };

// REQUIRES: an op of Family::matmul.
ProductRole role_of(const OpDef& def, const Attrs& attrs);

}  // namespace boxcar::ir

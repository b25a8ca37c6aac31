// The time of the casts beside a product in 8 bits, by the recipe of the device (use_float8). Search and
// simulator both ask this model.
//
//   // y = x w of 8,192 tokens, where w serves 8 micro-batches, by delayed scaling: x is read in 16 bits and
//   // written twice in 8, an eighth of that for w, a launch for each
//   float8_casts(h100, ProductRole::forward, {{{.elements = 1 << 26}, {.elements = 1 << 26, .serves = 8}}});
#pragma once

#include <array>

#include "backends/machines/forward.h"
#include "ir/product_role.h"

namespace boxcar::sim {

using ir::ProductRole;

// Whether products of this op run in 8 bits if a job asks for it: those of weights. A batch_matmul may be one
// of experts' weights, or of attention.
bool has_float8(const ir::OpDef& def, bool of_weight);

// An operand, in the order of the op: x and w, dy and w, x and dy.
struct Float8Operand {
  double elements = 0;  // elements that the product reads
  double own = -1;      // those of this device, if the others are gathered; -1: all
  bool fused = false;   // its cast is fused with the kernel that makes it
  double serves = 1;    // acts of the product for which one cast is made
};

struct Float8Casts {
  double seconds = 0;
  double launches = 0;
};

// REQUIRES device.float8.
Float8Casts float8_casts(const backends::DeviceProfile& device, ProductRole role,
                         const std::array<Float8Operand, 2>& operands);

}  // namespace boxcar::sim

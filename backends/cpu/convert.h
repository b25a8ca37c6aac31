// Converts between tensors of double and the bytes that devices hold.
//
//   std::vector<float> bytes(4);
//   store({float32[4], {1, 2, 3, 4}}, bytes.data());
//   load(float32[4], bytes.data()).data[2] == 3
//
// Floats are rounded to the nearest; booleans are a byte, 0 or 1. Throws Error (fault) for float8, which no
// CPU kernel computes with.
#pragma once

#include "backends/cpu/reference.h"

namespace boxcar::backends::cpu {

// `bytes` may be null if the tensor is empty.
HostTensor load(const ir::TensorType& type, const void* bytes);
void store(const HostTensor& tensor, void* bytes);

// Whether elements of this type can be loaded and stored.
bool is_stored(ir::DType dtype);

}  // namespace boxcar::backends::cpu

// The reference kernels by an op's name.
#pragma once

#include <utility>
#include <vector>

#include "backends/cpu/reference.h"
#include "ir/op.h"

namespace boxcar::backends::cpu {

inline HostTensor tensor(const char* type, std::vector<double> data) {
  return {ir::parse_tensor_type(type), std::move(data)};
}

inline Tensors run(const char* name, const Tensors& inputs, const ir::Attrs& attrs = {}) {
  return run_reference(name, inputs, ir::complete(ir::op(name), attrs));
}

}  // namespace boxcar::backends::cpu

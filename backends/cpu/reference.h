// A naive, clear reference implementation of every op, on tensors of double. Backends are compared with it.
//
//   run_reference("matmul", {{f32[1, 2], {1, 2}}, {f32[2, 1], {3, 4}}}, {}) == {{f32[1, 1], {11}}}
//
// Elements are doubles whatever the tensor's type is: integers and booleans (0, 1) are exact, floats are not
// rounded. Empty tensors are legal everywhere: a sum over nothing is 0, a maximum over nothing -infinity. An
// index outside its range reads 0 and adds nothing, as a split table needs.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/op.h"

namespace boxcar::backends::cpu {

struct HostTensor {
  ir::TensorType type;
  std::vector<double> data;  // row-major, type.elements() of them
};

using Tensors = std::vector<HostTensor>;
// Outputs come with their inferred types and zeros; attributes are complete.
using ReferenceKernel = void (*)(const Tensors& inputs, Tensors& outputs, const ir::Attrs& attrs);
using KernelTable = std::map<std::string, ReferenceKernel, std::less<>>;

// The groups, one file each: reference_matmul.cpp and so on, beside the same groups of ir/ops.
void add_matmul_kernels(KernelTable& table);
void add_elementwise_kernels(KernelTable& table);
void add_reduce_kernels(KernelTable& table);
void add_shape_kernels(KernelTable& table);
void add_index_kernels(KernelTable& table);
void add_update_kernels(KernelTable& table);
void add_nn_kernels(KernelTable& table);
void add_attention_kernels(KernelTable& table);
void add_conv_kernels(KernelTable& table);
void add_packed_kernels(KernelTable& table);
void add_fused_kernels(KernelTable& table);

const KernelTable& reference_kernels();

// Infers, then runs. `attrs` are complete. Throws Error (bad input) for types that infer refuses, Error
// (fault) for an op that has no kernel.
Tensors run_reference(std::string_view op, const Tensors& inputs, const ir::Attrs& attrs);

HostTensor zeros(ir::TensorType type);

// The part of `whole` in these ranges (one per axis), and back.
HostTensor take(const HostTensor& whole, std::span<const sbp::Range> ranges);
void put(HostTensor& whole, std::span<const sbp::Range> ranges, const HostTensor& part);

// --- for kernels

// Row-major strides, in elements: {2, 3, 4} -> {12, 4, 1}.
std::vector<int64_t> strides(const ir::Shape& shape);

// A shape seen as outer x extent x inner around one axis: {2, 3, 4} around 1 is {2, 3, 4}, around -1 {6, 4,
// 1}.
struct Around {
  int64_t outer = 1, extent = 1, inner = 1;
};
Around around(const ir::Shape& shape, int64_t axis);

// Calls visit(index, flat) for every element in row-major order; index has one number per dimension.
void for_each(const ir::Shape& shape,
              const std::function<void(const std::vector<int64_t>& index, int64_t flat)>& visit);

}  // namespace boxcar::backends::cpu

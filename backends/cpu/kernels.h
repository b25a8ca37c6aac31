// Fast kernels on the CPU: a table from op to a factory of kernels, one file per group.
//
//   template <class T>
//   void relu(const Operands& at, int64_t count) {
//     for (int64_t i = 0; i < count; ++i) at.out<T>(0)[i] = std::max(at.in<T>(0)[i], T(0));
//   }
//   std::unique_ptr<Kernel> make_relu(const Call& call) {
//     const int64_t count = call.outputs[0].elements();
//     return for_float(call.outputs[0].dtype, [&]<class T>() {
//       return kernel([count](const Operands& at) { relu<T>(at, count); });
//     });
//   }
//   void add_elementwise_kernels(Factories& table) { table["relu"] = make_relu; }
//
// A factory reads types and attributes once; its kernel reads addresses and the moment at every act. A
// factory returns null for types that it has no kernel for. The reference kernel then runs, in double,
// between conversions (make_reference_kernel). Kernels compute and sum in Acc<T>, and round once when they
// store. They run on the calling thread, may keep scratch memory between acts, and give the same bits in
// every run.
#pragma once

#include <Eigen/Core>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "backends/device.h"

namespace boxcar::backends::cpu {

// How elements lie in memory. boolean is a byte, 0 or 1.
using Half = Eigen::half;
using Bfloat16 = Eigen::bfloat16;

// The type in which kernels of T compute and sum.
template <class T>
using Acc = std::conditional_t<std::is_same_v<T, double>, double, float>;

// One act's addresses, in the op's order; null for empty tensors.
struct Operands {
  std::span<const void* const> inputs;
  std::span<void* const> outputs;
  const Moment& moment;

  template <class T>
  const T* in(size_t i) const {
    return static_cast<const T*>(inputs[i]);
  }
  template <class T>
  T* out(size_t i) const {
    return static_cast<T*>(outputs[i]);
  }
};

// A kernel whose run is `body(const Operands&)`.
template <class Body>
std::unique_ptr<Kernel> kernel(Body body) {
  struct Wrapped : Kernel {
    explicit Wrapped(Body b) : body(std::move(b)) {}
    void run(std::span<const void* const> inputs, std::span<void* const> outputs,
             const Moment& moment) override {
      body(Operands{inputs, outputs, moment});
    }
    Body body;
  };
  return std::make_unique<Wrapped>(std::move(body));
}

// Calls make.operator()<T>() with the C++ type of float64, float32, bfloat16 or float16. Null for other
// types.
template <class Make>
std::unique_ptr<Kernel> for_float(ir::DType dtype, Make make) {
  switch (dtype) {
    case ir::DType::float64:
      return make.template operator()<double>();
    case ir::DType::float32:
      return make.template operator()<float>();
    case ir::DType::bfloat16:
      return make.template operator()<Bfloat16>();
    case ir::DType::float16:
      return make.template operator()<Half>();
    default:
      return nullptr;
  }
}

// The same for the types of indices, int64 and int32.
template <class Make>
std::unique_ptr<Kernel> for_index(ir::DType dtype, Make make) {
  switch (dtype) {
    case ir::DType::int64:
      return make.template operator()<int64_t>();
    case ir::DType::int32:
      return make.template operator()<int32_t>();
    default:
      return nullptr;
  }
}

// The same for all types that have a C++ type: floats, indices, int8 and boolean (bool).
template <class Make>
std::unique_ptr<Kernel> for_any(ir::DType dtype, Make make) {
  switch (dtype) {
    case ir::DType::int64:
    case ir::DType::int32:
      return for_index(dtype, std::move(make));
    case ir::DType::int8:
      return make.template operator()<int8_t>();
    case ir::DType::boolean:
      return make.template operator()<bool>();
    default:
      return for_float(dtype, std::move(make));
  }
}

using Factory = std::unique_ptr<Kernel> (*)(const Call& call);
using Factories = std::map<std::string, Factory, std::less<>>;

// The kernel of `make`, which takes images with channels first. If the call has channels last, the given
// inputs are transposed before it, and the output after it if it is an image too.
std::unique_ptr<Kernel> on_images(const Call& call, Factory make, const std::vector<size_t>& inputs,
                                  bool output = true);

// The groups, one file each: kernels_elementwise.cpp and so on.
void add_elementwise_kernels(Factories& table);
void add_fused_kernels(Factories& table);
void add_gated_kernels(Factories& table);
void add_norm_kernels(Factories& table);
void add_batch_norm_kernels(Factories& table);
void add_softmax_kernels(Factories& table);
void add_loss_kernels(Factories& table);
void add_update_kernels(Factories& table);
void add_reduce_kernels(Factories& table);
void add_shape_kernels(Factories& table);
void add_index_kernels(Factories& table);
void add_sampling_kernels(Factories& table);
void add_moe_kernels(Factories& table);
void add_matmul_kernels(Factories& table);
void add_packed_kernels(Factories& table);
void add_attention_kernels(Factories& table);
void add_conv_kernels(Factories& table);
void add_pool_kernels(Factories& table);

const Factories& fast_kernels();

// The reference kernel between conversions to double and back. Throws Error (fault) for an op without a
// kernel and for element types that have no C++ type (float8).
std::unique_ptr<Kernel> make_reference_kernel(const Call& call);

// The attributes of a call at a moment. For random ops, and dropout in fused programs, the moment's seed,
// step and micro-batch are added to the attributes. The step is also added to the `step` of ops that count
// steps, which is 1 at first. The moment's learning rate replaces the optimizers' `lr`.
ir::Attrs attrs_at(const Call& call, const Moment& moment);

}  // namespace boxcar::backends::cpu

// Matrix products as kernels. 16-bit operands are turned into float panel by panel, and rounded once.
#include "backends/cpu/fast_math.h"
#include "backends/cpu/typed_product.h"

namespace boxcar::backends::cpu {
namespace {

int64_t leading(const ir::TensorType& type, size_t without) {
  int64_t count = 1;
  for (size_t i = 0; i + without < type.shape.size(); ++i) count *= type.shape[i];
  return count;
}

int64_t extent(const ir::TensorType& type, size_t from_end) {
  return type.shape[type.shape.size() - from_end];
}

// `count` products of matrices that lie one after the other: a[m, k] b[k, n], each possibly transposed.
struct Products {
  int64_t count, m, n, k;
  bool transpose_a, transpose_b;
};

std::unique_ptr<Kernel> products(const Call& call, const Products& p) {
  if (call.inputs[0].dtype != call.outputs[0].dtype) return nullptr;
  return for_float(call.outputs[0].dtype, [&]<class T>() {
    return kernel([p, scratch = ProductScratch()](const Operands& at) mutable {
      for (int64_t i = 0; i < p.count; ++i) {
        typed_product<T>(matrix(at.in<T>(0) + i * p.m * p.k, p.m, p.k, p.transpose_a),
                         matrix(at.in<T>(1) + i * p.k * p.n, p.k, p.n, p.transpose_b),
                         matrix(at.out<T>(0) + i * p.m * p.n, p.m, p.n), scratch);
      }
    });
  });
}

std::unique_ptr<Kernel> make_matmul(const Call& call) {
  const bool transpose_a = ir::attr_bool(call.attrs, "transpose_a");
  const ir::TensorType &a = call.inputs[0], &y = call.outputs[0];
  const int64_t k = transpose_a ? a.shape[0] : a.shape.back();
  return products(
      call, {1, leading(y, 1), y.shape.back(), k, transpose_a, ir::attr_bool(call.attrs, "transpose_b")});
}

std::unique_ptr<Kernel> make_weight_grad(const Call& call) {
  const ir::TensorType &x = call.inputs[0], &dw = call.outputs[0];
  return products(call, {1, dw.shape[0], dw.shape[1], leading(x, 1), true, false});
}

// The product, and the bias added to each row of it.
std::unique_ptr<Kernel> make_matmul_bias(const Call& call) {
  std::shared_ptr<Kernel> product = make_matmul(call);
  if (!product || call.inputs[2].dtype != call.outputs[0].dtype) return nullptr;
  return for_float(call.outputs[0].dtype, [&]<class T>() {
    return kernel(
        [product, n = call.outputs[0].shape.back(), rows = leading(call.outputs[0], 1)](const Operands& at) {
          product->run(at.inputs, at.outputs, at.moment);
          for (int64_t i = 0; i < rows; ++i) {
            T* const y = at.out<T>(0) + i * n;
            for (int64_t j = 0; j < n; ++j)
              y[j] = static_cast<T>(static_cast<Acc<T>>(y[j]) + static_cast<Acc<T>>(at.in<T>(2)[j]));
          }
        });
  });
}

// The product, with the residual and possibly a bias added to it.
std::unique_ptr<Kernel> make_matmul_add(const Call& call) {
  const std::shared_ptr<Kernel> product = make_matmul(call);
  if (!product) return nullptr;
  return for_float(call.outputs[0].dtype, [&]<class T>() {
    return kernel([product, n = call.outputs[0].shape.back(), rows = leading(call.outputs[0], 1),
                   biased = call.inputs.size() > 3](const Operands& at) {
      product->run(at.inputs, at.outputs, at.moment);
      for (int64_t i = 0; i < rows; ++i) {
        T* const y = at.out<T>(0) + i * n;
        const T* const residual = at.in<T>(2) + i * n;
        for (int64_t j = 0; j < n; ++j) {
          const Acc<T> bias = biased ? static_cast<Acc<T>>(at.in<T>(3)[j]) : Acc<T>(0);
          y[j] = static_cast<T>(static_cast<Acc<T>>(y[j]) + static_cast<Acc<T>>(residual[j]) + bias);
        }
      }
    });
  });
}

// Writes h as well as gelu(h).
std::unique_ptr<Kernel> make_matmul_bias_gelu(const Call& call) {
  const ir::TensorType& y = call.outputs[0];
  const std::shared_ptr<Kernel> product = make_matmul_bias(call);
  const std::shared_ptr<Kernel> gelu =
      fast_kernels().at("gelu")({"gelu", {call.outputs[1]}, {y}, {{"tanh", true}}});
  if (!product || !gelu) return nullptr;
  return kernel([product, gelu](const Operands& at) {
    product->run(at.inputs, at.outputs.subspan(1), at.moment);
    const void* const h = at.outputs[1];
    gelu->run({&h, 1}, at.outputs.first(1), at.moment);
  });
}

// The product becomes the gradient in place, row by row.
std::unique_ptr<Kernel> make_matmul_dgelu(const Call& call) {
  const std::shared_ptr<Kernel> product = make_matmul(call);
  if (!product || call.inputs[2].dtype != call.outputs[0].dtype) return nullptr;
  return for_float(call.outputs[0].dtype, [&]<class T>() {
    return kernel([product, n = call.outputs[0].shape.back(), rows = leading(call.outputs[0], 1),
                   sums = std::vector<Acc<T>>()](const Operands& at) mutable {
      product->run(at.inputs, at.outputs, at.moment);
      sums.assign(static_cast<size_t>(n), 0);
      for (int64_t i = 0; i < rows; ++i)
        for (int64_t j = 0; j < n; ++j) {
          T& dx = at.out<T>(0)[i * n + j];
          const Acc<T> d =
              static_cast<Acc<T>>(dx) * fast_gelu_tanh_slope(static_cast<Acc<T>>(at.in<T>(2)[i * n + j]));
          sums[static_cast<size_t>(j)] += d;
          dx = static_cast<T>(d);
        }
      for (int64_t j = 0; j < n; ++j) at.out<T>(1)[j] = static_cast<T>(sums[static_cast<size_t>(j)]);
    });
  });
}

// The product, and sums of the columns of dy.
std::unique_ptr<Kernel> make_bias_grad(const Call& call) {
  std::shared_ptr<Kernel> product = make_weight_grad(call);
  if (!product || call.inputs[1].dtype != call.outputs[1].dtype) return nullptr;
  return for_float(call.outputs[0].dtype, [&]<class T>() {
    return kernel([product, n = call.inputs[1].shape.back(), rows = leading(call.inputs[1], 1),
                   sums = std::vector<Acc<T>>()](const Operands& at) mutable {
      product->run(at.inputs, at.outputs, at.moment);
      sums.assign(static_cast<size_t>(n), 0);
      for (int64_t i = 0; i < rows; ++i)
        for (int64_t j = 0; j < n; ++j)
          sums[static_cast<size_t>(j)] += static_cast<Acc<T>>(at.in<T>(1)[i * n + j]);
      for (int64_t j = 0; j < n; ++j) at.out<T>(1)[j] = static_cast<T>(sums[static_cast<size_t>(j)]);
    });
  });
}

std::unique_ptr<Kernel> make_batch_matmul(const Call& call) {
  const bool transpose_a = ir::attr_bool(call.attrs, "transpose_a");
  const ir::TensorType &a = call.inputs[0], &y = call.outputs[0];
  return products(call, {leading(y, 2), extent(y, 2), extent(y, 1), extent(a, transpose_a ? 2 : 1),
                         transpose_a, ir::attr_bool(call.attrs, "transpose_b")});
}

}  // namespace

void add_matmul_kernels(Factories& table) {
  table["matmul"] = make_matmul;
  table["matmul_weight_grad"] = make_weight_grad;
  table["matmul_bias"] = make_matmul_bias;
  table["matmul_bias_grad"] = make_bias_grad;
  table["matmul_add"] = make_matmul_add;
  table["matmul_bias_gelu"] = make_matmul_bias_gelu;
  table["matmul_dgelu"] = make_matmul_dgelu;
  table["batch_matmul"] = make_batch_matmul;
}

}  // namespace boxcar::backends::cpu

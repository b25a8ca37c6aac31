// Matrix products as kernels. 16-bit operands are turned into float panel by panel, and rounded once.
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

// `count` products of matrices that lie one after the other: a[m, k] b[k, n], each maybe stored transposed.
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
  table["batch_matmul"] = make_batch_matmul;
}

}  // namespace boxcar::backends::cpu

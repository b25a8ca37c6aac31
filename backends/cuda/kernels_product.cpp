// Matrix products. Operands of one 16-bit type go to cuBLASLt as they are; mixtures are widened first.
#include "backends/cuda/kernel_table.h"

namespace boxcar::backends::cuda {
namespace {

using ir::DType;

ProductShape shape_of(const Call& call) {
  const auto from_end = [](const ir::TensorType& t, size_t i) { return t.shape[t.shape.size() - i]; };
  const auto leading = [](const ir::TensorType& t, size_t without) {
    int64_t count = 1;
    for (size_t i = 0; i + without < t.shape.size(); ++i) count *= t.shape[i];
    return count;
  };
  const ir::TensorType &a = call.inputs[0], &b = call.inputs[1];
  ProductShape s;
  if (call.op == "matmul_weight_grad") {
    s.transpose_a = true;
    s.m = from_end(a, 1), s.n = from_end(b, 1), s.k = leading(a, 1);
    return s;
  }
  s.transpose_a = ir::attr_bool(call.attrs, "transpose_a");
  s.transpose_b = ir::attr_bool(call.attrs, "transpose_b");
  const bool batched = call.op == "batch_matmul";
  if (batched) s.batch = leading(a, 2);
  const int64_t rows = batched || s.transpose_a ? from_end(a, 2) : leading(a, 1), columns = from_end(a, 1);
  s.m = s.transpose_a ? columns : rows;
  s.k = s.transpose_a ? rows : columns;
  s.n = s.transpose_b ? from_end(b, 2) : from_end(b, 1);
  return s;
}

std::unique_ptr<Kernel> make_product(const Call& call, const Place& place) {
  const ir::TensorType &a = call.inputs[0], &b = call.inputs[1], &c = call.outputs[0];
  for (const ir::TensorType* t : {&a, &b, &c})
    if (!ir::is_float(t->dtype)) return nullptr;
  ProductShape shape = shape_of(call);
  if (c.elements() == 0 || shape.k == 0)
    return kernel(call, place, 0, [bytes = c.bytes()](const Act& act) { zero(act, act.out(0), bytes); });
  const bool wide = any_float64(call);
  const DType middle = wide ? DType::float64 : DType::float32;
  const bool direct = a.dtype == b.dtype && (c.dtype == a.dtype || c.dtype == middle);
  shape.in = static_cast<Type>(direct ? a.dtype : middle);
  shape.out = static_cast<Type>(direct ? c.dtype : middle);
  std::shared_ptr<Product> product = place.libraries.blas().product(shape);
  const Widened widened(direct ? ir::Types{} : ir::Types{a, b, c}, middle, Blas::workspace);
  return kernel(call, place, widened.end(), [=](const Act& act) {
    if (direct) return product->run(act.inputs[0], act.inputs[1], act.outputs[0], act.scratch, act.stream);
    const Array first = widened.in(act, 0), second = widened.in(act, 1), result = widened.place(act, 2);
    product->run(first.data, second.data, result.data, act.scratch, act.stream);
    widened.out(act, 2);
  });
}

}  // namespace

void add_product_kernels(Factories& table) {
  for (const char* op : {"matmul", "matmul_weight_grad", "batch_matmul"}) table[op] = make_product;
}

}  // namespace boxcar::backends::cuda

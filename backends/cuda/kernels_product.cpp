// Matrix products. Operands of one 16-bit type go to cuBLASLt as they are; mixtures are widened first. Biases
// and their gradients, and GELU but not its gradient, are epilogues in all types but float64, where they are
// kernels after the product.
#include <fmt/format.h>

#include <functional>
#include <string>

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
  if (call.op == "matmul_weight_grad" || call.op == "matmul_bias_grad") {
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

// Why cuBLASLt cannot take its fastest kernels, which read and write 16 bytes at once; empty: it can.
std::string slow_rows(const ProductShape& s) {
  if (ir::size_of(static_cast<DType>(s.in)) != 2) return "";
  for (const int64_t row : {s.transpose_a ? s.m : s.k, s.transpose_b ? s.k : s.n, s.n})
    if (row % 8 != 0)
      return fmt::format(
          "rows of {} elements are no multiple of 16 bytes (widths that 8 divides; "
          "--pad-vocab 64 for a vocabulary)",
          row);
  return "";
}

// Whether operands go to cuBLASLt as they are: a, b, and c or sums in float32 or wider.
bool is_direct(const Call& call) {
  const ir::DType a = call.inputs[0].dtype, c = call.outputs[0].dtype;
  return a == call.inputs[1].dtype && (c == a || c == (any_float64(call) ? DType::float64 : DType::float32));
}

// Why the product of a call is not a fast one; empty: it is.
std::string slow_product(const Call& call) {
  if (!is_direct(call)) return "its operands are of several types (one --precision for both)";
  ProductShape shape = shape_of(call);
  shape.in = static_cast<Type>(call.inputs[0].dtype);
  return slow_rows(shape);
}

// Runs the product of an act's first two operands; its scratch memory comes first.
struct Run {
  std::function<void(const Act&)> product;
  int64_t scratch = 0;
};

Run product_of(const Call& call, const Place& place) {
  const ir::TensorType &a = call.inputs[0], &b = call.inputs[1], &c = call.outputs[0];
  ProductShape shape = shape_of(call);
  if (c.elements() == 0 || shape.k == 0)
    return {[bytes = c.bytes()](const Act& act) { zero(act, act.out(0), bytes); }, 0};
  const bool wide = any_float64(call);
  const DType middle = wide ? DType::float64 : DType::float32;
  const bool direct = is_direct(call);
  shape.in = static_cast<Type>(direct ? a.dtype : middle);
  shape.out = static_cast<Type>(direct ? c.dtype : middle);
  std::shared_ptr<Product> product = place.libraries.blas().product(shape);
  place.libraries.takes(direct ? "cuBLASLt" : "cuBLASLt, after kernels that widen", slow_product(call));
  const Widened widened(direct ? ir::Types{} : ir::Types{a, b, c}, middle, Blas::workspace);
  return {[=](const Act& act) {
            if (direct)
              return product->run(act.inputs[0], act.inputs[1], act.outputs[0], act.scratch, act.stream);
            const Array first = widened.in(act, 0), second = widened.in(act, 1),
                        result = widened.place(act, 2);
            product->run(first.data, second.data, result.data, act.scratch, act.stream);
            widened.out(act, 2);
          },
          widened.end()};
}

bool of_floats(const Call& call) {
  for (const ir::Types* types : {&call.inputs, &call.outputs})
    for (const ir::TensorType& t : *types)
      if (!ir::is_float(t.dtype)) return false;
  return true;
}

std::unique_ptr<Kernel> make_product(const Call& call, const Place& place) {
  if (!of_floats(call)) return nullptr;
  const Run run = product_of(call, place);
  return kernel(call, place, run.scratch, run.product);
}

// The product of an op whose epilogue cuBLASLt does not take; kernels follow it.
Run product_before_kernels(const Call& call, const Place& place) {
  Run run = product_of(call, place);
  if (call.outputs[0].elements() == 0) return run;
  const ProductShape s = shape_of(call);
  const std::string why = any_float64(call)
                              ? "cuBLASLt has no epilogues in float64 (--precision bf16)"
                              : fmt::format(
                                    "cuBLASLt has no algorithm with this epilogue for {} x {} (widths that 8 "
                                    "divides, one type for all operands)",
                                    s.m, s.n);
  place.libraries.takes("cuBLASLt, then own kernels", why);
  return run;
}

Reduce column_sums(const ir::TensorType& of, const ir::TensorType& sums) {
  const int64_t columns = of.shape.back(), rows = columns == 0 ? 0 : of.elements() / columns;
  return reduce_to({{rows, columns}, of.dtype}, {{columns}, sums.dtype});
}

// An operand of an act.
using Operand = const void* (*)(const Act&);
const void* none(const Act&) { return nullptr; }
template <size_t i>
const void* input(const Act& act) {
  return act.inputs[i];
}
template <size_t i>
const void* output(const Act& act) {
  return act.outputs[i];
}

// Null if cuBLASLt has none: `bias`, `h` and what is `added` are operands of an act.
std::unique_ptr<Kernel> with_epilogue(const Call& call, const Place& place, Epilogue epilogue, Operand bias,
                                      Operand h = none, Operand added = none) {
  ProductShape shape = shape_of(call);
  shape.epilogue = epilogue;
  shape.adds = added != none;
  shape.in = shape.out = static_cast<Type>(call.inputs[0].dtype);
  if (any_float64(call)) return nullptr;  // GELU in one is rounded to float32
  for (const ir::Types* types : {&call.inputs, &call.outputs})
    for (const ir::TensorType& t : *types)
      if (t.dtype != call.inputs[0].dtype || t.elements() == 0) return nullptr;
  const std::shared_ptr<Product> product = place.libraries.blas().product(shape);
  if (!product) return nullptr;
  place.libraries.takes("cuBLASLt with an epilogue", slow_rows(shape));
  return kernel(call, place, Blas::workspace, [=](const Act& act) {
    product->run(act.inputs[0], act.inputs[1], act.outputs[0], act.scratch, act.stream, bias(act), h(act),
                 added(act));
  });
}

// to = op(a, b), elements of the first output: b of as many, or one for each of its columns.
void launch_step(const Act& act, MapStep step, Array a, Array b, int64_t period, Array to) {
  Map map;
  map.count = act.call.outputs[0].elements();
  if (map.count == 0) return;
  map.inputs = 2, map.steps = 1, map.result = 2;
  map.input[0].array = a;
  map.input[1].array = b;
  if (period > 0) map.input[1].mode = MapInput::row, map.input[1].period = period;
  step.a = 0, step.b = 1;
  map.step[0] = step;
  map.out = to;
  launch_map(map, any_float64(act.call), act.stream);
}

std::unique_ptr<Kernel> make_product_bias(const Call& call, const Place& place) {
  if (!of_floats(call)) return nullptr;
  if (auto made = with_epilogue(call, place, Epilogue::add_bias, input<2>)) return made;
  const Run run = product_before_kernels(call, place);
  return kernel(call, place, run.scratch, [run](const Act& act) {
    run.product(act);
    launch_step(act, {.op = Step::add}, act.out(0), act.in(2), act.call.inputs[2].elements(), act.out(0));
  });
}

std::unique_ptr<Kernel> make_product_add(const Call& call, const Place& place) {
  if (!of_floats(call)) return nullptr;
  const bool biased = call.inputs.size() > 3;
  const Operand bias = biased ? input<3> : none;
  if (auto made =
          with_epilogue(call, place, biased ? Epilogue::add_bias : Epilogue::none, bias, none, input<2>))
    return made;
  const Run run = product_before_kernels(call, place);
  return kernel(call, place, run.scratch, [run, biased](const Act& act) {
    run.product(act);
    launch_step(act, {.op = Step::add}, act.out(0), act.in(2), 0, act.out(0));
    if (biased)
      launch_step(act, {.op = Step::add}, act.out(0), act.in(3), act.call.inputs[3].elements(), act.out(0));
  });
}

// If no kernel does both: h first, then gelu from it.
std::unique_ptr<Kernel> make_product_bias_gelu(const Call& call, const Place& place) {
  if (!of_floats(call)) return nullptr;
  if (auto made = with_epilogue(call, place, Epilogue::bias_gelu, input<2>, output<1>)) return made;
  const Run run = product_before_kernels(call, place);
  return kernel(call, place, run.scratch, [run](const Act& act) {
    run.product(act);
    launch_step(act, {.op = Step::add}, act.out(0), act.in(2), act.call.inputs[2].elements(), act.out(1));
    launch_step(act, {.op = Step::gelu, .x = 1}, act.out(1), act.out(1), 0, act.out(0));
  });
}

// cuBLASLt has an epilogue for this too. On an H200 it takes 450 us for 16,384 x 768 x 3,072 in bfloat16,
// where the product alone takes 105.
std::unique_ptr<Kernel> make_product_gelu_grad(const Call& call, const Place& place) {
  if (!of_floats(call)) return nullptr;
  const Run run = product_of(call, place);
  place.libraries.takes("cuBLASLt, then own kernels", slow_product(call));
  const Reduce shape = column_sums(call.outputs[0], call.outputs[1]);
  return kernel(call, place, run.scratch + scratch_of(shape), [=, wide = any_float64(call)](const Act& act) {
    run.product(act);
    launch_step(act, {.op = Step::gelu_grad, .x = 1}, act.out(0), act.in(2), 0, act.out(0));
    Reduce sums = shape;
    sums.in = act.out(0), sums.out = act.out(1);
    launch_reduce(sums, static_cast<std::byte*>(act.scratch) + run.scratch, wide, act.stream);
  });
}

std::unique_ptr<Kernel> make_product_bias_grad(const Call& call, const Place& place) {
  if (!of_floats(call)) return nullptr;
  if (auto made = with_epilogue(call, place, Epilogue::bias_grad, output<1>)) return made;
  const Run run = product_before_kernels(call, place);
  const Reduce shape = column_sums(call.inputs[1], call.outputs[1]);
  return kernel(call, place, run.scratch + scratch_of(shape), [=, wide = any_float64(call)](const Act& act) {
    run.product(act);
    Reduce sums = shape;
    sums.in = act.in(1), sums.out = act.out(1);
    launch_reduce(sums, static_cast<std::byte*>(act.scratch) + run.scratch, wide, act.stream);
  });
}

}  // namespace

void add_product_kernels(Factories& table) {
  for (const char* op : {"matmul", "matmul_weight_grad", "batch_matmul"}) table[op] = make_product;
  table["matmul_bias"] = make_product_bias;
  table["matmul_add"] = make_product_add;
  table["matmul_bias_grad"] = make_product_bias_grad;
  table["matmul_bias_gelu"] = make_product_bias_gelu;
  table["matmul_dgelu"] = make_product_gelu_grad;
}

}  // namespace boxcar::backends::cuda

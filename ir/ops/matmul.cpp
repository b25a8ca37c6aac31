// Matrix products: matmul, its weight gradient, both with a bias in the same kernel, and products of batches.
// matmul_add(a, b, residual, bias?) also adds a residual. Products fused with GELU in its tanh form:
//
//   y, h = matmul_bias_gelu(a, b, bias)     h = a b + bias, y = gelu(h)
//   dx, db = matmul_dgelu(a, b, h)      dx = (a b) gelu'(h), db = the sums of its columns
#include <fmt/format.h>

#include "ir/ops/ops.h"

namespace boxcar::ir {
namespace {

struct Matrix {
  int64_t rows = 0, columns = 0;
};

Matrix last_two(const TensorType& type, bool transposed) {
  Matrix m{type.shape[type.shape.size() - 2], type.shape.back()};
  if (transposed) std::swap(m.rows, m.columns);
  return m;
}

double product(const Shape& shape) {
  double count = 1;
  for (int64_t extent : shape) count *= static_cast<double>(extent);
  return count;
}

void same_dtype(std::string_view op, std::string_view operand, const TensorType& got, std::string_view other,
                const TensorType& other_type) {
  if (got.dtype != other_type.dtype) refuse(op, operand, got, "the same element type", other, other_type);
}

void check_inner(std::string_view op, const Types& in, Matrix a, Matrix b) {
  if (a.columns == b.rows) return;
  refuse(op, "b", in[1], fmt::format("{} rows, to match the columns,", a.columns), "a", in[0]);
}

Types infer_matmul(const Types& in, const Attrs& attrs) {
  bool transpose_a = attr_bool(attrs, "transpose_a");
  need_rank("matmul", "a", in[0], 2);
  if (in[1].shape.size() != 2) refuse("matmul", "b", in[1], "2 dimensions");
  if (transpose_a && in[0].shape.size() != 2) refuse("matmul", "a", in[0], "2 dimensions with transpose_a");
  same_dtype("matmul", "b", in[1], "a", in[0]);
  Matrix a = last_two(in[0], transpose_a), b = last_two(in[1], attr_bool(attrs, "transpose_b"));
  check_inner("matmul", in, a, b);
  TensorType out = in[0];
  out.shape[out.shape.size() - 2] = a.rows;
  out.shape.back() = b.columns;
  return {out};
}

Types infer_weight_grad(const Types& in, const Attrs&) {
  need_rank("matmul_weight_grad", "x", in[0], 2);
  need_rank("matmul_weight_grad", "dy", in[1], 2);
  same_dtype("matmul_weight_grad", "dy", in[1], "x", in[0]);
  Shape x(in[0].shape.begin(), in[0].shape.end() - 1), dy(in[1].shape.begin(), in[1].shape.end() - 1);
  if (x != dy) refuse("matmul_weight_grad", "dy", in[1], "the same leading dimensions", "x", in[0]);
  return {{{in[0].shape.back(), in[1].shape.back()}, in[0].dtype}};
}

Types infer_matmul_bias(const Types& in, const Attrs& attrs) {
  const Types out = infer_matmul({in[0], in[1]}, attrs);
  same_dtype("matmul_bias", "bias", in[2], "a", in[0]);
  if (in[2].shape != Shape{out[0].shape.back()})
    refuse("matmul_bias", "bias", in[2], "one element for each column of", "the product", out[0]);
  return out;
}

Types infer_bias_grad(const Types& in, const Attrs& attrs) {
  const TensorType dw = infer_weight_grad(in, attrs)[0];
  return {dw, {{dw.shape[1]}, dw.dtype}};
}

Types infer_matmul_add(const Types& in, const Attrs& attrs) {
  const Types out = infer_matmul({in[0], in[1]}, attrs);
  same_type("matmul_add", "residual", in[2], "the product", out[0]);
  if (in.size() > 3 && in[3] != TensorType{{out[0].shape.back()}, out[0].dtype})
    refuse("matmul_add", "bias", in[3], "one element for each column of", "the product", out[0]);
  return out;
}

Types infer_bias_gelu(const Types& in, const Attrs& attrs) {
  const Types out = infer_matmul_bias(in, attrs);
  return {out[0], out[0]};
}

Types infer_gelu_grad(const Types& in, const Attrs& attrs) {
  const Types out = infer_matmul({in[0], in[1]}, attrs);
  same_type("matmul_dgelu", "h", in[2], "the product", out[0]);
  return {out[0], {{out[0].shape.back()}, out[0].dtype}};
}

Types infer_batch_matmul(const Types& in, const Attrs& attrs) {
  need_rank("batch_matmul", "a", in[0], 2);
  need_rank("batch_matmul", "b", in[1], 2);
  same_dtype("batch_matmul", "b", in[1], "a", in[0]);
  Shape batch_a(in[0].shape.begin(), in[0].shape.end() - 2),
      batch_b(in[1].shape.begin(), in[1].shape.end() - 2);
  if (batch_a != batch_b) refuse("batch_matmul", "b", in[1], "the same batch dimensions", "a", in[0]);
  Matrix a = last_two(in[0], attr_bool(attrs, "transpose_a")),
         b = last_two(in[1], attr_bool(attrs, "transpose_b"));
  check_inner("batch_matmul", in, a, b);
  TensorType out = in[0];
  out.shape[out.shape.size() - 2] = a.rows;
  out.shape.back() = b.columns;
  return {out};
}

Indices matrix(Indices leading, const char* rows, const char* columns, bool transposed) {
  leading.push_back(transposed ? columns : rows);
  leading.push_back(transposed ? rows : columns);
  return leading;
}

// m k, k n -> m n ; sum k, with `leading` dimensions before a and the result, and before b if `batched`.
sbp::IndexMap product_map(size_t leading, bool batched, bool transpose_a, bool transpose_b) {
  Indices batch = indices("b", leading);
  sbp::IndexMap map;
  map.inputs = {matrix(batch, "m", "k", transpose_a),
                matrix(batched ? batch : Indices{}, "k", "n", transpose_b)};
  map.outputs = {matrix(batch, "m", "n", false)};
  map.reduced = {{"k", sbp::Reduction::sum}};
  map.linear = {{0}, {1}};
  return map;
}

sbp::IndexMap matmul_map(const Types& in, const Attrs& attrs) {
  return product_map(in[0].shape.size() - 2, false, attr_bool(attrs, "transpose_a"),
                     attr_bool(attrs, "transpose_b"));
}

// Sums over parts of k would contain the bias once for each part, so no loop index is split there.
sbp::IndexMap matmul_bias_map(const Types& in, const Attrs& attrs) {
  sbp::IndexMap map = matmul_map(in, attrs);
  for (Indices& operand : map.inputs)
    for (sbp::Index& index : operand)
      if (index == "k") index = "_";
  map.inputs.push_back({"n"});
  map.reduced.clear();
  map.linear = {{0, 2}, {1, 2}};
  map.increasing = {2};
  return map;
}

// Signatures with parts of the bias, which add up as the products do.
std::vector<sbp::Signature> matmul_bias_extra(const Types& in, const Attrs& attrs, int64_t) {
  const int rank = static_cast<int>(in[0].shape.size());
  const int of_a = attr_bool(attrs, "transpose_a") ? 0 : rank - 1,
            of_b = attr_bool(attrs, "transpose_b") ? 1 : 0;
  return {{{sbp::Sbp::S(of_a), sbp::Sbp::S(of_b), sbp::Sbp::P()}, {sbp::Sbp::P()}}};
}

// As for a bias.
sbp::IndexMap matmul_add_map(const Types& in, const Attrs& attrs) {
  sbp::IndexMap map = matmul_bias_map(in, attrs);
  map.inputs[2] = map.outputs[0];
  if (in.size() == 3) return map;
  map.inputs.push_back({"n"});
  map.linear = {{0, 2, 3}, {1, 2, 3}};
  map.increasing = {2, 3};
  return map;
}

std::vector<sbp::Signature> matmul_add_extra(const Types& in, const Attrs& attrs, int64_t parts) {
  std::vector<sbp::Signature> signatures = matmul_bias_extra(in, attrs, parts);
  for (sbp::Signature& signature : signatures) signature.inputs.resize(in.size(), sbp::Sbp::P());
  return signatures;
}

// No partial sums, because gelu is not linear.
sbp::IndexMap bias_gelu_map(const Types& in, const Attrs& attrs) {
  sbp::IndexMap map = matmul_bias_map(in, attrs);
  map.outputs.push_back(map.outputs[0]);
  map.linear.clear();
  map.increasing.clear();
  return map;
}

sbp::IndexMap gelu_grad_map(const Types& in, const Attrs& attrs) {
  sbp::IndexMap map = matmul_map(in, attrs);
  map.inputs.push_back(map.outputs[0]);
  map.outputs.push_back({"n"});
  return map;
}

// Parts of the rows give partial sums of db.
std::vector<sbp::Signature> gelu_grad_extra(const Types& in, const Attrs& attrs, int64_t) {
  const int rows = static_cast<int>(in[0].shape.size()) - 1;
  const bool transposed = attr_bool(attrs, "transpose_a");
  std::vector<sbp::Signature> signatures;
  for (int axis = 0; axis < rows; ++axis)
    signatures.push_back({{sbp::Sbp::S(transposed ? 1 : axis), sbp::Sbp::B(), sbp::Sbp::S(axis)},
                          {sbp::Sbp::S(axis), sbp::Sbp::P()}});
  return signatures;
}

sbp::IndexMap batch_matmul_map(const Types& in, const Attrs& attrs) {
  return product_map(in[0].shape.size() - 2, true, attr_bool(attrs, "transpose_a"),
                     attr_bool(attrs, "transpose_b"));
}

// r k, r n -> k n ; sum r, for every leading dimension r.
sbp::IndexMap weight_grad_map(const Types& in, const Attrs&) {
  sbp::IndexMap map;
  Indices rows = indices("r", in[0].shape.size() - 1);
  map.inputs = {rows, rows};
  map.inputs[0].push_back("k");
  map.inputs[1].push_back("n");
  map.outputs = {{"k", "n"}};
  for (const sbp::Index& row : rows) map.reduced.push_back({row, sbp::Reduction::sum});
  map.linear = {{0}, {1}};
  return map;
}

sbp::IndexMap bias_grad_map(const Types& in, const Attrs& attrs) {
  sbp::IndexMap map = weight_grad_map(in, attrs);
  map.outputs.push_back({"n"});
  map.linear = {{1}};
  return map;
}

// db does not depend on x.
std::vector<sbp::Signature> bias_grad_extra(const Types& in, const Attrs&, int64_t) {
  const int last = static_cast<int>(in[0].shape.size()) - 1;
  return {{{sbp::Sbp::S(last), sbp::Sbp::B()}, {sbp::Sbp::S(0), sbp::Sbp::B()}},
          {{sbp::Sbp::P(), sbp::Sbp::B()}, {sbp::Sbp::P(), sbp::Sbp::B()}}};
}

// 2 m n k: one multiplication and one addition per element of a and column of b.
Work product_work(const Types& in, const Types& out, const Attrs&) {
  return {2 * product(in[0].shape) * static_cast<double>(out[0].shape.back()), bytes_of(in) + bytes_of(out)};
}

// A transposed a has the same elements, and b's columns are those of the result, so product_work holds.
std::vector<Sample> matmul_samples(const Extent& n) {
  int64_t m = n(), k = n(), c = n(), b = n();
  return {{.inputs = {f32({m, k}), f32({k, c})}},
          {.inputs = {f32({b, m, k}), f32({c, k})}, .attrs = {{"transpose_b", true}}},
          {.inputs = {f32({k, m}), f32({k, c})}, .attrs = {{"transpose_a", true}}}};
}

std::vector<Sample> matmul_bias_samples(const Extent& n) {
  std::vector<Sample> samples = matmul_samples(n);
  for (Sample& sample : samples)
    sample.inputs.push_back(
        {{infer_matmul(sample.inputs, complete(op("matmul"), sample.attrs))[0].shape.back()},
         DType::float32});
  return samples;
}

std::vector<Sample> matmul_add_samples(const Extent& n) {
  std::vector<Sample> samples = matmul_bias_samples(n);
  for (Sample& sample : samples)
    sample.inputs.insert(sample.inputs.begin() + 2,
                         infer_matmul(sample.inputs, complete(op("matmul"), sample.attrs))[0]);
  samples[0].inputs.pop_back();
  return samples;
}

std::vector<Sample> gelu_grad_samples(const Extent& n) {
  std::vector<Sample> samples = matmul_samples(n);
  for (Sample& sample : samples) {
    sample.inputs.push_back(infer_matmul(sample.inputs, complete(op("matmul"), sample.attrs))[0]);
    sample.domains = {{-1, 1, 0.5}, {-1, 1, 0.5}};
  }
  return samples;
}

std::vector<Sample> weight_grad_samples(const Extent& n) {
  int64_t m = n(), k = n(), c = n(), b = n();
  return {{.inputs = {f32({m, k}), f32({m, c})}}, {.inputs = {f32({b, m, k}), f32({b, m, c})}}};
}

std::vector<Sample> batch_samples(const Extent& n) {
  int64_t m = n(), k = n(), c = n(), b = n();
  return {{.inputs = {f32({b, m, k}), f32({b, k, c})}},
          {.inputs = {f32({b, 2, m, k}), f32({b, 2, c, k})}, .attrs = {{"transpose_b", true}}},
          {.inputs = {f32({b, k, m}), f32({b, k, c})}, .attrs = {{"transpose_a", true}}}};
}

}  // namespace

void add_matmul_ops(std::vector<OpDef>& out) {
  const Attrs transposes = {{"transpose_a", false}, {"transpose_b", false}};
  out.push_back({.name = "matmul",
                 .inputs = {"a", "b"},
                 .outputs = {"y"},
                 .attrs = transposes,
                 .family = Family::matmul,
                 .infer = infer_matmul,
                 .index_map = matmul_map,
                 .work = product_work,
                 .samples = matmul_samples});
  out.push_back({.name = "matmul_weight_grad",
                 .inputs = {"x", "dy"},
                 .outputs = {"dw"},
                 .family = Family::matmul,
                 .infer = infer_weight_grad,
                 .index_map = weight_grad_map,
                 .work = product_work,
                 .samples = weight_grad_samples});
  out.push_back({.name = "matmul_bias",
                 .inputs = {"a", "b", "bias"},
                 .outputs = {"y"},
                 .attrs = transposes,
                 .family = Family::matmul,
                 .infer = infer_matmul_bias,
                 .index_map = matmul_bias_map,
                 .extra = matmul_bias_extra,
                 .extra_reason = "the bias is added once to all parts of a sum, in as many parts",
                 .work = product_work,
                 .samples = matmul_bias_samples});
  out.push_back({.name = "matmul_bias_grad",
                 .inputs = {"x", "dy"},
                 .outputs = {"dw", "db"},
                 .family = Family::matmul,
                 .infer = infer_bias_grad,
                 .index_map = bias_grad_map,
                 .extra = bias_grad_extra,
                 .extra_reason = "db does not depend on x",
                 .work = product_work,
                 .samples = weight_grad_samples});
  out.push_back({.name = "matmul_add",
                 .inputs = {"a", "b", "residual", "bias?"},
                 .outputs = {"y"},
                 .attrs = transposes,
                 .family = Family::matmul,
                 .infer = infer_matmul_add,
                 .index_map = matmul_add_map,
                 .extra = matmul_add_extra,
                 .extra_reason = "what is added once to all parts of a sum is in as many parts",
                 .work = product_work,
                 .samples = matmul_add_samples});
  out.push_back({.name = "matmul_bias_gelu",
                 .inputs = {"a", "b", "bias"},
                 .outputs = {"y", "h"},
                 .attrs = transposes,
                 .family = Family::matmul,
                 .infer = infer_bias_gelu,
                 .index_map = bias_gelu_map,
                 .work = product_work,
                 .tolerance = 1e-9,
                 .samples = matmul_bias_samples});
  out.push_back({.name = "matmul_dgelu",
                 .inputs = {"a", "b", "h"},
                 .outputs = {"dx", "db"},
                 .attrs = transposes,
                 .family = Family::matmul,
                 .infer = infer_gelu_grad,
                 .index_map = gelu_grad_map,
                 .extra = gelu_grad_extra,
                 .extra_reason = "a part of the rows has a part of their sum",
                 .work = product_work,
                 .tolerance = 1e-9,
                 .samples = gelu_grad_samples});
  out.push_back({.name = "batch_matmul",
                 .inputs = {"a", "b"},
                 .outputs = {"y"},
                 .attrs = transposes,
                 .family = Family::matmul,
                 .infer = infer_batch_matmul,
                 .index_map = batch_matmul_map,
                 .work = product_work,
                 .samples = batch_samples});
}

}  // namespace boxcar::ir

// Products of matrices.
#include <fmt/format.h>

#include <algorithm>

#include "backends/onnx/conversion.h"

namespace boxcar::backends::onnx {
namespace {

// x with the leading axes that a batched product needs.
Value with_leading(const Conversion& c, const Value& x, const ir::Shape& leading, const char* what) {
  ir::Shape shape = leading;
  shape.insert(shape.end(), x.type.shape.end() - 2, x.type.shape.end());
  return shape == x.type.shape ? x : c.emit("broadcast_to", {x}, {{"shape", shape}}, what);
}

ir::Shape leading_axes(const Conversion& c, const Value& a, const Value& b) {
  const ir::Shape *longer = &a.type.shape, *shorter = &b.type.shape;
  if (longer->size() < shorter->size()) std::swap(longer, shorter);
  ir::Shape leading(longer->begin(), longer->end() - 2);
  for (size_t i = 0; i + 2 < shorter->size(); ++i) {
    int64_t& extent = leading[leading.size() - (shorter->size() - 2) + i];
    const int64_t other = (*shorter)[i];
    if (extent != other && extent != 1 && other != 1)
      c.refuse(fmt::format("multiplies {} by {}", to_text(a.type), to_text(b.type)));
    extent = std::max(extent, other);
  }
  return leading;
}

void matmul(Conversion& c) {
  const Value& a = c.in(0);
  const Value& b = c.in(1);
  if (a.type.shape.size() < 2 || b.type.shape.size() < 2)
    c.refuse(fmt::format("multiplies {} by {}, expected two axes or more", to_text(a.type), to_text(b.type)));
  if (b.type.shape.size() == 2) {
    const bool transposed = b.is_known() && b.origin && b.origin->op == "transpose";
    if (transposed) return c.out(c.emit("matmul", {a, b.origin->operands[0]}, {{"transpose_b", true}}));
    return c.out(c.emit("matmul", {a, b}));
  }
  const ir::Shape leading = leading_axes(c, a, b);
  c.out(c.emit("batch_matmul", {with_leading(c, a, leading, "a"), with_leading(c, b, leading, "b")}));
}

// alpha a b + beta c
void gemm(Conversion& c) {
  const bool has_sum = c.has(2);
  const double alpha = c.number("alpha", 1), beta = c.number("beta", 1);
  Value y = c.emit("matmul", {c.in(0), c.in(1)},
                   {{"transpose_a", c.whole("transA", 0) != 0}, {"transpose_b", c.whole("transB", 0) != 0}},
                   has_sum || alpha != 1 ? "product" : "");
  y = scaled(c, y, alpha, has_sum ? "scaled" : "");
  c.out(has_sum ? c.emit("add", {y, scaled(c, c.in(2), beta, "summand")}) : y);
}

}  // namespace

void add_product_converters(Converters& table) {
  table["MatMul"] = matmul;
  table["Gemm"] = gemm;
}

}  // namespace boxcar::backends::onnx

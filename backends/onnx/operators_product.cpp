// Products of matrices.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <string>
#include <utility>

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

// --- Einsum

using Labels = std::string;

// The labels of one that are, or are not, in the other; in the order of the first.
Labels only_in(const Labels& one, const Labels& other, bool inside) {
  Labels found;
  for (const char label : one)
    if ((other.find(label) != Labels::npos) == inside) found += label;
  return found;
}

// A product of two operands, its labels in four groups: of both and the result; of one and the result; of
// both alone, which is summed over.
struct Product {
  Labels a, b, y;
  Labels batch = {}, rows = {}, columns = {}, inner = {};
};

Product product_of(const Conversion& c) {
  std::string equation = c.text("equation", "");
  const auto refuse = [&] {
    c.refuse(
        fmt::format("has the equation {}, expected a product of two operands with each letter once in an "
                    "operand, such as bhid,bhjd->bhij",
                    c.text("equation", "")));
  };
  std::erase(equation, ' ');
  const size_t comma = equation.find(','), arrow = equation.find("->");
  if (c.operands() != 2 || comma == std::string::npos || arrow == std::string::npos || arrow < comma)
    refuse();
  Product p{equation.substr(0, comma), equation.substr(comma + 1, arrow - comma - 1),
            equation.substr(arrow + 2)};
  for (const Labels& labels : {p.a, p.b, p.y})
    for (const char label : labels)
      if (!std::isalpha(static_cast<unsigned char>(label)) ||
          std::count(labels.begin(), labels.end(), label) != 1)
        refuse();
  const Labels both = only_in(p.a, p.b, true);
  p.batch = only_in(p.y, both, true);
  p.rows = only_in(only_in(p.y, p.a, true), p.b, false);
  p.columns = only_in(only_in(p.y, p.b, true), p.a, false);
  p.inner = only_in(both, p.y, false);
  const size_t in_a = p.batch.size() + p.rows.size() + p.inner.size(),
               in_b = p.batch.size() + p.columns.size() + p.inner.size();
  if (in_a != p.a.size() || in_b != p.b.size() ||
      p.batch.size() + p.rows.size() + p.columns.size() != p.y.size())
    refuse();
  return p;
}

struct Matrices {
  Value x;
  bool transposed;
};

Value permuted(const Conversion& c, const Value& x, const Labels& from, const Labels& to, const char* what) {
  std::vector<int64_t> perm;
  for (const char label : to) perm.push_back(static_cast<int64_t>(from.find(label)));
  return from == to ? x : c.emit("transpose", {x}, {{"perm", perm}}, what);
}

using Extents = std::map<char, int64_t>;
ir::Shape shape_of(const Extents& extents, const Labels& labels) {
  ir::Shape shape;
  for (const char label : labels) shape.push_back(extents.at(label));
  return shape;
}
int64_t joined(const Extents& extents, const Labels& labels) {
  return ir::TensorType{shape_of(extents, labels)}.elements();
}

// x[batch..., first, second], or [batch..., second, first] if it lies so. The batch's axes stay, the others
// are joined to one each. keeps_first: `first` stays apart too, since its first axis may be the model's
// batch.
Matrices matrices(const Conversion& c, const Value& x, const Labels& labels, const Extents& extents,
                  const Labels& batch, const Labels& first, const Labels& second, bool keeps_first,
                  const char* what) {
  const bool turned = labels != batch + first + second && labels == batch + second + first &&
                      (!keeps_first || first.size() == 1);
  const std::string name = what;
  const Value y = turned ? x : permuted(c, x, labels, batch + first + second, (name + ".transposed").c_str());
  ir::Shape shape = shape_of(extents, batch);
  const int64_t inner = joined(extents, second);
  if (turned) shape.push_back(inner);
  if (keeps_first && !first.empty()) {
    const ir::Shape kept = shape_of(extents, first);
    shape.insert(shape.end(), kept.begin(), kept.end());
  } else {
    shape.push_back(joined(extents, first));
  }
  if (!turned) shape.push_back(inner);
  return {reshaped(c, y, shape, what), turned};
}

void einsum(Conversion& c) {
  Product p = product_of(c);
  Value a = c.in(0), b = c.in(1);
  // The operand whose axes come first in the result is the left one.
  if (!p.rows.empty() && !p.columns.empty() && p.y.find(p.columns[0]) < p.y.find(p.rows[0])) {
    std::swap(a, b);
    std::swap(p.a, p.b);
    std::swap(p.rows, p.columns);
  }
  Extents extents;
  for (const auto& [x, labels] : {std::pair(&a, &p.a), std::pair(&b, &p.b)}) {
    if (x->type.shape.size() != labels->size())
      c.refuse(fmt::format("has {} for the axes {}", to_text(x->type), *labels));
    for (size_t i = 0; i < labels->size(); ++i)
      if (extents.emplace((*labels)[i], x->type.shape[i]).first->second != x->type.shape[i])
        c.refuse(fmt::format("multiplies {} by {}", to_text(a.type), to_text(b.type)));
  }
  const bool alone = p.batch.empty();
  const Matrices left = matrices(c, a, p.a, extents, p.batch, p.rows, p.inner, alone, "a"),
                 right = matrices(c, b, p.b, extents, p.batch, p.inner, p.columns, false, "b");
  const Labels made = p.batch + p.rows + p.columns;
  const Value y = c.emit(alone ? "matmul" : "batch_matmul", {left.x, right.x},
                         {{"transpose_a", left.transposed}, {"transpose_b", right.transposed}}, "product");
  c.out(permuted(c, reshaped(c, y, shape_of(extents, made), "axes"), made, p.y, ""));
}

}  // namespace

void add_product_converters(Converters& table) {
  table["MatMul"] = matmul;
  table["Gemm"] = gemm;
  table["Einsum"] = einsum;
}

}  // namespace boxcar::backends::onnx

// Gradients of reductions and of ops that move elements.
#include <limits>
#include <numeric>

#include "ir/grad/rules.h"
#include "sbp/at.h"
#include "sbp/error.h"

namespace boxcar::ir {
namespace {

std::vector<int64_t> reduced_axes(GradContext& g) {
  const auto rank = static_cast<int64_t>(g.type(g.x(0)).shape.size());
  std::vector<int64_t> axes = attr_ints(g.attrs(), "axes");
  for (int64_t& axis : axes)
    if (axis < 0) axis += rank;
  if (!axes.empty()) return axes;
  axes.resize(static_cast<size_t>(rank));  // none are given: all
  std::iota(axes.begin(), axes.end(), 0);
  return axes;
}

// A tensor of the reduction's result shape, stretched to its operand's.
TensorId spread(GradContext& g, const std::string& what, TensorId reduced) {
  const Shape shape = g.type(g.x(0)).shape;
  Shape kept = shape;
  for (int64_t axis : reduced_axes(g)) at(kept, axis) = 1;
  if (g.type(reduced).shape != kept)
    reduced = g.emit(what + "_kept", "reshape", {reduced}, {{"shape", kept}});
  return g.emit(what, "broadcast_to", {reduced}, {{"shape", shape}});
}

void reduce_sum(GradContext& g) { g.give(0, spread(g, "x", g.dy())); }

void reduce_mean(GradContext& g) {
  const Shape& shape = g.type(g.x(0)).shape;
  double count = 1;
  for (int64_t axis : reduced_axes(g)) count *= static_cast<double>(at(shape, axis));
  g.give(0, spread(g, "x", g.emit("mean", "scale", {g.dy()}, {{"factor", 1 / count}})));
}

// dy goes in equal shares to the elements that equal the extremum, as in PyTorch's amax. The operand may be a
// sum whose parts lie on several devices, and sums in another order differ. So all ops below read one copy of
// it: `x` is the operand, from an op that is not linear and takes no parts.
void extremum(GradContext& g, bool max) {
  const TensorType type = g.type(g.x(0));
  const Attrs rows = {{"axes", reduced_axes(g)}, {"keepdims", true}};
  const TensorId x =
      g.emit("whole", "clamp_min", {g.x(0)}, {{"min", double{std::numeric_limits<float>::lowest()}}});
  const TensorId y = spread(g, "extremum", g.emit("found", max ? "reduce_max" : "reduce_min", {x}, rows));
  const TensorId gap = max ? g.emit("gap", "sub", {y, x}) : g.emit("gap", "sub", {x, y});
  const TensorId ones = g.constant("ones", type, 1);
  const TensorId chosen = g.emit("chosen", "sub", {ones, g.emit("others", "relu_grad", {ones, gap})});
  const TensorId ties = spread(g, "ties", g.emit("count", "reduce_sum", {chosen}, rows));
  const TensorId share = g.emit("share", "div", {spread(g, "spread", g.dy()), ties});
  g.give(0, g.emit("x", "mul", {chosen, share}));
}
void reduce_max(GradContext& g) {
  if (attr_int(g.op().attrs, "classes") != 0)
    throw Error::fault(g.op().name, "with classes has no gradient outside of a loss");
  extremum(g, true);
}
void reduce_min(GradContext& g) { extremum(g, false); }

void broadcast_to(GradContext& g) { g.give(0, g.unbroadcast("x", g.dy(), g.type(g.x(0)))); }

void reshape(GradContext& g) {
  g.give(0, g.emit("x", "reshape", {g.dy()}, {{"shape", g.type(g.x(0)).shape}}));
}

void transpose(GradContext& g) {
  const std::vector<int64_t>& perm = attr_ints(g.attrs(), "perm");
  std::vector<int64_t> inverse(perm.size());
  for (size_t i = 0; i < perm.size(); ++i) at(inverse, perm[i]) = static_cast<int64_t>(i);
  g.give(0, g.emit("x", "transpose", {g.dy()}, {{"perm", inverse}}));
}

void slice(GradContext& g) {
  g.give(0, g.emit("x", "slice_grad", {g.dy()},
                   {{"starts", attr_ints(g.attrs(), "starts")}, {"shape", g.type(g.x(0)).shape}}));
}

void slice_grad(GradContext& g) {
  const std::vector<int64_t>& starts = attr_ints(g.attrs(), "starts");
  std::vector<int64_t> ends = g.type(g.x(0)).shape;
  for (size_t i = 0; i < ends.size(); ++i) ends[i] += starts[i];
  g.give(0, g.emit("x", "slice", {g.dy()}, {{"starts", starts}, {"ends", ends}}));
}

void concat(GradContext& g) {
  const Shape whole = g.type(g.y()).shape;
  int64_t axis = attr_int(g.attrs(), "axis");
  if (axis < 0) axis += static_cast<int64_t>(whole.size());
  int64_t begin = 0;
  for (size_t i = 0; i < g.inputs(); ++i) {
    Shape starts(whole.size(), 0), ends = whole;
    at(starts, axis) = begin;
    begin += at(g.type(g.x(i)).shape, axis);
    at(ends, axis) = begin;
    if (g.wants(i))
      g.give(i, g.emit("x" + std::to_string(i), "slice", {g.dy()}, {{"starts", starts}, {"ends", ends}}));
  }
}

void gather(GradContext& g) {
  const Shape& shape = g.type(g.x(0)).shape;
  const int64_t axis = attr_int(g.attrs(), "axis");
  const int64_t extent = at(shape, axis < 0 ? axis + static_cast<int64_t>(shape.size()) : axis);
  g.give(0, g.emit("x", "gather_grad", {g.dy(), g.x(1)}, {{"axis", axis}, {"extent", extent}}));
}

// The gradient of element i is the sum of dy from i on: the whole sum minus the prefix before i.
void cumsum(GradContext& g) {
  const int64_t axis = attr_int(g.attrs(), "axis");
  const TensorId total = g.emit("total", "reduce_sum", {g.dy()}, {{"axes", Shape{axis}}, {"keepdims", true}});
  const TensorId before =
      g.emit("before", "sub", {g.emit("prefix", "cumsum", {g.dy()}, {{"axis", axis}}), g.dy()});
  g.give(0, g.emit("x", "sub", {total, before}));
}

// dx[.., n] = sum over k of dy[.., k] where indices[.., k] == n
void top_k(GradContext& g) {
  const Shape& shape = g.type(g.x(0)).shape;
  const TensorId where = g.emit("where", "one_hot", {g.y(1)}, {{"depth", shape.back()}});
  const TensorId chosen = g.emit("chosen", "cast", {where}, {{"to", to_text(g.type(g.dy()).dtype)}});
  Shape column = g.type(g.dy()).shape;
  column.push_back(1);
  const TensorId dy = g.emit("column", "reshape", {g.dy()}, {{"shape", column}});
  const TensorId spread = g.emit("spread", "mul", {chosen, dy});
  g.give(0, g.emit("x", "reduce_sum", {spread}, {{"axes", Shape{static_cast<int64_t>(shape.size()) - 1}}}));
}

void split_heads(GradContext& g) { g.give(0, g.emit("x", "split_heads_grad", {g.dy(0), g.dy(1), g.dy(2)})); }
void split_heads_grad(GradContext& g) {
  const Shape& q = g.type(g.x(0)).shape;
  const auto d = g.emit_all("x", "split_heads", {g.dy()},
                            {{"head_dim", q[3]}, {"group", q[1] / g.type(g.x(1)).shape[1]}});
  for (size_t i = 0; i < 3; ++i) g.give(i, d[i]);
}
void merge_heads(GradContext& g) {
  g.give(0, g.emit("x", "merge_heads_grad", {g.dy()}, {{"head_dim", g.type(g.x(0)).shape[3]}}));
}
void merge_heads_grad(GradContext& g) { g.give(0, g.emit("x", "merge_heads", {g.dy()})); }

constexpr GradRule shape_rules[] = {{"reduce_sum", reduce_sum},
                                    {"reduce_mean", reduce_mean},
                                    {"reduce_max", reduce_max},
                                    {"reduce_min", reduce_min},
                                    {"broadcast_to", broadcast_to},
                                    {"reshape", reshape},
                                    {"transpose", transpose},
                                    {"slice", slice},
                                    {"slice_grad", slice_grad},
                                    {"concat", concat},
                                    {"gather", gather},
                                    {"cumsum", cumsum},
                                    {"top_k", top_k},
                                    {"split_heads", split_heads, 3},
                                    {"split_heads_grad", split_heads_grad},
                                    {"merge_heads", merge_heads},
                                    {"merge_heads_grad", merge_heads_grad}};

}  // namespace

std::span<const GradRule> shape_gradients() { return shape_rules; }

}  // namespace boxcar::ir

// Gradients of elementwise ops.
#include <fmt/format.h>

#include "ir/grad/rules.h"
#include "ir/ops/pointwise.h"

namespace boxcar::ir {
namespace {

const char* dtype_of(GradContext& g, TensorId tensor) { return to_text(g.type(tensor).dtype); }

void give_broadcast(GradContext& g, size_t operand, TensorId gradient) {
  g.give(operand, g.unbroadcast(operand == 0   ? "sum_x"
                                : operand == 1 ? "sum_b"
                                               : "sum_c",
                                gradient, g.type(g.x(operand))));
}

void add(GradContext& g) {
  for (size_t i = 0; i < 2; ++i)
    if (g.wants(i)) give_broadcast(g, i, g.dy());
}

void sub(GradContext& g) {
  if (g.wants(0)) give_broadcast(g, 0, g.dy());
  if (g.wants(1)) give_broadcast(g, 1, g.emit("b", "neg", {g.dy()}));
}

void mul(GradContext& g) {
  if (g.wants(0)) give_broadcast(g, 0, g.emit("x", "mul", {g.dy(), g.x(1)}));
  if (g.wants(1)) give_broadcast(g, 1, g.emit("b", "mul", {g.dy(), g.x(0)}));
}

void div(GradContext& g) {
  if (g.wants(0)) give_broadcast(g, 0, g.emit("x", "div", {g.dy(), g.x(1)}));
  if (!g.wants(1)) return;
  const TensorId quotient =
      g.emit("b_quotient", "div", {g.emit("b_product", "mul", {g.dy(), g.y()}), g.x(1)});
  give_broadcast(g, 1, g.emit("b", "neg", {quotient}));
}

void where(GradContext& g) {
  const TensorId chosen = g.emit("chosen", "cast", {g.x(0)}, {{"to", dtype_of(g, g.dy())}});
  const TensorId da = g.emit("a", "mul", {g.dy(), chosen});
  if (g.wants(1)) give_broadcast(g, 1, da);
  if (g.wants(2)) give_broadcast(g, 2, g.emit("b", "sub", {g.dy(), da}));
}

void sum(GradContext& g) {
  for (size_t i = 0; i < g.inputs(); ++i) g.give(i, g.dy());
}
void pass(GradContext& g) { g.give(0, g.dy()); }
void neg(GradContext& g) { g.give(0, g.emit("x", "neg", {g.dy()})); }
void exp(GradContext& g) { g.give(0, g.emit("x", "mul", {g.dy(), g.y()})); }
void log(GradContext& g) { g.give(0, g.emit("x", "div", {g.dy(), g.x(0)})); }
void sqrt(GradContext& g) {
  g.give(0, g.emit("x", "scale", {g.emit("quotient", "div", {g.dy(), g.y()})}, {{"factor", 0.5}}));
}
void scale(GradContext& g) { g.give(0, g.emit("x", "scale", {g.dy()}, g.attrs())); }
void cast(GradContext& g) { g.give(0, g.emit("x", "cast", {g.dy()}, {{"to", dtype_of(g, g.x(0))}})); }
void dropout(GradContext& g) { g.give(0, g.emit("x", "dropout_grad", {g.dy()}, g.attrs())); }

// The gradient by the op's row.
void by_row(GradContext& g) {
  const PointwiseRow& row = *find_pointwise(g.op().type);
  const TensorId read = row.grad_reads == PointwiseRow::y ? g.y() : g.x(0);
  g.give(0, g.emit("x", grad_op(row).c_str(), {g.dy(), read}, g.attrs()));
}

void swiglu(GradContext& g) {
  const auto d = g.emit_all("x", "swiglu_grad", {g.dy(), g.x(0), g.x(1)});
  for (size_t i = 0; i < 2; ++i) g.give(i, d[i]);
}
void weighed_swiglu_pairs(GradContext& g) {
  const auto d = g.emit_all("x", "weighed_swiglu_pairs_grad", {g.dy(), g.x(0), g.x(1)});
  for (size_t i = 0; i < 2; ++i) g.give(i, d[i]);
}
void swiglu_pairs(GradContext& g) { g.give(0, g.emit("x", "swiglu_pairs_grad", {g.dy(), g.x(0)})); }

void bias_gelu(GradContext& g) {
  const TensorId dx = g.emit("x", "bias_gelu_grad", {g.dy(), g.x(0), g.x(1)}, g.attrs());
  g.give(0, dx);
  if (g.wants(1)) give_broadcast(g, 1, dx);
}

void bias_dropout_add(GradContext& g) {
  const bool drops = attr_float(g.attrs(), "p") > 0;
  const TensorId dx = drops ? g.emit("x", "dropout_grad", {g.dy()}, g.attrs()) : g.dy();
  g.give(0, dx);
  if (g.wants(1)) give_broadcast(g, 1, dx);
  g.give(2, g.dy());
}

// One kernel for all operands; gradients of broadcast operands are summed after it.
void fused(GradContext& g) {
  std::vector<TensorId> operands = {g.dy()};
  for (size_t i = 0; i < g.inputs(); ++i) operands.push_back(g.x(i));
  const auto d = g.emit_all("x", "fused_grad", operands, g.attrs());
  for (size_t i = 0; i < g.inputs(); ++i)
    if (g.wants(i)) g.give(i, g.unbroadcast(fmt::format("sum_{}", i), d[i], g.type(g.x(i))));
}

void causal_mask(GradContext& g) {
  Attrs attrs = g.attrs();
  attrs["fill"] = 0.0;
  g.give(0, g.emit("x", "causal_mask", {g.dy()}, attrs));
}

constexpr GradRule written[] = {{"add", add},
                                {"sub", sub},
                                {"mul", mul},
                                {"div", div},
                                {"where", where},
                                {"sum", sum},
                                {"identity", pass},
                                {"to_global", pass},
                                {"neg", neg},
                                {"exp", exp},
                                {"log", log},
                                {"sqrt", sqrt},
                                {"scale", scale},
                                {"cast", cast},
                                {"dropout", dropout},
                                {"swiglu", swiglu},
                                {"swiglu_pairs", swiglu_pairs},
                                {"weighed_swiglu_pairs", weighed_swiglu_pairs},
                                {"bias_gelu", bias_gelu},
                                {"bias_dropout_add", bias_dropout_add},
                                {"causal_mask", causal_mask},
                                {"fused", fused}};

}  // namespace

std::span<const GradRule> elementwise_gradients() {
  static const std::vector<GradRule> rules = [] {
    std::vector<GradRule> all(std::begin(written), std::end(written));
    for (const PointwiseRow& row : pointwise_rows())
      if (row.has_grad_op) all.push_back({row.name, by_row});
    return all;
  }();
  return rules;
}

}  // namespace boxcar::ir

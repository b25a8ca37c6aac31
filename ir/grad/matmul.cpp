// Gradients of matrix products.
#include "ir/grad/rules.h"

namespace boxcar::ir {
namespace {

Attrs transposed(bool a, bool b) { return {{"transpose_a", a}, {"transpose_b", b}}; }

// y = op(a) op(b): da and db are products of the same kind, depending on which of a and b are transposed.
void two_products(GradContext& g, const char* type) {
  const bool ta = attr_bool(g.attrs(), "transpose_a"), tb = attr_bool(g.attrs(), "transpose_b");
  const TensorId a = g.x(0), b = g.x(1), dy = g.dy();
  if (g.wants(0))
    g.give(0, ta ? g.emit("x", type, {b, dy}, transposed(tb, true))
                 : g.emit("x", type, {dy, b}, transposed(false, !tb)));
  if (g.wants(1))
    g.give(1, tb ? g.emit("w", type, {dy, a}, transposed(true, ta))
                 : g.emit("w", type, {a, dy}, transposed(!ta, false)));
}

void matmul(GradContext& g) {
  if (attr_bool(g.attrs(), "transpose_a")) return two_products(g, "matmul");
  const bool tb = attr_bool(g.attrs(), "transpose_b");
  if (g.wants(0)) g.give(0, g.emit("x", "matmul", {g.dy(), g.x(1)}, transposed(false, !tb)));
  if (!g.wants(1)) return;
  const std::vector<TensorId> operands = tb ? std::vector{g.dy(), g.x(0)} : std::vector{g.x(0), g.dy()};
  g.give(1, g.emit("w", "matmul_weight_grad", operands));
}

void matmul_bias(GradContext& g) {
  matmul(g);
  if (g.wants(2)) g.give(2, g.unbroadcast("bias", g.dy(), g.type(g.x(2))));
}

void matmul_add(GradContext& g) {
  matmul(g);
  g.give(2, g.dy());
  if (g.inputs() > 3 && g.wants(3)) g.give(3, g.unbroadcast("bias", g.dy(), g.type(g.x(3))));
}

void batch_matmul(GradContext& g) { two_products(g, "batch_matmul"); }

// w[k, n] = sum over rows of x[.., k] dy[.., n]
void matmul_weight_grad(GradContext& g) {
  if (g.wants(0)) g.give(0, g.emit("x", "matmul", {g.x(1), g.dy()}, transposed(false, true)));
  if (g.wants(1)) g.give(1, g.emit("dy", "matmul", {g.x(0), g.dy()}));
}

constexpr GradRule matmul_rules[] = {{"matmul", matmul},
                                     {"matmul_bias", matmul_bias},
                                     {"matmul_add", matmul_add},
                                     {"batch_matmul", batch_matmul},
                                     {"matmul_weight_grad", matmul_weight_grad}};

}  // namespace

std::span<const GradRule> matmul_gradients() { return matmul_rules; }

}  // namespace boxcar::ir

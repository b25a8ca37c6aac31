// Normalisation over the last axis, which no rule may split. Statistics are kept in float32 at least.
//
//   layer_norm: y = (x - mean) rstd gamma + beta,  rstd = 1 / sqrt(variance + eps)
//   rms_norm:   y = x rstd gamma,                  rstd = 1 / sqrt(mean(x^2) + eps)
#include "ir/ops/nn_rows.h"

namespace boxcar::ir {
namespace {

void check_norm(const char* op, const TensorType& x) {
  need_rank(op, "x", x, 1);
  need_float(op, "x", x);
}

void need_width(const char* op, const char* operand, const TensorType& got, const TensorType& x) {
  need_shape(op, operand, got, {x.shape.back()}, "x", x);
}

TensorType statistic_of(const TensorType& x) { return {without_last(x.shape), wide(x.dtype)}; }

Types infer_layer_norm(const Types& in, const Attrs&) {
  check_norm("layer_norm", in[0]);
  need_width("layer_norm", "gamma", in[1], in[0]);
  need_width("layer_norm", "beta", in[2], in[0]);
  return {in[0], statistic_of(in[0]), statistic_of(in[0])};
}

Types infer_layer_norm_grad(const Types& in, const Attrs&) {
  const char* op = "layer_norm_grad";
  const TensorType& x = in[1];
  check_norm(op, x);
  same_shape(op, "dy", in[0], "x", x);
  need_width(op, "gamma", in[2], x);
  need_shape(op, "mean", in[3], without_last(x.shape), "x", x);
  need_shape(op, "rstd", in[4], without_last(x.shape), "x", x);
  return {x, in[2], in[2]};
}

Types infer_rms_norm(const Types& in, const Attrs&) {
  check_norm("rms_norm", in[0]);
  need_width("rms_norm", "gamma", in[1], in[0]);
  return {in[0], statistic_of(in[0])};
}

Types infer_rms_norm_grad(const Types& in, const Attrs&) {
  const char* op = "rms_norm_grad";
  const TensorType& x = in[1];
  check_norm(op, x);
  same_shape(op, "dy", in[0], "x", x);
  need_width(op, "gamma", in[2], x);
  need_shape(op, "rstd", in[3], without_last(x.shape), "x", x);
  return {x, in[2]};
}

// x[b, h] and x[b, s, h], with `operands` filled in from x, its width and its statistics.
template <class Operands>
std::vector<Sample> norm_samples(const Extent& n, Operands operands) {
  const int64_t b = n(), s = n(), h = n() + 1;
  return {{.inputs = operands(f32({b, h}), f32({h}), f32({b}))},
          {.inputs = operands(f32({b, s, h}), f32({h}), f32({b, s}))}};
}

OpDef layer_norm() {
  return {
      .name = "layer_norm",
      .inputs = {"x", "gamma", "beta"},
      .outputs = {"y", "mean", "rstd"},
      .attrs = {{"eps", 1e-5}},
      .infer = infer_layer_norm,
      .index_map = ranked("* _, _, _ -> * _, *, *", 0, 1),
      .extra = always({"B, P(sum), P(sum) -> P(sum), B, B", "B, B, P(max) -> P(max), B, B",
                       "B, B, P(min) -> P(min), B, B"}),
      .extra_reason = "y is linear in (gamma, beta) and increasing in beta; mean and rstd depend on neither",
      .tolerance = 1e-9,
      .samples = [](const Extent& n) {
        return norm_samples(n, [](auto x, auto width, auto) { return Types{x, width, width}; });
      }};
}

OpDef layer_norm_grad() {
  return {
      .name = "layer_norm_grad",
      .inputs = {"dy", "x", "gamma", "mean", "rstd"},
      .outputs = {"dx", "dgamma", "dbeta"},
      .infer = infer_layer_norm_grad,
      .index_map = ranked("* _, * _, _, *, * -> * _, _, _ ; sum * ; linear 0", 0, 1),
      .extra = always({"B, B, P(sum), B, B -> P(sum), B, B"}),
      .extra_reason = "dx is linear in gamma; dgamma and dbeta do not depend on it",
      .tolerance = 1e-9,
      .samples = [](const Extent& n) {
        return norm_samples(n, [](auto x, auto width, auto stat) { return Types{x, x, width, stat, stat}; });
      }};
}

OpDef rms_norm() {
  return {.name = "rms_norm",
          .inputs = {"x", "gamma"},
          .outputs = {"y", "rstd"},
          .attrs = {{"eps", 1e-5}},
          .infer = infer_rms_norm,
          .index_map = ranked("* _, _ -> * _, *", 0, 1),
          .extra = always({"B, P(sum) -> P(sum), B"}),
          .extra_reason = "y is linear in gamma; rstd does not depend on it",
          .tolerance = 1e-9,
          .samples = [](const Extent& n) {
            return norm_samples(n, [](auto x, auto width, auto) { return Types{x, width}; });
          }};
}

OpDef rms_norm_grad() {
  return {.name = "rms_norm_grad",
          .inputs = {"dy", "x", "gamma", "rstd"},
          .outputs = {"dx", "dgamma"},
          .infer = infer_rms_norm_grad,
          .index_map = ranked("* _, * _, _, * -> * _, _ ; sum * ; linear 0", 0, 1),
          .extra = always({"B, B, P(sum), B -> P(sum), B"}),
          .extra_reason = "dx is linear in gamma; dgamma does not depend on it",
          .tolerance = 1e-9,
          .samples = [](const Extent& n) {
            return norm_samples(n, [](auto x, auto width, auto stat) { return Types{x, x, width, stat}; });
          }};
}

}  // namespace

void add_norm_ops(std::vector<OpDef>& out) {
  out.push_back(layer_norm());
  out.push_back(layer_norm_grad());
  out.push_back(rms_norm());
  out.push_back(rms_norm_grad());
}

}  // namespace boxcar::ir

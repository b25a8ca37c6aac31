// Activations fused with the ops before them: bias_gelu(x, b) = gelu(x + b), swiglu(g, u) = silu(g) u.
#include "ir/ops/nn_rows.h"

namespace boxcar::ir {
namespace {

Types infer_bias_gelu(const char* op, const TensorType& x, const TensorType& bias) {
  need_rank(op, "x", x, 1);
  need_float(op, "x", x);
  need_shape(op, "bias", bias, {x.shape.back()}, "x", x);
  return {x};
}

std::vector<Sample> elementwise_samples(const Extent& n, size_t inputs) {
  const int64_t a = n(), b = n(), c = n();
  return {{.inputs = Types(inputs, f32({a, b}))}, {.inputs = Types(inputs, f32({c, a, b}))}};
}

OpDef bias_gelu() {
  return {.name = "bias_gelu",
          .inputs = {"x", "bias"},
          .outputs = {"y"},
          .attrs = {{"tanh", false}},
          .infer = [](const Types& in, const Attrs&) { return infer_bias_gelu("bias_gelu", in[0], in[1]); },
          .index_map = ranked("* h, h -> * h", 0, 1),
          .tolerance = 1e-9,
          .samples = [](const Extent& n) -> std::vector<Sample> {
            const int64_t h = n();
            return {{.inputs = {f32({n(), h}), f32({h})}},
                    {.inputs = {f32({n(), n(), h}), f32({h})}, .attrs = {{"tanh", true}}}};
          }};
}

OpDef bias_gelu_grad() {
  return {.name = "bias_gelu_grad",
          .inputs = {"dy", "x", "bias"},
          .outputs = {"dx"},
          .attrs = {{"tanh", false}},
          .infer =
              [](const Types& in, const Attrs&) {
                Types dx = infer_bias_gelu("bias_gelu_grad", in[1], in[2]);
                same_shape("bias_gelu_grad", "dy", in[0], "x", in[1]);
                return dx;
              },
          .index_map = ranked("* h, * h, h -> * h ; linear 0", 0, 1),
          .tolerance = 1e-9,
          .samples = [](const Extent& n) -> std::vector<Sample> {
            const int64_t h = n(), b = n(), s = n();
            return {{.inputs = {f32({b, h}), f32({b, h}), f32({h})}},
                    {.inputs = {f32({b, s, h}), f32({b, s, h}), f32({h})}, .attrs = {{"tanh", true}}}};
          }};
}

OpDef swiglu() {
  return {.name = "swiglu",
          .inputs = {"gate", "up"},
          .outputs = {"y"},
          .infer = [](const Types& in, const Attrs&) -> Types {
            need_float("swiglu", "gate", in[0]);
            same_type("swiglu", "up", in[1], "gate", in[0]);
            return {in[0]};
          },
          .index_map = ranked("*, * -> * ; linear 1"),
          .tolerance = 1e-9,
          .samples = [](const Extent& n) { return elementwise_samples(n, 2); }};
}

OpDef swiglu_grad() {
  return {.name = "swiglu_grad",
          .inputs = {"dy", "gate", "up"},
          .outputs = {"dgate", "dup"},
          .infer = [](const Types& in, const Attrs&) -> Types {
            need_float("swiglu_grad", "gate", in[1]);
            same_shape("swiglu_grad", "dy", in[0], "gate", in[1]);
            same_type("swiglu_grad", "up", in[2], "gate", in[1]);
            return {in[1], in[1]};
          },
          .index_map = ranked("*, *, * -> *, * ; linear 0"),
          .extra = always({"B, B, P(sum) -> P(sum), B"}),
          .extra_reason = "dgate is linear in up, and dup does not depend on it",
          .tolerance = 1e-9,
          .samples = [](const Extent& n) { return elementwise_samples(n, 3); }};
}

}  // namespace

void add_gated_ops(std::vector<OpDef>& out) {
  out.push_back(bias_gelu());
  out.push_back(bias_gelu_grad());
  out.push_back(swiglu());
  out.push_back(swiglu_grad());
}

}  // namespace boxcar::ir

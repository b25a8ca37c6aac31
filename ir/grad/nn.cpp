// Gradients of neural-network ops: embeddings, normalisations, attention, losses, convolutions.
#include "ir/grad/rules.h"
#include "ir/images.h"
#include "sbp/error.h"

namespace boxcar::ir {
namespace {

void give_all(GradContext& g, const std::vector<TensorId>& gradients) {
  for (size_t i = 0; i < gradients.size(); ++i) g.give(i, gradients[i]);
}

void embedding(GradContext& g) {
  g.give(0, g.emit("w", "embedding_grad", {g.dy(), g.x(1)}, {{"rows", g.type(g.x(0)).shape[0]}}));
}

void sample_rows(GradContext& g) {
  Attrs attrs = g.attrs();
  attrs.erase("samples");
  attrs["classes"] = g.type(g.x(0)).shape[0];
  g.give(0, g.emit("table", "sample_rows_grad", {g.dy(), g.x(1)}, attrs));
}

void softmax(GradContext& g) { g.give(0, g.emit("x", "softmax_grad", {g.dy(), g.y()})); }
void scale_mask_softmax(GradContext& g) {
  g.give(0, g.emit("x", "scale_mask_softmax_grad", {g.dy(), g.y()},
                   {{"scale", attr_float(g.attrs(), "scale")}}));
}

void layer_norm(GradContext& g) {
  give_all(g, g.emit_all("x", "layer_norm_grad", {g.dy(), g.x(0), g.x(1), g.y(1), g.y(2)}));
}
void rms_norm(GradContext& g) {
  give_all(g, g.emit_all("x", "rms_norm_grad", {g.dy(), g.x(0), g.x(1), g.y(1)}));
}
void batch_norm(GradContext& g) {
  give_all(g, g.emit_all("x", "batch_norm_grad", {g.dy(), g.x(0), g.x(1), g.y(1), g.y(2)},
                         {{"local", attr_bool(g.attrs(), "local")},
                          {"channels_last", attr_bool(g.attrs(), "channels_last")}}));
}

void rotary(GradContext& g) {
  Attrs attrs = g.attrs();
  attrs["inverse"] = !attr_bool(attrs, "inverse");
  g.give(0, g.emit("x", "rotary", {g.dy()}, attrs));
}

void attention(GradContext& g) {
  std::vector<TensorId> operands{g.dy(), g.x(0), g.x(1), g.x(2), g.y(0), g.y(1)};
  if (g.inputs() > 3) operands.push_back(g.x(3));  // where documents begin
  give_all(g, g.emit_all("qkv", "scaled_dot_product_attention_grad", operands, g.attrs()));
}

// --- mixture of experts. The choice of an expert has no gradient; the router's gradient comes through the
// weights

void moe_dispatch(GradContext& g) { g.give(0, g.emit("x", "moe_dispatch_grad", {g.dy(), g.x(1)})); }
void moe_dispatch_grad(GradContext& g) {  // a sum of experts' results that are already weighted
  const Shape slots = g.type(g.x(0)).shape;
  const Attrs attrs{{"experts", slots[slots.size() - 3]}, {"capacity", slots[slots.size() - 2]}};
  g.give(0, g.emit("dy", "moe_dispatch", {g.dy(), g.x(1)}, attrs));
}
void moe_combine(GradContext& g) {
  const auto gradients = g.emit_all("y", "moe_combine_grad", {g.dy(), g.x(0), g.x(1), g.x(2)});
  g.give(0, gradients[0]);
  g.give(2, gradients[1]);
}

// --- losses

Attrs classes_of(const Op& op) { return {{"classes", attr_int(op.attrs, "classes")}}; }

void cross_entropy(GradContext& g) {
  const TensorId logits = g.x(0);
  const Attrs classes = classes_of(g.op());
  Attrs of_max = classes;
  of_max["axes"] = Shape{-1};
  const TensorId max = g.emit("max", "reduce_max", {logits}, of_max);
  const TensorId sum = g.emit("sum_exp", "sum_exp", {logits, max}, classes);
  g.give(0, g.emit("x", "cross_entropy_grad", {g.dy(), logits, max, sum, g.x(1)}, classes));
}

void cross_entropy_parts(GradContext& g) {
  g.give(0, g.emit("x", "cross_entropy_grad", {g.dy(), g.x(0), g.y(1), g.y(2), g.x(1)}, classes_of(g.op())));
}

// Labels if nll's operands form the loss of max's operand, in pieces or with both sums in one op; else -1.
TensorId labels_of_loss(GradContext& g, const Op& max, const Op& sum, const Op& pick) {
  if (max.type != "reduce_max" || classes_of(max) != classes_of(sum) || sum.inputs[0] != max.inputs[0] ||
      sum.inputs[1] != g.x(0))
    return -1;
  if (sum.type == "sum_exp_pick" && pick.name == sum.name) return sum.inputs[2];
  return sum.type == "sum_exp" && pick.type == "pick" && pick.inputs[0] == max.inputs[0] ? pick.inputs[1]
                                                                                         : -1;
}

// The loss in parts, nll(max(x), sum_exp(x, max), pick(x, labels)), has one gradient: softmax - one_hot,
// which goes directly to the logits. Any other use of nll = log z + m - c is differentiated operand by
// operand.
void nll(GradContext& g) {
  const Op &max = g.producer(g.x(0)), &sum = g.producer(g.x(1)), &pick = g.producer(g.x(2));
  if (const TensorId labels = labels_of_loss(g, max, sum, pick); labels >= 0) {
    const TensorId logits = max.inputs[0];
    g.give_to(logits,
              g.emit("x", "cross_entropy_grad", {g.dy(), logits, g.x(0), g.x(1), labels}, classes_of(max)));
    return;
  }
  g.give(0, g.dy());
  if (g.wants(1)) g.give(1, g.emit("z", "div", {g.dy(), g.x(1)}));
  if (g.wants(2)) g.give(2, g.emit("c", "neg", {g.dy()}));
}

Shape column_of(GradContext& g, TensorId tensor) {
  Shape shape = g.type(tensor).shape;
  shape.push_back(1);
  return shape;
}

void sum_exp(GradContext& g) {
  if (attr_int(g.op().attrs, "classes") != 0)
    throw Error::fault(g.op().name, "with classes has no gradient outside of a loss");
  const Shape column = column_of(g, g.dy());
  const auto as_column = [&](const char* what, TensorId tensor) {
    return g.emit(what, "reshape", {tensor}, {{"shape", column}});
  };
  const TensorId shifted = g.emit("shifted", "sub", {g.x(0), as_column("max", g.x(1))});
  const TensorId terms = g.emit("terms", "exp", {shifted});
  if (g.wants(0)) g.give(0, g.emit("x", "mul", {terms, as_column("column", g.dy())}));
  if (g.wants(1)) g.give(1, g.emit("m", "neg", {g.emit("product", "mul", {g.dy(), g.y()})}));
}

void pick(GradContext& g) {
  const Shape column = column_of(g, g.dy());
  const TensorId where = g.emit("where", "one_hot", {g.x(1)}, {{"depth", g.type(g.x(0)).shape.back()}});
  const TensorId chosen = g.emit("chosen", "cast", {where}, {{"to", to_text(g.type(g.dy()).dtype)}});
  const TensorId dy = g.emit("column", "reshape", {g.dy()}, {{"shape", column}});
  g.give(0, g.emit("x", "mul", {chosen, dy}));
}

// --- convolutions

Attrs with_kernel(Attrs attrs, const TensorType& weight) {
  attrs["kernel"] = Shape{weight.shape[2], weight.shape[3]};
  return attrs;
}
Attrs with_input_size(Attrs attrs, const TensorType& x) {
  const Shape shape = image_axes(attrs).channels_first(x.shape);
  attrs["input_size"] = Shape{shape[2], shape[3]};
  return attrs;
}

void conv2d(GradContext& g) {
  if (g.wants(0))
    g.give(0, g.emit("x", "conv2d_input_grad", {g.dy(), g.x(1)}, with_input_size(g.attrs(), g.type(g.x(0)))));
  if (g.wants(1))
    g.give(1, g.emit("w", "conv2d_weight_grad", {g.dy(), g.x(0)}, with_kernel(g.attrs(), g.type(g.x(1)))));
}

// As an op of a model it is the transposed convolution of x(0), linear in both operands.
void conv2d_input_grad(GradContext& g) {
  Attrs attrs = g.attrs();
  attrs.erase("input_size");
  if (g.wants(0)) g.give(0, g.emit("x", "conv2d", {g.dy(), g.x(1)}, attrs));
  if (g.wants(1))
    g.give(1, g.emit("w", "conv2d_weight_grad", {g.x(0), g.dy()}, with_kernel(attrs, g.type(g.x(1)))));
}

void max_pool2d(GradContext& g) { g.give(0, g.emit("x", "max_pool2d_grad", {g.dy(), g.x(0)}, g.attrs())); }
void avg_pool2d(GradContext& g) {
  g.give(0, g.emit("x", "avg_pool2d_grad", {g.dy()}, with_input_size(g.attrs(), g.type(g.x(0)))));
}

constexpr GradRule nn_rules[] = {{"embedding", embedding},
                                 {"sample_rows", sample_rows},
                                 {"softmax", softmax},
                                 {"scale_mask_softmax", scale_mask_softmax},
                                 {"layer_norm", layer_norm},
                                 {"rms_norm", rms_norm},
                                 {"batch_norm", batch_norm},
                                 {"rotary", rotary},
                                 {"scaled_dot_product_attention", attention},
                                 {"moe_dispatch", moe_dispatch},
                                 {"moe_dispatch_grad", moe_dispatch_grad},
                                 {"moe_combine", moe_combine},
                                 {"cross_entropy", cross_entropy},
                                 {"cross_entropy_parts", cross_entropy_parts},
                                 {"nll", nll},
                                 {"sum_exp", sum_exp},
                                 {"pick", pick},
                                 {"conv2d", conv2d},
                                 {"conv2d_input_grad", conv2d_input_grad},
                                 {"max_pool2d", max_pool2d},
                                 {"avg_pool2d", avg_pool2d}};

}  // namespace

std::span<const GradRule> nn_gradients() { return nn_rules; }

}  // namespace boxcar::ir

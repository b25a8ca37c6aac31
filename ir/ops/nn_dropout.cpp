// dropout and its fused forms. An element is kept, times 1 / (1 - p), if its draw is at least p. Draws are
// counted on the global tensor (see random_attrs), so every layout drops the same elements.
#include "ir/ops/nn_rows.h"

namespace boxcar::ir {
namespace {

Attrs localize_draws(const Types& in, const Attrs& attrs, const sbp::Signature& signature, int64_t parts,
                     int64_t index) {
  return localize_random(in[0], attrs, signature.inputs[0], parts, index);
}

OpDef dropout(std::string name, std::string input, std::string output) {
  return {.name = name,
          .inputs = {input},
          .outputs = {output},
          .attrs = random_attrs(),
          .infer = [name, input](const Types& in, const Attrs& attrs) -> Types {
            need_float(name, input, in[0]);
            check_random(name, attrs, in[0]);
            return {in[0]};
          },
          .index_map = ranked("* -> * ; linear 0 ; increasing 0"),
          .localize = localize_draws,
          .samples = [](const Extent& n) -> std::vector<Sample> {
            return {{.inputs = {f32({n(), n()})}, .attrs = {{"p", 0.5}, {"seed", int64_t{3}}}},
                    {.inputs = {f32({n(), n(), n()})}, .attrs = {{"p", 0.5}, {"op", int64_t{7}}}},
                    {.inputs = {f32({n()})}}};
          }};
}

Types infer_bias_dropout_add(const Types& in, const Attrs& attrs) {
  const char* op = "bias_dropout_add";
  need_rank(op, "x", in[0], 1);
  need_float(op, "x", in[0]);
  need_shape(op, "bias", in[1], {in[0].shape.back()}, "x", in[0]);
  same_shape(op, "residual", in[2], "x", in[0]);
  check_random(op, attrs, in[0]);
  return {in[2]};
}

}  // namespace

void add_dropout_ops(std::vector<OpDef>& out) {
  out.push_back(dropout("dropout", "x", "y"));
  out.push_back(dropout("dropout_grad", "dy", "dx"));
  // y = dropout(x + bias) + residual, bias along the last axis
  out.push_back({.name = "bias_dropout_add",
                 .inputs = {"x", "bias", "residual"},
                 .outputs = {"y"},
                 .attrs = random_attrs(),
                 .infer = infer_bias_dropout_add,
                 .index_map = ranked("* h, h, * h -> * h ; linear 0 1 2 ; increasing 0 1 2", 0, 1),
                 .localize = localize_draws,
                 .samples = [](const Extent& n) -> std::vector<Sample> {
                   const int64_t h = n(), b = n(), s = n();
                   return {{.inputs = {f32({b, h}), f32({h}), f32({b, h})}, .attrs = {{"p", 0.5}}},
                           {.inputs = {f32({b, s, h}), f32({h}), f32({b, s, h})}, .attrs = {{"p", 0.5}}}};
                 }});
}

}  // namespace boxcar::ir

// Softmax along the last axis, plain and as attention scores need it. A causal mask hides key j from query i
// if j > i + offset, and with a window w if j <= i + offset - w. The query axis may be split; its parts
// differ in offset.
#include "ir/ops/nn_rows.h"

namespace boxcar::ir {
namespace {

Types infer_grad(const char* op, const Types& in, size_t rank) {
  need_rank(op, "y", in[1], rank);
  need_float(op, "y", in[1]);
  same_shape(op, "dy", in[0], "y", in[1]);
  return {in[1]};
}

Attrs localize_mask(const Types& in, const Attrs& attrs, const sbp::Signature& signature, int64_t parts,
                    int64_t index) {
  const size_t query = in[0].shape.size() - 2;
  if (!attr_bool(attrs, "causal") || !split_at(signature.inputs[0], static_cast<int64_t>(query)))
    return attrs;
  return advanced(attrs, "offset", part_of(in[0], query, parts, index).begin);
}

OpDef softmax() {
  return {.name = "softmax",
          .inputs = {"x"},
          .outputs = {"y"},
          .infer = [](const Types& in, const Attrs&) -> Types {
            need_rank("softmax", "x", in[0], 1);
            need_float("softmax", "x", in[0]);
            return {in[0]};
          },
          .index_map = ranked("* _ -> * _", 0, 1),
          .tolerance = 1e-9,
          .samples = [](const Extent& n) -> std::vector<Sample> {
            return {{.inputs = {f32({n(), n()})}}, {.inputs = {f32({n(), n(), n()})}}};
          }};
}

OpDef softmax_grad() {
  return {.name = "softmax_grad",
          .inputs = {"dy", "y"},
          .outputs = {"dx"},
          .infer = [](const Types& in, const Attrs&) { return infer_grad("softmax_grad", in, 1); },
          .index_map = ranked("* _, * _ -> * _ ; linear 0", 0, 1),
          .samples = [](const Extent& n) -> std::vector<Sample> {
            const int64_t a = n(), b = n(), c = n();
            return {{.inputs = Types(2, f32({a, b}))}, {.inputs = Types(2, f32({a, b, c}))}};
          }};
}

OpDef scale_mask_softmax() {
  return {.name = "scale_mask_softmax",
          .inputs = {"x"},
          .outputs = {"y"},
          .attrs = {{"scale", 1.0}, {"causal", false}, {"window", int64_t{0}}, {"offset", int64_t{0}}},
          .infer = [](const Types& in, const Attrs& attrs) -> Types {
            need_rank("scale_mask_softmax", "x", in[0], 2);
            need_float("scale_mask_softmax", "x", in[0]);
            if (attr_int(attrs, "offset") < 0)
              refuse_attr("scale_mask_softmax", "offset", attrs, "at least 0");
            check_window("scale_mask_softmax", attrs);
            return {in[0]};
          },
          .index_map = ranked("* _ -> * _", 0, 1),
          .localize = localize_mask,
          .tolerance = 1e-9,
          .samples = [](const Extent& n) -> std::vector<Sample> {
            const int64_t s = n();
            return {{.inputs = {f32({n(), n(), s, s})}, .attrs = {{"scale", 0.5}, {"causal", true}}},
                    {.inputs = {f32({n(), n()})}, .attrs = {{"scale", 0.5}}},
                    {.inputs = {f32({n(), n(), n()})}, .attrs = {{"causal", true}, {"offset", int64_t{1}}}},
                    {.inputs = {f32({n(), s, s})}, .attrs = {{"causal", true}, {"window", int64_t{2}}}}};
          }};
}

OpDef scale_mask_softmax_grad() {
  return {.name = "scale_mask_softmax_grad",
          .inputs = {"dy", "y"},
          .outputs = {"dx"},
          .attrs = {{"scale", 1.0}},
          .infer = [](const Types& in, const Attrs&) { return infer_grad("scale_mask_softmax_grad", in, 2); },
          .index_map = ranked("* _, * _ -> * _ ; linear 0", 0, 1),
          .samples = [](const Extent& n) -> std::vector<Sample> {
            const int64_t a = n(), b = n(), c = n();
            return {{.inputs = Types(2, f32({a, b, c})), .attrs = {{"scale", 0.5}}}};
          }};
}

}  // namespace

void add_softmax_ops(std::vector<OpDef>& out) {
  out.push_back(softmax());
  out.push_back(softmax_grad());
  out.push_back(scale_mask_softmax());
  out.push_back(scale_mask_softmax_grad());
}

}  // namespace boxcar::ir

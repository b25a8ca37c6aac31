// embedding(table[v, h], indices[...]) and its gradient. A part of the table has the number of its first row,
// `offset`. An index outside a part reads zeros and adds nothing, so a table split by rows gives P(sum).
#include "ir/ops/nn_rows.h"

namespace boxcar::ir {
namespace {

Types infer_embedding(const Types& in, const Attrs&) {
  exact_rank("embedding", "table", in[0], 2);
  need_float("embedding", "table", in[0]);
  need_indices("embedding", "indices", in[1]);
  Shape shape = in[1].shape;
  shape.push_back(in[0].shape[1]);
  return {{shape, in[0].dtype}};
}

Types infer_embedding_grad(const Types& in, const Attrs& attrs) {
  const char* op = "embedding_grad";
  need_rank(op, "dy", in[0], 1);
  need_float(op, "dy", in[0]);
  need_indices(op, "indices", in[1]);
  need_shape(op, "indices", in[1], without_last(in[0].shape), "dy", in[0]);
  if (attr_int(attrs, "rows") < 0) refuse_attr(op, "rows", attrs, "the number of rows of the table");
  return {{{attr_int(attrs, "rows"), in[0].shape.back()}, in[0].dtype}};
}

OpDef embedding() {
  return {.name = "embedding",
          .inputs = {"table", "indices"},
          .outputs = {"y"},
          .attrs = {{"offset", int64_t{0}}, {"below", int64_t{0}}},
          .infer = infer_embedding,
          .index_map = ranked("_ h, * -> * h ; linear 0 ; increasing 0", 1),
          .extra = always({"S(0), B -> P(sum)"}),
          .extra_reason = "a part of the table's rows adds zeros for the indices that it does not hold",
          .localize =
              [](const Types& in, const Attrs& attrs, const sbp::Signature& signature, int64_t parts,
                 int64_t index) {
                if (!split_at(signature.inputs[0], 0)) return attrs;
                return advanced(attrs, "offset", part_of(in[0], 0, parts, index).begin);
              },
          // the rows that are read, not the whole table
          .work =
              [](const Types& in, const Types& out, const Attrs&) {
                return Work{0, static_cast<double>(in[1].bytes() + 2 * out[0].bytes())};
              },
          .samples = [](const Extent& n) -> std::vector<Sample> {
            const int64_t rows = n();
            const std::vector<Domain> domains = {{}, {0, static_cast<double>(rows - 1), 1}};
            return {{.inputs = {f32({rows, n()}), i64({n()})}, .domains = domains},
                    {.inputs = {f32({rows, n()}), i64({n(), n()})}, .domains = domains}};
          }};
}

Attrs localize_embedding_grad(const Types&, const Attrs& attrs, const sbp::Signature& signature,
                              int64_t parts, int64_t index) {
  if (!split_at(signature.outputs[0], 0)) return attrs;
  const sbp::Range rows = sbp::part_range(attr_int(attrs, "rows"), parts, index);
  return with(advanced(attrs, "offset", rows.begin), "rows", rows.size());
}

OpDef embedding_grad() {
  return {.name = "embedding_grad",
          .inputs = {"dy", "indices"},
          .outputs = {"dtable"},
          .attrs = {{"rows", int64_t{-1}}, {"offset", int64_t{0}}},
          .infer = infer_embedding_grad,
          .index_map = ranked("* h, * -> _ h ; sum * ; linear 0", 1),
          .extra = always({"B, B -> S(0)"}),
          .extra_reason = "a part of the table's rows takes what the indices that it holds add",
          .localize = localize_embedding_grad,
          .samples = [](const Extent& n) -> std::vector<Sample> {
            // more indices than rows, so something is added to some row twice
            const int64_t rows = n(), width = n(), a = rows + 3, b = n();
            const std::vector<Domain> domains = {{}, {0, static_cast<double>(rows - 1), 1}};
            return {
                {.inputs = {f32({a, width}), i64({a})}, .attrs = {{"rows", rows}}, .domains = domains},
                {.inputs = {f32({a, b, width}), i64({a, b})}, .attrs = {{"rows", rows}}, .domains = domains}};
          }};
}

}  // namespace

void add_embedding_ops(std::vector<OpDef>& out) {
  out.push_back(embedding());
  out.push_back(embedding_grad());
}

}  // namespace boxcar::ir

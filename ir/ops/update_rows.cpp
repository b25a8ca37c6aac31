// Optimizers for the rows of a look-up table that a step read:
//
//   adam_rows(w, dy, m, v, indices) {rows=1000, offset=0} -> w, m, v
//
//   w [4, 2], indices (3, 1, 3), dy [3, 2]     row 3 has the gradient dy[0] + dy[2], row 1 has dy[1];
//                                              rows 0 and 2 and their moments stay as they are, without decay
//
// A part of the table has the number of its first row, `offset`; `rows` is the number of the whole table's,
// for the time of a part. A row with a trust ratio needs the norms of all rows and has no such op.
#include <algorithm>
#include <utility>

#include "ir/ops/nn_rows.h"
#include "ir/ops/optimizers.h"

namespace boxcar::ir {
namespace {

Types infer_rows(const std::string& op, const Types& in, const Attrs& attrs) {
  exact_rank(op, "w", in[0], 2);
  need_rank(op, "dy", in[1], 1);
  need_float(op, "dy", in[1]);
  need_indices(op, "indices", in.back());
  Shape read = in.back().shape;
  read.push_back(in[0].shape[1]);
  need_shape(op, "dy", in[1], read, "indices", in.back());
  if (attr_int(attrs, "rows") < 0) refuse_attr(op, "rows", attrs, "the number of rows of the whole table");
  Types states = {in[0]};
  for (size_t i = 2; i + 1 < in.size(); ++i) {
    same_shape(op, i == 2 ? "m" : "v", in[i], "w", in[0]);
    states.push_back(in[i]);
  }
  return states;
}

// _ h, _ h, _ h, _ h, _ -> _ h, _ h, _ h, with more _ for more dimensions of the indices
sbp::IndexMap rows_map(const Types& in) {
  const Indices table = {"_", "h"};
  Indices read(in.back().shape.size(), "_");
  sbp::IndexMap map;
  map.inputs.assign(in.size(), table);
  map.inputs.back() = read;
  read.emplace_back("h");
  map.inputs[1] = read;
  map.outputs.assign(in.size() - 2, table);
  return map;
}

sbp::Signature by_rows(size_t states) {
  using sbp::Sbp;
  sbp::Signature signature{{Sbp::S(0), Sbp::B()}, std::vector<Sbp>(states, Sbp::S(0))};
  signature.inputs.insert(signature.inputs.end(), states - 1, Sbp::S(0));
  signature.inputs.push_back(Sbp::B());
  return signature;
}

// The rows that are read, not the whole table: as many as there are indices, or all. A part of the table has
// its share of the indices.
Work work_of_rows(double flops, const Types& in, const Types& out, const Attrs& attrs) {
  const auto local = static_cast<double>(in[0].shape[0]);
  if (local == 0) return {};
  const double share = local / std::max(local, static_cast<double>(attr_int(attrs, "rows")));
  const double rows = std::min(local, share * static_cast<double>(in.back().elements()));
  return {share * static_cast<double>(in[1].elements()) + flops * rows * static_cast<double>(in[0].shape[1]),
          static_cast<double>(in.back().bytes()) + share * static_cast<double>(in[1].bytes()) +
              2 * rows * bytes_of(out) / local};
}

// More indices than rows, so that some row is read twice; and fewer, so that some row is not read.
std::vector<Sample> samples_of_rows(const Sample& single, const Extent& n) {
  const auto sample = [&](int64_t rows, int64_t width, Shape indices) {
    Sample result{.inputs = Types(single.inputs.size(), f32({rows, width})), .domains = single.domains};
    result.inputs[1].shape = indices;
    result.inputs[1].shape.push_back(width);
    result.inputs.push_back(i64(std::move(indices)));
    result.domains.resize(single.inputs.size());
    result.domains.push_back({0, static_cast<double>(rows - 1), 1});
    return result;
  };
  const int64_t rows = n(), width = n(), more = rows + 3, few = n();
  return {sample(rows, width, {more}), sample(rows + few, width, {few}), sample(rows, width, {few, 2})};
}

}  // namespace

void add_update_rows(std::vector<OpDef>& out) {
  for (const OpDef& one : std::vector<OpDef>(out.begin(), out.end())) {
    const OptimizerRow* row = find_optimizer(one.name);
    if (!row || !row->takes_rows()) continue;
    const auto states = static_cast<size_t>(1 + row->moments);
    std::vector<std::string> inputs = one.inputs;
    inputs.resize(1 + states);
    inputs[1] = "dy";
    inputs.emplace_back("indices");
    Attrs attrs = one.attrs;
    attrs.insert({{"rows", int64_t{0}}, {"offset", int64_t{0}}});
    out.push_back(
        {.name = rows_op(*row),
         .inputs = std::move(inputs),
         .outputs = one.outputs,
         .attrs = std::move(attrs),
         .infer = [name = rows_op(*row)](const Types& in, const Attrs& a) { return infer_rows(name, in, a); },
         .index_map = [](const Types& in, const Attrs&) { return rows_map(in); },
         .extra = [states](const Types&, const Attrs&, int64_t) { return std::vector{by_rows(states)}; },
         .extra_reason = "a part of the table's rows takes what the indices that it holds add",
         .localize =
             [](const Types& in, const Attrs& a, const sbp::Signature& signature, int64_t parts,
                int64_t index) {
               if (!split_at(signature.inputs[0], 0)) return a;
               return advanced(a, "offset", part_of(in[0], 0, parts, index).begin);
             },
         .work = [flops = row->flops](const Types& in, const Types& result,
                                      const Attrs& a) { return work_of_rows(flops, in, result, a); },
         .tolerance = one.tolerance,
         .samples = [one](const Extent& n) { return samples_of_rows(one.samples(n)[2], n); },
         .omitted = {{"states are whole or split when they are updated, never parts of sums", has_partial}}});
  }
}

}  // namespace boxcar::ir

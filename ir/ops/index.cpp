// Ops that compute with positions: gather and its gradient, one_hot, cumsum, top_k.
//
// A part of a split table holds the rows from `offset` on. An index outside it reads 0, so that the parts add
// up. `below` is the limit of indices that the graph computes, in the whole table; 0: none is known. The
// CPU's kernels check it, here and in the ops of losses, embeddings and experts.
#include <fmt/format.h>

#include "ir/ops/ops.h"
#include "sbp/at.h"

namespace boxcar::ir {
namespace {

using sbp::IndexMap;
using sbp::Sbp;
using sbp::Signature;

void need_integers(std::string_view op, const TensorType& type) {
  if (type.dtype != DType::int64 && type.dtype != DType::int32) {
    refuse(op, "indices", type, "element type int64 or int32");
  }
}

void insert(Indices& into, size_t at, const Indices& what) {
  into.insert(into.begin() + static_cast<int64_t>(at), what.begin(), what.end());
}

void insert(Shape& into, size_t at, const Shape& what) {
  into.insert(into.begin() + static_cast<int64_t>(at), what.begin(), what.end());
}

// --- gather

size_t gather_axis(const Types& in, const Attrs& attrs) {
  return static_cast<size_t>(normal_axis("gather", "axis", attr_int(attrs, "axis"), in[0]));
}

Types infer_gather(const Types& in, const Attrs& attrs) {
  need_integers("gather", in[1]);
  size_t axis = gather_axis(in, attrs);
  TensorType y = in[0];
  y.shape.erase(y.shape.begin() + static_cast<int64_t>(axis));
  insert(y.shape, axis, in[1].shape);
  return {y};
}

// x a0 g a2, indices i0 i1 -> a0 i0 i1 a2 ; sum g
IndexMap gather_map(const Types& in, const Attrs& attrs) {
  size_t axis = gather_axis(in, attrs);
  Indices x = indices("a", in[0].shape.size()), picked = indices("i", in[1].shape.size()), y = x;
  x[axis] = "g";
  y.erase(y.begin() + static_cast<int64_t>(axis));
  insert(y, axis, picked);
  IndexMap map;
  map.inputs = {x, picked};
  map.outputs = {y};
  map.reduced = {{"g", sbp::Reduction::sum}};
  map.linear = {{0}};
  map.increasing = {0};
  return map;
}

Attrs localize_gather(const Types& in, const Attrs& attrs, const Signature& signature, int64_t parts,
                      int64_t index) {
  size_t axis = gather_axis(in, attrs);
  Sbp x = signature.inputs[0];
  if (!x.is_split() || static_cast<size_t>(x.axis) != axis) return attrs;
  return with(attrs, "offset",
              attr_int(attrs, "offset") + sbp::part_range(in[0].shape[axis], parts, index).begin);
}

std::vector<Sample> gather_samples(const Extent& n) {
  int64_t a = n(), b = n(), c = n(), rows = n() + 2;
  Domain row{0, static_cast<double>(rows - 1), 1};
  return {{.inputs = {f32({rows, b}), i64({a, c})}, .domains = {{}, row}},
          {.inputs = {f32({b, rows, 3}), i64({a})}, .attrs = {{"axis", int64_t{1}}}, .domains = {{}, row}}};
}

// Reads the picked rows, not the whole table.
Work gather_work(const Types& in, const Types& out, const Attrs&) {
  return {0, 2 * bytes_of(out) + static_cast<double>(in[1].bytes())};
}

// --- gather_grad

// The place in dy where the dimensions of the indices begin: the axis of the table, counted from the end if
// it is negative.
size_t scatter_axis(const Types& in, const Attrs& attrs) {
  auto rank = static_cast<int64_t>(in[0].shape.size()) - static_cast<int64_t>(in[1].shape.size()) + 1;
  if (rank < 1) refuse("gather_grad", "dy", in[0], "at least the dimensions", "indices", in[1]);
  int64_t axis = attr_int(attrs, "axis");
  if (axis < -rank || axis >= rank)
    refuse_attr("gather_grad", "axis", attrs, fmt::format("{} to {}", -rank, rank - 1));
  return static_cast<size_t>(axis < 0 ? axis + rank : axis);
}

Types infer_gather_grad(const Types& in, const Attrs& attrs) {
  need_integers("gather_grad", in[1]);
  size_t axis = scatter_axis(in, attrs);
  auto begin = in[0].shape.begin() + static_cast<int64_t>(axis);
  auto end = begin + static_cast<int64_t>(in[1].shape.size());
  if (Shape(begin, end) != in[1].shape) {
    refuse("gather_grad", "dy", in[0], fmt::format("from axis {} on the dimensions", axis), "indices", in[1]);
  }
  if (attr_int(attrs, "extent") < 0) refuse_attr("gather_grad", "extent", attrs, "0 or more");
  TensorType dx{Shape(in[0].shape.begin(), begin), in[0].dtype};
  dx.shape.push_back(attr_int(attrs, "extent"));
  dx.shape.insert(dx.shape.end(), end, in[0].shape.end());
  return {dx};
}

// dy a0 i0 i1 a2, indices i0 i1 -> a0 g a2 ; sum i0 i1
IndexMap gather_grad_map(const Types& in, const Attrs& attrs) {
  size_t axis = scatter_axis(in, attrs);
  Indices picked = indices("i", in[1].shape.size());
  Indices others = indices("a", in[0].shape.size() - picked.size()), dx = others;
  insert(others, axis, picked);
  insert(dx, axis, {"g"});
  IndexMap map;
  map.inputs = {others, picked};
  map.outputs = {dx};
  for (const sbp::Index& name : picked) map.reduced.push_back({name, sbp::Reduction::sum});
  map.linear = {{0}};
  return map;
}

Attrs localize_gather_grad(const Types& in, const Attrs& attrs, const Signature& signature, int64_t parts,
                           int64_t index) {
  Sbp dy = signature.inputs[0], dx = signature.outputs[0];
  if (dy.is_split() || !dx.is_split() || static_cast<size_t>(dx.axis) != scatter_axis(in, attrs))
    return attrs;
  sbp::Range rows = sbp::part_range(attr_int(attrs, "extent"), parts, index);
  return with(with(attrs, "extent", rows.size()), "offset", attr_int(attrs, "offset") + rows.begin);
}

// More indices than rows that they name, so some row is named twice.
std::vector<Sample> gather_grad_samples(const Extent& n) {
  int64_t a = n() + 2, b = n(), c = n(), rows = n() + 2;
  Domain row{0, 2, 1};
  return {{.inputs = {f32({a, c, b}), i64({a, c})}, .attrs = {{"extent", rows}}, .domains = {{}, row}},
          {.inputs = {f32({b, a, 3}), i64({a})},
           .attrs = {{"axis", int64_t{1}}, {"extent", rows}},
           .domains = {{}, row}}};
}

// --- one_hot

void add_one_hot(std::vector<OpDef>& out) {
  auto infer = [](const Types& in, const Attrs& attrs) -> Types {
    need_integers("one_hot", in[0]);
    if (attr_int(attrs, "depth") < 0) refuse_attr("one_hot", "depth", attrs, "0 or more");
    TensorType y{in[0].shape, DType::float32};
    y.shape.push_back(attr_int(attrs, "depth"));
    return {y};
  };
  auto map = [](const Types& in, const Attrs&) {
    IndexMap result;
    result.inputs = {indices("i", in[0].shape.size())};
    result.outputs = result.inputs;
    result.outputs[0].push_back("d");
    return result;
  };
  auto localize = [](const Types& in, const Attrs& attrs, const Signature& signature, int64_t parts,
                     int64_t index) {
    Sbp y = signature.outputs[0];
    if (!y.is_split() || static_cast<size_t>(y.axis) != in[0].shape.size()) return attrs;
    sbp::Range classes = sbp::part_range(attr_int(attrs, "depth"), parts, index);
    return with(with(attrs, "depth", classes.size()), "offset", attr_int(attrs, "offset") + classes.begin);
  };
  auto samples = [](const Extent& n) -> std::vector<Sample> {
    int64_t a = n(), b = n(), depth = n() + 2;
    Domain row{0, static_cast<double>(depth - 1), 1};
    return {{.inputs = {i64({a})}, .attrs = {{"depth", depth}}, .domains = {row}},
            {.inputs = {i64({a, b})}, .attrs = {{"depth", depth}}, .domains = {row}}};
  };
  out.push_back({.name = "one_hot",
                 .inputs = {"indices"},
                 .outputs = {"y"},
                 .attrs = {{"depth", int64_t{0}}, {"offset", int64_t{0}}, {"below", int64_t{0}}},
                 .infer = infer,
                 .index_map = map,
                 .localize = localize,
                 .samples = samples});
}

// --- cumsum, top_k

void add_cumsum(std::vector<OpDef>& out) {
  auto infer = [](const Types& in, const Attrs& attrs) -> Types {
    normal_axis("cumsum", "axis", attr_int(attrs, "axis"), in[0]);
    return {in[0]};
  };
  auto map = [](const Types& in, const Attrs& attrs) {
    Indices names = indices("i", in[0].shape.size());
    at(names, normal_axis("cumsum", "axis", attr_int(attrs, "axis"), in[0])) = "_";
    IndexMap result;
    result.inputs = {names};
    result.outputs = {names};
    result.linear = {{0}};
    return result;
  };
  auto samples = [](const Extent& n) -> std::vector<Sample> {
    int64_t a = n(), b = n();
    return {{.inputs = {f32({a, b})}}, {.inputs = {f32({a, b, 3})}, .attrs = {{"axis", int64_t{1}}}}};
  };
  out.push_back({.name = "cumsum",
                 .inputs = {"x"},
                 .outputs = {"y"},
                 .attrs = {{"axis", int64_t{-1}}},
                 .infer = infer,
                 .index_map = map,
                 .work = per_element(1),
                 .samples = samples});
}

// With groups, a row has so many equal parts, and only elements of the top_groups are chosen whose two
// largest elements have the largest sums.
//
//   x {5, 0, 4, 3}, k 1, groups 2, top_groups 1 -> values {4}, indices {2}, since 4 + 3 > 5 + 0
void add_top_k(std::vector<OpDef>& out) {
  auto infer = [](const Types& in, const Attrs& attrs) -> Types {
    need_rank("top_k", "x", in[0], 1);
    int64_t k = attr_int(attrs, "k");
    if (k < 0 || k > in[0].shape.back()) {
      refuse_attr("top_k", "k", attrs, fmt::format("0 to the last extent of x {}", to_text(in[0])));
    }
    const int64_t groups = attr_int(attrs, "groups"), best = attr_int(attrs, "top_groups");
    if (groups < 1 || in[0].shape.back() % groups != 0) {
      refuse_attr("top_k", "groups", attrs,
                  fmt::format("a divisor of the last extent of x {}", to_text(in[0])));
    }
    if (best < 1 || best > groups || k > in[0].shape.back() / groups * best) {
      refuse_attr("top_k", "top_groups", attrs,
                  fmt::format("at most groups {}, with k {} elements or more", groups, k));
    }
    TensorType values = in[0];
    values.shape.back() = k;
    return {values, {values.shape, DType::int64}};
  };
  auto map = [](const Types& in, const Attrs&) {
    Indices names = indices("i", in[0].shape.size());
    names.back() = "_";
    IndexMap result;
    result.inputs = {names};
    result.outputs = {names, names};
    return result;
  };
  auto samples = [](const Extent& n) -> std::vector<Sample> {
    int64_t a = n(), b = n(), c = n();
    const auto of_groups = [](int64_t k, int64_t groups, int64_t best) -> Attrs {
      return {{"k", k}, {"groups", groups}, {"top_groups", best}};
    };
    return {{.inputs = {f32({a, b + 2})}, .attrs = {{"k", int64_t{2}}}},
            {.inputs = {f32({a, b, c})}, .attrs = {{"k", int64_t{1}}}},
            {.inputs = {f32({a, 3 * (b + 1)})}, .attrs = of_groups(3, 3, 2)},
            {.inputs = {f32({a, b, 4 * c})}, .attrs = of_groups(1, 4, 1)}};
  };
  out.push_back({.name = "top_k",
                 .inputs = {"x"},
                 .outputs = {"values", "indices"},
                 .attrs = {{"k", int64_t{1}}, {"groups", int64_t{1}}, {"top_groups", int64_t{1}}},
                 .infer = infer,
                 .index_map = map,
                 .work = per_element(4),
                 .samples = samples});
}

}  // namespace

void add_index_ops(std::vector<OpDef>& out) {
  const int64_t zero = 0;
  out.push_back({.name = "gather",
                 .inputs = {"x", "indices"},
                 .outputs = {"y"},
                 .attrs = {{"axis", zero}, {"offset", zero}, {"below", zero}},
                 .infer = infer_gather,
                 .index_map = gather_map,
                 .localize = localize_gather,
                 .work = gather_work,
                 .samples = gather_samples});
  out.push_back({.name = "gather_grad",
                 .inputs = {"dy", "indices"},
                 .outputs = {"dx"},
                 .attrs = {{"axis", zero}, {"extent", zero}, {"offset", zero}},
                 .infer = infer_gather_grad,
                 .index_map = gather_grad_map,
                 .localize = localize_gather_grad,
                 .samples = gather_grad_samples});
  add_one_hot(out);
  add_cumsum(out);
  add_top_k(out);
}

}  // namespace boxcar::ir

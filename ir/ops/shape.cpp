// Ops that move elements and compute nothing: reshape, transpose, slice, slice_grad, concat, broadcast_to.
// All are linear and increasing in the operands that they move.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "ir/limits.h"
#include "ir/ops/ops.h"
#include "sbp/at.h"

namespace boxcar::ir {
namespace {

using sbp::IndexMap;
using sbp::Sbp;
using sbp::Signature;
using Ints = std::vector<int64_t>;

IndexMap moves(Indices input, Indices output) {
  IndexMap map;
  map.inputs = {std::move(input)};
  map.outputs = {std::move(output)};
  map.linear = {{0}};
  map.increasing = {0};
  return map;
}

Ints with_at(Ints values, size_t at, int64_t value) {
  values[at] = value;
  return values;
}

// `name` holds one number for each dimension of a tensor of `rank`; throws otherwise.
const Ints& per_dimension(std::string_view op, const char* name, const Attrs& attrs, size_t rank) {
  const Ints& values = attr_ints(attrs, name);
  if (values.size() != rank) refuse_attr(op, name, attrs, fmt::format("{} numbers, one per dimension", rank));
  return values;
}

// --- reshape

// The requested shape with its -1 replaced.
Shape reshaped(const TensorType& x, const Attrs& attrs) {
  Shape shape = attr_ints(attrs, "shape"), given = shape;
  std::erase(given, -1);
  const auto count = [](const Shape& of) {
    return std::accumulate(of.begin(), of.end(), int64_t{1}, std::multiplies<>());
  };
  const bool possible = flaw_of({given}).empty();
  const int64_t elements = count(x.shape), known = possible ? count(given) : 0;
  for (int64_t& extent : shape) {
    if (extent == -1 && known > 0) extent = elements / known;
  }
  if (!possible || !flaw_of({shape}).empty() || count(shape) != elements) {
    refuse_attr("reshape", "shape", attrs, fmt::format("{} elements as x {}", elements, to_text(x)));
  }
  return shape;
}

// The places where a split of one axis cuts a tensor in row-major order: in every `period` elements, at
// `cuts`.
struct Cuts {
  int64_t period = 0;
  Ints cuts;
  friend bool operator==(const Cuts&, const Cuts&) = default;
};

Cuts cuts_of(const Shape& shape, size_t axis, int64_t parts) {
  int64_t inner = 1;
  for (size_t i = axis + 1; i < shape.size(); ++i) inner *= shape[i];
  Cuts result{shape[axis] * inner, {}};
  for (int64_t i = 0; i < parts; ++i)
    result.cuts.push_back(sbp::part_range(shape[axis], parts, i).end * inner);
  return result;
}

std::vector<Signature> reshape_splits(const Types& in, const Attrs& attrs, int64_t parts) {
  const Shape& from = in[0].shape;
  Shape to = reshaped(in[0], attrs);
  std::vector<Signature> legal;
  for (size_t i = 0; i < from.size(); ++i) {
    for (size_t j = 0; j < to.size(); ++j) {
      if (from[i] == 1 || to[j] == 1 || cuts_of(from, i, parts) != cuts_of(to, j, parts)) continue;
      legal.push_back({{Sbp::S(static_cast<int>(i))}, {Sbp::S(static_cast<int>(j))}});
    }
  }
  return legal;
}

Attrs localize_reshape(const Types& in, const Attrs& attrs, const Signature& signature, int64_t parts,
                       int64_t index) {
  return with(attrs, "shape",
              sbp::local_shape(reshaped(in[0], attrs), {signature.outputs[0]}, {parts}, index));
}

void add_reshape(std::vector<OpDef>& out) {
  auto map = [](const Types& in, const Attrs& attrs) {
    return moves(Indices(in[0].shape.size(), "_"), Indices(attr_ints(attrs, "shape").size(), "_"));
  };
  auto samples = [](const Extent& n) -> std::vector<Sample> {
    int64_t a = n(), b = n(), c = n();
    return {{.inputs = {f32({a, b, c})}, .attrs = {{"shape", Ints{a * b, c}}}},
            {.inputs = {f32({a, 12})}, .attrs = {{"shape", Ints{a, 4, 3}}}},
            {.inputs = {f32({a, 6})}, .attrs = {{"shape", Ints{-1, 2}}}},
            {.inputs = {f32({6, 4})}, .attrs = {{"shape", Ints{4, 6}}}},
            {.inputs = {f32({a, b})}, .attrs = {{"shape", Ints{a, 1, b}}}}};
  };
  out.push_back(
      {.name = "reshape",
       .inputs = {"x"},
       .outputs = {"y"},
       .attrs = {{"shape", Ints{}}},
       .family = Family::none,
       .infer = [](const Types& in, const Attrs& attrs) -> Types {
         return {{reshaped(in[0], attrs), in[0].dtype}};
       },
       .index_map = map,
       .extra = reshape_splits,
       .extra_reason = "a split goes through where both sides cut the row-major order at the same places",
       .localize = localize_reshape,
       .work = [](const Types&, const Types&, const Attrs&) { return Work{}; },
       .samples = samples});
}

// --- transpose

// perm, or the reverse order if it is empty; throws unless it is a permutation.
Ints permutation(const TensorType& x, const Attrs& attrs) {
  Ints perm = attr_ints(attrs, "perm");
  auto rank = static_cast<int64_t>(x.shape.size());
  if (perm.empty()) {
    for (int64_t i = rank; i-- > 0;) perm.push_back(i);
  }
  Ints sorted = perm;
  std::sort(sorted.begin(), sorted.end());
  bool right = static_cast<int64_t>(sorted.size()) == rank;
  for (int64_t i = 0; right && i < rank; ++i) right = at(sorted, i) == i;
  if (!right)
    refuse_attr("transpose", "perm", attrs, fmt::format("a permutation of the axes of x {}", to_text(x)));
  return perm;
}

void add_transpose(std::vector<OpDef>& out) {
  auto infer = [](const Types& in, const Attrs& attrs) -> Types {
    TensorType y{{}, in[0].dtype};
    for (int64_t axis : permutation(in[0], attrs)) y.shape.push_back(at(in[0].shape, axis));
    return {y};
  };
  auto map = [](const Types& in, const Attrs& attrs) {
    Indices names = indices("i", in[0].shape.size()), permuted;
    for (int64_t axis : permutation(in[0], attrs)) permuted.push_back(at(names, axis));
    return moves(names, permuted);
  };
  auto samples = [](const Extent& n) -> std::vector<Sample> {
    int64_t a = n(), b = n(), c = n();
    return {{.inputs = {f32({a, b})}}, {.inputs = {f32({a, b, c})}, .attrs = {{"perm", Ints{1, 2, 0}}}}};
  };
  out.push_back({.name = "transpose",
                 .inputs = {"x"},
                 .outputs = {"y"},
                 .attrs = {{"perm", Ints{}}},
                 .infer = infer,
                 .index_map = map,
                 .samples = samples});
}

// --- slice

Types infer_slice(const Types& in, const Attrs& attrs) {
  size_t rank = in[0].shape.size();
  const Ints& starts = per_dimension("slice", "starts", attrs, rank);
  const Ints& ends = per_dimension("slice", "ends", attrs, rank);
  TensorType y = in[0];
  for (size_t i = 0; i < rank; ++i) {
    bool inside = 0 <= starts[i] && starts[i] <= ends[i] && ends[i] <= in[0].shape[i];
    if (!inside) {
      refuse_attr("slice", "ends", attrs,
                  fmt::format("0 <= start <= end <= extent for starts {} in x {}",
                              to_text(attrs.find("starts")->second), to_text(in[0])));
    }
    y.shape[i] = ends[i] - starts[i];
  }
  return {y};
}

// Axes that are kept whole go from input to output. Of the others, only the output may be split.
IndexMap slice_map(const Types& in, const Attrs& attrs) {
  const Ints &starts = attr_ints(attrs, "starts"), &ends = attr_ints(attrs, "ends");
  Indices input = indices("i", in[0].shape.size()), output = input;
  for (size_t i = 0; i < input.size(); ++i) {
    bool whole = starts[i] == 0 && ends[i] == in[0].shape[i];
    if (whole) continue;
    input[i] = "_";
    output[i] = "j" + std::to_string(i);
  }
  return moves(input, output);
}

Attrs localize_slice(const Types& in, const Attrs& attrs, const Signature& signature, int64_t parts,
                     int64_t index) {
  const Ints &starts = attr_ints(attrs, "starts"), &ends = attr_ints(attrs, "ends");
  Sbp x = signature.inputs[0], y = signature.outputs[0];
  if (x.is_split()) {
    auto axis = static_cast<size_t>(x.axis);
    return with(attrs, "ends", with_at(ends, axis, sbp::part_range(in[0].shape[axis], parts, index).size()));
  }
  if (!y.is_split()) return attrs;
  auto axis = static_cast<size_t>(y.axis);
  if (starts[axis] == 0 && ends[axis] == in[0].shape[axis]) return attrs;  // the input is split there
  sbp::Range part = sbp::part_range(ends[axis] - starts[axis], parts, index);
  Attrs local = with(attrs, "ends", with_at(ends, axis, starts[axis] + part.end));
  return with(std::move(local), "starts", with_at(starts, axis, starts[axis] + part.begin));
}

std::vector<Sample> slice_samples(const Extent& n) {
  int64_t a = n(), b = n();
  return {{.inputs = {f32({a, b})}, .attrs = {{"starts", Ints{0, 1}}, {"ends", Ints{a, b}}}},
          {.inputs = {f32({a, 8, b})}, .attrs = {{"starts", Ints{0, 2, 0}}, {"ends", Ints{a, 7, b}}}}};
}

Work copy_work(const Types&, const Types& out, const Attrs&) { return {0, 2 * bytes_of(out)}; }

// --- slice_grad

// starts may lie outside: elements outside shape belong to another part.
Types infer_slice_grad(const Types& in, const Attrs& attrs) {
  per_dimension("slice_grad", "starts", attrs, in[0].shape.size());
  return {{per_dimension("slice_grad", "shape", attrs, in[0].shape.size()), in[0].dtype}};
}

// dy k0 i1 -> j0 i1 ; sum k0: a part of dy, padded with zeros, is a term of the sum.
IndexMap slice_grad_map(const Types& in, const Attrs& attrs) {
  const Ints &starts = attr_ints(attrs, "starts"), &shape = attr_ints(attrs, "shape");
  Indices input = indices("i", shape.size());
  IndexMap map = moves(input, input);
  for (size_t i = 0; i < shape.size(); ++i) {
    bool whole = starts[i] == 0 && in[0].shape[i] == shape[i];
    if (whole) continue;
    map.inputs[0][i] = "k" + std::to_string(i);
    map.outputs[0][i] = "j" + std::to_string(i);
    map.reduced.push_back({map.inputs[0][i], sbp::Reduction::sum});
  }
  return map;
}

Attrs localize_slice_grad(const Types& in, const Attrs& attrs, const Signature& signature, int64_t parts,
                          int64_t index) {
  const Ints &starts = attr_ints(attrs, "starts"), &shape = attr_ints(attrs, "shape");
  Sbp dy = signature.inputs[0], dx = signature.outputs[0];
  if (!dy.is_split() && !dx.is_split()) return attrs;
  auto axis = static_cast<size_t>(dy.is_split() ? dy.axis : dx.axis);
  sbp::Range of_dy = sbp::part_range(in[0].shape[axis], parts, index),
             of_dx = sbp::part_range(shape[axis], parts, index);
  bool whole = starts[axis] == 0 && in[0].shape[axis] == shape[axis];
  if (whole) return dy.is_split() ? with(attrs, "shape", with_at(shape, axis, of_dx.size())) : attrs;
  if (dy.is_split()) return with(attrs, "starts", with_at(starts, axis, starts[axis] + of_dy.begin));
  Attrs local = with(attrs, "shape", with_at(shape, axis, of_dx.size()));
  return with(std::move(local), "starts", with_at(starts, axis, starts[axis] - of_dx.begin));
}

std::vector<Sample> slice_grad_samples(const Extent& n) {
  int64_t a = n(), b = n();
  return {{.inputs = {f32({a, b})}, .attrs = {{"starts", Ints{0, 1}}, {"shape", Ints{a, b + 3}}}},
          {.inputs = {f32({a, b, 4})}, .attrs = {{"starts", Ints{2, 0, 0}}, {"shape", Ints{a + 2, b, 4}}}}};
}

// --- concat

size_t concat_axis(const Types& in, const Attrs& attrs) {
  return static_cast<size_t>(normal_axis("concat", "axis", attr_int(attrs, "axis"), in[0]));
}

Types infer_concat(const Types& in, const Attrs& attrs) {
  size_t axis = concat_axis(in, attrs);
  TensorType y = in[0];
  for (size_t i = 1; i < in.size(); ++i) {
    TensorType rest = in[i];
    if (rest.shape.size() == y.shape.size()) rest.shape[axis] = in[0].shape[axis];
    if (rest != in[0]) {
      refuse("concat", fmt::format("x{}", i), in[i], fmt::format("the same type but for axis {}", axis), "x0",
             in[0]);
    }
    y.shape[axis] += in[i].shape[axis];
  }
  return {y};
}

IndexMap concat_map(const Types& in, const Attrs& attrs) {
  Indices names = indices("i", in[0].shape.size());
  if (in.size() > 1) names[concat_axis(in, attrs)] = "_";
  IndexMap map;
  map.inputs.assign(in.size(), names);
  map.outputs = {names};
  map.linear = {{}};
  for (int i = 0; i < static_cast<int>(in.size()); ++i) {
    map.linear[0].push_back(i);
    map.increasing.push_back(i);
  }
  return map;
}

std::vector<Signature> concat_extra(const Types& in, const Attrs&, int64_t) {
  std::vector<Signature> legal;
  for (sbp::Reduction reduction : {sbp::Reduction::max, sbp::Reduction::min}) {
    legal.push_back({std::vector<Sbp>(in.size(), Sbp::P(reduction)), {Sbp::P(reduction)}});
  }
  return legal;
}

std::vector<Sample> concat_samples(const Extent& n) {
  int64_t a = n(), b = n(), c = n();
  return {{.inputs = {f32({a, b}), f32({a, c})}, .attrs = {{"axis", int64_t{1}}}},
          {.inputs = {f32({a, b}), f32({c, b}), f32({2, b})}, .attrs = {{"axis", int64_t{0}}}},
          {.inputs = {f32({a, b})}, .attrs = {{"axis", int64_t{0}}}}};
}

// --- broadcast_to

Types infer_broadcast_to(const Types& in, const Attrs& attrs) {
  const Ints& shape = attr_ints(attrs, "shape");
  const Shape& x = in[0].shape;
  bool fits = x.size() <= shape.size();
  for (size_t i = 0; fits && i < x.size(); ++i) {
    int64_t wanted = shape[shape.size() - x.size() + i];
    fits = x[i] == wanted || x[i] == 1;
  }
  if (!fits)
    refuse("broadcast_to", "x", in[0],
           fmt::format("extents 1 or those of {}", to_text(TensorType{shape, in[0].dtype})));
  return {{shape, in[0].dtype}};
}

IndexMap broadcast_to_map(const Types& in, const Attrs& attrs) {
  const Ints& shape = attr_ints(attrs, "shape");
  Indices output = indices("i", shape.size());
  Indices input(output.end() - static_cast<int64_t>(in[0].shape.size()), output.end());
  for (size_t i = 0; i < input.size(); ++i) {
    if (in[0].shape[i] != shape[shape.size() - input.size() + i]) input[i] = "1";
  }
  return moves(input, output);
}

Attrs localize_shape(const Types&, const Attrs& attrs, const Signature& signature, int64_t parts,
                     int64_t index) {
  return with(attrs, "shape",
              sbp::local_shape(attr_ints(attrs, "shape"), {signature.outputs[0]}, {parts}, index));
}

std::vector<Sample> broadcast_to_samples(const Extent& n) {
  int64_t a = n(), b = n();
  return {{.inputs = {f32({b})}, .attrs = {{"shape", Ints{a, b}}}},
          {.inputs = {f32({a, 1, b})}, .attrs = {{"shape", Ints{a, 3, b}}}},
          {.inputs = {f32({})}, .attrs = {{"shape", Ints{a, b}}}}};
}

}  // namespace

void add_shape_ops(std::vector<OpDef>& out) {
  add_reshape(out);
  add_transpose(out);
  out.push_back({.name = "slice",
                 .inputs = {"x"},
                 .outputs = {"y"},
                 .attrs = {{"starts", Ints{}}, {"ends", Ints{}}},
                 .infer = infer_slice,
                 .index_map = slice_map,
                 .localize = localize_slice,
                 .work = copy_work,
                 .samples = slice_samples});
  out.push_back({.name = "slice_grad",
                 .inputs = {"dy"},
                 .outputs = {"dx"},
                 .attrs = {{"starts", Ints{}}, {"shape", Ints{}}},
                 .infer = infer_slice_grad,
                 .index_map = slice_grad_map,
                 .localize = localize_slice_grad,
                 .samples = slice_grad_samples});
  out.push_back({.name = "concat",
                 .inputs = {"x..."},
                 .outputs = {"y"},
                 .attrs = {{"axis", int64_t{0}}},
                 .infer = infer_concat,
                 .index_map = concat_map,
                 .extra = concat_extra,
                 .extra_reason = "each element comes from one input, so all may be P(max), or all P(min)",
                 .work = copy_work,
                 .samples = concat_samples,
                 .omitted = {{"some inputs of three or more P(max), the others B: too many to list",
                              [](const Signature& s) { return s.inputs.size() > 2 && has_extremum(s); }}}});
  out.push_back({.name = "broadcast_to",
                 .inputs = {"x"},
                 .outputs = {"y"},
                 .attrs = {{"shape", Ints{}}},
                 .infer = infer_broadcast_to,
                 .index_map = broadcast_to_map,
                 .localize = localize_shape,
                 .samples = broadcast_to_samples});
}

}  // namespace boxcar::ir

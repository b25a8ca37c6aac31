// Reductions over axes, in float or integer type: sum, mean, max, min.
//
//   reduce_sum(float32[4, 6]) {axes=[1]} -> float32[4];  with keepdims float32[4, 1];  axes=[] are all of
//   them
//   reduce_max(float32[4, 6]) {axes=[1], classes=5}      without the last column (classes.h)
#include <algorithm>

#include "ir/ops/ops.h"
#include "sbp/at.h"

namespace boxcar::ir {
namespace {

using sbp::IndexMap;

// By axis of x: whether it is reduced.
std::vector<bool> reduced_axes(std::string_view op, const TensorType& x, const Attrs& attrs) {
  const std::vector<int64_t>& axes = attr_ints(attrs, "axes");
  std::vector<bool> reduced(x.shape.size(), axes.empty());
  for (int64_t axis : axes) {
    auto at = static_cast<size_t>(normal_axis(op, "axes", axis, x));
    if (reduced[at]) refuse_attr(op, "axes", attrs, "each axis once");
    reduced[at] = true;
  }
  return reduced;
}

Types infer_reduce(std::string_view op, const Types& in, const Attrs& attrs) {
  std::vector<bool> reduced = reduced_axes(op, in[0], attrs);
  TensorType out{{}, in[0].dtype};
  for (size_t i = 0; i < reduced.size(); ++i) {
    if (!reduced[i]) out.shape.push_back(in[0].shape[i]);
    if (reduced[i] && attr_bool(attrs, "keepdims")) out.shape.push_back(1);
  }
  return {out};
}

// i0 i1 i2 -> i0 i2 ; sum i1, or i0 1 i2 with keepdims
IndexMap reduce_map(const Types& in, const Attrs& attrs, sbp::Reduction reduction) {
  std::vector<bool> reduced = reduced_axes("reduce", in[0], attrs);
  IndexMap map;
  map.inputs = {indices("i", reduced.size())};
  map.outputs = {{}};
  for (size_t i = 0; i < reduced.size(); ++i) {
    const sbp::Index& name = map.inputs[0][i];
    if (reduced[i]) map.reduced.push_back({name, reduction});
    if (!reduced[i]) map.outputs[0].push_back(name);
    if (reduced[i] && attr_bool(attrs, "keepdims")) map.outputs[0].push_back("1");
  }
  if (reduction == sbp::Reduction::sum) {
    map.linear = {{0}};
  } else {
    map.increasing = {0};
  }
  return map;
}

// Sets the number of elements of a mean, which a part of a reduced axis cannot know.
Attrs localize_mean(const Types& in, const Attrs& attrs, const sbp::Signature& signature, int64_t, int64_t) {
  sbp::Sbp x = signature.inputs[0];
  std::vector<bool> reduced = reduced_axes("reduce_mean", in[0], attrs);
  bool cut = x.is_split() && at(reduced, x.axis);
  if (!cut || attr_int(attrs, "count") != 0) return attrs;
  int64_t count = 1;
  for (size_t i = 0; i < reduced.size(); ++i) count *= reduced[i] ? in[0].shape[i] : 1;
  return with(attrs, "count", count);
}

Types infer_max(const Types& in, const Attrs& attrs) {
  const int64_t classes = attr_int(attrs, "classes");
  if (classes != 0) {
    const std::vector<bool> reduced = reduced_axes("reduce_max", in[0], attrs);
    if (classes < 0 || std::count(reduced.begin(), reduced.end(), true) != 1 || !reduced.back() ||
        !is_float(in[0].dtype))
      refuse_attr("reduce_max", "classes", attrs, "0, or a number of floats along the last axis alone");
  }
  return infer_reduce("reduce_max", in, attrs);
}

// Tells a part of the last axis where it begins, if some of it is padding.
Attrs localize_max(const Types& in, const Attrs& attrs, const sbp::Signature& signature, int64_t parts,
                   int64_t index) {
  const size_t last = in[0].shape.size() - 1;
  const sbp::Sbp x = signature.inputs[0];
  if (attr_int(attrs, "classes") == 0 || !x.is_split() || x.axis != static_cast<int>(last)) return attrs;
  const int64_t begin = sbp::part_range(in[0].shape[last], parts, index).begin;
  return with(attrs, "offset", attr_int(attrs, "offset") + begin);
}

std::vector<Sample> reduce_samples(const Extent& n) {
  using Axes = std::vector<int64_t>;
  int64_t a = n(), b = n(), c = n();
  const std::vector<Domain> wide = {{-99, 99, 1}};  // so that the maximum of a few is not always the largest
  return {{.inputs = {f32({a, b})}, .attrs = {{"axes", Axes{-1}}}, .domains = wide},
          {.inputs = {f32({a, b, c})}, .attrs = {{"axes", Axes{0, 1}}, {"keepdims", true}}, .domains = wide},
          {.inputs = {f32({a, b})}, .domains = wide}};
}

std::vector<Sample> max_samples(const Extent& n) {
  std::vector<Sample> samples = reduce_samples(n);
  const int64_t a = n(), classes = n() + 6;  // every part has some
  samples.push_back({.inputs = {f32({a, classes + 1})},
                     .attrs = {{"axes", std::vector<int64_t>{-1}}, {"classes", classes}},
                     .domains = {{-99, 99, 1}}});
  return samples;
}

OpDef reduction(const char* name, sbp::Reduction reduction) {
  return {.name = name,
          .inputs = {"x"},
          .outputs = {"y"},
          .attrs = {{"axes", std::vector<int64_t>{}}, {"keepdims", false}},
          .infer = [name](const Types& in, const Attrs& attrs) { return infer_reduce(name, in, attrs); },
          .index_map = [reduction](const Types& in,
                                   const Attrs& attrs) { return reduce_map(in, attrs, reduction); },
          .work = per_element(1),
          .samples = reduce_samples};
}

OpDef reduce_mean() {
  OpDef def = reduction("reduce_mean", sbp::Reduction::sum);
  def.attrs["count"] = int64_t{0};  // elements of one mean; 0: those of the operand
  def.localize = localize_mean;
  def.tolerance = 1e-12;
  return def;
}

OpDef reduce_max() {
  OpDef def = reduction("reduce_max", sbp::Reduction::max);
  def.attrs["classes"] = def.attrs["offset"] = int64_t{0};
  def.infer = infer_max;
  def.localize = localize_max;
  def.samples = max_samples;
  return def;
}

}  // namespace

void add_reduce_ops(std::vector<OpDef>& out) {
  out.push_back(reduction("reduce_sum", sbp::Reduction::sum));
  out.push_back(reduce_mean());
  out.push_back(reduce_max());
  out.push_back(reduction("reduce_min", sbp::Reduction::min));
}

}  // namespace boxcar::ir

// Pools over windows of x[n, c, h, w] or, with channels_last, of x[n, h, w, c], and their gradients. Averages
// divide by the whole kernel, including padding; the gradient of a maximum goes to the first of equal
// elements. A stride of 0 stands for the kernel's.
#include "ir/images.h"
#include "ir/ops/windows.h"

namespace boxcar::ir {
namespace {

Window window_of(const Attrs& attrs) {
  const int64_t kernel = attr_int(attrs, "kernel"), stride = attr_int(attrs, "stride");
  return {kernel, stride == 0 ? kernel : stride, attr_int(attrs, "padding")};
}

TensorType infer_y(const char* op, const TensorType& x, const Attrs& attrs) {
  exact_rank(op, "x", x, 4);
  need_float(op, "x", x);
  Shape shape = x.shape;
  const ImageAxes axes = image_axes(attrs);
  for (size_t axis : {axes.height, axes.width}) {
    check_window(op, "x", x, window_of(attrs), axis, attrs);
    shape[axis] = out_extent(window_of(attrs), x.shape[axis]);
  }
  return {shape, x.dtype};
}

TensorType x_of_avg_grad(const Types& in, const Attrs& attrs) {
  const char* op = "avg_pool2d_grad";
  exact_rank(op, "dy", in[0], 4);
  const auto& size = attr_ints(attrs, "input_size");
  if (size.size() != 2) refuse_attr(op, "input_size", attrs, "two extents, height and width");
  const ImageAxes axes = image_axes(attrs);
  const TensorType x = {axes.shape(in[0].shape[0], in[0].shape[axes.channel], size[0], size[1]), in[0].dtype};
  need_shape(op, "dy", in[0], infer_y(op, x, attrs).shape, "x", x);
  return x;
}

// Every operand split along a spatial axis of x, if no window crosses parts.
void add_spatial(std::vector<sbp::Signature>& rules, const Shape& x, const Attrs& attrs, int64_t parts,
                 size_t inputs) {
  const ImageAxes axes = image_axes(attrs);
  for (size_t axis : {axes.height, axes.width}) {
    if (!splits_exactly(window_of(attrs), x[axis], parts)) continue;
    const sbp::Sbp s = sbp::Sbp::S(static_cast<int>(axis));
    rules.push_back({std::vector<sbp::Sbp>(inputs, s), {s}});
  }
}

// P(r) of input 0 gives P(r); all others are B.
sbp::Signature keeps(sbp::Reduction reduction, size_t inputs) {
  sbp::Signature rule{std::vector<sbp::Sbp>(inputs), {sbp::Sbp::P(reduction)}};
  rule.inputs[0] = sbp::Sbp::P(reduction);
  return rule;
}

// With windows of one element the op is elementwise. With disjoint windows its gradient is.
void add_extremes(std::vector<sbp::Signature>& rules, bool elementwise, size_t inputs) {
  if (!elementwise) return;
  rules.push_back(keeps(sbp::Reduction::max, inputs));
  rules.push_back(keeps(sbp::Reduction::min, inputs));
}

Attrs pool_attrs() {
  return {{"kernel", int64_t{2}}, {"stride", int64_t{0}}, {"padding", int64_t{0}}, {"channels_last", false}};
}

MapFunction pool_map(std::string_view first, std::string_view last) {
  return [first = sbp::parse_index_map(first), last = sbp::parse_index_map(last)](
             const Types&, const Attrs& attrs) { return attr_bool(attrs, "channels_last") ? last : first; };
}

// Windows that are disjoint, overlapping, or leave a row over; with both orders of axes.
struct PoolExample {
  TensorType x;
  Attrs attrs;
};
std::vector<PoolExample> pool_examples(const Extent& n) {
  std::vector<PoolExample> result = {
      {f32({n(), n(), 8, 4}), {}},
      {f32({n(), n(), 5, 4}), {{"kernel", int64_t{4}}, {"stride", int64_t{1}}, {"padding", int64_t{1}}}},
      {f32({n(), n(), 7, 3}), {{"stride", int64_t{2}}}}};
  add_channels_last(result);
  return result;
}

OpDef max_pool() {
  return {
      .name = "max_pool2d",
      .inputs = {"x"},
      .outputs = {"y"},
      .attrs = pool_attrs(),
      .infer = [](const Types& in, const Attrs& attrs) -> Types {
        return {infer_y("max_pool2d", in[0], attrs)};
      },
      .index_map = pool_map("n c _ _ -> n c _ _", "n _ _ c -> n _ _ c"),
      .extra =
          [](const Types& in, const Attrs& attrs, int64_t parts) {
            std::vector<sbp::Signature> rules = {keeps(sbp::Reduction::max, 1)};
            if (window_of(attrs).kernel == 1) rules = parse_all({"P(sum) -> P(sum)"});
            add_extremes(rules, window_of(attrs).kernel == 1, 1);
            add_spatial(rules, in[0].shape, attrs, parts, 1);
            return rules;
          },
      .extra_reason = "a maximum of maxima is one; rows and columns are split where no window crosses parts",
      .samples =
          [](const Extent& n) {
            std::vector<Sample> samples;
            for (auto& e : pool_examples(n)) samples.push_back({.inputs = {e.x}, .attrs = e.attrs});
            return samples;
          }};
}

OpDef max_pool_grad() {
  const char* op = "max_pool2d_grad";
  return {.name = op,
          .inputs = {"dy", "x"},
          .outputs = {"dx"},
          .attrs = pool_attrs(),
          .infer = [op](const Types& in, const Attrs& attrs) -> Types {
            need_shape(op, "dy", in[0], infer_y(op, in[1], attrs).shape, "x", in[1]);
            return {in[1]};
          },
          .index_map =
              pool_map("n c _ _, n c _ _ -> n c _ _ ; linear 0", "n _ _ c, n _ _ c -> n _ _ c ; linear 0"),
          .extra =
              [](const Types& in, const Attrs& attrs, int64_t parts) {
                std::vector<sbp::Signature> rules;
                add_extremes(rules, disjoint(window_of(attrs)), 2);
                add_spatial(rules, in[1].shape, attrs, parts, 2);
                return rules;
              },
          .extra_reason =
              "rows and columns are split where no window crosses parts; elementwise where windows are apart",
          .samples =
              [](const Extent& n) {
                std::vector<Sample> samples;
                for (auto& e : pool_examples(n)) {
                  const TensorType y =
                      infer_y("max_pool2d_grad", e.x, complete(ir::op("max_pool2d_grad"), e.attrs));
                  samples.push_back({.inputs = {y, e.x}, .attrs = e.attrs});
                }
                return samples;
              }};
}

OpDef avg_pool() {
  return {.name = "avg_pool2d",
          .inputs = {"x"},
          .outputs = {"y"},
          .attrs = pool_attrs(),
          .infer = [](const Types& in, const Attrs& attrs) -> Types {
            return {infer_y("avg_pool2d", in[0], attrs)};
          },
          .index_map = pool_map("n c _ _ -> n c _ _ ; linear 0", "n _ _ c -> n _ _ c ; linear 0"),
          .extra =
              [](const Types& in, const Attrs& attrs, int64_t parts) {
                std::vector<sbp::Signature> rules;
                add_extremes(rules, window_of(attrs).kernel == 1, 1);
                add_spatial(rules, in[0].shape, attrs, parts, 1);
                return rules;
              },
          .extra_reason =
              "rows and columns are split where no window crosses parts; elementwise for a kernel of 1",
          .samples =
              [](const Extent& n) {
                std::vector<Sample> samples;
                for (auto& e : pool_examples(n)) samples.push_back({.inputs = {e.x}, .attrs = e.attrs});
                return samples;
              }};
}

Attrs localize_avg_grad(const Types&, const Attrs& attrs, const sbp::Signature& signature, int64_t parts,
                        int64_t index) {
  return localize_size(attrs, signature, parts, index);
}

OpDef avg_pool_grad() {
  return {.name = "avg_pool2d_grad",
          .inputs = {"dy"},
          .outputs = {"dx"},
          .attrs = with(pool_attrs(), "input_size", std::vector<int64_t>{}),
          .infer = [](const Types& in, const Attrs& attrs) -> Types { return {x_of_avg_grad(in, attrs)}; },
          .index_map = pool_map("n c _ _ -> n c _ _ ; linear 0", "n _ _ c -> n _ _ c ; linear 0"),
          .extra =
              [](const Types& in, const Attrs& attrs, int64_t parts) {
                std::vector<sbp::Signature> rules;
                add_extremes(rules, disjoint(window_of(attrs)), 1);
                add_spatial(rules, x_of_avg_grad(in, attrs).shape, attrs, parts, 1);
                return rules;
              },
          .extra_reason =
              "rows and columns are split where no window crosses parts; elementwise where windows are apart",
          .localize = localize_avg_grad,
          .samples =
              [](const Extent& n) {
                std::vector<Sample> samples;
                for (auto& e : pool_examples(n)) {
                  const Shape x = image_axes(complete(op("avg_pool2d"), e.attrs)).channels_first(e.x.shape);
                  e.attrs["input_size"] = std::vector<int64_t>{x[2], x[3]};
                  const TensorType y =
                      infer_y("avg_pool2d_grad", e.x, complete(op("avg_pool2d_grad"), e.attrs));
                  samples.push_back({.inputs = {y}, .attrs = e.attrs});
                }
                return samples;
              }};
}

}  // namespace

void add_pool_ops(std::vector<OpDef>& out) {
  out.push_back(max_pool());
  out.push_back(max_pool_grad());
  out.push_back(avg_pool());
  out.push_back(avg_pool_grad());
}

}  // namespace boxcar::ir

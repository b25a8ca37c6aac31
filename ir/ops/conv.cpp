// Two-dimensional convolution and its gradients:
//
//   conv2d(x[n, c, h, w], weight[o, c / groups, kh, kw]) -> y[n, o, oh, ow]
//
// or, with channels_last, of x[n, h, w, c] to y[n, oh, ow, o] (ir/images.h).
//
// Without groups, everything about channels comes from the index map: output channels are parallel, input
// channels are summed. With groups, channels may be split in whole groups. Splits of a spatial dimension: see
// windows.h.
#include <fmt/format.h>

#include "ir/images.h"
#include "ir/ops/windows.h"

namespace boxcar::ir {
namespace {

enum Axis : size_t { kBatch, kChannel, kHeight, kWidth };  // of weights and, channels first, of images

Window window_of(int64_t kernel, const Attrs& attrs) {
  return {kernel, attr_int(attrs, "stride"), attr_int(attrs, "padding")};
}

// Types of x, weight and y of a convolution, for each of its three ops.
struct Convolution {
  const TensorType &x, &weight;
  const TensorType& y;
};

TensorType infer_y(const char* op, const TensorType& x, const TensorType& weight, const Attrs& attrs) {
  exact_rank(op, "x", x, 4);
  exact_rank(op, "weight", weight, 4);
  need_float(op, "x", x);
  const int64_t groups = attr_int(attrs, "groups");
  if (groups < 0) refuse_attr(op, "groups", attrs, "at least 1");
  const ImageAxes axes = image_axes(attrs);
  if (weight.shape[1] * groups != x.shape[axes.channel]) {
    refuse(op, "weight", weight, fmt::format("the channels of x / groups {} in its second axis", groups), "x",
           x);
  }
  if (groups == 0 ? weight.shape[0] != 0 : weight.shape[0] % groups != 0)
    refuse(op, "weight", weight, "a multiple of groups in its first axis");
  const auto extent = [&](size_t axis, size_t of_weight) {
    const Window window = window_of(weight.shape[of_weight], attrs);
    check_window(op, "x", x, window, axis, attrs);
    return out_extent(window, x.shape[axis]);
  };
  const int64_t height = extent(axes.height, kHeight), width = extent(axes.width, kWidth);
  return {axes.shape(x.shape[kBatch], weight.shape[0], height, width), x.dtype};
}

// The spatial extents of x for the input gradient, or of the weight for the weight gradient. The other
// extents follow from the operands.
const std::vector<int64_t>& two(const char* op, const char* name, const Attrs& attrs) {
  const auto& values = attr_ints(attrs, name);
  if (values.size() != 2) refuse_attr(op, name, attrs, "two extents, height and width");
  return values;
}

Types infer_input_grad(const Types& in, const Attrs& attrs) {
  const char* op = "conv2d_input_grad";
  exact_rank(op, "dy", in[0], 4);
  exact_rank(op, "weight", in[1], 4);
  const auto& size = two(op, "input_size", attrs);
  const int64_t channels = in[1].shape[1] * attr_int(attrs, "groups");
  const TensorType x = {image_axes(attrs).shape(in[0].shape[kBatch], channels, size[0], size[1]),
                        in[0].dtype};
  need_shape(op, "dy", in[0], infer_y(op, x, in[1], attrs).shape, "weight", in[1]);
  return {x};
}

Types infer_conv_weight_grad(const Types& in, const Attrs& attrs) {
  const char* op = "conv2d_weight_grad";
  exact_rank(op, "dy", in[0], 4);
  exact_rank(op, "x", in[1], 4);
  const auto& kernel = two(op, "kernel", attrs);
  const int64_t groups = attr_int(attrs, "groups");
  const size_t channel = image_axes(attrs).channel;
  const int64_t channels = in[1].shape[channel];
  if (groups < 0 || (groups == 0 ? channels != 0 : channels % groups != 0)) {
    refuse_attr(op, "groups", attrs, "a divisor of the channels of x " + to_text(in[1]));
  }
  const int64_t width = groups == 0 ? 0 : channels / groups;
  const TensorType weight = {{in[0].shape[channel], width, kernel[0], kernel[1]}, in[1].dtype};
  need_shape(op, "dy", in[0], infer_y(op, in[1], weight, attrs).shape, "x", in[1]);
  return {weight};
}

// The rules that no index map expresses. `grouped` splits channels in whole groups; `spatial` is the layout
// of x and y split along an axis, with the weight whole.
std::vector<sbp::Signature> rules(int64_t x_channels, int64_t y_channels, const Shape& x, const Shape& weight,
                                  const Attrs& attrs, int64_t parts, const sbp::Signature& grouped,
                                  const std::function<sbp::Signature(sbp::Sbp)>& spatial) {
  std::vector<sbp::Signature> result;
  const int64_t groups = attr_int(attrs, "groups");
  if (groups > 1 && aligned(x_channels, groups, parts) && aligned(y_channels, groups, parts))
    result.push_back(grouped);
  const ImageAxes axes = image_axes(attrs);
  const std::pair<size_t, int64_t> spatials[] = {{axes.height, weight[kHeight]},
                                                 {axes.width, weight[kWidth]}};
  for (const auto& [axis, kernel] : spatials)
    if (splits_exactly(window_of(kernel, attrs), x[axis], parts))
      result.push_back(spatial(sbp::Sbp::S(static_cast<int>(axis))));
  return result;
}

constexpr sbp::Sbp B = sbp::Sbp::B();
constexpr sbp::Sbp P = sbp::Sbp::P();
constexpr sbp::Sbp S0 = sbp::Sbp::S(0);
sbp::Sbp channel_split(const Attrs& attrs) {
  return sbp::Sbp::S(static_cast<int>(image_axes(attrs).channel));
}

std::vector<sbp::Signature> conv_extra(const Types& in, const Attrs& attrs, int64_t parts) {
  const sbp::Sbp channel = channel_split(attrs);
  return rules(in[0].shape[image_axes(attrs).channel], in[1].shape[0], in[0].shape, in[1].shape, attrs, parts,
               {{channel, S0}, {channel}}, [](sbp::Sbp s) -> sbp::Signature {
                 return {{s, B}, {s}};
               });
}

std::vector<sbp::Signature> input_grad_extra(const Types& in, const Attrs& attrs, int64_t parts) {
  const Shape x = infer_input_grad(in, attrs)[0].shape;
  const sbp::Sbp channel = channel_split(attrs);
  return rules(x[image_axes(attrs).channel], in[1].shape[0], x, in[1].shape, attrs, parts,
               {{channel, S0}, {channel}}, [](sbp::Sbp s) -> sbp::Signature {
                 return {{s, B}, {s}};
               });
}

std::vector<sbp::Signature> weight_grad_extra(const Types& in, const Attrs& attrs, int64_t parts) {
  const Shape weight = infer_conv_weight_grad(in, attrs)[0].shape;
  const size_t axis = image_axes(attrs).channel;
  const sbp::Sbp channel = channel_split(attrs);
  return rules(in[1].shape[axis], in[0].shape[axis], in[1].shape, weight, attrs, parts,
               {{channel, channel}, {S0}}, [](sbp::Sbp s) -> sbp::Signature {
                 return {{s, s}, {P}};
               });
}

// With groups, a split of the channels of input 0 splits the groups.
Attrs localize_groups(const Attrs& attrs, const sbp::Signature& signature, int64_t parts, int64_t index) {
  const int64_t groups = attr_int(attrs, "groups");
  if (groups <= 1 || signature.inputs[0] != channel_split(attrs)) return attrs;
  return with(attrs, "groups", sbp::part_range(groups, parts, index).size());
}

Attrs localize_conv(const Types&, const Attrs& attrs, const sbp::Signature& signature, int64_t parts,
                    int64_t index) {
  return localize_groups(attrs, signature, parts, index);
}

Attrs localize_input_grad(const Types&, const Attrs& attrs, const sbp::Signature& signature, int64_t parts,
                          int64_t index) {
  return localize_size(localize_groups(attrs, signature, parts, index), signature, parts, index);
}

// Two flops for each combination of an element of y, an input channel of its group and a place in the kernel.
double conv_flops(const TensorType& y, const TensorType& weight) {
  const Shape& w = weight.shape;
  return 2 * static_cast<double>(y.elements()) * static_cast<double>(w[1] * w[2] * w[3]);
}

Attrs conv_attrs(std::string extents = {}) {
  Attrs attrs = {
      {"stride", int64_t{1}}, {"padding", int64_t{0}}, {"groups", int64_t{1}}, {"channels_last", false}};
  if (!extents.empty()) attrs.insert({extents, std::vector<int64_t>{}});
  return attrs;
}

MapFunction conv_map(std::string_view first, std::string_view last, std::string_view grouped) {
  return [first = sbp::parse_index_map(first), last = sbp::parse_index_map(last),
          grouped = sbp::parse_index_map(grouped)](const Types&, const Attrs& attrs) {
    if (attr_int(attrs, "groups") != 1) return grouped;
    return attr_bool(attrs, "channels_last") ? last : first;
  };
}

struct ConvExample {
  TensorType x, weight;
  Attrs attrs;
};

// Plain with padding; strided without overlap, so that rows may be split; in groups; 1 x 1. Each has both
// orders of axes.
std::vector<ConvExample> conv_examples(const Extent& n) {
  const int64_t a = n(), c = n(), o = n(), h = n();
  std::vector<ConvExample> result = {
      {f32({a, c, h, 4}), f32({o, c, 3, 3}), {{"stride", int64_t{1}}, {"padding", int64_t{1}}}},
      {f32({2, c, 8, 6}), f32({o, c, 2, 2}), {{"stride", int64_t{2}}}},
      {f32({a, 6, 3, 3}), f32({9, 2, 2, 2}), {{"groups", int64_t{3}}}},
      {f32({2, 4, 3, 2}), f32({4, 1, 1, 1}), {{"groups", int64_t{4}}}},
  };
  add_channels_last(result);
  return result;
}

template <class Make>
std::vector<Sample> conv_samples(const Extent& n, Make make) {
  std::vector<Sample> samples;
  for (const ConvExample& e : conv_examples(n)) {
    const Attrs full = complete(op("conv2d"), e.attrs);
    samples.push_back(make(e, infer_y("conv2d", e.x, e.weight, full)));
  }
  return samples;
}

OpDef conv2d() {
  return {
      .name = "conv2d",
      .inputs = {"x", "weight"},
      .outputs = {"y"},
      .attrs = conv_attrs(),
      .family = Family::convolution,
      .infer = [](const Types& in, const Attrs& attrs) -> Types {
        return {infer_y("conv2d", in[0], in[1], attrs)};
      },
      .index_map = conv_map("n c _ _, o c _ _ -> n o _ _ ; sum c ; linear 0 ; linear 1",
                            "n _ _ c, o c _ _ -> n _ _ o ; sum c ; linear 0 ; linear 1",
                            "n _ _ _, _ _ _ _ -> n _ _ _ ; linear 0 ; linear 1"),
      .extra = conv_extra,
      .extra_reason = "channels are split in whole groups; rows and columns where no window crosses parts",
      .localize = localize_conv,
      .work =
          [](const Types& in, const Types& out, const Attrs&) {
            return Work{conv_flops(out[0], in[1]), bytes_of(in) + bytes_of(out)};
          },
      .samples =
          [](const Extent& n) {
            return conv_samples(n, [](const ConvExample& e, const TensorType&) {
              return Sample{.inputs = {e.x, e.weight}, .attrs = e.attrs};
            });
          }};
}

OpDef conv2d_input_grad() {
  return {
      .name = "conv2d_input_grad",
      .inputs = {"dy", "weight"},
      .outputs = {"dx"},
      .attrs = conv_attrs("input_size"),
      .family = Family::convolution,
      .infer = infer_input_grad,
      .index_map = conv_map("n o _ _, o c _ _ -> n c _ _ ; sum o ; linear 0 ; linear 1",
                            "n _ _ o, o c _ _ -> n _ _ c ; sum o ; linear 0 ; linear 1",
                            "n _ _ _, _ _ _ _ -> n _ _ _ ; linear 0 ; linear 1"),
      .extra = input_grad_extra,
      .extra_reason = "channels are split in whole groups; rows and columns where no window crosses parts",
      .localize = localize_input_grad,
      .work =
          [](const Types& in, const Types& out, const Attrs&) {
            return Work{conv_flops(in[0], in[1]), bytes_of(in) + bytes_of(out)};
          },
      .samples =
          [](const Extent& n) {
            return conv_samples(n, [](const ConvExample& e, const TensorType& y) {
              const Shape x = image_axes(complete(op("conv2d"), e.attrs)).channels_first(e.x.shape);
              const std::vector<int64_t> size = {x[kHeight], x[kWidth]};
              return Sample{.inputs = {y, e.weight}, .attrs = with(e.attrs, "input_size", size)};
            });
          }};
}

OpDef conv2d_weight_grad() {
  return {
      .name = "conv2d_weight_grad",
      .inputs = {"dy", "x"},
      .outputs = {"dweight"},
      .attrs = conv_attrs("kernel"),
      .family = Family::convolution,
      .infer = infer_conv_weight_grad,
      .index_map = conv_map("n o _ _, n c _ _ -> o c _ _ ; sum n ; linear 0 ; linear 1",
                            "n _ _ o, n _ _ c -> o c _ _ ; sum n ; linear 0 ; linear 1",
                            "n _ _ _, n _ _ _ -> _ _ _ _ ; sum n ; linear 0 ; linear 1"),
      .extra = weight_grad_extra,
      .extra_reason = "channels are split in whole groups; rows and columns where no window crosses parts",
      .localize = localize_conv,
      .work =
          [](const Types& in, const Types& out, const Attrs&) {
            return Work{conv_flops(in[0], out[0]), bytes_of(in) + bytes_of(out)};
          },
      .samples =
          [](const Extent& n) {
            return conv_samples(n, [](const ConvExample& e, const TensorType& y) {
              const std::vector<int64_t> kernel = {e.weight.shape[kHeight], e.weight.shape[kWidth]};
              return Sample{.inputs = {y, e.x}, .attrs = with(e.attrs, "kernel", kernel)};
            });
          }};
}

}  // namespace

void add_conv_ops(std::vector<OpDef>& out) {
  out.push_back(conv2d());
  out.push_back(conv2d_input_grad());
  out.push_back(conv2d_weight_grad());
  add_pool_ops(out);
  add_batch_norm_ops(out);
}

}  // namespace boxcar::ir

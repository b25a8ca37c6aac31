// Operators on images [n, channels, height, width] and sequences [n, channels, length].
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "backends/onnx/conversion.h"
#include "ir/limits.h"

namespace boxcar::backends::onnx {
namespace {

using Ints = std::vector<int64_t>;

void need_image(const Conversion& c, const Value& x) {
  if (x.type.shape.size() != 4)
    c.refuse(fmt::format("is of {}, expected images [n, channels, height, width]", to_text(x.type)));
}

bool all_same(const Ints& values) {
  return std::all_of(values.begin(), values.end(), [&](int64_t v) { return v == values[0]; });
}

// The one number that all elements of a list have.
int64_t only(const Conversion& c, const char* name, const Ints& values) {
  if (values.empty() || !all_same(values))
    c.refuse(
        fmt::format("has {} {}, expected one number for all axes and sides", name, fmt::join(values, ", ")));
  return values[0];
}

// An attribute's numbers, so small that products of two fit in 64 bits.
Ints small(const Conversion& c, const char* name, Ints absent) {
  Ints values = c.wholes(name, std::move(absent));
  for (const int64_t value : values)
    if (value < -ir::most_extent || value > ir::most_extent)
      c.refuse(fmt::format("has {} {}", name, fmt::join(values, ", ")));
  return values;
}

int64_t stride_of(const Conversion& c) { return only(c, "strides", small(c, "strides", {1, 1})); }

// Those before the rows and columns, then those behind them.
Ints pads_of(const Conversion& c, size_t axes) {
  const std::string kind = c.text("auto_pad", "NOTSET");
  if (kind != "NOTSET" && kind != "VALID") c.refuse("has auto_pad " + kind + ", expected pads");
  const Ints pads = small(c, "pads", Ints(2 * axes, 0));
  if (pads.size() != 2 * axes) c.refuse(fmt::format("has {} pads, expected {}", pads.size(), 2 * axes));
  return pads;
}
int64_t padding_of(const Conversion& c) { return only(c, "pads", pads_of(c, 2)); }

// x with zeros around its last axes: `pads` has the numbers before each, then those behind.
Value padded(const Conversion& c, const Value& x, const Ints& pads, const char* what = "") {
  const size_t axes = pads.size() / 2, first = x.type.shape.size() - axes;
  if (!x.is_known() && x.type.dtype != ir::DType::float32) c.refuse("pads " + to_text(x.type));
  ir::Shape starts(x.type.shape.size(), 0), shape = x.type.shape;
  for (size_t i = 0; i < axes; ++i) {
    const int64_t before = pads[i], behind = pads[axes + i];
    if (std::min(before, behind) < 0 || std::max(before, behind) > ir::most_extent)
      c.refuse(fmt::format("has pads {}", fmt::join(pads, ", ")));
    starts[first + i] = before;
    shape[first + i] += before + behind;
  }
  return shape == x.type.shape ? x : c.emit("slice_grad", {x}, {{"starts", starts}, {"shape", shape}}, what);
}

// One number for each channel of x, beside its rows and columns.
Value by_channel(const Conversion& c, const Value& x, const Value& values, const char* what) {
  ir::Shape shape(x.type.shape.size() - 1, 1);
  shape[0] = values.type.elements();
  return c.emit("reshape", {values}, {{"shape", shape}}, what);
}

// A sequence [n, channels, length] is an image of one row.
Value as_image(const Conversion& c, const Value& x, const char* what) {
  if (x.type.shape.size() != 3) return x;
  const ir::Shape& s = x.type.shape;
  return reshaped(c, x, {s[0], s[1], 1, s[2]}, what);
}

// y[n, channels, 1, length] as the sequence again, then the operator's bias of each channel.
Value with_bias(const Conversion& c, Value y, bool is_sequence) {
  const bool biased = c.has(2);
  const ir::Shape s = y.type.shape;
  if (is_sequence) y = reshaped(c, y, {s[0], s[1], s[3]}, biased ? "rows" : "");
  return biased ? c.emit("add", {y, by_channel(c, y, c.named(c.in(2), ".bias"), "bias")}) : y;
}

// Whether it is of sequences. Throws Error for other axes, another weight and gaps between elements.
bool is_of_sequences(const Conversion& c) {
  const Value& x = c.in(0);
  const bool is_sequence = x.type.shape.size() == 3;
  if (!is_sequence) need_image(c, x);
  if (c.in(1).type.shape.size() != x.type.shape.size())
    c.refuse(fmt::format("has a weight of {} for {}", to_text(c.in(1).type), to_text(x.type)));
  if (only(c, "dilations", c.wholes("dilations", {1, 1})) != 1) c.refuse("is dilated");
  return is_sequence;
}

void conv(Conversion& c) {
  const bool is_sequence = is_of_sequences(c);
  Value x = c.in(0);
  const Ints pads = pads_of(c, is_sequence ? 1 : 2);
  const bool by_op = !is_sequence && all_same(pads);  // others are padded before
  if (!by_op) x = padded(c, x, pads, "padded");
  const Value y =
      c.emit("conv2d", {as_image(c, x, "row"), as_image(c, c.in(1), "weight")},
             {{"stride", stride_of(c)}, {"padding", by_op ? pads[0] : 0}, {"groups", c.whole("group", 1)}},
             c.has(2) || is_sequence ? "product" : "");
  c.out(with_bias(c, y, is_sequence));
}

// The gradient of a convolution whose result has this operand's shape. Pads are then cut off.
void conv_transpose(Conversion& c) {
  const bool is_sequence = is_of_sequences(c);
  if (c.has_attribute("output_shape")) c.refuse("has output_shape, expected pads");
  const Value x = as_image(c, c.in(0), "row"), weight = as_image(c, c.in(1), "weight");
  const size_t axes = is_sequence ? 1 : 2;
  const Ints pads = pads_of(c, axes), more = small(c, "output_padding", Ints(axes, 0));
  const int64_t stride = stride_of(c), padding = !is_sequence && all_same(pads) ? pads[0] : 0;
  if (more.size() != axes) c.refuse(fmt::format("has {} numbers of output_padding", more.size()));
  Ints size, starts(4, 0);
  for (size_t i = 0; i < 2; ++i)
    size.push_back((x.type.shape[2 + i] - 1) * stride - 2 * padding + weight.type.shape[2 + i]);
  for (size_t i = 0; i < axes; ++i) size[2 - axes + i] += more[i];
  const bool cut = padding == 0 && std::any_of(pads.begin(), pads.end(), [](int64_t p) { return p != 0; });
  Value y = c.emit(
      "conv2d_input_grad", {x, weight},
      {{"stride", stride}, {"padding", padding}, {"groups", c.whole("group", 1)}, {"input_size", size}},
      c.has(2) || is_sequence || cut ? "product" : "");
  if (cut) {
    ir::Shape ends = y.type.shape;
    for (size_t i = 0; i < axes; ++i) {
      starts[4 - axes + i] = pads[i];
      ends[4 - axes + i] -= pads[axes + i];
    }
    y = c.emit("slice", {y}, {{"starts", starts}, {"ends", ends}}, c.has(2) || is_sequence ? "cut" : "");
  }
  c.out(with_bias(c, y, is_sequence));
}

// Blocks of channels become squares of elements: [n, c, b, b, h, w], or with mode DCR [n, b, b, c, h, w].
void depth_to_space(Conversion& c) {
  const Value& x = c.in(0);
  need_image(c, x);
  const std::string mode = c.text("mode", "DCR");
  const ir::Shape& s = x.type.shape;
  const int64_t b = c.whole("blocksize", 0);
  if (b < 1 || b > ir::most_extent || s[1] % (b * b) != 0)
    c.refuse(fmt::format("has blocks of {} for {}", b, to_text(x.type)));
  if (mode != "DCR" && mode != "CRD") c.refuse(fmt::format("has the mode {}, expected DCR or CRD", mode));
  const bool channels_first = mode == "CRD";
  const int64_t channels = s[1] / (b * b);
  const ir::Shape apart = channels_first ? ir::Shape{s[0], channels, b, b, s[2], s[3]}
                                         : ir::Shape{s[0], b, b, channels, s[2], s[3]};
  const Ints perm = channels_first ? Ints{0, 1, 4, 2, 5, 3} : Ints{0, 3, 4, 1, 5, 2};
  const Value y = c.emit("transpose", {reshaped(c, x, apart, "apart")}, {{"perm", perm}}, "turned");
  c.out(reshaped(c, y, {s[0], channels, s[2] * b, s[3] * b}));
}

// Statistics of the batch, as it is trained, or those that the file has: then they are one scale and one
// shift for each channel, which are trained.
void batch_norm(Conversion& c) {
  const Value& x = c.in(0);
  const double epsilon = c.number("epsilon", 1e-5);
  const bool of_batch = c.opset() < 14 ? c.node().outputs.size() > 1 : c.whole("training_mode", 0) != 0;
  if (of_batch)
    return c.out(
        c.emit("batch_norm", {x, c.named(c.in(1), ".gamma"), c.named(c.in(2), ".bias")}, {{"eps", epsilon}}));
  HostTensor scale = c.known(c.in(1), "the scale"), shift = c.known(c.in(2), "the shift");
  const HostTensor mean = c.known(c.in(3), "the mean"), variance = c.known(c.in(4), "the variance");
  const size_t channels = scale.data.size();
  if (shift.data.size() != channels || mean.data.size() != channels || variance.data.size() != channels)
    c.refuse("has operands of several lengths");
  for (size_t i = 0; i < channels; ++i) {
    scale.data[i] /= std::sqrt(variance.data[i] + epsilon);
    shift.data[i] -= mean.data[i] * scale.data[i];
  }
  const Value gamma = c.named(c.computed(std::move(scale), c.in(1).weight), ".gamma"),
              beta = c.named(c.computed(std::move(shift), c.in(2).weight), ".bias");
  const Value y = c.emit("mul", {x, by_channel(c, x, gamma, "scale")}, {}, "scaled");
  c.out(c.emit("add", {y, by_channel(c, x, beta, "shift")}));
}

// Each group of a sample's channels is a row of a layer norm, whose weights are 1 and 0. Then come the
// channels' own scale and shift.
void group_norm(Conversion& c, int64_t groups, const Value& scale, const Value& shift) {
  const Value& x = c.in(0);
  const ir::Shape& shape = x.type.shape;
  const int64_t channels = shape[1];
  if (groups < 1 || channels % groups != 0)
    c.refuse(fmt::format("has {} groups for {}", groups, to_text(x.type)));
  const int64_t width = ir::TensorType{{shape.begin() + 1, shape.end()}}.elements() / groups;
  const Value rows = reshaped(c, x, {shape[0], groups, width}, "rows");
  const Value normal = c.emit("layer_norm", {rows, c.constant(1, {width}), c.constant(0, {width})},
                              {{"eps", c.number("epsilon", 1e-5)}}, "normal");
  Value y = reshaped(c, normal, shape, "channels");
  if (c.uniform(scale) != 1)
    y = c.emit("mul", {y, by_channel(c, x, c.named(scale, ".gamma"), "scale")}, {}, "scaled");
  if (c.uniform(shift) != 0) y = c.emit("add", {y, by_channel(c, x, c.named(shift, ".bias"), "shift")});
  c.out(y);
}

void need_norm(const Conversion& c, int64_t numbers) {
  if (rank(c.in(0)) < 3)
    c.refuse(fmt::format("is of {}, expected [n, channels, ...]", to_text(c.in(0).type)));
  for (const size_t i : {1, 2})
    if (c.in(i).type.shape != ir::Shape{numbers})
      c.refuse(fmt::format("has operand {} of {}, expected {} numbers", i, to_text(c.in(i).type), numbers));
}

void instance_norm(Conversion& c) {
  need_norm(c, rank(c.in(0)) < 3 ? 0 : c.in(0).type.shape[1]);
  group_norm(c, c.in(0).type.shape[1], c.in(1), c.in(2));
}

// Before opset 21 a group's channels share a scale and a shift.
void group_norm(Conversion& c) {
  const int64_t groups = c.whole("num_groups", 0), channels = rank(c.in(0)) < 3 ? 0 : c.in(0).type.shape[1];
  const bool shared = c.opset() < 21;
  need_norm(c, shared ? groups : channels);
  if (!shared || groups < 1) return group_norm(c, groups, c.in(1), c.in(2));
  const Ints times = {channels / groups};
  group_norm(c, groups, repeated(c, c.in(1), times, Repeat::elements),
             repeated(c, c.in(2), times, Repeat::elements));
}

ir::Attrs window(const Conversion& c, int64_t padding) {
  if (c.whole("ceil_mode", 0) != 0) c.refuse("has ceil_mode");
  if (only(c, "dilations", c.wholes("dilations", {1, 1})) != 1) c.refuse("is dilated");
  return {{"kernel", only(c, "kernel_shape", c.wholes("kernel_shape", {}))},
          {"stride", stride_of(c)},
          {"padding", padding}};
}

void max_pool(Conversion& c) {
  need_image(c, c.in(0));
  if (c.reads_out(1)) c.refuse("has its indices read");
  c.out(c.emit("max_pool2d", {c.in(0)}, window(c, padding_of(c))));
}

void average_pool(Conversion& c) {
  need_image(c, c.in(0));
  const Ints pads = pads_of(c, 2);
  const bool none = std::all_of(pads.begin(), pads.end(), [](int64_t p) { return p == 0; });
  if (!none && c.whole("count_include_pad", 0) == 0) c.refuse("does not count its padding");
  if (all_same(pads)) return c.out(c.emit("avg_pool2d", {c.in(0)}, window(c, padding_of(c))));
  const ir::Attrs attrs = window(c, 0);
  c.out(c.emit("avg_pool2d", {padded(c, c.in(0), pads, "padded")}, attrs));
}

void global_average_pool(Conversion& c) {
  Ints axes;
  for (size_t i = 2; i < c.in(0).type.shape.size(); ++i) axes.push_back(static_cast<int64_t>(i));
  c.out(c.emit("reduce_mean", {c.in(0)}, {{"axes", axes}, {"keepdims", true}}));
}

// Pads with zeros alone.
void pad(Conversion& c) {
  const Ints pads = c.has(1) ? c.known_wholes(c.in(1), "pads") : c.wholes("pads", {});
  const std::string mode = c.text("mode", "constant");
  const double value = c.has(2) ? c.known_number(c.in(2), "the value") : c.number("value", 0);
  if (c.has(3)) c.refuse("names axes, expected pads for all");
  if (pads.size() != 2 * c.in(0).type.shape.size())
    c.refuse(fmt::format("has {} pads for {}", pads.size(), to_text(c.in(0).type)));
  if (std::all_of(pads.begin(), pads.end(), [](int64_t p) { return p == 0; })) return c.out(c.in(0));
  if (mode != "constant") c.refuse(fmt::format("has the mode {}, expected constant", mode));
  if (value != 0) c.refuse(fmt::format("pads with {}, expected 0", value));
  c.out(padded(c, c.in(0), pads));
}

// Whether element i of the result is element i / factor of the operand, for a whole factor. From opset 11 on
// attributes say where elements are.
bool repeats_elements(const Conversion& c) {
  if (c.node().type == "Upsample" || c.opset() < 11) return true;
  const std::string place = c.text("coordinate_transformation_mode", "half_pixel"),
                    nearest = c.text("nearest_mode", "round_prefer_floor");
  if (place == "asymmetric") return nearest == "floor";
  return (place == "half_pixel" || place == "pytorch_half_pixel") &&
         (nearest == "round_prefer_floor" || nearest == "round_prefer_ceil");
}

// The sizes, or else the factors, are the last operand that is not empty.
Ints resize_factors(const Conversion& c) {
  const Value& x = c.in(0);
  const bool has_sizes = c.node().type == "Resize" && c.opset() >= 11;
  Ints factors;
  if (has_sizes && c.has(3)) {
    const ir::Shape sizes = c.for_batch(c.known_shape(c.in(3)), x);
    for (size_t i = 0; i < sizes.size(); ++i) {
      const int64_t extent = i < x.type.shape.size() ? x.type.shape[i] : 0;
      if (extent < 1 || sizes[i] < extent || sizes[i] % extent != 0)
        c.refuse(
            fmt::format("makes {} of {}, expected whole factors", fmt::join(sizes, ", "), to_text(x.type)));
      factors.push_back(sizes[i] / extent);
    }
    return factors;
  }
  for (const double factor : c.known(c.in(has_sizes ? 2 : 1), "the factors").data) {
    if (!(factor >= 1) || factor != std::floor(factor) || factor > static_cast<double>(ir::most_extent))
      c.refuse(fmt::format("has a factor of {}, expected whole ones", factor));
    factors.push_back(static_cast<int64_t>(factor));
  }
  return factors;
}

void resize(Conversion& c) {
  const std::string mode = c.text("mode", "nearest"), policy = c.text("keep_aspect_ratio_policy", "stretch");
  if (mode != "nearest") c.refuse(fmt::format("has the mode {}, expected nearest", mode));
  if (!repeats_elements(c))
    c.refuse("takes other elements than asymmetric with floor, or half_pixel with round_prefer_floor");
  if (policy != "stretch" || c.has_attribute("axes")) c.refuse("has axes or keeps an aspect ratio");
  c.out(repeated(c, c.in(0), resize_factors(c), Repeat::elements));
}

}  // namespace

void add_image_converters(Converters& table) {
  const Converters rows = {{"Conv", conv},
                           {"BatchNormalization", batch_norm},
                           {"InstanceNormalization", instance_norm},
                           {"GroupNormalization", group_norm},
                           {"ConvTranspose", conv_transpose},
                           {"DepthToSpace", depth_to_space},
                           {"MaxPool", max_pool},
                           {"AveragePool", average_pool},
                           {"GlobalAveragePool", global_average_pool},
                           {"Pad", pad},
                           {"Resize", resize},
                           {"Upsample", resize}};
  table.insert(rows.begin(), rows.end());
}

}  // namespace boxcar::backends::onnx

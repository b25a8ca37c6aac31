// Operators on images [n, channels, height, width].
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "backends/onnx/conversion.h"

namespace boxcar::backends::onnx {
namespace {

using Ints = std::vector<int64_t>;

void need_image(const Conversion& c, const Value& x) {
  if (x.type.shape.size() != 4)
    c.refuse(fmt::format("is of {}, expected images [n, channels, height, width]", to_text(x.type)));
}

// The one number that all elements of a list have.
int64_t only(const Conversion& c, const char* name, const Ints& values) {
  if (values.empty() || std::any_of(values.begin(), values.end(), [&](int64_t v) { return v != values[0]; }))
    c.refuse(
        fmt::format("has {} {}, expected one number for all axes and sides", name, fmt::join(values, ", ")));
  return values[0];
}

int64_t stride_of(const Conversion& c) { return only(c, "strides", c.wholes("strides", {1, 1})); }

int64_t padding_of(const Conversion& c) {
  const std::string kind = c.text("auto_pad", "NOTSET");
  if (kind != "NOTSET" && kind != "VALID") c.refuse("has auto_pad " + kind + ", expected pads");
  return only(c, "pads", c.wholes("pads", {0, 0, 0, 0}));
}

// One number for each channel of x, beside its rows and columns.
Value by_channel(const Conversion& c, const Value& x, const Value& values, const char* what) {
  ir::Shape shape(x.type.shape.size() - 1, 1);
  shape[0] = values.type.elements();
  return c.emit("reshape", {values}, {{"shape", shape}}, what);
}

void conv(Conversion& c) {
  const Value& x = c.in(0);
  need_image(c, x);
  if (only(c, "dilations", c.wholes("dilations", {1, 1})) != 1) c.refuse("is dilated");
  const bool biased = c.has(2);
  const Value y =
      c.emit("conv2d", {x, c.in(1)},
             {{"stride", stride_of(c)}, {"padding", padding_of(c)}, {"groups", c.whole("group", 1)}},
             biased ? "product" : "");
  c.out(biased ? c.emit("add", {y, by_channel(c, y, c.named(c.in(2), ".bias"), "bias")}) : y);
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

ir::Attrs window(const Conversion& c) {
  need_image(c, c.in(0));
  if (c.whole("ceil_mode", 0) != 0) c.refuse("has ceil_mode");
  if (only(c, "dilations", c.wholes("dilations", {1, 1})) != 1) c.refuse("is dilated");
  return {{"kernel", only(c, "kernel_shape", c.wholes("kernel_shape", {}))},
          {"stride", stride_of(c)},
          {"padding", padding_of(c)}};
}

void max_pool(Conversion& c) {
  if (c.reads_out(1)) c.refuse("has its indices read");
  c.out(c.emit("max_pool2d", {c.in(0)}, window(c)));
}

void average_pool(Conversion& c) {
  if (padding_of(c) != 0 && c.whole("count_include_pad", 0) == 0) c.refuse("does not count its padding");
  c.out(c.emit("avg_pool2d", {c.in(0)}, window(c)));
}

void global_average_pool(Conversion& c) {
  Ints axes;
  for (size_t i = 2; i < c.in(0).type.shape.size(); ++i) axes.push_back(static_cast<int64_t>(i));
  c.out(c.emit("reduce_mean", {c.in(0)}, {{"axes", axes}, {"keepdims", true}}));
}

// Supports only padding with nothing.
void pad(Conversion& c) {
  const Ints pads = c.has(1) ? c.known_wholes(c.in(1), "pads") : c.wholes("pads", {});
  if (std::any_of(pads.begin(), pads.end(), [](int64_t p) { return p != 0; }))
    c.refuse(fmt::format("has pads {}", fmt::join(pads, ", ")));
  c.out(c.in(0));
}

}  // namespace

void add_image_converters(Converters& table) {
  const Converters rows = {{"Conv", conv},
                           {"BatchNormalization", batch_norm},
                           {"MaxPool", max_pool},
                           {"AveragePool", average_pool},
                           {"GlobalAveragePool", global_average_pool},
                           {"Pad", pad}};
  table.insert(rows.begin(), rows.end());
}

}  // namespace boxcar::backends::onnx

#include "sim/models/convolution_time.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/machines/device_profile.h"
#include "ir/images.h"
#include "ir/op_kind.h"
#include "sim/models/matmul_time.h"

namespace boxcar::sim {
namespace {

constexpr int parts_of_k[] = {1, 2, 4, 8, 16, 32, 64, 128};
constexpr Splits splits{parts_of_k, 2};
// Winograd's tiles of 6 x 6 elements, 4 x 4 outputs of 3x3 windows and 2 x 2 of 5x5 ones, with transforms in
// kernels of their own; or of 2 x 2 outputs from 4 x 4 in one kernel, whose blocks take 32 tiles and 64
// channels.
constexpr int64_t tile_edge = 6, tile_elements = tile_edge * tile_edge, winograd_kernels = 3;
constexpr int64_t fused_outputs = 2, fused_elements = 16, block_tiles = 32, block_channels = 64;

// m x n over k, of each group.
MatmulShape product_of(const ConvolutionShape& s, ConvolutionPass pass) {
  const int64_t window = s.kernel_rows * s.kernel_columns, out = s.batch * s.out_rows * s.out_columns;
  if (pass == ConvolutionPass::forward) return {s.groups, out, s.to, s.from * window};
  if (pass == ConvolutionPass::weight_grad) return {s.groups, s.to, s.from * window, out};
  if (window == 1) return {s.groups, out, s.from, s.to};  // all other positions are zero
  return {s.groups, s.batch * s.rows * s.columns, s.from,
          std::max<int64_t>(1, s.to * window / (s.stride * s.stride))};
}

double share_of(const backends::ConvolutionModel& model, const ConvolutionShape& s, ConvolutionPass pass) {
  const bool pointwise = s.kernel_rows * s.kernel_columns == 1;
  if (pass == ConvolutionPass::forward) return 1;
  if (pass == ConvolutionPass::weight_grad)
    return pointwise ? model.pointwise_weight_grad : model.weight_grad;
  if (s.stride == 1) return model.input_grad;
  return pointwise ? model.pointwise_strided_input_grad : model.strided_input_grad;
}

double elements(const ConvolutionShape& s) {
  const int64_t x = s.batch * s.from * s.rows * s.columns, y = s.batch * s.to * s.out_rows * s.out_columns;
  return static_cast<double>(s.groups * (x + y + s.to * s.from * s.kernel_rows * s.kernel_columns));
}

// One channel into and out of each group: no product, so kernels of their own sum each element's window, on
// the units of float32 and bound by memory.
bool is_depthwise(const ConvolutionShape& s) { return s.groups > 1 && s.from == 1 && s.to == 1; }
double depthwise_flops(const ConvolutionShape& s) {
  return 2.0 * static_cast<double>(s.groups * s.batch * s.out_rows * s.out_columns) *
         static_cast<double>(s.kernel_rows * s.kernel_columns);
}

double tiles_of(const ConvolutionShape& s, int64_t outputs) {
  return static_cast<double>(s.batch * ceil_div(s.out_rows, outputs) * ceil_div(s.out_columns, outputs));
}

// Products of 36 places at once, a batch; their operands and results pass through memory twice.
double winograd_apart(const backends::DeviceProfile& device, const backends::ConvolutionModel& model,
                      const ConvolutionShape& s, ConvolutionPass pass, ir::DType type) {
  const auto tiles = static_cast<int64_t>(tiles_of(s, tile_edge + 1 - s.kernel_rows));
  const MatmulShape product =
      pass == ConvolutionPass::forward      ? MatmulShape{tile_elements, tiles, s.to, s.from}
      : pass == ConvolutionPass::input_grad ? MatmulShape{tile_elements, tiles, s.from, s.to}
                                            : MatmulShape{tile_elements, s.to, s.from, tiles};
  const double products =
      waves_seconds(device, model.waves, product, type, peak_flops(device, type) * model.winograd, splits);
  const auto transformed = static_cast<double>(tiles * (s.from + s.to) + s.from * s.to);
  const double moved = elements(s) + 2.0 * tile_elements * transformed;
  return winograd_kernels * model.waves.start_seconds + products +
         moved * static_cast<double>(ir::size_of(type)) /
             (device.memory_bandwidth * model.waves.memory_share);
}

double winograd_in_one(const backends::DeviceProfile& device, const backends::ConvolutionModel& model,
                       const ConvolutionShape& s, ConvolutionPass pass, double peak) {
  const bool forward = pass == ConvolutionPass::forward;
  const auto over = static_cast<double>(forward ? s.from : s.to);
  const double blocks = std::ceil(tiles_of(s, fused_outputs) / block_tiles) *
                        static_cast<double>(ceil_div(forward ? s.to : s.from, block_channels));
  const double flops = std::max<double>(blocks, device.multiprocessors) * block_tiles * block_channels *
                       fused_elements * 2.0 * over;
  return model.waves.start_seconds + flops / (peak * model.winograd_fused);
}

double winograd_seconds(const backends::DeviceProfile& device, const backends::ConvolutionModel& model,
                        const ConvolutionShape& s, ConvolutionPass pass, ir::DType type) {
  const bool whole = s.groups == 1 && s.stride == 1 && s.kernel_rows == s.kernel_columns;
  double least = std::numeric_limits<double>::infinity();
  if (whole && (s.kernel_rows == 3 || s.kernel_rows == 5) && model.winograd > 0)
    least = winograd_apart(device, model, s, pass, type);
  if (whole && s.kernel_rows == 3 && model.winograd_fused > 0 && pass != ConvolutionPass::weight_grad)
    least = std::min(least, winograd_in_one(device, model, s, pass, peak_flops(device, type)));
  return least;
}

}  // namespace

ConvolutionPass pass_of(const ir::OpDef& def) {
  const ir::OpKind kind = ir::kind_of(def.name);
  if (kind == ir::OpKind::convolution_weight_grad) return ConvolutionPass::weight_grad;
  return kind == ir::OpKind::convolution_input_grad ? ConvolutionPass::input_grad : ConvolutionPass::forward;
}

ConvolutionShape convolution_shape(ConvolutionPass pass, const ir::Types& inputs, const ir::Types& outputs,
                                   const ir::Attrs& attrs) {
  // By pass: conv2d(x, weight) -> y, conv2d_input_grad(dy, weight) -> dx, conv2d_weight_grad(dy, x) ->
  // dweight.
  const bool forward = pass == ConvolutionPass::forward, weight_grad = pass == ConvolutionPass::weight_grad;
  const ir::ImageAxes axes = ir::image_axes(attrs);
  const ir::Shape x = axes.channels_first((forward ? inputs[0] : weight_grad ? inputs[1] : outputs[0]).shape);
  const ir::Shape y = axes.channels_first((forward ? outputs[0] : inputs[0]).shape);
  const ir::Shape& weight = weight_grad ? outputs[0].shape : inputs[1].shape;
  const int64_t groups = std::max<int64_t>(1, ir::attr_int(attrs, "groups"));
  return {x[0], groups,    weight[1], weight[0] / groups,           x[2], x[3], y[2],
          y[3], weight[2], weight[3], ir::attr_int(attrs, "stride")};
}

double convolution_seconds(const backends::DeviceProfile& device, const backends::ConvolutionModel& model,
                           const ConvolutionShape& s, ConvolutionPass pass, ir::DType type) {
  const double bytes = elements(s) * static_cast<double>(ir::size_of(type));
  const double compute = is_depthwise(s) ? depthwise_flops(s) / peak_flops(device, ir::DType::float32)
                                         : waves_seconds(device, model.waves, product_of(s, pass), type,
                                                         peak_flops(device, type), splits) /
                                               share_of(model, s, pass);
  const double memory = bytes / (device.memory_bandwidth * model.waves.memory_share);
  const double more = pass == ConvolutionPass::input_grad ? model.input_grad_seconds : 0;
  const double product = model.waves.start_seconds + more + fourth_power_sum(compute, memory);
  return std::min(product, winograd_seconds(device, model, s, pass, type));
}

}  // namespace boxcar::sim

// Seconds of one convolution on a device, from its shape alone: cuDNN's two ways, the faster one.
//
//   product   the implicit matrix product, in tiles and waves as matmul_time.h has them:
//               forward            n oh ow x k    over c kh kw
//               input's gradient   n h w x c      over k kh kw / stride^2; of 1x1 windows n oh ow x c over k
//               weight's gradient  k x c kh kw    over n oh ow
//   winograd  3x3 and 5x5 windows without stride, if the device has it: 36 products, a batch, in place of 144
//             for every 4 x 4 outputs of 3x3 windows, or of 100 for every 2 x 2 of 5x5 ones, in the same
//             tiles and waves, and the transformed operands written and read; or 16 in place of 36 for every
//             2 x 2 of 3x3 windows, in one kernel, but not for the weight's gradient
//   memory    the operands' bytes, once
//
//   n 8, c 64, k 64, 56 x 56, 3x3, float32 on a V100: 1.85 GFLOP, 0.11 ms measured
//
// The constants are fitted to measured convolutions (docs/profiles.md). Devices without them have a share of
// the peak by flops (kernel_time.h).
#pragma once

#include "backends/machines/forward.h"
#include "ir/op.h"

namespace boxcar::sim {

enum class ConvolutionPass : uint8_t { forward, input_grad, weight_grad };

// Channels are those of one group; windows are kh x kw.
struct ConvolutionShape {
  int64_t batch = 1, groups = 1, from = 0, to = 0, rows = 0, columns = 0, out_rows = 0, out_columns = 0;
  int64_t kernel_rows = 1, kernel_columns = 1, stride = 1;
};

// The shape of conv2d or of one of its gradients, from its operands.
ConvolutionShape convolution_shape(ConvolutionPass pass, const ir::Types& inputs, const ir::Types& outputs,
                                   const ir::Attrs& attrs);

ConvolutionPass pass_of(const ir::OpDef& def);

// Tensor cores take channels in multiples of eight.
constexpr int64_t channel_step = 8;
inline bool fills_tensor_cores(const ConvolutionShape& shape) {
  return shape.from % channel_step == 0 && shape.to % channel_step == 0;
}

// REQUIRES all extents >= 1.
double convolution_seconds(const backends::DeviceProfile& device, const backends::ConvolutionModel& model,
                           const ConvolutionShape& shape, ConvolutionPass pass, ir::DType type);

}  // namespace boxcar::sim

// Kernels that an image network runs: convolutions are cuDNN's, batch norms too if channels are last and fill
// 16 bytes.
#include "images.h"

#include <gtest/gtest.h>

#include "backends/cuda/cuda_backend.h"
#include "tally.h"

namespace boxcar::tests {
namespace {

struct Ran {
  int convolutions = 0, norms = 0;
};

Ran so_far() { return {cuda_on_cpu::tallied("convolution"), cuda_on_cpu::tallied("batch norm")}; }

Ran one_step(int64_t channels, bool channels_last, ir::Precision precision) {
  const Ran before = so_far();
  train(resnet(channels, channels_last, precision), resnet_start(), 1,
        [](int devices) { return backends::cuda::make_cuda_backend(devices, {}); });
  const Ran after = so_far();
  return {after.convolutions - before.convolutions, after.norms - before.norms};
}

// Forward and both gradients, except for the first convolution's input.
constexpr int convolutions = 3 * 53 - 1, norms = 2 * 53;

TEST(CudaImages, WithChannelsLastAreNormalisedByCudnn) {
  for (const ir::Precision precision : {ir::Precision::fp32, ir::Precision::bf16}) {
    const Ran ran = one_step(8, true, precision);
    EXPECT_EQ(ran.convolutions, convolutions);
    EXPECT_EQ(ran.norms, norms);
  }
}

TEST(CudaImages, WithChannelsFirstAreNormalisedByOwnKernels) {
  const Ran ran = one_step(8, false, ir::Precision::bf16);
  EXPECT_EQ(ran.convolutions, convolutions);
  EXPECT_EQ(ran.norms, 0);
}

// Norms of 4 channels, 8 bytes: the stem's, and two in each of the first three blocks.
TEST(CudaImages, OfFewChannelsAreNormalisedByOwnKernels) {
  const Ran ran = one_step(4, true, ir::Precision::bf16);
  EXPECT_EQ(ran.convolutions, convolutions);
  EXPECT_EQ(ran.norms, norms - 2 * (1 + 3 * 2));
}

}  // namespace
}  // namespace boxcar::tests

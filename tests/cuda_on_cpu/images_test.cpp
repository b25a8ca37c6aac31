// Networks for images with channels last: convolutions and batch norms are cuDNN's, and train as on the CPU.
#include <gtest/gtest.h>

#include "backends/cuda/cuda_backend.h"
#include "models.h"
#include "tally.h"
#include "trainer.h"

namespace boxcar::tests {
namespace {

planner::LaidOut resnet(int64_t channels, bool channels_last) {
  planner::Job job;
  job.model = ir::models::defaults("resnet");
  job.model.layers = 16, job.model.hidden = channels, job.model.image = 32, job.model.vocab = 5;
  job.model.channels_last = channels_last;
  job.train.optimizer = ir::Optimizer::momentum;
  job.train.precision = ir::Precision::fp32;
  job.gpus = job.parallel.dp = 1;
  job.parallel.micro_batch = 4;
  job.global_batch = 4;
  return planner::lay_out(planner::resolve(job));
}

struct Ran {
  double loss = 0, on_cpu = 0;
  int convolutions = 0, norms = 0;
};

Ran one_step(int64_t channels, bool channels_last) {
  const planner::LaidOut laid = resnet(channels, channels_last);
  const Start start = graph_start(3 * 32 * 32);
  const int convolutions = cuda_on_cpu::tallied("convolution"), norms = cuda_on_cpu::tallied("batch norm");
  const auto on_gpus = [](int devices) { return backends::cuda::make_cuda_backend(devices, {}); };
  Ran ran;
  ran.loss = train(laid, start, 1, on_gpus).losses[0];
  ran.on_cpu = train(laid, start, 1).losses[0];
  ran.convolutions = cuda_on_cpu::tallied("convolution") - convolutions;
  ran.norms = cuda_on_cpu::tallied("batch norm") - norms;
  return ran;
}

// 53 convolutions and as many norms, forward and backward; the first convolution's input has no gradient.
TEST(CudaImages, WithChannelsLastAreNormalisedByCudnn) {
  const Ran ran = one_step(4, true);
  EXPECT_NEAR(ran.loss, ran.on_cpu, 1e-3 * ran.on_cpu);
  EXPECT_EQ(ran.convolutions, 3 * 53 - 1);
  EXPECT_EQ(ran.norms, 2 * 53);
}

TEST(CudaImages, WithChannelsFirstAreNormalisedByOwnKernels) {
  const Ran ran = one_step(1, false);
  EXPECT_NEAR(ran.loss, ran.on_cpu, 1e-3 * ran.on_cpu);
  EXPECT_EQ(ran.convolutions, 3 * 53 - 1);
  EXPECT_EQ(ran.norms, 0);
}

// Channels that do not fill 16 bytes.
TEST(CudaImages, OfFewChannelsAreNormalisedByOwnKernels) {
  const Ran ran = one_step(1, true);
  EXPECT_NEAR(ran.loss, ran.on_cpu, 1e-3 * ran.on_cpu);
  EXPECT_LT(ran.norms, 2 * 53);
}

}  // namespace
}  // namespace boxcar::tests

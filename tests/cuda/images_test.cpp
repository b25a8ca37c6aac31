// An image network trains on GPUs as on the CPU, with channels first and last. Skipped if there is no GPU.
#include "images.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "gpu.h"

namespace boxcar::tests {
namespace {

class GpuImages : public testing::TestWithParam<bool> {};

TEST_P(GpuImages, TrainAsOnTheCpu) {
  std::string why;
  if (!gpus(1, why)) GTEST_SKIP() << why;
  const planner::LaidOut laid = resnet(8, GetParam(), ir::Precision::fp32);
  const Outcome there = train(laid, resnet_start(), 2, [&](int devices) { return gpus(devices, why); });
  const Outcome here = train(laid, resnet_start(), 2);
  EXPECT_LE(loss_distance(there, here), 1e-3);
  EXPECT_GT(std::abs(here.losses[1] - here.losses[0]), 1e-2);
}
INSTANTIATE_TEST_SUITE_P(Orders, GpuImages, testing::Bool(), [](const auto& info) {
  return std::string(info.param ? "channels_last" : "channels_first");
});

}  // namespace
}  // namespace boxcar::tests

// Sums over more rows than a grid has blocks for besides columns: stretches of rows grow with their number.
#include <gtest/gtest.h>

#include <vector>

#include "backends/cuda/cuda_device.h"
#include "backends/cuda/kernels/launch.h"

namespace boxcar::backends::cuda {
namespace {

TEST(LongRows, GradientsOfNormsAreSumsOfAllRows) {
  cpu::Waits waits{nullptr};
  Recorder recorder{waits, [] {}};
  CudaDevice device{0, waits, [] {}, recorder};
  const std::unique_ptr<Queue> owned = device.queue(ir::QueueKind::compute);
  auto& queue = dynamic_cast<CudaQueue&>(*owned);
  constexpr int64_t rows = 66'000, width = 2;
  static_assert(rows > 64 * 1024);
  std::vector<float> dy(rows * width, 1), x(rows * width, 3), dx(rows * width), gamma(width, 1),
      mean(rows, 1), rstd(rows, 1), dgamma(width), dbeta(width);
  const auto array = [](std::vector<float>& values) { return Array{values.data(), Type::float32}; };
  const NormGrad grad{array(dy), array(x),      array(gamma), array(mean), array(rstd),
                      array(dx), array(dgamma), array(dbeta), rows,        width};
  std::vector<std::byte> scratch(static_cast<size_t>(scratch_of(grad)));
  EXPECT_LE(scratch.size(), 1024 * 2 * width * 8);
  launch_norm_grad(grad, scratch.data(), false, queue.stream());
  queue.finish();
  EXPECT_EQ(dgamma, std::vector<float>(width, 2 * rows));
  EXPECT_EQ(dbeta, std::vector<float>(width, rows));
}

}  // namespace
}  // namespace boxcar::backends::cuda

// Kernels on vectors, and their foundations: divisions by multiplication; tables' gradients with more indices
// of a row than a block sorts; communication's streams.
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "backends/cuda/cuda_device.h"
#include "backends/cuda/kernels/launch.h"
#include "tally.h"

namespace boxcar::backends::cuda {
namespace {

TEST(Vectors, DivideByMultiplication) {
  std::mt19937_64 random(1);
  const auto quotient = [](uint32_t n, const Divisor& d) {
    return d.by == 1 ? n : static_cast<uint32_t>(uint64_t{n} * d.multiplier >> 32) >> d.shift;
  };
  const uint32_t most = (uint32_t{1} << 31) - 1;
  for (int i = 0; i < 200'000; ++i) {
    const uint32_t by = 1 + static_cast<uint32_t>(random()) % (i % 2 == 0 ? 1000 : most);
    const uint32_t whole = by * (static_cast<uint32_t>(random()) % (most / by + 1));
    for (const uint32_t n : {static_cast<uint32_t>(random()) & most, whole, whole > 0 ? whole - 1 : 0, most})
      ASSERT_EQ(quotient(n, Divisor(by)), n / by) << n << " / " << by;
  }
}

class OnADevice : public testing::Test {
 protected:
  CudaQueue& queue() { return dynamic_cast<CudaQueue&>(*owned_); }

  cpu::Waits waits_{nullptr};
  Recorder recorder_{waits_, [] {}};
  CudaDevice device_{0, waits_, [] {}, recorder_};

 private:
  const std::unique_ptr<Queue> owned_ = device_.queue(ir::QueueKind::compute);
};
using Vectors16 = OnADevice;

// Rows 0 and 2 of three, 3000 and 1 indices, one index outside; whole vectors and not.
TEST_F(Vectors16, TablesGradientsAddManyIndicesOfARow) {
  for (const int64_t inner : {8, 3}) {
    constexpr int64_t indices = 3002, rows = 3;
    std::vector<int64_t> index(indices, 0);
    index[7] = 2, index[9] = rows;
    const auto size = static_cast<size_t>(inner);
    std::vector<float> grad(indices * size, 1);
    struct alignas(16) Aligned {
      float x[4];
    };
    std::vector<Aligned> out(indices * size / 4 + 1), table(rows * size / 4 + 1);
    std::copy(grad.begin(), grad.end(), out[0].x);
    Gather g;
    g.table = {table.data(), Type::float32}, g.index = {index.data(), Type::int64},
    g.out = {out.data(), Type::float32};
    g.extent = rows, g.inner = inner, g.indices = indices;
    std::vector<std::byte> scratch(static_cast<size_t>(scratch_of(g)), std::byte{0xff});
    launch_gather_grad(g, rows * inner * 4, scratch.data(), false, queue().stream());
    queue().finish();
    for (size_t i = 0; i < size; ++i) {
      EXPECT_EQ(table[0].x[i], indices - 2);
      EXPECT_EQ(table[0].x[size + i], 0);
      EXPECT_EQ(table[0].x[2 * size + i], 1);
    }
  }
}

TEST_F(Vectors16, StreamsOfCommunicationHaveHighPriority) {
  const int before = cuda_on_cpu::tallied("streams of high priority");
  const auto compute = device_.queue(ir::QueueKind::compute), copies = device_.queue(ir::QueueKind::copy_in);
  EXPECT_EQ(cuda_on_cpu::tallied("streams of high priority"), before);
  const auto network = device_.queue(ir::QueueKind::network);
  EXPECT_EQ(cuda_on_cpu::tallied("streams of high priority"), before + 1);
}

}  // namespace
}  // namespace boxcar::backends::cuda

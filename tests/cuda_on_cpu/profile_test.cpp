// `boxcar profile --backend cuda` over the stand-in for CUDA: it finds the times that acts there report, and
// its file is read back. tests/fit/gpu_profile_test checks that constants are found from such samples.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "actors/profile/gpu_samples.h"
#include "backends/cuda/cuda_backend.h"
#include "backends/machines/device_profile.h"
#include "backends/measure/bench.h"
#include "sim/fit/device_fit.h"
#include "tally.h"

namespace boxcar::profile {
namespace {

TEST(GpuProfile, FindsWhatTheStandInSpends) {
  Sweep sweep;
  sweep.memory = 4 << 20, sweep.footprint = 64 << 10;
  sweep.calls = sum_calls(1 << 12);
  const ir::TensorType square{{16, 16}, ir::DType::bfloat16};
  sweep.calls.push_back(measure::call_of("matmul", {square, square}));
  sweep.sustained = sweep.calls.back();
  const ir::TensorType heads{{1, 2, 4, 8}, ir::DType::bfloat16};
  sweep.calls.push_back(measure::call_of("scaled_dot_product_attention", {heads, heads, heads}));
  sweep.sustained_seconds = 0.01;
  sweep.upload_bytes = 1 << 20, sweep.largest_group = 64 << 10;
  sweep.budget_seconds = 1000;
  const measure::MakeBackend make = [](int devices) {
    return backends::cuda::make_cuda_backend(devices, {.share_gpus = true});
  };
  std::string last;
  const measure::Samples samples =
      measure_gpus(make, 9, sweep, [&](const std::string& what) { last = what; });
  EXPECT_EQ(last, "measuring collectives");
  EXPECT_EQ(samples.name, "the host in a GPU's place");
  EXPECT_EQ(samples.multiprocessors, 4);
  EXPECT_EQ(samples.load_share, 1);
  std::map<int, int> groups;
  for (const measure::GroupSample& group : samples.groups) ++groups[group.ranks];
  EXPECT_EQ(groups, (std::map<int, int>{{2, 8}, {4, 8}, {8, 8}}));
  int sums = 0;
  bool attends = false;
  for (const measure::KernelSample& sample : samples.kernels) {
    attends |= sample.call.op == "scaled_dot_product_attention";
    const ir::Shape& shape = sample.call.inputs[0].shape;
    if (sample.call.op != "add" || shape.size() != 1 || shape[0] < 64) continue;
    ++sums;
    const double threads =
        std::max(64.0, static_cast<double>(shape[0]) / 8);  // a block, or eight elements each
    EXPECT_NEAR(sample.seconds,
                1e-3 * (cuda_on_cpu::kernel_milliseconds + threads * cuda_on_cpu::thread_milliseconds), 1e-8);
  }
  EXPECT_EQ(sums, 4);
  EXPECT_TRUE(attends);
  const backends::DeviceProfile found = fit::fit_device(samples);
  EXPECT_NEAR(found.kernel_floor, 2.512e-6, 1e-9);
  // 12 bytes per element, less the time of the smallest sum, of a whole block.
  EXPECT_NEAR(found.memory_bandwidth, 12e9 * 4096 / (4096 - 512), 0.05e9);
  const std::string yaml = backends::to_yaml(found);
  EXPECT_EQ(backends::parse_device(yaml, "gpu.yaml"), found) << yaml;
}

}  // namespace
}  // namespace boxcar::profile

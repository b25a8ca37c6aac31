#include "sim/fit/device_fit.h"

#include <gtest/gtest.h>

#include <cmath>

#include "backends/machines/cluster.h"
#include "backends/machines/collective_model.h"
#include "backends/machines/device_profile.h"
#include "ir/op.h"
#include "sim/models/collective_time.h"
#include "sim/models/kernel_time.h"

namespace boxcar::fit {
namespace {

using backends::DeviceProfile;

// Samples of a device with known constants.
measure::Samples samples_of(const DeviceProfile& device, const backends::Cluster& cluster) {
  measure::Samples samples;
  samples.memory_bytes = device.memory_bytes;
  samples.act_seconds = 1e-7;
  samples.copy_bandwidth = 5e9;
  samples.cores = 1.5;
  const auto add = [&](const char* op, const ir::Types& inputs, const ir::Attrs& given = {}) {
    const ir::Attrs attrs = ir::complete(ir::op(op), given);
    const backends::Call call{op, inputs, ir::op(op).infer(inputs, attrs), attrs};
    samples.kernels.push_back(
        {call, sim::kernel_seconds(device, ir::op(op), call.inputs, call.outputs, attrs)});
  };
  const auto f32 = [](ir::Shape shape) { return ir::TensorType{std::move(shape), ir::DType::float32}; };
  for (int64_t n = 4; n <= 1 << 22; n *= 4) add("add", {f32({n}), f32({n})});
  for (int64_t n : {64, 128, 256, 512}) {
    add("matmul", {f32({n, n}), f32({n, n})});
    add("matmul", {f32({n, n}), f32({n, n})}, {{"transpose_b", true}});
    add("matmul", {{{n, n}, ir::DType::float64}, {{n, n}, ir::DType::float64}});
    add("gelu", {f32({n, n})});
  }
  for (auto collective : {sbp::Collective::all_reduce, sbp::Collective::reduce_scatter,
                          sbp::Collective::all_gather, sbp::Collective::all_to_all})
    for (int ranks : {2, 4, 8})
      for (int64_t bytes : {1 << 10, 1 << 20}) {
        const sim::CommTime time = sim::collective_time(cluster, collective, bytes, {ranks, 1, ranks, 1});
        const double threads = std::max(1.0, ranks / samples.cores);
        samples.groups.push_back(
            {collective, ranks, bytes, time.latency + threads * (time.seconds() - time.latency)});
      }
  return samples;
}

TEST(DeviceFit, FindsTheConstantsOfItsSamples) {
  DeviceProfile device;
  device.memory_bytes = 1 << 30;
  device.memory_bandwidth = 1e10;
  device.peak_flops = {{ir::DType::float32, 1e11}, {ir::DType::float64, 5e10}};
  device.kernel_floor = 2e-7;
  device.op_share = {{"gelu", 0.125}, {"matmul_input_grad", 0.75}};
  device.matmul.ramp_bytes = 0;
  backends::Cluster cluster;
  cluster.device = device;
  cluster.node.link_bandwidth = 4e9;
  for (auto& line : cluster.collective->node) line = {2e-5, 3e-6, 1};
  for (auto& line : cluster.collective->exchange) line = {4e-5, 0, 0.5};
  cluster.collective->all_reduce_loss = 0.4;
  cluster.collective->gather_loss = 0.2;
  cluster.collective->exchange_loss = 0;
  const measure::Samples samples = samples_of(device, cluster);
  const DeviceProfile found = fit::fit_device(samples);
  EXPECT_NEAR(found.memory_bandwidth / 1e10, 1, 0.02);
  EXPECT_NEAR(found.peak_flops.at(ir::DType::float32) / 1e11, 1, 0.1);
  EXPECT_NEAR(found.peak_flops.at(ir::DType::float64) / 5e10, 1, 0.2);
  EXPECT_NEAR(found.op_share.at("gelu"), 0.125, 0.01);
  EXPECT_NEAR(found.op_share.at("matmul_input_grad"), 0.75, 0.02);
  EXPECT_EQ(found.launch_latency, 1e-7);
  EXPECT_EQ(found.memory_bytes, 1 << 30);
  ASSERT_TRUE(found.host.has_value());
  EXPECT_EQ(found.host->cores, 1.5);
  EXPECT_NEAR(found.host->link_bandwidth / 4e9, 1, 0.01);
  EXPECT_NEAR(found.host->collective->all_reduce_loss, 0.4, 0.02);
  EXPECT_NEAR(found.host->collective->gather_loss, 0.2, 0.02);
  EXPECT_NEAR(found.host->collective->node[2].hop, 3e-6, 2e-7);
  EXPECT_NEAR(found.host->collective->node[2].base, 2e-5, 1e-6);
  // The fit must predict the samples that it was made from.
  for (const measure::KernelSample& sample : samples.kernels) {
    const double predicted = sim::kernel_seconds(found, ir::op(sample.call.op), sample.call.inputs,
                                                 sample.call.outputs, sample.call.attrs) -
                             found.launch_latency;
    EXPECT_NEAR(predicted / sample.seconds, 1, 0.2) << sample.call.op << " " << sample.seconds;
  }
}

}  // namespace
}  // namespace boxcar::fit

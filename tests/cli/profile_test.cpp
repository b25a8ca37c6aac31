// `boxcar profile`: what a person can get wrong, what it fits to samples, and the file it writes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/device_fit.h"
#include "sim/models/collective_time.h"
#include "sim/models/kernel_time.h"
#include "support/run_program.h"

namespace boxcar::testing {
namespace {

using backends::DeviceProfile;
using Words = std::vector<std::string>;

void expect_refused(const Words& arguments, const std::string& message) {
  const Output output = run_program(arguments);
  EXPECT_EQ(output.err, "boxcar: " + message + "\n");
  EXPECT_EQ(output.out, "");
  EXPECT_EQ(output.exit_code, 2);
}

TEST(Profile, RefusesWhatItCannotDo) {
  expect_refused({"profile"}, "-o: missing; name the device file to write");
  expect_refused({"profile", "--backend=cude", "-o", "x.yaml"},
                 "--backend: got \"cude\", expected one of cpu, cuda (did you mean cuda?)");
  expect_refused({"profile", "--fast", "-o", "x.yaml"}, "--fast: needs backend cuda");
  expect_refused({"profile", "--memory=1e9", "-o", "x.yaml"}, "--memory: needs backend cuda");
  expect_refused({"profile", "--backend=cuda", "--memory=8", "-o", "x.yaml"},
                 "--memory: got 8, expected 1e5 to 32e9 bytes");
  expect_refused({"profile", "--outptu=x.yaml"},
                 "--outptu: unknown flag (did you mean --output?); `boxcar profile --help` lists all");
  expect_refused({"profile", "-o", "x.yaml", "y.yaml"}, "y.yaml: one argument too many");
  expect_refused({"profile", "-o", "/no/such/dir/cpu.yaml"},
                 "/no/such/dir/cpu.yaml: cannot be written: No such file or directory");
  expect_refused({"profile", "-o", "/"}, "/: cannot be written: Is a directory");
}

// As of training: there is a GPU, or one message says why there is none.
TEST(Profile, NeedsAGpuForCuda) {
  if (access("/dev/nvidiactl", F_OK) == 0) GTEST_SKIP() << "there is a GPU: see tests/cuda";
  const TemporaryFile file("gpu.yaml", "");
  const Output output = run_program({"profile", "--backend=cuda", "-o", file.path()});
  EXPECT_EQ(output.exit_code, 1);
  EXPECT_EQ(output.out, "");
  EXPECT_THAT(output.err, ::testing::MatchesRegex(
                              "boxcar: cuda: (this program was built without CUDA; build it where nvcc "
                              "is found, with -DBOXCAR_CUDA=ON, or use --backend cpu|"
                              "no NVIDIA driver answers on this machine; install one for CUDA "
                              "[0-9.]+ or later, or use --backend cpu|"
                              "no GPU is visible to this process .look at CUDA_VISIBLE_DEVICES, or use "
                              "--backend cpu.)\n"));
}

TEST(Profile, DevicesThatAreNotThere) {
  const Words job{"simulate", "--model=gpt", "--layers=2",      "--hidden=16", "--heads=4",
                  "--seq=16", "--vocab=256", "--cluster=local", "--dp=1",      "--precision=fp32"};
  const auto refused = [&](const std::string& device, const std::string& message) {
    Words words = job;
    words.push_back("--device=" + device);
    expect_refused(words, message);
  };
  refused("cpus",
          "--device: no preset cpus (did you mean cpu?); known: a100-pcie-80g, a100-sxm-40g, a100-sxm-80g, "
          "b200-sxm, cpu, gh200-96g, h100-sxm, h200-sxm, v100-sxm2-16g, v100-sxm2-32g, v100-sxm3-32g; or "
          "give a path to a .yaml file");
  refused("/no/such.yaml", "--device: /no/such.yaml: cannot be read");
}

// Samples as a device of known constants would give them.
cli::Samples samples_of(const DeviceProfile& device, const backends::Cluster& cluster) {
  cli::Samples samples;
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

TEST(Profile, FindsTheConstantsOfItsSamples) {
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
  for (auto& line : cluster.collective.node) line = {2e-5, 3e-6, 1};
  for (auto& line : cluster.collective.exchange) line = {4e-5, 0, 0.5};
  cluster.collective.all_reduce_loss = 0.4;
  cluster.collective.gather_loss = 0.2;
  cluster.collective.exchange_loss = 0;
  const cli::Samples samples = samples_of(device, cluster);
  const DeviceProfile found = cli::fit(samples);
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
  // What was sampled is predicted: the point of it all.
  for (const cli::KernelSample& sample : samples.kernels) {
    const double predicted = sim::kernel_seconds(found, ir::op(sample.call.op), sample.call.inputs,
                                                 sample.call.outputs, sample.call.attrs) -
                             found.launch_latency;
    EXPECT_NEAR(predicted / sample.seconds, 1, 0.2) << sample.call.op << " " << sample.seconds;
  }
}

TEST(Profile, LongMeasuresADeviceThatSimulatesAndTrains) {
  const TemporaryFile text("text.txt", std::string(4000, 'a'));
  const std::string device = std::filesystem::path(text.path()).parent_path().string() + "/cpu.yaml";
  const Output profiled = run_program({"profile", "--backend=cpu", "-o", device});
  ASSERT_EQ(profiled.exit_code, 0) << profiled.err;
  EXPECT_EQ(profiled.out, "");
  EXPECT_THAT(profiled.err,
              ::testing::MatchesRegex("(boxcar: other programs kept [0-9.]+ of the processors busy "
                                      "when this began: what is measured may be too slow\n)?"));
  Words job{"--json",   "--model=gpt", "--layers=2", "--hidden=16",        "--heads=4",
            "--seq=16", "--vocab=256", "--dp=2",     "--device=" + device, "--precision=fp32"};
  Words simulate{"simulate", "--cluster=local"}, train{"train", "--steps=2", "--data=" + text.path()};
  simulate.insert(simulate.end(), job.begin(), job.end());
  train.insert(train.end(), job.begin(), job.end());
  const Output simulated = run_program(simulate), trained = run_program(train);
  ASSERT_EQ(simulated.exit_code, 0) << simulated.err;
  EXPECT_GT(nlohmann::json::parse(simulated.out).at("step_time_s"), 0);
  EXPECT_EQ(trained.exit_code, 0) << trained.err;
}

}  // namespace
}  // namespace boxcar::testing

// `boxcar profile --backend cuda` on a simulated device of known constants: every kernel takes the time of
// the time model and does nothing else. The measured profile must reproduce that model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <thread>

#include "actors/profile/gpu_samples.h"
#include "actors/profile/plan_calls.h"
#include "backends/machines/collective_model.h"
#include "backends/machines/device_profile.h"
#include "backends/measure/bench.h"
#include "sbp/at.h"
#include "sim/fit/device_fit.h"
#include "sim/models/collective_time.h"
#include "sim/models/kernel_time.h"
#include "support/run_program.h"

namespace boxcar::tests {
namespace {

using backends::Cluster;
using backends::DeviceProfile;

constexpr double load_share = 0.9, heats_up_after = 0.1;

class KnownMark : public backends::TimedMark {
 public:
  explicit KnownMark(double at) : at_(at) {}
  bool passed() const override { return true; }
  double seconds_since(const TimedMark& earlier) const override {
    return at_ - dynamic_cast<const KnownMark&>(earlier).at_;
  }

 private:
  double at_;
};

struct KnownQueue : backends::Queue {
  explicit KnownQueue(const Cluster& c) : cluster(c) {}
  void copy(void*, const void*, const backends::Block& block) override {
    clock += static_cast<double>(2 * block.rows * block.bytes) / cluster.device->memory_bandwidth;
  }
  void fill_zero(void*, int64_t bytes) override {
    clock += static_cast<double>(bytes) / cluster.device->memory_bandwidth;
  }
  void finish() override {}
  std::shared_ptr<const backends::TimedMark> timed_mark() override {
    return std::make_shared<KnownMark>(clock);
  }
  const Cluster& cluster;
  double clock = 0;
  const backends::Kernel* last =
      nullptr;  // the kernel that ran last, and how long it has run without others between
  double for_seconds = 0;
};

struct KnownKernel : backends::Kernel {
  KnownKernel(KnownQueue& q, const backends::Call& call)
      : queue(q),
        seconds(
            sim::kernel_seconds(q.cluster.device, ir::op(call.op), call.inputs, call.outputs, call.attrs)),
        heats(call.op == "matmul") {}
  void run(std::span<const void* const>, std::span<void* const>, const backends::Moment&) override {
    if (queue.last != this) queue.for_seconds = 0;
    queue.last = this;
    const double now = heats && queue.for_seconds > heats_up_after ? seconds / load_share : seconds;
    queue.clock += now;
    queue.for_seconds += now;
  }
  KnownQueue& queue;
  const double seconds;
  const bool heats;
};

struct KnownDevice : backends::Device {
  explicit KnownDevice(const Cluster& c) : cluster(c) {}
  backends::DeviceFacts facts() override {
    const DeviceProfile& device = cluster.device;
    return {device.name, device.memory_bytes, device.memory_bytes, device.multiprocessors};
  }
  void reserve(int64_t) override {}
  std::byte* arena() override { return reinterpret_cast<std::byte*>(512); }  // never dereferenced
  std::unique_ptr<backends::Queue> queue(ir::QueueKind) override {
    return std::make_unique<KnownQueue>(cluster);
  }
  std::unique_ptr<backends::Kernel> prepare(const backends::Call& call, backends::Queue& queue) override {
    return std::make_unique<KnownKernel>(dynamic_cast<KnownQueue&>(queue), call);
  }
  void to_host(void*, const void*, int64_t) override {}
  void from_host(void*, const void*, int64_t bytes) override {
    if (bytes > 1 << 20) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  const Cluster& cluster;
};

struct KnownGroup : backends::Communicator {
  KnownGroup(KnownQueue& q, int r, int s) : queue(q), rank_(r), size_(s) {}
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void all_reduce(const void*, void*, int64_t count, ir::DType, sbp::Reduction) override {
    spend(sbp::Collective::all_reduce, 4 * count);
  }
  void reduce_scatter(const void*, void*, std::span<const int64_t> counts, ir::DType,
                      sbp::Reduction) override {
    spend(sbp::Collective::reduce_scatter, 4 * size_ * counts[0]);
  }
  void all_gather(const void*, void*, std::span<const int64_t> counts, ir::DType) override {
    spend(sbp::Collective::all_gather, 4 * size_ * counts[0]);
  }
  void all_to_all(const void*, std::span<const int64_t> counts, void*, std::span<const int64_t>,
                  ir::DType) override {
    spend(sbp::Collective::all_to_all, 4 * size_ * counts[0]);
  }
  void broadcast(const void*, void*, int64_t, ir::DType) override {}
  void barrier() override {}
  void spend(sbp::Collective collective, int64_t bytes) {
    queue.clock += sim::collective_time(queue.cluster, collective, bytes, {size_, 1, size_, 1}).seconds();
  }
  KnownQueue& queue;
  const int rank_, size_;
};

struct KnownBackend : backends::Backend {
  KnownBackend(const Cluster& cluster, int devices) {
    for (int d = 0; d < devices; ++d) all.push_back(std::make_unique<KnownDevice>(cluster));
  }
  int devices() const override { return static_cast<int>(all.size()); }
  int process_of(int) const override { return 0; }
  bool is_local(int) const override { return true; }
  backends::Device& device(int device) override { return *at(all, device); }
  std::unique_ptr<backends::Communicator> communicator(const std::string&, std::span<const int> group,
                                                       int device, backends::Queue& queue) override {
    return std::make_unique<KnownGroup>(dynamic_cast<KnownQueue&>(queue), device,
                                        static_cast<int>(group.size()));
  }
  backends::Transport* transport() override { return nullptr; }
  void abort(const std::string&) override {}
  std::vector<std::unique_ptr<KnownDevice>> all;
};

// An H200 whose launches are part of its shortest kernel, as marks on a stream see them.
Cluster known_cluster() {
  Cluster cluster = backends::load_cluster("local", 1);
  cluster.device = backends::load_device("h200-sxm");
  cluster.device->kernel_floor += cluster.device->launch_latency;
  cluster.device->matmul.start_seconds += cluster.device->launch_latency;
  cluster.device->launch_latency = 0;
  cluster.device->under_load = 1;
  cluster.node.link_bandwidth = 400e9;
  for (auto& line : cluster.collective->node) line = {2e-5, 3e-6, 1};
  for (auto& line : cluster.collective->exchange) line = {4e-5, 0, 0.5};
  cluster.collective->all_reduce_loss = 0.4, cluster.collective->gather_loss = 0.2;
  cluster.collective->exchange_loss = 0;
  return cluster;
}

measure::Samples measured(const Cluster& cluster, int gpus, const profile::Sweep& sweep) {
  return profile::measure_gpus([&](int devices) { return std::make_unique<KnownBackend>(cluster, devices); },
                               gpus, sweep, [](const std::string&) {});
}

double seconds_of(const backends::Call& call, const DeviceProfile& device) {
  return sim::kernel_seconds(device, ir::op(call.op), call.inputs, call.outputs, call.attrs);
}

// Seconds of all kernels of a job's plan. `adds`: including the acts that accumulate over micro-batches,
// which a profile counts in the op's share.
double kernels_seconds(const planner::Job& job, const DeviceProfile& device, bool adds) {
  double seconds = 0;
  const ir::Plan plan = planner::compile(planner::resolve(job));
  const actors::Layout layout(plan, [](int) { return 0; });
  for (const ir::Actor& actor : layout.program(0).actors) {
    if (!profile::is_kernel(actor)) continue;
    const measure::Sampled sampled = profile::known_as(layout, actor).sampled;
    seconds += seconds_of(sampled.call, device);
    for (size_t o = 0; adds && o < sampled.adds.size(); ++o) {
      const ir::TensorType& type = sampled.call.outputs[o];
      if (sampled.adds[o]) seconds += seconds_of(measure::call_of("add", {type, type}).call, device);
    }
  }
  return seconds;
}

// Two GPUs give no line over group sizes: no loss is known, and zeros are written as zeros.
TEST(GpuProfile, WritesNoNegativeZeros) {
  measure::Samples samples = measured(known_cluster(), 2, profile::gpu_sweep(1'000'000));
  const std::string text = backends::to_yaml(fit::fit_device(samples));
  EXPECT_NE(text.find("few_ranks_loss: {all_reduce: 0, "), std::string::npos) << text;
  EXPECT_EQ(text.find("-0,"), std::string::npos) << text;
}

TEST(GpuProfile, FindsTheDeviceThatItMeasured) {
  const Cluster cluster = known_cluster();
  const DeviceProfile& device = cluster.device;
  const profile::Sweep sweep = profile::gpu_sweep(device.memory_bytes);
  const measure::Samples samples = measured(cluster, 4, sweep);
  EXPECT_GT(samples.kernels.size(), 400u);
  const DeviceProfile found = fit::fit_device(samples);
  EXPECT_EQ(found.name, "h200-sxm");
  EXPECT_EQ(found.memory_bytes, device.memory_bytes);
  EXPECT_EQ(found.multiprocessors, 132);
  EXPECT_EQ(found.under_load, 1);
  const ir::Work square =
      ir::work(ir::op("matmul"), sweep.sustained.call.inputs, sweep.sustained.call.outputs, {});
  EXPECT_NEAR(found.sustained_flops / (square.flops / seconds_of(sweep.sustained.call, device) * load_share),
              1, 0.05);
  EXPECT_NEAR(found.kernel_floor / device.kernel_floor, 1, 0.01);
  EXPECT_NEAR(found.memory_bandwidth / (device.memory_bandwidth * 0.85), 1, 0.02);
  ASSERT_TRUE(found.host && found.host->collective);
  EXPECT_EQ(found.host->cores, 0);
  EXPECT_NEAR(found.host->link_bandwidth / 400e9, 1, 0.01);
  EXPECT_NEAR(found.host->collective->all_reduce_loss, 0.4, 0.02);
  EXPECT_NEAR(found.host->collective->gather_loss, 0.2, 0.02);
  EXPECT_NEAR(found.host->collective->node[2].hop, 3e-6, 2e-7);
  DeviceProfile fresh = found;  // samples are of a device that is not yet warm
  fresh.sustained_flops = 0;
  std::vector<double> errors;
  for (const measure::KernelSample& sample : samples.kernels) {
    errors.push_back(std::abs(std::log(seconds_of(sample.call, fresh) / sample.seconds)));
  }
  std::sort(errors.begin(), errors.end());
  EXPECT_LT(errors[errors.size() / 2], 0.02);
  EXPECT_LT(errors[errors.size() * 9 / 10], 0.2);
  // A profile must predict whole steps.
  for (const planner::Job& job : sweep.jobs) {
    const double ratio = kernels_seconds(job, fresh, false) / kernels_seconds(job, device, true);
    EXPECT_NEAR(ratio, 1, 0.05) << job.model.family() << " " << job.model->hidden;
  }
}

// GPUs that are slowed by more than bytes and flops: rows of an odd number of elements, casts from 16 bits,
// ops of several kernels, long causal rows backward, convolutions by shape, and their channels off the tensor
// cores.
Cluster uneven_cluster() {
  Cluster cluster = known_cluster();
  DeviceProfile& device = cluster.device;
  device.matmul.odd_share = 1;
  device.op_share["odd_matmul"] = 0.2, device.op_share["odd_matmul_input_grad"] = 0.15;
  device.op_share["odd_matmul_weight_grad"] = 0.22;
  device.op_share["matmul_bias_grad"] = 0.8;
  device.half_op_share["cast"] = 0.5, device.op_seconds["adam"] = 5e-6;
  device.attention.causal_backward = {{256, 2048, 8192}, {0.15, 0.25, 0.12}};
  backends::ConvolutionModel& shapes = device.convolution[ir::DType::bfloat16];
  shapes.waves = device.matmul, shapes.waves.cache_bandwidth = 0;
  shapes.weight_grad = 0.8, shapes.strided_input_grad = 0.6;
  device.convolution[ir::DType::float32] = shapes;
  for (auto& tile : device.convolution[ir::DType::float32].waves.tiles) tile.share *= 0.6;
  return cluster;
}

TEST(GpuProfile, FindsWhatSlowsSomeKernels) {
  const Cluster cluster = uneven_cluster();
  const profile::Sweep sweep = profile::gpu_sweep(cluster.device->memory_bytes);
  const measure::Samples samples = measured(cluster, 1, sweep);
  DeviceProfile found = fit::fit_device(samples);
  found.sustained_flops = 0;  // samples are of a device that is not yet warm
  std::map<std::string, std::vector<double>> errors;
  for (const measure::KernelSample& sample : samples.kernels) {
    const backends::Call& call = sample.call;
    const ir::Family family = ir::op(call.op).family;
    const std::string group = family == ir::Family::matmul && sim::has_odd_rows(call.inputs, call.outputs)
                                  ? "odd rows"
                              : family == ir::Family::convolution ? "convolutions"
                                                                  : call.op;
    errors[group].push_back(std::abs(std::log(seconds_of(call, found) / sample.seconds)));
  }
  for (const char* group : {"odd rows", "convolutions", "cast", "adam", "matmul", "matmul_bias_grad",
                            "scaled_dot_product_attention_grad"}) {
    std::vector<double>& some = errors.at(group);
    std::sort(some.begin(), some.end());
    EXPECT_LT(some[some.size() / 2], 0.05) << group;
    EXPECT_LT(some[some.size() * 9 / 10], 0.2) << group;
  }
  for (const planner::Job& job : sweep.jobs) {
    const double ratio = kernels_seconds(job, found, false) / kernels_seconds(job, cluster.device, true);
    EXPECT_NEAR(ratio, 1, 0.05) << job.model.family() << " " << job.model->hidden;
  }
  const std::string yaml = backends::to_yaml(found);
  EXPECT_EQ(backends::parse_device(yaml, "uneven.yaml"), found) << yaml;
}

TEST(GpuProfile, TheFileIsReadBack) {
  const Cluster cluster = known_cluster();
  profile::Sweep sweep = profile::gpu_sweep(cluster.device->memory_bytes);
  sweep.jobs.clear();
  const DeviceProfile found = fit::fit_device(measured(cluster, 1, sweep));
  EXPECT_FALSE(found.host->collective);
  const std::string yaml = backends::to_yaml(found);
  EXPECT_EQ(backends::parse_device(yaml, "h200.yaml"), found) << yaml;
  const TemporaryFile file("h200.yaml", yaml);
  const Output simulated = run_program({"simulate", "--model=gpt2", "--cluster=local", "--dp=1",
                                        "--precision=bf16", "--device=" + file.path()});
  EXPECT_EQ(simulated.exit_code, 0) << simulated.err;
}

TEST(GpuProfile, NoKernelIsBegunWhenTheTimeIsOver) {
  const Cluster cluster = known_cluster();
  profile::Sweep sweep = profile::gpu_sweep(cluster.device->memory_bytes);
  sweep.budget_seconds = 0;
  EXPECT_TRUE(measured(cluster, 1, sweep).kernels.empty());
}

}  // namespace
}  // namespace boxcar::tests

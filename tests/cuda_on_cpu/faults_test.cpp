// Errors that a user sees if training on GPUs cannot continue, over the stand-in for CUDA: one message, and
// no endless wait. Placement on GPUs and NCCL's errors: tests/backends.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <thread>

#include "actors/runtime.h"
#include "backends/cpu/waits.h"
#include "backends/cuda/cuda_backend.h"
#include "backends/cuda/cuda_device.h"
#include "backends/cuda/cuda_recorder.h"
#include "summing.h"
#include "support/error_of.h"
#include "support/fake_transport.h"
#include "tally.h"

namespace boxcar::backends::cuda {
namespace {

using cuda_on_cpu::Machine;
using cuda_on_cpu::summing;
using support::error_of;

class GpuFaults : public testing::Test {
 protected:
  ~GpuFaults() override { cuda_on_cpu::pretend(before_); }
  static std::string refused(const Machine& machine, int devices) {
    cuda_on_cpu::pretend(machine);
    return error_of([&] { make_cuda_backend(devices, {}); }, Exit::cannot_run);
  }

 private:
  const Machine before_ = cuda_on_cpu::pretended();
};

TEST_F(GpuFaults, MachinesThatCannot) {
  EXPECT_EQ(refused({.gpus = 1, .driver = 12080}, 1),
            "cuda: the driver is for CUDA 12.8, this program for CUDA 13.0; update the driver, or build with "
            "an older CUDA");
  EXPECT_EQ(refused({.gpus = 1, .driver = 0}, 1),
            "cuda: no NVIDIA driver answers on this machine; install one for CUDA 13.0 or later, or use "
            "--backend cpu");
  EXPECT_EQ(refused({.gpus = 0, .driver = 13000}, 1),
            "cuda: no GPU is visible to this process (look at CUDA_VISIBLE_DEVICES, or use --backend cpu)");
  EXPECT_EQ(refused({.gpus = 2, .driver = 13000, .names = {"H200", "A100"}}, 1),
            "cuda: GPUs of two types, H200 and A100; name those of one in CUDA_VISIBLE_DEVICES");
  EXPECT_EQ(
      refused({.gpus = 2, .driver = 13000}, 3),
      "cuda: 3 devices for 2 GPUs; use more GPUs or fewer devices, or --share-gpus to put several devices "
      "on one");
}

// By the transport, processes agree how a run that cannot begin ends.
TEST_F(GpuFaults, ARefusalLeavesTheTransport) {
  cuda_on_cpu::pretend({.gpus = 0, .driver = 13000});
  support::FakeNetwork network(2, 1);
  std::unique_ptr<Transport> transport = network.transport(0);
  error_of([&] { make_cuda_backend(2, {}, std::move(transport)); }, Exit::cannot_run);
  ASSERT_NE(transport, nullptr);
  EXPECT_EQ(transport->processes(), 2);
}

// Processes are threads here, and see the same GPUs.
TEST_F(GpuFaults, ProcessesThatSeeTooFewGpus) {
  cuda_on_cpu::pretend({.gpus = 1, .driver = 13000});
  support::FakeNetwork network(2, 1);
  std::vector<std::thread> processes;
  for (int p = 0; p < 2; ++p)
    processes.emplace_back([&, p] {
      std::unique_ptr<Transport> transport = network.transport(p);
      EXPECT_EQ(error_of([&] { make_cuda_backend(2, {}, std::move(transport)); }, Exit::cannot_run),
                "cuda: 2 processes for 1 GPU that they all see; start one for each GPU");
    });
  for (std::thread& process : processes) process.join();
}

TEST_F(GpuFaults, APlanThatDoesNotFit) {
  cuda_on_cpu::pretend({.gpus = 1, .driver = 13000, .memory = size_t{2} << 30});
  const auto backend = make_cuda_backend(2, {.share_gpus = true});
  const ir::Plan plan = summing(3'000'000'000);
  const std::string mend = "use smaller micro-batches, recomputation, sharding or more devices";
  EXPECT_EQ(error_of([&] { actors::Runtime(plan, *backend, {}); }, Exit::cannot_run),
            "cuda: GPU 0: the plan needs 3.00 GB, 2.15 of 2.15 GB are free; " + mend);
  // Checked before any memory is reserved, over all devices that share the GPU.
  const auto expected = [&](const ir::Plan& wanted, bool fast = false, int64_t beside = 0,
                            int64_t libraries = 0) {
    const auto one = make_cuda_backend(2, {.share_gpus = true, .fast = fast, .library_bytes = libraries});
    return error_of([&] { one->expect_room(wanted, std::vector<Beside>(2, {beside, 1})); }, Exit::cannot_run);
  };
  EXPECT_EQ(expected(summing(600'000'000)), "no error");
  EXPECT_EQ(expected(summing(1'200'000'000)),
            "cuda: GPU 0: the plan needs 2.47 GB, 2.15 of 2.15 GB are free; " + mend);
  // Includes the runtime's own memory of each device.
  EXPECT_EQ(expected(summing(600'000'000), false, 500'000'000),
            "cuda: GPU 0: the plan needs 2.27 GB, 2.15 of 2.15 GB are free; " + mend);
  // Includes what libraries take beside it.
  EXPECT_EQ(expected(summing(600'000'000), false, 0, 1'500'000'000),
            "cuda: GPU 0: the plan needs 1.27 GB, libraries 1.50 GB (--library-memory), 2.15 of 2.15 GB are "
            "free; " +
                mend);
  // Includes the scratch memory of products.
  EXPECT_EQ(expected(summing(1'060'000'000)),
            "cuda: GPU 0: the plan needs 2.19 GB, 2.15 of 2.15 GB are free; " + mend);
  // ... of convolutions.
  ir::Plan other = summing(1'000'000'000);
  EXPECT_EQ(expected(other), "no error");
  ir::Program& program = other.programs[0];
  program.actors[0].op = "conv2d_weight_grad";
  EXPECT_EQ(expected(other), "cuda: GPU 0: the plan needs 2.54 GB, 2.15 of 2.15 GB are free; " + mend);
  // ... and of gradients of attention that repeat: 2 bytes for each query and key of 4 x 16 heads.
  program.actors[0].op = "scaled_dot_product_attention_grad";
  ir::Input loaded;
  loaded.reg = 0;
  program.actors[0].inputs.assign(3, loaded);
  program.registers[0].type = {{4, 16, 1024, 64}, ir::DType::bfloat16};
  EXPECT_EQ(expected(other), "cuda: GPU 0: the plan needs 2.27 GB, 2.15 of 2.15 GB are free; " + mend);
  EXPECT_EQ(expected(other, true), "no error");
}

// NCCL's buffers, for each group of a device.
TEST_F(GpuFaults, NcclHasItsOwnBuffers) {
  cuda_on_cpu::pretend({.gpus = 2, .driver = 13000, .memory = 5'000'000'000});
  const auto backend = make_cuda_backend(2, {});
  const auto expected = [&](int groups) {
    return error_of(
        [&] {
          backend->expect_room(summing(1'000'000'000), std::vector<Beside>(2, {0, groups}));
        },
        Exit::cannot_run);
  };
  EXPECT_EQ(expected(1), "no error");
  EXPECT_EQ(expected(2),
            "cuda: GPU 0: the plan needs 1.03 GB, libraries 1.50 GB (--library-memory), NCCL's buffers 2.56 "
            "GB, 5.00 "
            "of 5.00 GB are free; use smaller micro-batches, recomputation, sharding or more devices");
}

// Streams that share a hardware queue wait for one another.
TEST_F(GpuFaults, MoreQueuesThanCanBeUnderWay) {
  cuda_on_cpu::pretend({.gpus = 2, .driver = 13000});
  const auto backend = make_cuda_backend(2, {});
  const std::string mend = "use fewer kinds of parallelism, or fewer stages that exchange tensors";
  const auto expected = [&](int groups, int queues) {
    return error_of([&] { backend->expect_groups(groups, queues); }, Exit::cannot_run);
  };
  EXPECT_EQ(expected(64, 28), "no error");
  EXPECT_EQ(expected(65, 20),
            "NCCL: a device is in 65 groups, at most 64 can be under way on a GPU at once; " + mend);
  EXPECT_EQ(expected(2, 29),
            "cuda: a device of the plan has 29 queues, and 28 can be under way on a GPU at once "
            "(CUDA_DEVICE_MAX_CONNECTIONS=32); " +
                mend);
}

// Variables that the user has set stay.
TEST(CudaEnvironment, IsSetBeforeAnythingReadsIt) {
  const char* const names[] = {"CUDA_MODULE_LOADING", "CUDA_DEVICE_MAX_CONNECTIONS", "NCCL_RUNTIME_CONNECT"};
  for (const char* name : names) unsetenv(name);
  prepare_environment(1);
  EXPECT_EQ(std::getenv("CUDA_MODULE_LOADING"), nullptr);
  setenv("CUDA_MODULE_LOADING", "LAZY", 1);
  prepare_environment(2);
  EXPECT_STREQ(std::getenv("CUDA_MODULE_LOADING"), "LAZY");
  EXPECT_STREQ(std::getenv("CUDA_DEVICE_MAX_CONNECTIONS"), "32");
  EXPECT_STREQ(std::getenv("NCCL_RUNTIME_CONNECT"), "0");
  unsetenv("CUDA_MODULE_LOADING");
  prepare_environment(2);
  EXPECT_STREQ(std::getenv("CUDA_MODULE_LOADING"), "EAGER");
}

// One device's act fails in step 3; the other waits for it in a collective, or has launched its graph.
TEST_F(GpuFaults, ARankThatFails) {
  cuda_on_cpu::pretend({.gpus = 1, .driver = 13000});
  for (const bool graphs : {false, true}) {
    const auto backend = make_cuda_backend(2, {.share_gpus = true});
    const ir::Plan plan = summing(4096);
    actors::Hooks hooks;
    hooks.fill = [](int device, const ir::Register&, const Moment& moment, std::span<std::byte>) {
      if (device == 1 && moment.step == 3) throw Error::fault("data", "the file ends");
    };
    actors::Runtime run(plan, *backend, hooks, {.graphs = graphs});
    EXPECT_EQ(error_of([&] { run.steps(6, 0); }, Exit::fault), "device 1: x: data: the file ends")
        << (graphs ? "graphs" : "acts");
  }
}

// Acts on two queues, each captured behind another one that does not end.
TEST_F(GpuFaults, TheActOfAGraphThatIsNamedIsNotOver) {
  cuda_on_cpu::pretend({.gpus = 1, .driver = 13000});
  cpu::Waits waits(nullptr);
  Recorder recorder(waits, [] {});
  CudaDevice device(
      0, waits, [] {}, recorder);
  const std::unique_ptr<Queue> first = device.queue(ir::QueueKind::network),
                               second = device.queue(ir::QueueKind::network);
  std::atomic<bool> ends = false;
  const auto add = [&](Queue& queue, const char* act, bool waiting) {
    auto& stream = dynamic_cast<CudaQueue&>(queue);
    const auto turn = stream.turn();
    cuda_on_cpu::put_until(stream.stream(),
                           [&ends, waiting](cuda_on_cpu::Kept&) { return !waiting || ends; });
    stream.note(act);
  };
  recorder.start();
  add(*first, "a in one", true);
  add(*second, "b in two", false);
  add(*second, "c in two", true);
  const std::unique_ptr<Recording> step = recorder.stop();
  step->prepare({});
  step->launch();
  EXPECT_EQ(recorder.act_in_flight("two"), "b in two");
  waits.abort("device 5: out of range");
  error_of([&] { step->finish(); }, Exit::fault);
  EXPECT_EQ(recorder.act_in_flight("two"), "c in two");
  EXPECT_EQ(recorder.act_in_flight(), "a in one");
  ends = true;
}

// The host waits for each step; here an act is done only when polled for the second time.
TEST_F(GpuFaults, AStepAsGraphThatDoesNotEnd) {
  cuda_on_cpu::pretend({.gpus = 1, .driver = 13000});
  const auto run = [](double seconds) {
    cpu::Waits waits(nullptr);
    Recorder recorder(waits, [] {});
    recorder.limit(seconds);
    CudaDevice device(
        0, waits, [] {}, recorder);
    const std::unique_ptr<Queue> queue = device.queue(ir::QueueKind::compute);
    int runs = 0;
    recorder.start();
    cuda_on_cpu::put(dynamic_cast<CudaQueue&>(*queue).stream(), [&runs] { ++runs; });
    const std::unique_ptr<Recording> step = recorder.stop();
    step->prepare({});
    step->launch();
    step->finish();
    return runs;
  };
  EXPECT_EQ(run(600), 1);
  EXPECT_EQ(
      error_of([&] { run(0); }, Exit::fault),
      "graphs of steps: a step is not done after 0 s: a process has stopped, or was given another order of "
      "collectives (--collective-timeout allows more)");
}

}  // namespace
}  // namespace boxcar::backends::cuda

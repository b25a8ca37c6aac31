// Runs of two processes, which are threads here, each with a GPU that is as unfavourable as CUDA and NCCL
// allow: kernels are loaded when they are first launched, which waits for all work on the GPU; collectives
// keep their multiprocessors while they wait for each other; the next act is drawn.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>

#include "actors/runtime.h"
#include "backends/cuda/cuda_backend.h"
#include "crossing.h"
#include "fake_nccl/fake_nccl.h"
#include "passing.h"
#include "planner/communication_order.h"
#include "summing.h"
#include "support/error_of.h"
#include "support/fake_transport.h"
#include "tally.h"

namespace boxcar::backends::cuda {
namespace {

using cuda_on_cpu::crossing;
using support::error_of;

class CudaSchedules : public testing::Test {
 protected:
  ~CudaSchedules() override {
    EXPECT_EQ(fakeNcclLive(), 0);
    cuda_on_cpu::pretend(before_);
  }

  struct Way {
    cuda_on_cpu::Machine machine{.gpus = 2, .driver = 13000};
    bool graphs = false;
    std::array<std::string, 2> late = {};  // by device, a register: its load waits until others are under way
    std::string watch = "s1";
  };
  struct Ended {
    std::vector<float> sums;  // by step
    std::string error;
  };
  // Device d loads 1 + d + step everywhere. A collective may take 60 s: longer than a busy machine needs.
  static std::array<Ended, 2> run(const ir::Plan& plan, int64_t steps, const Way& way) {
    cuda_on_cpu::pretend(way.machine);
    fakeNcclReset();
    support::FakeNetwork network(2, 1);
    std::array<Ended, 2> ended;
    const auto process = [&](size_t p) {
      const auto backend =
          make_cuda_backend(2, {.collective_seconds = 60}, network.transport(static_cast<int>(p)));
      actors::Hooks hooks;
      hooks.fill = [&](int device, const ir::Register& reg, const Moment& moment,
                       std::span<std::byte> bytes) {
        if (moment.step == 0 && reg.name == way.late[p])
          std::this_thread::sleep_for(std::chrono::milliseconds(100));
        for (size_t e = 0; e < bytes.size() / sizeof(float); ++e) {
          const auto value = static_cast<float>(1 + device + moment.step);
          std::memcpy(&bytes[e * sizeof(float)], &value, sizeof(float));
        }
      };
      hooks.watch = {way.watch};
      hooks.watched = [&](int, const ir::Register&, const Moment&, std::span<const std::byte> bytes) {
        std::memcpy(&ended[p].sums.emplace_back(), bytes.data(), sizeof(float));
      };
      actors::RunOptions options{.graphs = way.graphs};
      if (way.graphs) options.order = planner::communication_order(plan);
      ended[p].error =
          error_of([&] { actors::Runtime(plan, *backend, hooks, options).steps(steps, 0); }, Exit::fault);
    };
    std::thread other([&] { process(1); });
    process(0);
    other.join();
    return ended;
  }
  static void expect_sums(const ir::Plan& plan, const Way& way) {
    for (const Ended& ended : run(plan, 3, way)) {
      EXPECT_EQ(ended.error, "no error");
      EXPECT_EQ(ended.sums, (std::vector<float>{3, 5, 7}));
    }
  }

 private:
  const cuda_on_cpu::Machine before_ = cuda_on_cpu::pretended();
};

// Each device waits in the one's first group for the other, which has to launch a kernel for the first time.
TEST_F(CudaSchedules, NoKernelIsLoadedWhileAGroupWaits) {
  for (const bool graphs : {false, true}) expect_sums(crossing(2), {.graphs = graphs, .late = {"x2", "x1"}});
}

// Eight groups, in NCCL's own size, would need twice the multiprocessors that there are.
TEST_F(CudaSchedules, GroupsHaveRoomForAllWhateverTheirOrder) {
  expect_sums(crossing(8), {.late = {"x5", "x4"}});
  EXPECT_EQ(fakeNcclMostBlocks(), 8);
}

// One that has not chosen its GPU makes a context on the first.
TEST_F(CudaSchedules, EveryThreadChoosesItsGpuFirst) {
  for (const bool graphs : {false, true}) {
    const auto calls = [] { return cuda_on_cpu::tallied("calls without a GPU"); };
    const int before = calls();
    std::thread fresh([&] { expect_sums(crossing(2), {.graphs = graphs}); });
    fresh.join();
    EXPECT_EQ(calls(), before) << (graphs ? "graphs" : "acts");
  }
}

// Also one that only ends what others have begun.
TEST_F(CudaSchedules, AThreadThatEndsARunChoosesItsGpuFirst) {
  for (const bool graphs : {false, true}) {
    cuda_on_cpu::pretend({.gpus = graphs ? 1 : 2, .driver = 13000});
    auto backend = make_cuda_backend(2, {.share_gpus = graphs});
    const ir::Plan plan = crossing(2);
    const actors::Hooks hooks;
    auto runtime =
        std::make_unique<actors::Runtime>(plan, *backend, hooks, actors::RunOptions{.graphs = graphs});
    runtime->steps(2, 0);
    const auto calls = [] { return cuda_on_cpu::tallied("calls without a GPU"); };
    const int before = calls();
    std::thread fresh([&] {
      runtime.reset();
      backend.reset();
    });
    fresh.join();
    EXPECT_EQ(calls(), before) << (graphs ? "graphs" : "acts");
  }
}

// Steps as graphs on GPUs that carry out so many branches of a graph at once. Where each queue has an order
// of its own alone, devices that are at different groups wait for each other.
TEST_F(CudaSchedules, GraphsNeedNoBranchBesideTheOneThatWaits) {
  for (const int branches : {1, 2, 3}) {
    const cuda_on_cpu::Machine machine{.gpus = 2, .driver = 13000, .branches = branches};
    for (const int groups : {1, 2, 5}) expect_sums(crossing(groups), {.machine = machine, .graphs = true});
    for (const Ended& ended :
         run(cuda_on_cpu::passing(), 6, {.machine = machine, .graphs = true, .watch = ""}))
      EXPECT_EQ(ended.error, "no error") << branches;
  }
}

int64_t wanted(const char* name, int64_t otherwise) {
  const char* const text = std::getenv(name);
  return text ? std::atoll(text) : otherwise;
}

// BOXCAR_SCHEDULES draws more of them, from seed BOXCAR_FIRST_SCHEDULE on.
TEST_F(CudaSchedules, AnyOrderOfActsEnds) {
  const int64_t first = wanted("BOXCAR_FIRST_SCHEDULE", 0), end = first + wanted("BOXCAR_SCHEDULES", 12);
  for (int64_t seed = first; seed < end && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const bool graphs = seed % 2 == 1;
    const int branches = 1 + static_cast<int>(seed / 2 % 4);
    const cuda_on_cpu::Machine machine{.gpus = 2, .driver = 13000, .branches = branches, .seed = seed};
    expect_sums(crossing(1 + static_cast<int>(seed % 9)), {.machine = machine, .graphs = graphs});
    for (const Ended& ended :
         run(cuda_on_cpu::passing(), 3, {.machine = machine, .graphs = graphs, .watch = ""}))
      EXPECT_EQ(ended.error, "no error");
  }
}

}  // namespace
}  // namespace boxcar::backends::cuda

// The CUDA backend over NCCL, a GPU to each of two processes, which are threads here: over the stand-ins of
// both. How NCCL is called: tests/backends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <thread>

#include "actors/runtime.h"
#include "backends/cuda/cuda_backend.h"
#include "fake_nccl/fake_nccl.h"
#include "summing.h"
#include "support/error_of.h"
#include "support/fake_transport.h"
#include "tally.h"

namespace boxcar::backends::cuda {
namespace {

using support::error_of;
using testing::HasSubstr;
using testing::MatchesRegex;

class CudaNccl : public testing::TestWithParam<bool> {
 protected:
  CudaNccl() {
    cuda_on_cpu::pretend({.gpus = 2, .driver = 13000});
    fakeNcclReset();
  }
  ~CudaNccl() override {
    EXPECT_EQ(fakeNcclLive(), 0);
    cuda_on_cpu::pretend(before_);
  }

  struct Ended {
    std::vector<float> sums;  // by step
    std::vector<int64_t> written;
    std::string error;
  };
  // Device d of step s loads 10 s + d, as often as it must.
  static std::array<Ended, 2> run(bool graphs, int64_t steps, double seconds,
                                  const ir::Plan& plan = cuda_on_cpu::summing()) {
    support::FakeNetwork network(2, 1);
    std::array<Ended, 2> ended;
    const auto process = [&](size_t p) {
      const auto backend =
          make_cuda_backend(2, {.collective_seconds = seconds}, network.transport(static_cast<int>(p)));
      actors::Hooks hooks;
      hooks.fill = [](int device, const ir::Register&, const Moment& moment, std::span<std::byte> bytes) {
        const std::array<float, 3> values{static_cast<float>(10 * moment.step + device)};
        std::memcpy(bytes.data(), values.data(), bytes.size());
      };
      hooks.watch = "sum";
      hooks.watched = [&](int, const Moment&, std::span<const std::byte> bytes) {
        std::memcpy(&ended[p].sums.emplace_back(), bytes.data(), sizeof(float));
      };
      hooks.checkpoints.due = [](int64_t made) { return made == 4; };
      hooks.checkpoints.write = [&](int, int64_t made, const auto&) { ended[p].written.push_back(made); };
      actors::Runtime runtime(plan, *backend, hooks, {.graphs = graphs});
      ended[p].error = error_of([&] { runtime.steps(steps, 0); }, Exit::fault);
    };
    std::thread other([&] { process(1); });
    process(0);
    other.join();
    return ended;
  }

 private:
  const cuda_on_cpu::Machine before_ = cuda_on_cpu::pretended();
};

// What is captured is captured by all, and called once for each of the two recordings.
TEST_P(CudaNccl, SumsOverProcesses) {
  for (const Ended& ended : run(GetParam(), 7, 600)) {
    EXPECT_EQ(ended.error, "no error");
    EXPECT_EQ(ended.sums, (std::vector<float>{1, 21, 41, 61, 81, 101, 121}));
  }
  EXPECT_EQ(fakeNcclCalls(), 2 * (GetParam() ? 1 + 2 : 7));
}

// The step in which one of them writes a checkpoint is captured by none; and both have the six recordings
// after which all slots are the first again.
TEST_P(CudaNccl, CapturesAStepInAllProcessesOrInNone) {
  const auto [first, second] = run(GetParam(), 7, 600, cuda_on_cpu::summing_and_writing());
  EXPECT_EQ(first.error, "no error");
  EXPECT_EQ(second.error, "no error");
  EXPECT_EQ(first.written, std::vector<int64_t>{4});
  EXPECT_EQ(second.sums, (std::vector<float>{1, 21, 41, 61, 81, 101, 121}));
  EXPECT_EQ(fakeNcclCalls(), 2 * (GetParam() ? 1 + 6 + 1 : 7));
}

TEST_P(CudaNccl, AnErrorFoundLaterNamesRankAndAct) {
  fakeNcclStop(1, 5, 6);
  const auto [first, second] = run(GetParam(), 7, 600);
  const std::string what =
      "device 1: all: all_reduce in dp of 0 on net: rank 1 of 2, device 1: NCCL: remote process exited or "
      "there "
      "was a network error";
  EXPECT_THAT(first.error, HasSubstr(what));
  EXPECT_THAT(second.error, HasSubstr(what));
}

// Both members are late; the first that says so is heard by both.
TEST_P(CudaNccl, AnActThatDoesNotEndNamesRankAndAct) {
  fakeNcclStop(1, 5, 0);
  for (const Ended& ended : run(GetParam(), 7, 0.3)) {
    EXPECT_THAT(
        ended.error,
        MatchesRegex(".*device (.): all: all_reduce in dp of 0 on net: rank . of 2, device .: (is )?not done "
                     "after 0.3 s: another member has stopped, or was given another order of collectives.*"));
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, CudaNccl, testing::Bool(),
                         [](const auto& info) { return std::string(info.param ? "graphs" : "acts"); });

}  // namespace
}  // namespace boxcar::backends::cuda

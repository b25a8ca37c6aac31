// The CUDA backend over NCCL, one GPU per process of two, which are threads here: over the stand-ins of both.
// How NCCL is called: tests/backends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstring>
#include <map>
#include <thread>

#include "actors/runtime.h"
#include "backends/cuda/cuda_backend.h"
#include "fake_nccl/fake_nccl.h"
#include "passing.h"
#include "summing.h"
#include "support/error_of.h"
#include "support/fake_transport.h"
#include "tally.h"

namespace boxcar::backends::cuda {
namespace {

using support::error_of;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::MatchesRegex;

class CudaNccl : public testing::TestWithParam<bool> {
 protected:
  CudaNccl() {
    cuda_on_cpu::pretend({.gpus = 2, .driver = 13000});
    fakeNcclReset();
    stays_at_ = -1, other_ended_ = false;
  }
  ~CudaNccl() override {
    EXPECT_EQ(fakeNcclLive(), 0);
    cuda_on_cpu::pretend(before_);
  }

  struct Ended {
    std::vector<float> sums;  // by step and micro-batch
    std::vector<int64_t> written;
    std::string error;
  };
  // Result of steps, which run one after the other in all processes. `between` is called before each step and
  // at the end.
  using Between = std::function<void(int64_t step)>;
  static std::array<Ended, 2> run(bool graphs, int64_t steps, double seconds, const ir::Plan& plan,
                                  const ir::Plan* other_plan = nullptr, const Between& between = nullptr) {
    support::FakeNetwork network(2, 1);
    return run(network, graphs, steps, seconds, {&plan, other_plan ? other_plan : &plan}, between);
  }
  static std::array<Ended, 2> run(bool graphs, int64_t steps, double seconds) {
    return run(graphs, steps, seconds, cuda_on_cpu::summing());
  }
  // Device d of step s loads 10 s + d, plus terms by micro-batch and element, as often as needed.
  static std::array<Ended, 2> run(const support::FakeNetwork& network, bool graphs, int64_t steps,
                                  double seconds, const std::array<const ir::Plan*, 2>& plans,
                                  const Between& between) {
    std::array<Ended, 2> ended;
    std::barrier meeting(2);
    const auto process = [&](size_t p) {
      const auto backend =
          make_cuda_backend(2, {.collective_seconds = seconds}, network.transport(static_cast<int>(p)));
      actors::Hooks hooks;
      hooks.fill = [&, p](int device, const ir::Register&, const Moment& moment, std::span<std::byte> bytes) {
        if (p == 1 && moment.step == stays_at_)
          for (int turn = 0; turn < 6000 && !other_ended_; ++turn)
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
        for (size_t e = 0; e < bytes.size() / sizeof(float); ++e) {
          const float value = static_cast<float>(10 * moment.step + device + 100 * static_cast<int64_t>(e)) +
                              0.25F * static_cast<float>(moment.micro_batch);
          std::memcpy(&bytes[e * sizeof(float)], &value, sizeof(float));
        }
      };
      hooks.watch = {"sum"};
      hooks.watched = [&](int, const ir::Register&, const Moment&, std::span<const std::byte> bytes) {
        std::memcpy(&ended[p].sums.emplace_back(), bytes.data(), sizeof(float));
      };
      hooks.checkpoints.due = [](int64_t made) { return made == 4; };
      hooks.checkpoints.write = [&](int, int64_t made, const auto&) { ended[p].written.push_back(made); };
      ended[p].error = error_of(
          [&] {
            actors::Runtime runtime(*plans[p], *backend, hooks, {.graphs = graphs});
            if (!between) return runtime.steps(steps, 0);
            for (int64_t step = 0; step <= steps; ++step) {
              meeting.arrive_and_wait();
              if (p == 0) between(step);
              meeting.arrive_and_wait();
              if (step < steps) runtime.steps(1, step);
            }
          },
          Exit::fault);
      if (p == 0) other_ended_ = true;
      meeting.arrive_and_drop();
    };
    std::thread other([&] { process(1); });
    process(0);
    other.join();
    return ended;
  }

  static inline int64_t stays_at_ = -1;  // the step in which process 1's host waits until process 0 has ended

 private:
  static inline std::atomic<bool> other_ended_ = false;
  const cuda_on_cpu::Machine before_ = cuda_on_cpu::pretended();
};

// A step is captured in all processes, and NCCL is called once for each of the two recordings.
TEST_P(CudaNccl, SumsOverProcesses) {
  for (const Ended& ended : run(GetParam(), 7, 600)) {
    EXPECT_EQ(ended.error, "no error");
    EXPECT_EQ(ended.sums, (std::vector<float>{1, 21, 41, 61, 81, 101, 121}));
  }
  EXPECT_EQ(fakeNcclCalls(), 2 * (1 + (GetParam() ? 1 + 2 : 7)));  // one at the start
  EXPECT_EQ(fakeNcclMostBlocks(), 32);
}

// No process captures the step in which one writes a checkpoint. Both have two recordings, since x, with two
// slots on one and three on the other, begins each step at the first.
TEST_P(CudaNccl, CapturesAStepInAllProcessesOrInNone) {
  const auto [first, second] = run(GetParam(), 7, 600, cuda_on_cpu::summing_and_writing());
  EXPECT_EQ(first.error, "no error");
  EXPECT_EQ(second.error, "no error");
  EXPECT_EQ(first.written, std::vector<int64_t>{4});
  EXPECT_EQ(second.sums, (std::vector<float>{1, 21, 41, 61, 81, 101, 121}));
  EXPECT_EQ(fakeNcclCalls(), 2 * (1 + (GetParam() ? 1 + 2 + 1 : 7)));
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

// Both members are late; both hear the first one to report it.
TEST_P(CudaNccl, AnActThatDoesNotEndNamesRankAndAct) {
  fakeNcclStop(1, 5, 0);
  for (const Ended& ended : run(GetParam(), 7, 2)) {
    EXPECT_THAT(
        ended.error,
        MatchesRegex(".*device (.): all: all_reduce in dp of 0 on net: rank . of 2, device .: (is )?not done "
                     "after 2 s: another member has stopped, or was given another order of collectives.*"));
  }
}

// --- pulls between the processes, both ways

// Device 0 gets its data without messages except the groups' set-up and two words for each pull of a step
// that is no graph, and without copies by the host.
TEST_P(CudaNccl, PullsAreSendsAndReceives) {
  support::FakeNetwork network(2, 1);
  const ir::Plan plan = cuda_on_cpu::passing();
  const int pageable = cuda_on_cpu::tallied("copies of pageable memory");
  const auto [first, second] = run(network, GetParam(), 7, 600, {&plan, &plan}, nullptr);
  EXPECT_EQ(first.error, "no error");
  EXPECT_EQ(second.error, "no error");
  std::vector<float> sums;
  for (int step = 0; step < 7; ++step)
    for (const float micro_batch : {0.F, 0.25F})
      sums.push_back(100 + static_cast<float>(20 * step) + 1 + 2 * micro_batch);
  EXPECT_EQ(first.sums, sums);
  EXPECT_EQ(cuda_on_cpu::tallied("copies of pageable memory"), pageable);
  for (const Channel channel : {Channel::bus, Channel::data, Channel::request})
    EXPECT_EQ(network.sent(channel), 0);
  EXPECT_EQ(network.sent(Channel::control), 2);  // ids
  // Each link sends a byte at the start; each has two pulls per micro-batch.
  const int pulls = 4 * 2 * (GetParam() ? 1 + 2 : 7);
  EXPECT_EQ(fakeNcclCalls(), 2 * (2 + pulls));
  EXPECT_EQ(network.sent(Channel::links), 2 * pulls);
  EXPECT_EQ(fakeNcclMostBlocks(), 32);  // two groups each
}

TEST_P(CudaNccl, PullsHaveAllWhenTheFirstStepHasEnded) {
  std::vector<std::map<std::string, int>> had;
  const ir::Plan plan = cuda_on_cpu::passing();
  const auto ended = run(GetParam(), 6, 600, plan, nullptr, [&](int64_t) {
    had.emplace_back();
    for (const char* what : {"memory", "pinned memory", "streams", "events", "graphs"})
      had.back()[what] = cuda_on_cpu::tallied(what);
  });
  for (const Ended& one : ended) EXPECT_EQ(one.error, "no error");
  ASSERT_EQ(had.size(), 7u);
  EXPECT_GT(had[0].at("streams"), 0);
  for (size_t step = 2; step <= 6; ++step) EXPECT_EQ(had[step], had[1]) << "step " << step;
}

// No act on a GPU waits for one that has yet to be launched, except in graphs, which are launched whole.
// Groups exist when the first step begins.
TEST_P(CudaNccl, ReceivesAreLaunchedBehindTheirSends) {
  int early = 0;
  const auto ended = run(GetParam(), 6, 600, cuda_on_cpu::passing(), nullptr, [&](int64_t step) {
    if (step == 0) early = fakeNcclEarly();  // of the groups' set-up
  });
  for (const Ended& one : ended) EXPECT_EQ(one.error, "no error");
  EXPECT_EQ(fakeNcclEarly(), early);
}
TEST_P(CudaNccl, GroupsAreThereBeforeTheFirstStep) {
  for (const ir::Plan& plan : {cuda_on_cpu::summing(), cuda_on_cpu::passing()}) {
    const bool pulls = plan.name == "passing";
    std::vector<int> live;
    run(GetParam(), 2, 600, plan, nullptr, [&](int64_t) { live.push_back(fakeNcclLive()); });
    EXPECT_EQ(live, std::vector<int>(3, pulls ? 4 : 2));
  }
}

// Each device has a buffer to send from, where it packs strided data, and one for received bytes that have no
// register.
TEST_P(CudaNccl, ScratchMemoryIsKnownBeforehand) {
  support::FakeNetwork network(2, 1);
  const auto scratch = [&](int process) {
    const auto backend = make_cuda_backend(2, {}, network.transport(process));
    std::vector<int64_t> bytes;
    for (const Beside& beside : actors::beside_arenas(cuda_on_cpu::passing(), *backend)) {
      bytes.push_back(beside.bytes);
      EXPECT_EQ(beside.groups, 2);
    }
    return bytes;
  };
  std::vector<int64_t> of_second;
  std::thread other([&] { of_second = scratch(1); });
  EXPECT_EQ(scratch(0), (std::vector<int64_t>{1024, 0}));
  other.join();
  EXPECT_EQ(of_second, (std::vector<int64_t>{0, 1024}));
}

// Device 1 neither loads nor reports anything, so only its neighbours keep its host from running ahead.
TEST_P(CudaNccl, NoHostRunsAheadWithoutBound) {
  const ir::Plan plan = cuda_on_cpu::passing(false, false, false);
  const auto events = [&](int64_t steps) {
    const int before = cuda_on_cpu::tallied("events");
    for (const Ended& one : run(GetParam(), steps, 600, plan)) EXPECT_EQ(one.error, "no error");
    return cuda_on_cpu::tallied("events") - before;
  };
  const int few = events(4);
  EXPECT_LT(events(100), few + 20);
}

// The pull reads an older version than the newest: by way of the host, and not in graphs.
TEST_P(CudaNccl, PullsOfInitialSlotsAreTheTransports) {
  const ir::Plan plan = cuda_on_cpu::passing(false, true);
  if (GetParam()) {
    support::FakeNetwork network(2, 1);
    std::vector<std::string> errors(2);
    std::vector<std::thread> processes;
    for (size_t p = 0; p < 2; ++p)
      processes.emplace_back([&, p] {
        const auto backend = make_cuda_backend(2, {}, network.transport(static_cast<int>(p)));
        errors[p] = error_of([&] { actors::Runtime(plan, *backend, {}, {.graphs = true}); }, Exit::bad_input);
      });
    for (std::thread& process : processes) process.join();
    EXPECT_EQ(
        errors[0],
        "graphs of steps: device 0: y: exchanges data with another process by way of the host; run such "
        "steps as acts");
    return;
  }
  const auto [first, second] = run(false, 3, 600, plan);
  EXPECT_EQ(first.error, "no error");
  EXPECT_EQ(second.error, "no error");
  EXPECT_EQ(first.sums, (std::vector<float>{101, 101.25, 111.25, 121.25, 131.25, 141.25}));
}

TEST_P(CudaNccl, ASendThatFailsNamesDeviceActAndPull) {
  fakeNcclStop(0, 9, 6);
  for (const Ended& ended : run(GetParam(), 7, 600, cuda_on_cpu::passing()))
    EXPECT_THAT(
        ended.error,
        ContainsRegex("device (0: ([xy]: )?[wz] for device 1: send in forward of 1 from 0: rank 0 of 2, "
                      "device 0|1: (dz: )?(go|dy) for device 0: send in backward of 0 from 1: rank 0 of 2, "
                      "device 1): NCCL: remote process exited or there was a network error"));
}

// Reported by NCCL's watcher, or by the host at the other end, which waits for the one behind it.
TEST_P(CudaNccl, AReceiveThatDoesNotEndNamesDeviceActAndPull) {
  fakeNcclStop(1, 9, 0);
  for (const Ended& ended : run(GetParam(), 7, 2, cuda_on_cpu::passing()))
    EXPECT_THAT(
        ended.error,
        ContainsRegex("device [01]: ([a-z]+: )?[a-z]+( for device [01])?: (send|receive) in (forward of 1 "
                      "from 0|backward of 0 from 1): (rank [01] of 2, device [01]: (is )?not done after 2 "
                      "s: another member|not done after 2 s: device [01] of process [01]) has stopped"));
}

// Its GPU has every launched act, and its process is still heard from.
TEST_P(CudaNccl, AHostThatStaysIsNotWaitedForForever) {
  stays_at_ = 5;
  const auto [first, second] = run(GetParam(), 7, 2, cuda_on_cpu::passing());
  EXPECT_THAT(first.error,
              ContainsRegex("device 0: ([xy]: )?[a-z]+( for device 1)?: (send in forward of 1 from 0|"
                            "receive in backward of 0 from 1).*not done after 2 s: "));
}

// The two processes disagree on the order of one's pulls.
TEST_P(CudaNccl, OrdersThatDifferAreTold) {
  const ir::Plan plan = cuda_on_cpu::passing(), other = cuda_on_cpu::passing(true);
  for (const Ended& ended : run(GetParam(), 3, 600, plan, &other))
    EXPECT_THAT(
        ended.error,
        ContainsRegex("send in forward of 1 from 0: rank 0 of 2, device 0: NCCL: invalid usage .rank 0 "
                      "sends 12 bytes; rank 1 receives 24 bytes"));
}

INSTANTIATE_TEST_SUITE_P(Ways, CudaNccl, testing::Bool(),
                         [](const auto& info) { return std::string(info.param ? "graphs" : "acts"); });

}  // namespace
}  // namespace boxcar::backends::cuda

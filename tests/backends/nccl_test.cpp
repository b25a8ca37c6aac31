// How NCCL is called, without a GPU: over a library with its C interface that is stricter than NCCL.
// conformance_test.cpp checks results.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <thread>

#include "backends/nccl_backend.h"
#include "fake_nccl/fake_nccl.h"
#include "sbp/at.h"
#include "support/error_of.h"

namespace boxcar::tests {
namespace {

using backends::Communicator;
using ir::DType;
using sbp::Reduction;
using support::error_of;
using testing::Each;
using testing::HasSubstr;
using testing::MatchesRegex;

template <typename Function>
Function* control(const char* name) {
  void* const library = dlopen(BOXCAR_FAKE_NCCL, RTLD_NOW | RTLD_LOCAL);
  return reinterpret_cast<Function*>(dlsym(library, name));
}
#define CONTROL(name) control<decltype(name)>(#name)

class Nccl : public testing::Test {
 protected:
  void SetUp() override { CONTROL(fakeNcclReset)(); }
  void TearDown() override {
    EXPECT_EQ(CONTROL(fakeNcclLive)(), 0);
    CONTROL(fakeNcclReset)();  // other tests of this process use the library too
  }

  using Body = std::function<void(Communicator& communicator, backends::Queue& queue)>;
  // Runs each member's body on its own thread; returns the error of the body, its acts or the run.
  static std::vector<std::string> run(NcclBackend& backend, int members, const Body& body) {
    std::vector<std::string> errors(static_cast<size_t>(members));
    std::vector<int> group;
    for (int d = 0; d < members; ++d) group.push_back(d);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < members; ++rank)
      threads.emplace_back([&, rank] {
        const auto queue = backend.device(rank).queue(ir::QueueKind::network);
        const auto communicator = backend.communicator("dp.0", group, rank, *queue);
        const std::string name = "device " + std::to_string(rank) + ": h0.grads";
        const backends::Waiting::Act act(name);
        const auto call = [&] {
          body(*communicator, *queue);
          queue->finish();
          backend.groups().check();
        };
        at(errors, rank) = error_of(call, Exit::fault);
      });
    for (std::thread& thread : threads) thread.join();
    return errors;
  }
};

TEST_F(Nccl, AGroupIsSetUpByItsFirstCall) {
  NcclBackend backend(3, nullptr);
  std::atomic<int> there = 0, seen = 0;
  const auto errors = run(backend, 3, [&](Communicator& communicator, backends::Queue&) {
    ++there;
    while (there < 3) std::this_thread::yield();
    seen += CONTROL(fakeNcclLive)();
    ++there;
    while (there < 6) std::this_thread::yield();
    communicator.barrier();
    EXPECT_GE(CONTROL(fakeNcclLive)(), 1);
  });
  EXPECT_THAT(errors, Each("no error"));
  EXPECT_EQ(seen, 0);
}

// Parts of equal length are one call, others a group of calls; an empty part is no call.
TEST_F(Nccl, PartsAreOneCallOrOneGroup) {
  struct Case {
    std::vector<int64_t> counts;
    int calls, groups;  // of one member
  };
  for (const Case& c :
       {Case{{4, 4, 4}, 1, 0}, Case{{4, 0, 2}, 2, 1}, Case{{0, 5, 0}, 1, 0}, Case{{0, 0, 0}, 0, 0}}) {
    for (const bool gather : {false, true}) {
      SCOPED_TRACE(testing::PrintToString(c.counts) + (gather ? " gathered" : " scattered"));
      CONTROL(fakeNcclReset)();
      NcclBackend backend(3, nullptr);
      const auto errors = run(backend, 3, [&](Communicator& communicator, backends::Queue& queue) {
        std::vector<float> in(12), out(12);
        if (gather)
          communicator.all_gather(in.data(), out.data(), c.counts, DType::float32);
        else
          communicator.reduce_scatter(in.data(), out.data(), c.counts, DType::float32, Reduction::sum);
        queue.finish();
      });
      EXPECT_THAT(errors, Each("no error"));
      EXPECT_EQ(CONTROL(fakeNcclCalls)(), 3 * c.calls);
      EXPECT_EQ(CONTROL(fakeNcclGroups)(), 3 * c.groups);
    }
  }
}

// A member with nothing to send or receive still takes part in the set-up.
TEST_F(Nccl, AllToAllIsOneGroup) {
  NcclBackend backend(3, nullptr);
  const std::vector<std::vector<int64_t>> sent = {{1, 2, 0}, {2, 0, 0}, {0, 0, 0}};
  const auto errors = run(backend, 3, [&](Communicator& communicator, backends::Queue& queue) {
    const auto rank = static_cast<size_t>(communicator.rank());
    std::vector<int64_t> received;
    for (const auto& row : sent) received.push_back(row[rank]);
    std::vector<float> in(3), out(3);
    communicator.all_to_all(in.data(), sent[rank], out.data(), received, DType::float32);
    queue.finish();
  });
  EXPECT_THAT(errors, Each("no error"));
  EXPECT_EQ(CONTROL(fakeNcclCalls)(), 2 * (1 + 2));
  EXPECT_EQ(CONTROL(fakeNcclGroups)(), 2);
}

// Only the stream waits for launched acts.
TEST_F(Nccl, CallsReturnBeforeTheirActsEnd) {
  NcclBackend backend(2, nullptr);
  std::atomic<bool> returned = false;
  const auto errors = run(backend, 2, [&](Communicator& communicator, backends::Queue& queue) {
    communicator.barrier();
    queue.finish();
    std::atomic<bool> held = communicator.rank() == 1;
    auto& stream = dynamic_cast<support::LateQueue&>(queue);
    stream.put([&] {
      while (held) std::this_thread::yield();
    });
    communicator.barrier();
    communicator.barrier();
    if (communicator.rank() == 0) returned = true;
    while (!returned) std::this_thread::yield();
    held = false;
    queue.finish();
  });
  EXPECT_THAT(errors, Each("no error"));
}

constexpr const char* act = "device 1: h0.grads: barrier in dp.0: rank 1 of 3, device 1: ";

// NCCL finds the error long after the call has returned; no stream waits for ever.
TEST_F(Nccl, AnErrorFoundLaterEndsTheRunWithRankAndActNamed) {
  CONTROL(fakeNcclStop)(1, 2, 6);
  NcclBackend backend(3, nullptr);
  const auto errors = run(backend, 3, [&](Communicator& communicator, backends::Queue&) {
    for (int i = 0; i < 5; ++i) communicator.barrier();
  });
  const std::string why = "NCCL: remote process exited or there was a network error";
  for (const std::string& error : errors) EXPECT_THAT(error, HasSubstr(why));
  EXPECT_EQ(error_of([&] { backend.waits().check("a test"); }, Exit::fault),
            "waits for a test: " + (act + why));
}

// One member does not come: each of the others is late, and the error names the first.
TEST_F(Nccl, AnActThatDoesNotEndIsLate) {
  CONTROL(fakeNcclStop)(1, 2, 0);
  NcclBackend backend(3, nullptr, 0.5);
  const auto errors = run(backend, 3, [&](Communicator& communicator, backends::Queue&) {
    for (int i = 0; i < 3; ++i) communicator.barrier();
  });
  EXPECT_THAT(errors, Each(MatchesRegex("waits for NCCL: device .: h0.grads: barrier in dp.0: rank . of 3, "
                                        "device .: not done after 0.5 s: another member has stopped, or was "
                                        "given another order of collectives")));
}

TEST_F(Nccl, ASetUpThatDoesNotEndIsLate) {
  CONTROL(fakeNcclStopSetUp)(0);
  NcclBackend backend(1, nullptr, 0.5);
  const auto errors =
      run(backend, 1, [&](Communicator& communicator, backends::Queue&) { communicator.barrier(); });
  EXPECT_EQ(
      errors[0],
      "set-up of dp.0: rank 0 of 1, device 0: not done after 0.5 s: another member has stopped, or was given "
      "another order of collectives");
}

// Rank 2 calls another function than the others.
TEST_F(Nccl, MembersThatCallDifferentlyAreTold) {
  NcclBackend backend(3, nullptr);
  const auto errors = run(backend, 3, [&](Communicator& communicator, backends::Queue& queue) {
    std::vector<int32_t> in(4), out(12);
    const std::vector<int64_t> counts(3, communicator.rank() == 2 ? 1 : 4);
    communicator.all_gather(in.data(), out.data(), counts, DType::int32);
    queue.finish();
  });
  for (const std::string& error : errors) EXPECT_THAT(error, HasSubstr("NCCL: invalid usage (rank"));
}

// A send without a receive: both hear what the other has called.
TEST_F(Nccl, AReceiveOfWhatWasNotSentIsTold) {
  NcclBackend backend(2, nullptr);
  const auto errors = run(backend, 2, [&](Communicator& communicator, backends::Queue& queue) {
    std::vector<std::byte> bytes(8);
    if (communicator.rank() == 0)
      communicator.send_to(bytes.data(), 4, 1);
    else
      communicator.receive_from(bytes.data(), 8, 0);
    queue.finish();
  });
  for (const std::string& error : errors)
    EXPECT_THAT(error, HasSubstr("send in dp.0: rank 0 of 2, device 0: NCCL: invalid usage (rank "
                                 "0 sends 4 bytes; rank 1 receives 8 bytes)"));
}

// The first send is received; the second has no receiver.
TEST_F(Nccl, ASendThatIsNotReceivedIsLate) {
  CONTROL(fakeNcclStop)(1, 1, 0);
  NcclBackend backend(2, nullptr, 0.5);
  const auto errors = run(backend, 2, [&](Communicator& communicator, backends::Queue&) {
    std::byte byte{};
    for (int i = 0; i < 2; ++i)
      communicator.rank() == 0 ? communicator.send_to(&byte, 1, 1) : communicator.receive_from(&byte, 1, 0);
  });
  EXPECT_THAT(errors, Each(MatchesRegex("waits for NCCL: device .: h0.grads: (send|receive) in dp.0: rank . "
                                        "of 2, device .: not done after 0.5 s: another member has stopped, "
                                        "or was given another order of collectives")));
}

// The thread of rank 1 is inside the call that launches its third act, with every lock that it has there. The
// others are told, and the call returns when its communicator is aborted.
TEST_F(Nccl, ACallThatDoesNotReturnIsLate) {
  CONTROL(fakeNcclStick)(1, 2, false);
  NcclBackend backend(2, nullptr, 0.5);
  const auto errors = run(backend, 2, [&](Communicator& communicator, backends::Queue&) {
    for (int i = 0; i < 4; ++i) communicator.barrier();
  });
  EXPECT_THAT(errors, Each(HasSubstr("waits for NCCL: ")));
  EXPECT_THAT(
      error_of([&] { backend.waits().check("a test"); }, Exit::fault),
      MatchesRegex("waits for a test: device .: h0.grads: barrier in dp.0: rank . of 2, device .: (its "
                   "call has not returned after 0.5 s: NCCL or CUDA is stuck in it, perhaps since "
                   "another member has stopped|not done after 0.5 s: another member has stopped, or was "
                   "given another order of collectives)"));
}

// Where it never returns, the process ends, with rank and act named.
TEST(NcclDeathTest, ACallThatNeverReturnsEndsTheProcess) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto run = [] {
    CONTROL(fakeNcclStick)(0, 1, true);
    NcclBackend backend(1, nullptr, 0.3, 0.3);
    const auto queue = backend.device(0).queue(ir::QueueKind::network);
    const std::vector<int> group{0};
    const auto communicator = backend.communicator("dp.0", group, 0, *queue);
    const backends::Waiting::Act act("device 0: h0.grads");
    for (int i = 0; i < 2; ++i) communicator->barrier();
  };
  EXPECT_EXIT(
      run(), testing::ExitedWithCode(static_cast<int>(Exit::fault)),
      "boxcar: device 0: h0.grads: barrier in dp.0: rank 0 of 1, device 0: its call has not returned after "
      "0.3 s: NCCL or CUDA is stuck in it, perhaps since another member has stopped; the process ends in "
      "the middle of device 0: h0.grads: barrier in dp.0: rank 0 of 1, device 0, whose call does not "
      "return");
}

// Together they take 64 multiprocessors at most, and each a power of two.
TEST_F(Nccl, GroupsShareMultiprocessors) {
  using backends::cuda::share_of;
  for (int groups = 1; groups <= 64; ++groups) {
    const int share = share_of(groups);
    EXPECT_LE(share * groups, 64) << groups;
    EXPECT_EQ(share & (share - 1), 0) << groups;
    EXPECT_TRUE(share == 32 || 2 * share * groups > 64) << groups;
  }
  EXPECT_EQ(
      error_of([] { share_of(65); }, Exit::cannot_run),
      "NCCL: a device is in 65 groups, at most 64 can be under way on a GPU at once; use fewer kinds of "
      "parallelism, or fewer stages that exchange tensors");
  NcclBackend backend(2, nullptr);
  backend.groups().expect(6);
  const auto errors =
      run(backend, 2, [](Communicator& communicator, backends::Queue&) { communicator.barrier(); });
  EXPECT_THAT(errors, Each("no error"));
  EXPECT_EQ(CONTROL(fakeNcclMostBlocks)(), 8);
}

// A run that fails elsewhere frees the streams of all communicators.
TEST_F(Nccl, ARunThatFailsFreesItsStreams) {
  CONTROL(fakeNcclStop)(0, 0, 0);
  NcclBackend backend(2, nullptr);
  const auto errors = run(backend, 2, [&](Communicator& communicator, backends::Queue&) {
    communicator.barrier();
    if (communicator.rank() == 1) backend.abort("device 5: out of range");
  });
  EXPECT_THAT(errors, Each(MatchesRegex("(barrier in dp.0: rank [01] of 2, device [01]: )?"
                                        "waits for (the other members|NCCL): device 5: out of range")));
}

// The member that would draw the id never comes.
TEST_F(Nccl, SetUpEndsWithTheRun) {
  NcclBackend backend(2, nullptr);
  const auto errors = run(backend, 2, [&](Communicator& communicator, backends::Queue&) {
    if (communicator.rank() == 1) return communicator.barrier();
    backend.abort("device 0: out of range");
  });
  // The run may have failed before the barrier began.
  EXPECT_THAT(errors[1],
              MatchesRegex("barrier in dp.0: rank 1 of 2, device 1: waits for (device 0, which begins "
                           "the set-up of dp.0|NCCL): device 0: out of range"));
}

TEST_F(Nccl, RefusesWhatItCannotReduce) {
  NcclBackend backend(1, nullptr);
  const auto errors = run(backend, 1, [&](Communicator& communicator, backends::Queue&) {
    int8_t byte = 0;
    communicator.all_reduce(&byte, &byte, 1, DType::float8, Reduction::sum);
  });
  EXPECT_EQ(errors[0], "there is no sum of float8");
}

TEST(NcclLibrary, IsLookedForWhenItIsNeeded) {
  const std::string needed =
      "collectives between GPUs need NCCL 2.18 or later; install it, or name its folder in LD_LIBRARY_PATH";
  EXPECT_EQ(error_of([] { backends::cuda::load_nccl("libno_nccl.so.2"); }, Exit::cannot_run),
            "libno_nccl.so.2: is not found; " + needed);
  EXPECT_EQ(error_of([] { backends::cuda::load_nccl("libm.so.6"); }, Exit::cannot_run),
            "libm.so.6: has no ncclGetVersion; " + needed);
}

// A toolkit's library, in a folder that no system path names.
TEST(NcclLibrary, IsLookedForInAFolderToo) {
  const std::filesystem::path library(BOXCAR_FAKE_NCCL);
  EXPECT_NE(backends::cuda::load_nccl(library.filename(), library.parent_path()).ncclAllReduce, nullptr);
}

}  // namespace
}  // namespace boxcar::tests

#include "backends/peers.h"

#include <gtest/gtest.h>

#include "backends/waiting.h"
#include "sbp/error.h"

namespace boxcar::backends {
namespace {

std::string peers_error(const Peers& peers) {
  try {
    peers.check();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::fault);
    return error.what();
  }
  return "";
}

// Ticks every second until `end`, while the processes in `alive` are heard from.
void pass(Peers& peers, int begin, int end, std::initializer_list<int> alive) {
  for (int second = begin + 1; second <= end; ++second) {
    peers.tick(second);
    for (int process : alive) peers.heard(process);
  }
}

TEST(Peers, SilenceIsCountedFromTheLastSignOfLife) {
  Peers peers(0, 3, 15);
  pass(peers, 0, 20, {1, 2});
  pass(peers, 20, 34, {1});
  EXPECT_EQ(peers_error(peers), "");
  pass(peers, 34, 35, {1});
  EXPECT_EQ(peers_error(peers), "process 2 has not been heard from for 15 s");
  peers.heard(2);
  EXPECT_EQ(peers_error(peers), "");
}

TEST(Peers, WhoNeverSpokeIsSilentFromTheStart) {
  Peers peers(1, 2, 15);
  pass(peers, 0, 15, {});
  EXPECT_EQ(peers_error(peers), "process 0 has not been heard from for 15 s");
}

TEST(Peers, WhoIsDoneMayBeSilent) {
  Peers peers(0, 2, 15);
  EXPECT_FALSE(peers.all_done());
  peers.done(1);
  pass(peers, 0, 100, {});
  EXPECT_EQ(peers_error(peers), "");
  peers.done(0);
  EXPECT_TRUE(peers.all_done());
}

TEST(Peers, TimeThatThisProcessHasSleptIsNoSilence) {
  Peers peers(0, 2, 15);
  pass(peers, 0, 10, {});
  peers.tick(1000);
  EXPECT_EQ(peers_error(peers), "");
  pass(peers, 1000, 1005, {});
  EXPECT_EQ(peers_error(peers), "process 1 has not been heard from for 15 s");
}

TEST(Peers, TheFirstFailureCounts) {
  Peers peers(0, 3, 15);
  EXPECT_FALSE(peers.any_failed());
  peers.failed(2, "no memory");
  peers.failed(0, "later");
  EXPECT_TRUE(peers.any_failed());
  EXPECT_EQ(peers_error(peers), "process 2 failed: no memory");
  Peers mine(0, 3, 15);
  mine.failed(0, "device 1: no memory");
  EXPECT_EQ(peers_error(mine), "device 1: no memory");
}

TEST(Waiting, SaysWhichActWaitsForWhom) {
  Waiting waiting;
  EXPECT_EQ(waiting.text(), "");
  EXPECT_EQ(Waiting::here(), "");
  {
    const Waiting::Entry bare(waiting, "process 1");
    const Waiting::Act act("device 3: h0.attn.proj.all_reduce");
    EXPECT_EQ(Waiting::here(), "device 3: h0.attn.proj.all_reduce");
    {
      const Waiting::Act inner("all_reduce in tp.0");
      const Waiting::Entry entry(waiting, "device 1");
      EXPECT_EQ(
          waiting.text(),
          "waits for process 1; device 3: h0.attn.proj.all_reduce: all_reduce in tp.0 waits for device 1");
    }
    EXPECT_EQ(Waiting::here(), "device 3: h0.attn.proj.all_reduce");
    EXPECT_EQ(waiting.text(), "waits for process 1");
  }
  EXPECT_EQ(waiting.text(), "");
}

}  // namespace
}  // namespace boxcar::backends

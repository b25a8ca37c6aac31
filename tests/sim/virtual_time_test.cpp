#include "sim/virtual_time.h"

#include <gtest/gtest.h>

#include <map>

#include "sbp/error.h"

namespace boxcar::sim {
namespace {

// End time of each tag, in seconds.
std::map<int, double> ends(VirtualTime& time) {
  std::map<int, double> result;
  time.run([&](Ticks now, std::span<const int> tags) {
    for (int tag : tags) result[tag] = to_seconds(now);
  });
  return result;
}

TEST(VirtualTime, TicksAreExactForBinaryFractions) {
  EXPECT_EQ(to_ticks(0.5), Ticks{1} << 42);
  EXPECT_DOUBLE_EQ(to_seconds(to_ticks(1234.0625)), 1234.0625);
  EXPECT_NEAR(to_seconds(to_ticks(2e-6)), 2e-6, 1e-13);
}

TEST(VirtualTime, WaitsEndInOrderAndTogether) {
  VirtualTime time;
  time.wait(to_ticks(2), 5);
  time.wait(to_ticks(1), 9);
  time.wait(to_ticks(1), 3);
  std::vector<std::vector<int>> seen;
  time.run([&](Ticks, std::span<const int> tags) { seen.emplace_back(tags.begin(), tags.end()); });
  EXPECT_EQ(seen, (std::vector<std::vector<int>>{{3, 9}, {5}}));
  EXPECT_EQ(time.events(), 3);
}

// One flow of b bytes on a link of B bytes/s takes b / B.
TEST(VirtualTime, SingleFlowTakesBytesOverBandwidth) {
  VirtualTime time;
  int link = time.add_link(25e9);
  time.flow(std::vector{link}, 123456789.0, 0);
  EXPECT_NEAR(ends(time)[0], 123456789.0 / 25e9, 2e-10);
}

// Two flows start after waits of 2 and 10 us, the second 8 us behind: from then each has half the link. By
// then the first has moved 8 us x B, so it ends at 2 us + (2 b - 8 us B) / B, the second when both are done.
TEST(VirtualTime, FlowsOfUnequalLatencyShareEqually) {
  VirtualTime time;
  const double bandwidth = 1e9, bytes = 1e6;
  int link = time.add_link(bandwidth);
  time.wait(to_ticks(2e-6), 0);
  time.wait(to_ticks(10e-6), 1);
  std::map<int, double> end;
  time.run([&](Ticks now, std::span<const int> tags) {
    for (int tag : tags) {
      if (tag < 2) time.flow(std::vector{link}, bytes, tag + 10);
      end[tag] = to_seconds(now);
    }
  });
  EXPECT_NEAR(end[10], 2e-6 + (2 * bytes - 8e-6 * bandwidth) / bandwidth, 1e-9);
  EXPECT_NEAR(end[11], 2e-6 + 2 * bytes / bandwidth, 1e-9);
}

// Max-min: flow a uses link 0, b links 0 and 1, c link 1; link 0 carries 1 GB/s, link 1 10 GB/s. a and b get
// 0.5 each, c the remaining 9.5.
TEST(VirtualTime, SharesAreMaxMinFair) {
  VirtualTime time;
  int narrow = time.add_link(1e9), wide = time.add_link(10e9);
  time.flow(std::vector{narrow}, 0.5e9, 0);
  time.flow(std::vector{narrow, wide}, 0.5e9, 1);
  time.flow(std::vector{wide}, 9.5e9, 2);
  auto end = ends(time);
  for (int tag : {0, 1, 2}) EXPECT_NEAR(end[tag], 1, 1e-9) << tag;
}

// A flow that names a link three times weighs three: beside one other it gets the rate of one among four.
TEST(VirtualTime, AFoldedFlowCountsWithItsMultiplicity) {
  VirtualTime time;
  int link = time.add_link(1e9);
  time.flow(std::vector{link, link, link}, 0.25e9, 0);
  time.flow(std::vector{link}, 1e9, 1);
  auto end = ends(time);
  EXPECT_NEAR(end[0], 1, 1e-9);
  EXPECT_NEAR(end[1], 1.75, 1e-9);
}

TEST(VirtualTime, RunsFollowOneAnotherAndStartAtZero) {
  for (int run = 0; run < 20; ++run) {
    VirtualTime time;
    int link = time.add_link(run % 2 == 0 ? 1e9 : 2e9);
    time.wait(to_ticks(0.25), 1);
    time.flow(std::vector{link}, 1e9, 0);
    auto end = ends(time);
    EXPECT_EQ(end[1], 0.25);
    EXPECT_NEAR(end[0], run % 2 == 0 ? 1 : 0.5, 1e-9);
  }
}

TEST(VirtualTime, StopForgetsWhatIsUnderWay) {
  for (int run = 0; run < 3; ++run) {
    VirtualTime time;
    int link = time.add_link(1e9);
    time.flow(std::vector{link}, 1e9, 0);
    time.wait(to_ticks(0.5), 1);
    int steps = 0;
    time.run([&](Ticks, std::span<const int>) {
      ++steps;
      time.stop();
    });
    EXPECT_EQ(steps, 1);
  }
}

TEST(VirtualTime, AnExceptionOfAStepComesOutAndTheNextRunIsClean) {
  {
    VirtualTime time;
    int link = time.add_link(1e9);
    time.flow(std::vector{link}, 1e9, 0);
    time.wait(to_ticks(0.5), 1);
    EXPECT_THROW(time.run([](Ticks, std::span<const int>) { throw Error::cannot_run("here", "no"); }), Error);
  }
  VirtualTime time;
  time.wait(to_ticks(0.5), 1);
  EXPECT_EQ(ends(time)[1], 0.5);
}

TEST(VirtualTime, TwoAtOnceAreRefused) {
  VirtualTime one;
  EXPECT_THROW(VirtualTime two, Error);
}

}  // namespace
}  // namespace boxcar::sim

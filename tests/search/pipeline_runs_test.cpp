// Runs of a pipeline followed one by one.
#include "planner/estimate/pipeline_runs.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace boxcar::search {
namespace {

using planner::Pipeline;
using planner::Schedule;
constexpr Schedule plain = Schedule::one_f_one_b;

std::vector<RunTimes> equal(size_t parts, RunTimes times) { return std::vector<RunTimes>(parts, times); }

TEST(PipelineRuns, WaitForWhatTheyRead) {
  EXPECT_EQ(runs_seconds({plain, 2, 1, 2}, equal(2, {1, 2})), 9);
  EXPECT_EQ(runs_seconds({plain, 1, 1, 3}, equal(1, {1, 2})), 9);
  EXPECT_EQ(runs_seconds({Schedule::gpipe, 2, 1, 2}, equal(2, {1, 2})), 9);
  // A transfer of 1 s before F.0 of stage 1 and before B.0 of stage 0, each once in the way.
  EXPECT_EQ(runs_seconds({plain, 2, 1, 1}, equal(2, {1, 2, 0, 1})), 8);
  // The second of two transfers into a stage begins when the first has ended.
  EXPECT_EQ(runs_seconds({Schedule::gpipe, 2, 1, 2}, {{0, 0, 0, 5}, {1, 1}}), 5 + 5 + 1 + 1 + 5 + 5);
}

// A stage in the middle sends outputs of 2 s one way and gradients of 2 s the other: 4 s for each
// micro-batch, with enough of them in flight.
TEST(PipelineRuns, SendBothWaysOverTheSameLinks) {
  const auto seconds = [](int micro_batches) {
    return runs_seconds({plain, 3, 1, micro_batches, {7, 4, 1}}, equal(3, {0.5, 0.5, 0, 2}));
  };
  EXPECT_EQ(seconds(12), 51.5);
  EXPECT_EQ(seconds(24), 51.5 + 12 * 4);
}

// Two stages, one micro-batch: F of 1 s each, B of 2 s each.
TEST(PipelineRuns, WaitForGradientsOnlyWhereTheyNeedThem) {
  std::vector<RunTimes> times = equal(2, {1, 2});
  times[0].before_gradient = 0.5;  // begins at 3.5 s, half done when the gradient is there
  EXPECT_EQ(runs_seconds({plain, 2, 1, 1}, times), 5.5);
  times[1].behind_gradient = 0.5;  // the gradient is there at 3.5 s
  EXPECT_EQ(runs_seconds({plain, 2, 1, 1}, times), 5);
  EXPECT_EQ(runs_ends({plain, 2, 1, 1}, times), (std::vector<double>{5, 4}));
}

// Two stages, one micro-batch: the second half of F on stage 1 begins when its input is there.
TEST(PipelineRuns, WaitForInputsOnlyWhereTheyNeedThem) {
  std::vector<RunTimes> times = equal(2, {1, 2});
  times[1].before_input = 0.5;
  EXPECT_EQ(runs_ends({plain, 2, 1, 1}, times), (std::vector<double>{5.5, 3.5}));
}

// p - 1 times a forward and a backward pass of a stage, or a v-th of it, are beside m times a stage's.
TEST(PipelineRuns, FillAndDrainByTheFormula) {
  for (const int p : {2, 4, 8})
    for (const int v : {1, 2, 3})
      for (const int groups : {1, 2, 3, 7, 40}) {
        const int m = p * groups;
        const double seconds = runs_seconds({plain, p, v, m}, equal(static_cast<size_t>(p * v), {1, 2}));
        EXPECT_EQ(seconds, 3 * v * m + 3 * (p - 1)) << fmt::format("p {} v {} m {}", p, v, m);
      }
}

// Zero bubbles: with three passes of one length zb-h1 waits for p - 1 of them, zb-h2 for none
// (arXiv:2401.10241, table 1, without the first forward passes, which later stages wait for).
TEST(PipelineRuns, OfSplitBackwardPassesWaitLess) {
  for (const int p : {2, 4, 8})
    for (const int m : {3 * p, 20 * p}) {
      const auto seconds = [&](Schedule kind) {
        return runs_seconds({kind, p, 1, m}, equal(static_cast<size_t>(p), {1, 1, 1}));
      };
      EXPECT_EQ(seconds(Schedule::zb_h1), 3 * m + (p - 1)) << p << " " << m;
      EXPECT_EQ(seconds(Schedule::zb_h2), 3 * m + (p - 1)) << p << " " << m;
    }
}

// In a V, with passes of one length, only the first forward passes wait: p - 1 halves of a stage's.
TEST(PipelineRuns, OfAVWaitForTheFirstForwardPassesAlone) {
  for (const Schedule kind : {Schedule::zb_v, Schedule::dualpipe_v})
    for (const int p : {2, 3, 4, 8})
      for (const int m : {2 * p, 3 * p + 1, 20 * p})
        EXPECT_EQ(runs_seconds({kind, p, 2, m}, equal(static_cast<size_t>(2 * p), {1, 1, 1})),
                  6 * m + (p - 1))
            << p << " " << m;
}

// The last stage hands the middle of the model to itself, which takes no transfer.
TEST(PipelineRuns, OfAVTurnOnTheLastStage) {
  std::vector<RunTimes> times = equal(4, {1, 1, 1, 0});
  EXPECT_EQ(runs_seconds({Schedule::zb_v, 2, 2, 1}, times), 8 + 2);  // two of four W run beside others
  times[0].send = times[2].send = 1;                                 // and back again
  EXPECT_EQ(runs_seconds({Schedule::zb_v, 2, 2, 1}, times), 8 + 2 + 4);
}

// No order has stages wait for each other, whatever the number of micro-batches.
TEST(PipelineRuns, EndForAnyNumberOfMicroBatches) {
  for (int p = 2; p <= 6; ++p)
    for (int v = 1; v <= 4; ++v)
      for (int m = 1; m <= 4 * p + 1; ++m) {
        const double seconds = runs_seconds({plain, p, v, m}, equal(static_cast<size_t>(p * v), {1, 2}));
        EXPECT_GE(seconds, 3 * v * m + 3 * (p - 1)) << fmt::format("p {} v {} m {}", p, v, m);
        // Some group of m is no larger than 2 p - 1, and none waits longer than it runs.
        EXPECT_LE(seconds, 2 * (3 * v * m + 3 * v * (p - 1))) << fmt::format("p {} v {} m {}", p, v, m);
      }
  for (const Schedule kind : {Schedule::zb_v, Schedule::dualpipe_v})
    for (int p = 2; p <= 6; ++p)
      for (int m = 1; m <= 4 * p + 1; ++m)
        EXPECT_GE(runs_seconds({kind, p, 2, m}, equal(static_cast<size_t>(2 * p), {1, 1, 1})), 6 * m);
}

// Those behind the ones that are followed take as long as a group of those.
TEST(PipelineRuns, OfManyMicroBatchesAreLikeTheFirst) {
  std::vector<RunTimes> times = equal(8, {1, 2, 0, 0.25});
  times.front().forward = 0.5, times.back().backward = 3;
  const Pipeline some{plain, 4, 2, 16}, more{plain, 4, 2, 20}, many{plain, 4, 2, 100};
  const double group = runs_seconds(more, times) - runs_seconds(some, times);
  EXPECT_DOUBLE_EQ(runs_seconds(many, times), runs_seconds(some, times) + 21 * group);
}

}  // namespace
}  // namespace boxcar::search

// Candidates whose found layouts take longer by themselves than the best step.
#include "planner/search/attempts.h"

#include <gtest/gtest.h>

#include "planner/resolve.h"
#include "search/jobs.h"
#include "search/simulating.h"

namespace boxcar::search {
namespace {

using planner::Job;

Candidate laid_out(const std::function<void(planner::Hints&)>& change, Open open = Open::one) {
  Job job = small_gpt(16);
  change(job.parallel);
  Candidate candidate;
  candidate.job = planner::resolve(job);
  candidate.layouts = LayoutRequest{.open = open};
  return candidate;
}

void replicas(planner::Hints& h) { h.dp = 16, h.zero = 1; }
void tensors_over_nodes(planner::Hints& h) { h.dp = 1, h.tp = 16; }

TEST(Making, StopsWhereLayoutsTakeTooLong) {
  Graphs graphs(1);
  const Candidate candidate = laid_out(tensors_over_nodes);
  const Made whole = Making(candidate, {}, graphs).take([] {});
  const double seconds = layout_seconds(whole.candidate.found, whole.candidate.job);
  EXPECT_FALSE(whole.plan.programs.empty());
  ASSERT_GT(seconds, 0);
  EXPECT_FALSE(Making(candidate, {}, graphs, 1.01 * seconds).take([] {}).plan.programs.empty());
  const Made none = Making(candidate, {}, graphs, 0.99 * seconds).take([] {});
  EXPECT_TRUE(none.too_slow);
  EXPECT_TRUE(none.plan.programs.empty());
  EXPECT_EQ(none.candidate.found.cost, whole.candidate.found.cost);
}

// Whether the plan was begun before the best was known or after it, so on any number of threads.
TEST(Attempts, LeaveWhatCannotWinByItsLayouts) {
  const SearchOptions options;
  const Oracle simulator = oracle();
  for (const bool begun_before : {false, true}) {
    Outcome outcome;
    Candidates points(options, infinity, simulator.act_seconds);
    Attempts attempts(options, simulator, points, int64_t{1} << 40, outcome);
    Making before = attempts.begin(laid_out(tensors_over_nodes));
    EXPECT_TRUE(attempts.attempt(attempts.begin(laid_out(replicas))).succeeded);
    const Attempt slow = attempts.attempt_within(
        laid_out(tensors_over_nodes),
        begun_before ? std::move(before) : attempts.begin(laid_out(tensors_over_nodes)));
    EXPECT_TRUE(slow.too_slow);
    EXPECT_FALSE(slow.succeeded);
    EXPECT_EQ(slow.excess, 0);
    EXPECT_EQ(outcome.compiled, 1);
    EXPECT_EQ(outcome.best.size(), 1u);
  }
}

// What the rule takes for granted: of layouts' own seconds, at most a tenth is hidden behind kernels.
TEST(Attempts, LayoutsTakeHardlyLongerThanTheirSteps) {
  for (const auto& change : {replicas, tensors_over_nodes, +[](planner::Hints& h) { h.dp = 2, h.tp = 8; },
                             +[](planner::Hints& h) { h.dp = 4, h.tp = 2, h.pp = 2; }}) {
    Graphs graphs(1);
    const Made made = Making(laid_out(change, Open::each), {}, graphs).take([] {});
    const double step = oracle().step(made.plan, made.candidate.job.cluster, [] {}).seconds;
    EXPECT_LT(layout_seconds(made.candidate.found, made.candidate.job), 1.1 * step);
  }
}

}  // namespace
}  // namespace boxcar::search

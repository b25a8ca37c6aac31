// Random plans: properties of every plan.
#include <gtest/gtest.h>

#include "sbp/at.h"
#include "sbp/error.h"
#include "sim/fold.h"
#include "sim/plans.h"
#include "sim/simulate.h"
#include "support/random_plan.h"

namespace boxcar::sim {
namespace {

constexpr unsigned seeds = 300;

backends::Cluster cluster_for(const ir::Plan& plan) { return test::make_cluster(plan.devices, 1, 1); }

// An open queue may take a joint act before one that should have gone first, so plans with open queues have
// no joint acts.
ir::Plan random_plan(unsigned seed, bool ordered) {
  return support::random_plan({.seed = seed, .ordered = ordered, .collectives = ordered, .turns = ordered});
}

TEST(RandomPlans, EndWhenTheyCannotDeadlock) {
  for (unsigned seed = 1; seed <= seeds; ++seed) {
    ir::Plan plan = random_plan(seed, seed % 4 != 0);
    Result result;
    ASSERT_NO_THROW(result = simulate(plan, cluster_for(plan), {.steps = 4})) << "seed " << seed;
    EXPECT_EQ(result.step_ends.size(), 4u) << "seed " << seed;
  }
}

TEST(RandomPlans, FoldedAndUnfoldedRunsAgree) {
  for (unsigned seed = 1; seed <= seeds; ++seed) {
    ir::Plan plan = random_plan(seed, true);
    Result folded = simulate(plan, cluster_for(plan), {.steps = 3});
    Result all = simulate(plan, cluster_for(plan), {.fold = false, .steps = 3});
    EXPECT_EQ(folded.step_ends, all.step_ends) << "seed " << seed;
    for (const ClassResult& cls : folded.classes) {
      for (int device : cls.devices) {
        EXPECT_EQ(cls.peak_bytes, at(all.classes, device).peak_bytes) << "seed " << seed;
        EXPECT_EQ(cls.queue_busy, at(all.classes, device).queue_busy) << "seed " << seed;
      }
    }
  }
}

// The same call gives the same result, also after others in the same process.
TEST(RandomPlans, RunsRepeatExactly) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    ir::Plan plan = random_plan(seed, seed % 2 == 0);
    Result first = simulate(plan, cluster_for(plan), {.steps = 3, .timeline = true});
    simulate(random_plan(seed + 1000, true), test::make_cluster(16, 1, 1));
    Result second = simulate(plan, cluster_for(plan), {.steps = 3, .timeline = true});
    EXPECT_EQ(first.step_ends, second.step_ends) << "seed " << seed;
    ASSERT_EQ(first.timeline.size(), second.timeline.size()) << "seed " << seed;
    for (size_t i = 0; i < first.timeline.size(); ++i)
      EXPECT_EQ(first.timeline[i].start, second.timeline[i].start);
  }
}

}  // namespace
}  // namespace boxcar::sim

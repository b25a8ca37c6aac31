// Extrapolating a periodic regime changes no result.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "backends/machines/device_profile.h"
#include "planner/small_jobs.h"
#include "sim/same.h"
#include "sim/simulate.h"

namespace boxcar::sim {
namespace {

using test::make_cluster;
using test::make_plan;
using test::ProgramBuilder;

TEST(Periodic, StepsGoOnByArithmetic) {
  ProgramBuilder p("p", {"F"}, 2);
  int a = p.actor("a", 1.0), b = p.actor("b", 3.0, p.queue("net", ir::QueueKind::network));
  p.link(a, b, 2, 8);
  ir::Plan plan = make_plan({{p, {0}}});
  Result result = simulate(plan, make_cluster(1, 1, 0), {.steps = 1000});
  EXPECT_EQ(result.step_ends.size(), 1000u);
  EXPECT_EQ(result.step_ends.back(), 1 + 3.0 * 2000);
  EXPECT_EQ(result.step_seconds, 6);
  EXPECT_LT(result.events, 200);
  test::expect_same_without(&Options::periodic, plan, make_cluster(1, 1, 0), {.steps = 50, .timeline = true},
                            "two queues");
}

TEST(Periodic, MicroBatchesOfAPipelineRepeat) {
  for (int nics : {4, 1}) {
    for (int micro_batches : {8, 40}) {
      ir::Plan plan = test::gpt_like(
          {.stages = 4, .dp = 2, .tp = 2, .layers = 2, .kernels = 4, .micro_batches = micro_batches});
      test::expect_same_without(
          &Options::periodic, plan, make_cluster(4, 4, nics), {.steps = 2, .timeline = true},
          "nics " + std::to_string(nics) + " micro-batches " + std::to_string(micro_batches), 1e-7);
    }
  }
  ir::Plan plan =
      test::gpt_like({.stages = 4, .dp = 2, .tp = 2, .layers = 2, .kernels = 4, .micro_batches = 200});
  Result repeated = simulate(plan, make_cluster(4, 4, 4), {.steps = 1});
  Result run = simulate(plan, make_cluster(4, 4, 4), {.periodic = false, .steps = 1});
  EXPECT_LT(repeated.events * 5, run.events * 4);
}

TEST(Periodic, SlowedComputeRepeats) {
  backends::Cluster cluster = make_cluster(4, 4, 4);
  cluster.device->overlap_slowdown = 0.25;
  ir::Plan plan =
      test::gpt_like({.stages = 4, .dp = 2, .tp = 2, .layers = 2, .kernels = 4, .micro_batches = 40});
  test::expect_same_without(&Options::periodic, plan, cluster, {.steps = 2, .timeline = true}, "slowed",
                            1e-7);
}

// A second step that comes to a state of the first one is not run to its end.
TEST(Periodic, StepsEndLikeTheStepBefore) {
  for (const int pp : {1, 2, 4})
    for (const int zero : {0, 1}) {
      planner::Job job = planner::small_job(2, 2, pp, 4, 40);
      job.cluster = backends::load_cluster("p3-16xlarge", job.gpus);
      job.parallel.zero = zero;
      const ir::Plan plan = planner::compile(planner::resolve(job));
      for (const double slowdown : {0.0, 0.25}) {
        job.cluster.device->overlap_slowdown = slowdown;
        const std::string what = fmt::format("pp {} zero {} slowed {}", pp, zero, slowdown);
        test::expect_same_without(&Options::periodic, plan, job.cluster, {}, what);
        const Result one = simulate(plan, job.cluster, {.steps = 1}), both = simulate(plan, job.cluster);
        EXPECT_EQ(both.step_ends.size(), 2u) << what;
        EXPECT_LT(both.events * 2, one.events * 3) << what;
      }
    }
}

void expect_same_simulated_whole(unsigned first, unsigned last) {
  test::expect_same_without(&Options::periodic, first, last,
                            {.max_programs = 2, .max_devices = 2, .max_micro_batches = 12}, {.steps = 6});
}

TEST(Periodic, ChangesNothingOnRandomPlans) { expect_same_simulated_whole(1, 300); }
TEST(Periodic, EndingLikeTheStepBeforeChangesNothingOnRandomPlans) {
  test::expect_same_without(&Options::periodic, 1, 300,
                            {.max_programs = 2, .max_devices = 2, .max_micro_batches = 12}, {});
}
TEST(Periodic, LongEndingLikeTheStepBeforeChangesNothingOnRandomPlans) {
  test::expect_same_without(&Options::periodic, 301, 10000,
                            {.max_programs = 2, .max_devices = 2, .max_micro_batches = 12}, {});
}
TEST(Periodic, LongChangesNothingOnRandomPlans) { expect_same_simulated_whole(301, 10000); }

}  // namespace
}  // namespace boxcar::sim

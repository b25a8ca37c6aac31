// Slots of plans: merging acts changes no answer, and the plan found is as fast with less memory.
#include "planner/search/plan_slots.h"

#include <gtest/gtest.h>

#include <random>

#include "planner/resolve.h"
#include "planner/verify.h"
#include "sbp/at.h"
#include "search/plans.h"
#include "sim/simulate.h"
#include "support/error_of.h"

namespace boxcar::search {
namespace {

std::vector<int> counts_now(const ir::Plan& plan, const PlanCounts& open) {
  std::vector<int> counts;
  for (const auto& [p, r] : open.registers) counts.push_back(at(at(plan.programs, p).registers, r).count);
  return counts;
}

// For the plan's counts and for random ones.
void expect_equal_periods(const ir::Plan& plan, const std::vector<double>& seconds, std::mt19937& random) {
  const planner::StepView view = planner::view_of_classes(plan);
  const PlanCounts all = counts_of_plan(view, seconds), open = open_counts(view, seconds);
  ASSERT_FALSE(open.registers.empty());
  ASSERT_LE(open.problem.graph.seconds.size(), all.problem.graph.seconds.size());
  std::vector<int> now = counts_now(plan, all), some = counts_now(plan, open);
  for (int round = 0; round < 5; ++round) {
    const double joined = period_of(open.problem, some), whole = period_of(all.problem, now);
    if (std::isinf(whole))
      EXPECT_TRUE(std::isinf(joined));
    else
      EXPECT_NEAR(joined, whole, 1e-9 * whole);
    for (size_t i = 0; i < some.size(); ++i) {
      some[i] = std::uniform_int_distribution<int>(std::max(1, open.problem.registers[i].least), 6)(random);
      for (size_t j = 0; j < now.size(); ++j)
        if (all.registers[j] == open.registers[i]) now[j] = some[i];
    }
  }
}

TEST(PlanSlots, JoinedActsHaveThePeriodsOfAllOnPipelines) {
  for (unsigned seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const auto pick = [&](int low, int high) {
      return std::uniform_int_distribution<int>(low, high)(random);
    };
    PipelineShape shape;
    for (int s = pick(2, 4); s > 0; --s)
      shape.stages.push_back({1.0 * pick(1, 5), 1.0 * pick(1, 9), 1.0 * pick(1, 5), 1.0 * pick(1, 5)});
    shape.in_flight = in_flight(shape.stages, least_period(shape.stages) + pick(0, 6));
    shape.micro_batches = pick(2, 8);
    shape.slots = 8;
    const ir::Plan plan = pipeline_plan(shape);
    expect_equal_periods(plan, seconds_of(plan), random);
  }
}

planner::Job small_pipeline(int tp) {
  planner::Job job;
  job.model = ir::models::defaults("gpt");
  job.model->layers = 4, job.model->hidden = 512, job.model->heads = 8, job.model->seq = 128;
  job.model->vocab = 1024;
  job.parallel.tp = tp;
  job.parallel.pp = 4;
  job.gpus = 4 * tp;
  job.cluster = backends::load_cluster("dgx-a100-80g", job.gpus);
  job.global_batch = 6;
  return planner::resolve(job);
}

std::vector<double> node_seconds(const planner::StepView& view, const planner::Job& job) {
  std::vector<double> seconds;
  for (const planner::StepNode& node : view.nodes)
    seconds.push_back(at(sim::act_seconds(*view.plan, job.cluster, node.instance), node.actor));
  return seconds;
}

TEST(PlanSlots, JoinedActsHaveThePeriodsOfAllInCompiledPlans) {
  for (const int tp : {1, 2}) {
    const planner::Job job = small_pipeline(tp);
    const ir::Plan plan = planner::compile(planner::resolve(job));
    const planner::StepView view = planner::view_of_classes(plan);
    const std::vector<double> seconds = node_seconds(view, job);
    std::mt19937 random(1);
    expect_equal_periods(plan, seconds, random);
    EXPECT_LT(2 * open_counts(view, seconds).problem.graph.seconds.size(),
              counts_of_plan(view, seconds).problem.graph.seconds.size());
  }
}

// Less memory at the simulator's same time; one slot less in any register would lengthen the period.
TEST(PlanSlots, AreTheFewestThatKeepThePeriod) {
  const planner::Job job = small_pipeline(1);
  const ir::Plan plan = planner::compile(planner::resolve(job));
  const PlanSlots slots = fewest_slots(plan, job.cluster, sim::act_seconds, 100'000);
  EXPECT_TRUE(slots.optimal);
  ASSERT_FALSE(slots.changes.empty());
  ir::Plan fewer = plan;
  set_slots(fewer, slots.changes);
  planner::verify(fewer);
  const double before = sim::simulate(plan, job.cluster).step_seconds;
  EXPECT_NEAR(sim::simulate(fewer, job.cluster).step_seconds, before, 1e-3 * before);
  const auto peaks = [](const ir::Plan& p) {
    int64_t bytes = 0;
    for (const planner::MemoryUse& use : planner::memory_use(p)) bytes += use.total;
    return bytes;
  };
  EXPECT_LT(peaks(fewer), peaks(plan));
  const planner::StepView view = planner::view_of_classes(fewer);
  const PlanCounts open = open_counts(view, node_seconds(view, job));
  std::vector<int> counts = counts_now(fewer, open);
  EXPECT_NEAR(period_of(open.problem, counts), slots.period, 1e-9 * slots.period);
  for (size_t r = 0; r < counts.size(); ++r) {
    if (counts[r] <= open.problem.registers[r].least) continue;
    --counts[r];
    EXPECT_GT(period_of(open.problem, counts), slots.period * (1 + 1e-9)) << r;
    ++counts[r];
  }
}

TEST(PlanSlots, LooksAtNoPlanThatIsTooLarge) {
  const planner::Job job = small_pipeline(1);
  const PlanSlots slots =
      fewest_slots(planner::compile(planner::resolve(job)), job.cluster, sim::act_seconds, 10);
  EXPECT_TRUE(slots.changes.empty());
  EXPECT_EQ(slots.acts, 0);
}

TEST(PlanSlots, RefusesARegisterThatIsNotThere) {
  ir::Plan plan = planner::compile(planner::resolve(small_pipeline(1)));
  EXPECT_EQ(support::error_of(
                [&] {
                  set_slots(plan, {{"stage1", "none", 2}});
                },
                Exit::fault),
            "stage1: has no register %none");
}

}  // namespace
}  // namespace boxcar::search

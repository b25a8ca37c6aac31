// Register counts of a pipeline: against its plan in virtual time, and against 1F1B's and GPipe's.
#include "planner/solve/pipeline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <string>

#include "planner/search/registers.h"
#include "planner/verify.h"
#include "sbp/at.h"
#include "search/plans.h"
#include "support/error_of.h"

namespace boxcar::search {
namespace {

TEST(Pipeline, ExampleOfTheHeader) {
  PipelineStage plain{1, 2, 0, 0}, sends{1, 2, 1, 1};
  EXPECT_EQ(in_flight({plain, plain, plain}, 3), (std::vector{3, 2, 1}));
  EXPECT_EQ(in_flight({sends, sends, sends}, 3), (std::vector{5, 3, 1}));
}

// The steady state as a marked graph, one node per act and transfer, with these numbers in flight.
double steady_period(const std::vector<PipelineStage>& stages, const std::vector<int>& counts) {
  planner::MarkedGraph graph;
  auto node = [&](double seconds) {
    graph.seconds.push_back(seconds);
    graph.edges.push_back(
        {static_cast<int>(graph.seconds.size()) - 1, static_cast<int>(graph.seconds.size()) - 1, 1});
    return static_cast<int>(graph.seconds.size()) - 1;
  };
  std::vector<int> forward, backward;
  for (size_t s = 0; s < stages.size(); ++s) {
    forward.push_back(node(stages[s].forward));
    backward.push_back(node(stages[s].backward));
    graph.edges.push_back({forward[s], backward[s], 1 - counts[s]});
    graph.edges.push_back({backward[s], forward[s], counts[s]});
    if (s == 0) continue;
    int send = node(stages[s - 1].send), back = node(stages[s].send_back);
    graph.edges.push_back({forward[s - 1], send, 0});
    graph.edges.push_back({send, forward[s], 0});
    graph.edges.push_back({backward[s], back, 0});
    graph.edges.push_back({back, backward[s - 1], 0});
  }
  graph.edges.push_back({forward.back(), backward.back(), 0});
  return planner::max_cycle_ratio(graph).seconds;
}

TEST(Pipeline, CountsKeepThePeriodAndNoFewerDo) {
  for (unsigned seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    auto pick = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
    std::vector<PipelineStage> stages;
    for (int s = pick(1, 5); s > 0; --s) {
      stages.push_back({1.0 * pick(1, 5), 1.0 * pick(1, 9), 1.0 * pick(0, 5), 1.0 * pick(0, 5)});
    }
    double period = least_period(stages) + pick(0, 6);
    std::vector<int> counts = in_flight(stages, period);
    ASSERT_LE(steady_period(stages, counts), period * (1 + 1e-9));
    // All counts that keep the period are at least as large everywhere.
    std::vector<int> tried(counts.size(), 1);
    for (size_t s = 0; s < counts.size();) {
      bool fewer = false;
      for (size_t i = 0; i < counts.size(); ++i) fewer |= tried[i] < counts[i];
      // With fewer than the next stage, the pipeline hangs.
      if (fewer && std::is_sorted(tried.rbegin(), tried.rend())) {
        ASSERT_GT(steady_period(stages, tried), period * (1 + 1e-12));
      }
      for (s = 0; s < tried.size() && ++tried[s] > counts[s] + 1;) tried[s++] = 1;
    }
  }
}

struct Result {
  double seconds = 0;  // of a step
  double bytes = 0;
};

// A plan's time by its cycles, which must equal the simulator's, and its registers' memory.
Result run(const ir::Plan& plan) {
  planner::verify(plan);
  planner::StepView view = planner::view_of_devices(plan, false);
  Result result{planner::period_bound(view, seconds_of(plan)), 0};
  EXPECT_NEAR(simulated_period(plan, 12), result.seconds, 1e-6 * result.seconds);
  for (const ir::Program& program : plan.programs) result.bytes += static_cast<double>(program.arena_bytes);
  return result;
}

// The plan with the cheapest counts for its shortest period.
ir::Plan with_least_counts(ir::Plan plan) {
  PlanCounts of = counts_of_plan(planner::view_of_devices(plan), seconds_of(plan));
  Counts counts = least_counts(of.problem, least_period(of.problem));
  EXPECT_TRUE(counts.optimal());
  for (size_t i = 0; i < counts.counts.size(); ++i) {
    auto [p, r] = of.registers[i];
    at(at(plan.programs, p).registers, r).count = counts.counts[i];
  }
  place_registers(plan);
  return plan;
}

// Four stages whose transfers take as long as a forward act, 16 micro-batches. 1F1B has too few in flight to
// hide the transfers; GPipe has all of them in flight.
TEST(Pipeline, BeatsOneForwardOneBackwardAndGPipe) {
  PipelineShape shape;
  shape.stages.assign(4, {2, 4, 2, 2});
  shape.micro_batches = 16;
  shape.slots = 16;
  auto result = [&](std::vector<int> in_flight) {
    shape.in_flight = std::move(in_flight);
    return run(with_least_counts(pipeline_plan(shape)));
  };
  Result ours = result(in_flight(shape.stages, least_period(shape.stages)));
  Result one_f_one_b = result({4, 3, 2, 1}), gpipe = result({16, 16, 16, 16});
  EXPECT_NEAR(one_f_one_b.seconds, 170.5, 1e-6);
  EXPECT_EQ(one_f_one_b.bytes, 1520);
  EXPECT_NEAR(ours.seconds, 126.5, 1e-6);
  EXPECT_EQ(ours.bytes, 2120);
  EXPECT_NEAR(gpipe.seconds, 126.5, 1e-6);
  EXPECT_EQ(gpipe.bytes, 7040);
}

TEST(Pipeline, RefusesAPeriodThatIsTooShort) {
  EXPECT_EQ(support::error_of([] {
              in_flight({{1, 2, 0, 0}}, 2.5);
            }),
            "search: period 2.5 is below the least one, 3");
}

}  // namespace
}  // namespace boxcar::search

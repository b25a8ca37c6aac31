// Drawn weeks of runs whose nodes fail and come back.
#include "sim/campaign/weeks.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace boxcar::campaign {
namespace {

// 128 nodes, of which one fails every 3 h.
Fleet example() {
  Fleet fleet;
  fleet.run.steps = 1'000'000, fleet.run.step_seconds = 6, fleet.run.gpus = 1024;
  fleet.run.checkpoint_seconds = 12, fleet.run.restart_seconds = 600;
  fleet.run.mtbf_seconds = 3 * 3600;
  fleet.nodes = 128;
  return fleet;
}

double daly(const Fleet& fleet, int64_t interval) {
  return static_cast<double>(fleet.run.steps) * fleet.run.step_seconds /
         expected_seconds(fleet.run, interval);
}

TEST(DrawnWeeks, AreThoseOfDalyWhereNodesAreBackAtOnce) {
  std::mt19937 random(5);
  const auto between = [&](double low, double high) {
    return std::exp(std::uniform_real_distribution<>(std::log(low), std::log(high))(random));
  };
  for (int i = 0; i < 20; ++i) {
    Fleet fleet = example();
    fleet.run.step_seconds = between(0.5, 30);
    fleet.run.mtbf_seconds = between(3600, 86400);
    fleet.run.checkpoint_seconds = between(1, 300);
    fleet.run.restart_seconds = between(10, 1800);
    const auto interval = static_cast<int64_t>(
        std::max(1.0, std::round(between(0.3, 3) * static_cast<double>(best_interval(fleet.run)))));
    const Weeks weeks = drawn_weeks(fleet, interval, 3000);
    EXPECT_NEAR(weeks.goodput / daly(fleet, interval), 1, 0.01) << i;
    EXPECT_NEAR(weeks.failures * fleet.run.mtbf_seconds / (7 * 86400), 1, 0.03) << i;
    EXPECT_EQ(weeks.waiting, 0);
    EXPECT_EQ(weeks.on_fewer, 0);
  }
}

TEST(DrawnWeeks, HaveTheirBestIntervalWhereDalyHasIt) {
  const Fleet fleet = example();
  const int64_t best = interval_of(fleet);
  EXPECT_EQ(best, 84);
  const double young = std::sqrt(2 * fleet.run.checkpoint_seconds * fleet.run.mtbf_seconds);
  EXPECT_NEAR(static_cast<double>(best) * fleet.run.step_seconds / young, 1, 0.02);
  const double goodput = drawn_weeks(fleet, best, 4000).goodput;
  for (const int64_t other : {best / 3, 3 * best})
    EXPECT_LT(drawn_weeks(fleet, other, 4000).goodput, goodput - 0.005) << other;
}

TEST(DrawnWeeks, TheExampleOfTheHeader) {
  Fleet fleet = example();
  fleet.spares = 2, fleet.repair_seconds = 12 * 3600;
  fleet.step_seconds_on = {{126, 6.2}, {112, 6.9}};
  EXPECT_NEAR(drawn_weeks(fleet, interval_of(fleet)).goodput, 0.83, 0.005);
}

TEST(DrawnWeeks, AreTheSameForTheSameSeed) {
  Fleet fleet = example();
  fleet.repair_seconds = 7200;
  EXPECT_EQ(drawn_weeks(fleet, 84, 50, 3).goodput, drawn_weeks(fleet, 84, 50, 3).goodput);
  EXPECT_NE(drawn_weeks(fleet, 84, 50, 3).goodput, drawn_weeks(fleet, 84, 50, 4).goodput);
}

// One node more than the plan takes is enough or is not.
TEST(DrawnWeeks, WaitForNodesThatAreAway) {
  Fleet fleet = example();
  fleet.repair_seconds = 1800;
  fleet.run.mtbf_seconds = 36000;
  const Weeks waits = drawn_weeks(fleet, interval_of(fleet));
  // A cycle: up until a failure, and away until the repair.
  EXPECT_NEAR(waits.waiting, 1800.0 / (36000 + 1800), 0.002);
  fleet.spares = 1;
  const Weeks with_spare = drawn_weeks(fleet, interval_of(fleet));
  EXPECT_LT(with_spare.waiting, 0.1 * waits.waiting);
  EXPECT_GT(with_spare.waiting, 0);
  EXPECT_GT(with_spare.goodput, waits.goodput + 0.03);
  fleet.spares = 20;
  EXPECT_EQ(drawn_weeks(fleet, interval_of(fleet)).waiting, 0);
  EXPECT_NEAR(drawn_weeks(fleet, interval_of(fleet)).goodput, daly(fleet, interval_of(fleet)), 0.005);
}

TEST(DrawnWeeks, GoOnWithFewerNodes) {
  Fleet fleet = example();
  fleet.repair_seconds = 12 * 3600;
  const Weeks waits = drawn_weeks(fleet, 84);
  fleet.step_seconds_on = {{120, 6 * 128 / 120.0}, {64, 12}};
  const Weeks replans = drawn_weeks(fleet, 84);
  EXPECT_GT(waits.waiting, 0.5);
  EXPECT_LT(replans.waiting, 0.01);
  EXPECT_GT(replans.on_fewer, 0.5);
  EXPECT_GT(replans.goodput, waits.goodput + 0.3);
  EXPECT_LT(replans.goodput, daly(fleet, 84));
  // A plan for more nodes that is slower is not taken.
  fleet.step_seconds_on[124] = 12.5;
  EXPECT_EQ(drawn_weeks(fleet, 84).goodput, replans.goodput);
}

// Half of the nodes run, and nearly always: with all nodes at work, 72 would be away.
TEST(DrawnWeeks, FailLessOftenOnFewerNodes) {
  Fleet fleet = example();
  fleet.repair_seconds = 12 * 3600, fleet.run.mtbf_seconds = 600;
  fleet.run.restart_seconds = 10, fleet.run.checkpoint_seconds = 1;
  fleet.step_seconds_on = {{64, 12}};
  const Weeks weeks = drawn_weeks(fleet, 2);
  EXPECT_LT(weeks.waiting, 0.01);
  EXPECT_NEAR(weeks.failures / (7 * 86400 / 1200.0), 1, 0.02);
}

// One restart after a failure, on fewer nodes, and one when the node has come back.
TEST(DrawnWeeks, ChangeThePlanWhenANodeHasComeBack) {
  Fleet fleet = example();
  fleet.repair_seconds = 3600, fleet.run.mtbf_seconds = 1e6;
  fleet.step_seconds_on = {{120, 9}};
  const Weeks slow = drawn_weeks(fleet, 84);
  EXPECT_NEAR(slow.on_fewer, (3600.0 + 9 * 84 / 2.0) / 1e6, 0.0015);  // until the repair, and a checkpoint
  EXPECT_NEAR(slow.restarting, 2 * 600 / 1e6, 0.0003);                // after the failure, after the repair
}

TEST(DrawnWeeks, LoseLessWhereCheckpointsAreWrittenBesideTheSteps) {
  Fleet fleet = example();
  fleet.run.checkpoint_seconds = 120;
  const double waits = drawn_weeks(fleet, interval_of(fleet)).goodput;
  fleet.beside = true;
  EXPECT_EQ(interval_of(fleet), 20);
  const double beside = drawn_weeks(fleet, interval_of(fleet)).goodput;
  EXPECT_GT(beside, waits + 0.05);
  // Lost: a restart, and what the last whole checkpoint lacks: one that is written, and half of a cycle.
  EXPECT_NEAR(beside, 1 - (600 + 120 + 120 / 2.0) / (3 * 3600 + 600), 0.01);
  EXPECT_LT(drawn_weeks(fleet, 10).goodput, 0.6);  // steps wait for half of the time
}

TEST(DrawnWeeks, KnowHowManyNodesAreAway) {
  Fleet fleet = example();
  EXPECT_EQ(most_away(fleet), 0);
  fleet.repair_seconds = fleet.run.mtbf_seconds;  // one, in the mean
  EXPECT_EQ(most_away(fleet), 5);                 // of Poisson's distribution
  fleet.nodes = 3;
  EXPECT_EQ(most_away(fleet), 3);
}

}  // namespace
}  // namespace boxcar::campaign

// The learning-rate schedule, and merging of losses.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "actors/training/loss_curve.h"
#include "actors/training/loss_table.h"
#include "actors/training/train_run.h"

namespace boxcar::training {
namespace {

TEST(LearningRate, WarmsUpThenFallsToItsEnd) {
  TrainRun run;
  run.steps = 101, run.warmup_steps = 20, run.min_learning_rate = 0.1;
  EXPECT_DOUBLE_EQ(learning_rate(run, 1, 0), 0.05);
  EXPECT_DOUBLE_EQ(learning_rate(run, 1, 19), 1);
  EXPECT_DOUBLE_EQ(learning_rate(run, 1, 20), 1);
  EXPECT_DOUBLE_EQ(learning_rate(run, 1, 60), 0.55);
  EXPECT_DOUBLE_EQ(learning_rate(run, 1, 100), 0.1);
  for (int64_t step = 21; step <= 100; ++step)
    EXPECT_LT(learning_rate(run, 1, step), learning_rate(run, 1, step - 1)) << step;
}

TEST(LearningRate, MayBeConstant) {
  TrainRun run;
  run.steps = 10, run.lr_schedule = "constant";
  EXPECT_DOUBLE_EQ(learning_rate(run, 0.3, 0), 0.3);
  EXPECT_DOUBLE_EQ(learning_rate(run, 0.3, 9), 0.3);
}

TEST(LossTable, IsTheSumOverDevicesAndTheMeanOverMicroBatches) {
  LossTable table(2, 2);
  EXPECT_FALSE(table.add(7, 0, 3, 1.0));
  EXPECT_FALSE(table.add(8, 0, 3, 100.0));  // the next step's, early
  EXPECT_FALSE(table.add(7, 1, 3, 2.0));
  EXPECT_FALSE(table.add(7, 1, 1, 3.0));
  EXPECT_EQ(table.add(7, 0, 1, 4.0), 5.0);
}

TEST(LossTable, AddsInTheSameOrderWhateverArrivesFirst) {
  std::vector<std::tuple<int64_t, int, double>> parts;
  std::mt19937 random(3);
  for (int64_t m = 0; m < 4; ++m)
    for (int d = 0; d < 4; ++d)
      parts.emplace_back(m, d, std::uniform_real_distribution<double>(0, 1)(random));
  std::optional<double> first;
  for (int trial = 0; trial < 20; ++trial) {
    std::shuffle(parts.begin(), parts.end(), random);
    LossTable table(4, 4);
    std::optional<double> loss;
    for (const auto& [m, d, value] : parts) loss = table.add(0, m, d, value);
    ASSERT_TRUE(loss);
    if (!first) first = loss;
    EXPECT_EQ(*loss, *first);
  }
}

TEST(LossCurve, HasMeansOfNeighboursWhereThereAreMany) {
  LossCurve curve(4);
  EXPECT_EQ(curve.steps(), 0);
  for (int64_t step = 1; step <= 7; ++step) curve.add(step, 10 - static_cast<double>(step));
  EXPECT_EQ(curve.points(), (std::vector<LossCurve::Point>{{1, 8.5}, {4, 6.5}, {6, 4.5}, {7, 3}}));
  EXPECT_EQ(curve.steps(), 7);
  EXPECT_EQ(curve.first(), 9);
  EXPECT_EQ(curve.last(), 3);
  curve.add(8, 2);
  EXPECT_EQ(curve.points(), (std::vector<LossCurve::Point>{{1, 7.5}, {8, 3.5}}));
}

TEST(LossCurve, OfALongRunIsSmall) {
  LossCurve curve;
  for (int64_t step = 1; step <= 100000; ++step) {
    curve.add(step, 1.0 / static_cast<double>(step));
    ASSERT_LE(curve.points().size(), 4097u);
  }
  EXPECT_EQ(curve.points().front().first, 1);
  EXPECT_EQ(curve.points().back().first, 100000);
}

}  // namespace
}  // namespace boxcar::training

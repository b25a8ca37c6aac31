// What `boxcar train` is made of: the learning rate's course, losses put together, parts of tensors, the
// chart.
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "cli/loss_curve.h"
#include "cli/loss_table.h"
#include "cli/parts.h"
#include "cli/run_options.h"
#include "cli/train_log.h"
#include "sbp/error.h"

namespace boxcar::cli {
namespace {

using backends::host::StoredTensor;

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

StoredTensor counted(ir::Shape shape, ir::DType dtype) {
  StoredTensor tensor{{std::move(shape), dtype}, {}};
  const int64_t size = ir::size_of(dtype);
  tensor.bytes.resize(static_cast<size_t>(tensor.type.bytes()));
  for (int64_t i = 0; i < tensor.type.elements(); ++i)
    store_element(dtype, tensor.bytes.data() + i * size, static_cast<double>(i));
  return tensor;
}

TEST(Parts, OfATensorPutTogetherAreTheTensor) {
  std::mt19937 random(5);
  for (int trial = 0; trial < 50; ++trial) {
    ir::Shape shape;
    std::vector<int64_t> cuts;
    for (int axis = 0, rank = static_cast<int>(random() % 4); axis < rank; ++axis) {
      shape.push_back(1 + static_cast<int64_t>(random() % 5));
      cuts.push_back(1 + static_cast<int64_t>(random() % 3));
    }
    const StoredTensor whole = counted(shape, ir::DType::float32);
    StoredTensor copy = whole;
    std::fill(copy.bytes.begin(), copy.bytes.end(), std::byte{0xff});
    int64_t parts = 1;
    for (int64_t c : cuts) parts *= c;
    for (int64_t p = 0; p < parts; ++p) {
      std::vector<sbp::Range> ranges;
      int64_t rest = p, elements = 1;
      for (size_t axis = 0; axis < shape.size(); ++axis) {
        ranges.push_back(sbp::part_range(shape[axis], cuts[axis], rest % cuts[axis]));
        rest /= cuts[axis];
        elements *= ranges.back().size();
      }
      std::vector<std::byte> bytes(static_cast<size_t>(elements) * sizeof(float));
      take_part(whole, ranges, ir::DType::float32, bytes);
      put_part(copy, ranges, bytes);
    }
    EXPECT_EQ(copy.bytes, whole.bytes) << ir::to_text(whole.type);
  }
}

TEST(Parts, AreRoundedToTheirType) {
  const StoredTensor whole = counted({2, 3}, ir::DType::float32);
  const std::vector<sbp::Range> ranges = {{1, 2}, {1, 3}};
  std::vector<std::byte> bytes(4);
  take_part(whole, ranges, ir::DType::bfloat16, bytes);
  EXPECT_EQ(load_element(ir::DType::bfloat16, bytes.data()), 4);
  EXPECT_EQ(load_element(ir::DType::bfloat16, bytes.data() + 2), 5);
}

TEST(Parts, OfAnotherSizeAreRefused) {
  const StoredTensor whole = counted({4}, ir::DType::float32);
  const std::vector<sbp::Range> ranges = {{0, 2}};
  std::vector<std::byte> bytes(4);
  try {
    take_part(whole, ranges, ir::DType::float32, bytes);
    FAIL() << "accepted";
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "a tensor's part: has 4 bytes, expected 8");
  }
}

TEST(LossChart, FallsFromLeftToRight) {
  EXPECT_EQ(loss_chart({{1, 4.0}, {2, 3.0}, {3, 2.0}, {4, 1.0}}, 64, 4),
            "   4.000 |*\n"
            "         | *\n"
            "         |  *\n"
            "   1.000 |   *\n"
            "    step  1  4\n");
  EXPECT_EQ(loss_chart({{1, 4.0}}), "");
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

TEST(Duration, ReadsAsOnAClock) {
  EXPECT_EQ(format_duration(4.6), "5 s");
  EXPECT_EQ(format_duration(125), "2:05");
  EXPECT_EQ(format_duration(3725), "1:02:05");
}

}  // namespace
}  // namespace boxcar::cli

// Kernels of neural-network ops against values worked out by hand: law 1 only compares a kernel with itself.
#include <gtest/gtest.h>

#include <cmath>

#include "backends/cpu/reference.h"
#include "backends/random.h"
#include "reference_run.h"

namespace boxcar::backends::cpu {
namespace {

using Ints = std::vector<int64_t>;
using Values = std::vector<double>;
using ir::Attrs;

struct NnCase {
  const char* name;
  Tensors inputs;
  Attrs attrs;
  std::vector<Values> expected;  // of every output
};

void expect_values(const std::vector<NnCase>& cases) {
  for (const NnCase& c : cases) {
    const Tensors got = run(c.name, c.inputs, c.attrs);
    ASSERT_EQ(got.size(), c.expected.size()) << c.name;
    for (size_t output = 0; output < got.size(); ++output) {
      ASSERT_EQ(got[output].data.size(), c.expected[output].size()) << c.name;
      for (size_t i = 0; i < got[output].data.size(); ++i) {
        EXPECT_NEAR(got[output].data[i], c.expected[output][i], 1e-12)
            << c.name << " output " << output << " at " << i;
      }
    }
  }
}

const double kLog2 = std::log(2.0), kLog3 = std::log(3.0);

TEST(ReferenceNn, SoftmaxAndLosses) {
  const HostTensor logs = tensor("float32[1, 2]", {0, kLog3});  // probabilities 1/4 and 3/4
  const HostTensor zeros33 = tensor("float32[3, 3]", Values(9, 0));
  const HostTensor one = tensor("float32[1]", {1}), label = tensor("int64[1]", {1});
  expect_values({
      {"softmax", {logs}, {}, {{0.25, 0.75}}},
      {"scale_mask_softmax", {zeros33}, {{"causal", true}}, {{1, 0, 0, 0.5, 0.5, 0, 1 / 3., 1 / 3., 1 / 3.}}},
      {"scale_mask_softmax",
       {zeros33},
       {{"causal", true}, {"window", int64_t{2}}},
       {{1, 0, 0, 0.5, 0.5, 0, 0, 0.5, 0.5}}},
      {"causal_mask",
       {tensor("float32[3, 3]", {1, 2, 3, 4, 5, 6, 7, 8, 9})},
       {{"fill", -1.0}, {"window", int64_t{2}}},
       {{1, -1, -1, 4, 5, -1, -1, 8, 9}}},
      {"scale_mask_softmax",
       {tensor("float32[1, 2]", {0, kLog3})},
       {{"scale", 0.5}},
       {{1 / (1 + std::sqrt(3)), std::sqrt(3) / (1 + std::sqrt(3))}}},
      {"cross_entropy", {logs, label}, {}, {{std::log(4 / 3.)}}},
      {"sum_exp", {logs, tensor("float32[1]", {kLog3})}, {}, {{4 / 3.}}},
      {"pick", {logs, label}, {}, {{kLog3}}},
      {"pick", {logs, label}, {{"offset", int64_t{1}}}, {{0}}},
      {"nll",
       {tensor("float32[1]", {kLog3}), tensor("float32[1]", {4 / 3.}), tensor("float32[1]", {kLog3})},
       {},
       {{std::log(4 / 3.)}}},
      {"cross_entropy_grad",
       {one, logs, tensor("float32[1]", {kLog3}), tensor("float32[1]", {4 / 3.}), label},
       {},
       {{0.25, -0.25}}},
  });
}

TEST(ReferenceNn, Norms) {
  const HostTensor x = tensor("float32[1, 4]", {1, 1, 5, 5});  // mean 3, variance 4, mean square 13
  const HostTensor gamma = tensor("float32[4]", {1, 2, 1, 2}), beta = tensor("float32[4]", {0, 0, 10, 10});
  const double r = 1 / std::sqrt(13.0);
  expect_values({
      {"layer_norm", {x, gamma, beta}, {{"eps", 0.0}}, {{-1, -2, 11, 12}, {3}, {0.5}}},
      {"rms_norm", {x, gamma}, {{"eps", 0.0}}, {{r, 2 * r, 5 * r, 10 * r}, {r}}},
      // channels {1, 1, 5, 5} and {0, 2, 0, 2}: standard deviations 2 and 1
      {"batch_norm",
       {tensor("float32[2, 2, 2]", {1, 1, 0, 2, 5, 5, 0, 2}), tensor("float32[2]", {1, 3}),
        tensor("float32[2]", {0, 1})},
       {{"eps", 0.0}},
       {{-1, -1, -2, 4, 1, 1, -2, 4}, {3, 1}, {0.5, 1}}},
  });
}

TEST(ReferenceNn, RunningAverages) {
  // The channels above: the sums of squares around the means are 16 and 4, so variances of samples of four
  // are 16 / 3 and 4 / 3. The share is 3 / 4.
  const HostTensor x = tensor("float32[2, 2, 2]", {1, 1, 0, 2, 5, 5, 0, 2});
  const HostTensor none = tensor("float32[2, 2, 2]", Values(8, 0)), gamma = tensor("float32[2]", {1, 3});
  const HostTensor mean = tensor("float32[2]", {3, 1}), rstd = tensor("float32[2]", {0.5, 1});
  const HostTensor old = tensor("float32[2]", {1, 2}), fresh = tensor("float32[2]", {3, -2});
  const Attrs quarter = {{"momentum", 0.25}};
  expect_values({
      {"batch_norm_grad",
       {none, x, gamma, mean, rstd},
       {{"eps", 0.0}, {"share", 0.75}},
       {Values(8, 0), {0, 0}, {0, 0}, {2.25, 0.75}, {4, 1}}},
      // eps counts for no variance: 1 / 0.5^2 - 1 is 3, of a sample of one 3 too
      {"batch_norm_grad",
       {tensor("float32[1, 1]", {0}), tensor("float32[1, 1]", {2}), tensor("float32[1]", {1}),
        tensor("float32[1]", {2}), tensor("float32[1]", {0.5})},
       {{"eps", 1.0}, {"share", 1.0}},
       {{0}, {0}, {0}, {2}, {3}}},
      {"running_average", {old, fresh}, quarter, {{1.5, 1}}},
      {"running_average", {old, fresh, tensor("boolean[]", {1})}, quarter, {{1.5, 1}}},
      {"running_average", {old, fresh, tensor("boolean[]", {0})}, quarter, {{1, 2}}},
      {"accumulate_statistics", {old}, {}, {{1, 2}}},
  });
}

TEST(ReferenceNn, EmbeddingReadsZerosOutsideItsPart) {
  const HostTensor table = tensor("float32[2, 2]", {1, 2, 3, 4}), indices = tensor("int64[3]", {5, 4, 7});
  expect_values({
      {"embedding", {table, indices}, {{"offset", int64_t{4}}}, {{3, 4, 1, 2, 0, 0}}},
      {"embedding_grad",
       {tensor("float32[3, 1]", {1, 2, 4}), tensor("int64[3]", {1, 1, 0})},
       {{"rows", int64_t{2}}},
       {{4, 3}}},
  });
}

TEST(ReferenceNn, RotaryTurnsPairs) {
  const HostTensor x = tensor("float32[2, 2]", {1, 0, 1, 0});  // positions 0 and 1
  expect_values({
      {"rotary", {x}, {}, {{1, 0, std::cos(1), std::sin(1)}}},
      {"rotary",
       {x},
       {{"offset", int64_t{2}}, {"inverse", true}},
       {{std::cos(2), -std::sin(2), std::cos(3), -std::sin(3)}}},
  });
}

// Two query heads, one key head; keys 0 and log 2 give probabilities 1/3 and 2/3 for a query of 1.
TEST(ReferenceNn, AttentionWithGroupsAndMask) {
  const Tensors in = {tensor("float32[1, 2, 2, 1]", {1, 1, 0, 0}), tensor("float32[1, 1, 2, 1]", {0, kLog2}),
                      tensor("float32[1, 1, 2, 1]", {3, 6})};
  expect_values({
      {"scaled_dot_product_attention", in, {}, {{5, 5, 4.5, 4.5}, {kLog3, kLog3, kLog2, kLog2}}},
      {"scaled_dot_product_attention", in, {{"causal", true}}, {{3, 5, 3, 4.5}, {0, kLog3, 0, kLog2}}},
      {"scaled_dot_product_attention",
       in,
       {{"causal", true}, {"offset", int64_t{1}}},
       {{5, 5, 4.5, 4.5}, {kLog3, kLog3, kLog2, kLog2}}},
      // Each query sees its own key alone; those of a part that begins two later see none.
      {"scaled_dot_product_attention",
       in,
       {{"causal", true}, {"window", int64_t{1}}},
       {{3, 6, 3, 6}, {0, kLog2, 0, 0}}},
  });
  const Tensors beyond = run("scaled_dot_product_attention", in,
                             {{"causal", true}, {"window", int64_t{1}}, {"offset", int64_t{2}}});
  EXPECT_EQ(beyond[0].data, Values(4, 0));
  EXPECT_EQ(beyond[1].data, Values(4, -INFINITY));
}

TEST(ReferenceNn, ConvolutionsAndPools) {
  const HostTensor x = tensor("float32[1, 1, 3, 3]", {1, 2, 3, 4, 5, 6, 7, 8, 9});
  const HostTensor w = tensor("float32[1, 1, 2, 2]", {1, 0, 0, -1});
  const HostTensor two = tensor("float32[1, 2, 1, 1]", {3, 5});
  const HostTensor dy = tensor("float32[1, 1, 2, 2]", {1, 2, 3, 4});
  expect_values({
      {"conv2d", {x, w}, {}, {{-4, -4, -4, -4}}},
      {"conv2d", {x, w}, {{"stride", int64_t{2}}, {"padding", int64_t{1}}}, {{-1, -3, -7, -4}}},
      {"conv2d", {two, tensor("float32[2, 1, 1, 1]", {2, 10})}, {{"groups", int64_t{2}}}, {{6, 50}}},
      {"conv2d_input_grad", {dy, w}, {{"input_size", Ints{3, 3}}}, {{1, 2, 0, 3, 3, -2, 0, -3, -4}}},
      {"conv2d_weight_grad", {dy, x}, {{"kernel", Ints{2, 2}}}, {{37, 47, 67, 77}}},
      {"max_pool2d", {x}, {{"stride", int64_t{1}}}, {{5, 6, 8, 9}}},
      {"max_pool2d_grad", {dy, x}, {{"stride", int64_t{1}}}, {{0, 0, 0, 0, 1, 2, 0, 3, 4}}},
      {"avg_pool2d", {x}, {{"stride", int64_t{1}}}, {{3, 4, 6, 7}}},
      {"avg_pool2d", {x}, {{"padding", int64_t{1}}}, {{0.25, 1.25, 2.75, 7}}},
      {"avg_pool2d_grad",
       {dy},
       {{"stride", int64_t{1}}, {"input_size", Ints{3, 3}}},
       {{0.25, 0.75, 0.5, 1, 2.5, 1.5, 0.75, 1.75, 1}}},
  });
}

// The example of ir/ops/nn_moe.cpp: token 3 finds no slot.
TEST(ReferenceNn, ExpertsTakeTokensInOrder) {
  const HostTensor x = tensor("float32[4, 1]", {1, 2, 3, 4}), index = tensor("int64[4, 1]", {0, 1, 0, 0});
  const HostTensor y = tensor("float32[2, 2, 1]", {10, 30, 20, 0});
  const Attrs sizes = {{"experts", int64_t{2}}, {"capacity", int64_t{2}}};
  expect_values({
      {"moe_dispatch", {x, index}, sizes, {{1, 3, 2, 0}}},
      {"moe_dispatch_grad", {y, index}, {}, {{10, 20, 30, 0}}},
      {"moe_combine", {y, index, tensor("float32[4, 1]", {1, 1, 0.5, 1})}, {}, {{10, 20, 15, 0}}},
      // two groups of two tokens are counted separately, and nothing is dropped
      {"moe_dispatch",
       {tensor("float32[2, 2, 1]", {1, 2, 3, 4}), tensor("int64[2, 2, 1]", {0, 1, 0, 0})},
       sizes,
       {{1, 0, 2, 0, 3, 4, 0, 0}}},
  });
}

// Classes 0 and 1 are the first part, which draws two, 2 and 3 the second, which draws one.
TEST(ReferenceNn, SamplesHaveTheClassesOfLabels) {
  const HostTensor table = tensor("float32[4, 2]", {1, 2, 3, 4, 5, 6, 7, 8});
  const HostTensor labels = tensor("int64[3]", {3, 0, 3});
  const Attrs rows = {{"samples", int64_t{3}}, {"parts", int64_t{2}}};
  const Attrs gradient = {{"classes", int64_t{4}}, {"parts", int64_t{2}}};
  const Attrs places = {{"classes", int64_t{4}}, {"samples", int64_t{3}}, {"parts", int64_t{2}}};
  expect_values({
      {"sample_rows", {table, labels}, rows, {{1, 2, 3, 4, 7, 8}}},
      {"sample_rows_grad",
       {tensor("float32[3, 2]", {1, 2, 3, 4, 5, 6}), labels},
       gradient,
       {{1, 2, 3, 4, 0, 0, 5, 6}}},
      {"sample_labels", {labels}, places, {{2, 0, 2}}},
  });
}

// 3 of the 8 other classes are drawn beside the label's: each in 3 of 8 steps.
TEST(ReferenceNn, SamplesAreDrawnAnewInEachStep) {
  Values numbers(9);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<double>(i);
  const HostTensor table = tensor("float32[9, 1]", numbers), label = tensor("int64[1]", {6});
  Values drawn(9, 0);
  constexpr int steps = 2000;
  for (int64_t step = 0; step < steps; ++step) {
    const Tensors rows = run("sample_rows", {table, label}, {{"samples", int64_t{4}}, {"step", step}});
    for (const double row : rows[0].data) drawn.at(static_cast<size_t>(row)) += 1.0 / steps;
  }
  for (size_t i = 0; i < drawn.size(); ++i)
    EXPECT_NEAR(drawn[i], i == 6 ? 1 : 3 / 8., i == 6 ? 1e-9 : 0.045) << i;  // 4 standard deviations
}

// Both labels are of the second part, which draws one class.
TEST(ReferenceNn, SamplesWithoutRoomForLabelsAreNoNumbers) {
  const HostTensor table = tensor("float32[4, 1]", {1, 2, 3, 4}), labels = tensor("int64[2]", {3, 2});
  const Tensors rows = run("sample_rows", {table, labels}, {{"samples", int64_t{2}}, {"parts", int64_t{2}}});
  for (const double value : rows[0].data) EXPECT_TRUE(std::isnan(value));
  const Tensors gradient = run("sample_rows_grad", {tensor("float32[2, 1]", {1, 2}), labels},
                               {{"classes", int64_t{4}}, {"parts", int64_t{2}}});
  for (const double value : gradient[0].data) EXPECT_TRUE(std::isnan(value));
}

TEST(ReferenceNn, DropoutDrawsByGlobalElement) {
  const HostTensor ones = tensor("float32[100, 100]", Values(10000, 1));
  const Attrs attrs = {{"p", 0.25}, {"seed", int64_t{5}}, {"step", int64_t{2}}};
  const HostTensor whole = run("dropout", {ones}, attrs)[0];
  double kept = 0;
  for (double x : whole.data) {
    EXPECT_TRUE(x == 0 || x == 1 / 0.75);
    kept += x != 0;
  }
  EXPECT_NEAR(kept / 10000, 0.75, 0.02);  // 4 standard deviations are 0.017

  Attrs part = attrs;
  part.insert({{"shape", Ints{100, 100}}, {"starts", Ints{40, 7}}});
  const std::vector<sbp::Range> ranges = {{40, 60}, {7, 17}};
  EXPECT_EQ(run("dropout", {take(ones, ranges)}, part)[0].data, take(whole, ranges).data);

  Attrs next = attrs;
  next["step"] = int64_t{3};
  EXPECT_NE(run("dropout", {ones}, next)[0].data, whole.data);
}

// Two micro-batches drop the same elements as the whole batch, split over devices or not.
TEST(ReferenceNn, DropoutCountsOnOverMicroBatches) {
  const HostTensor batch = tensor("float32[40, 10]", Values(400, 1));
  const Attrs attrs = {{"p", 0.25}, {"seed", int64_t{5}}};
  const HostTensor whole = run("dropout", {batch}, attrs)[0];
  Attrs second = attrs;
  second["micro_batch"] = int64_t{1};
  const std::vector<sbp::Range> rows = {{20, 40}, {0, 10}}, part = {{20, 40}, {3, 7}};
  EXPECT_EQ(run("dropout", {take(batch, rows)}, second)[0].data, take(whole, rows).data);
  second.insert({{"shape", Ints{20, 10}}, {"starts", Ints{0, 3}}});
  EXPECT_EQ(run("dropout", {take(batch, part)}, second)[0].data, take(whole, part).data);
}

// Every backend must draw these numbers: changing them changes every training run.
TEST(Random, IsPinned) {
  EXPECT_EQ(mix(0), 0xe220a8397b1dcdafu);  // SplitMix64's first number of seed 0
  const RandomKey key = random_key(1, 2, 4);
  EXPECT_EQ(uniform(key, 0), 14071341 * 0x1p-24);
  EXPECT_EQ(uniform(key, 1), 2683584 * 0x1p-24);
  EXPECT_EQ(uniform(key, 1000000), 14061736 * 0x1p-24);
  EXPECT_NE(uniform(key, 0), uniform(random_key(1, 4, 2), 0));
}

// With local statistics each device normalises with its own, so a split batch gives each part's own result.
TEST(ReferenceNn, LocalBatchNormUsesThePartsStatistics) {
  const HostTensor x = tensor("float32[4, 1]", {0, 2, 10, 30});
  const HostTensor gamma = tensor("float32[1]", {1}), beta = tensor("float32[1]", {0});
  const Attrs attrs = {{"eps", 0.0}, {"local", true}};
  const std::vector<sbp::Range> second = {{2, 4}, {0, 1}};
  EXPECT_EQ(run("batch_norm", {take(x, second), gamma, beta}, attrs)[0].data, (Values{-1, 1}));
}

}  // namespace
}  // namespace boxcar::backends::cpu

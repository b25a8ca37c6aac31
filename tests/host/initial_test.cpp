// Initial weights: each tensor's rule, and parts as parts of one whole.
#include "backends/host/initial.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

namespace boxcar::backends::host {
namespace {

std::vector<double> drawn(const std::string& tensor, const ir::Shape& shape, std::vector<sbp::Range> ranges,
                          int64_t seed = 1) {
  int64_t elements = 1;
  for (const sbp::Range& range : ranges) elements *= range.size();
  std::vector<double> out(static_cast<size_t>(elements));
  fill_initial(tensor, shape, ranges, initial_rule(tensor, 2), seed, out);
  return out;
}

TEST(Initial, RulesAreGpt2s) {
  const auto expect = [](const char* tensor, double mean, double deviation) {
    const InitialRule rule = initial_rule(tensor, 8);
    EXPECT_EQ(rule.mean, mean) << tensor;
    EXPECT_DOUBLE_EQ(rule.deviation, deviation) << tensor;
  };
  expect("embedding.word", 0, 0.02);
  expect("embedding.position", 0, 0.02);
  expect("h11.attn.qkv.weight", 0, 0.02);
  expect("h11.attn.qkv.bias", 0, 0);
  expect("h0.attn.proj.weight", 0, 0.005);  // 0.02 / sqrt(2 x 8)
  expect("h0.mlp.fc2.weight", 0, 0.005);
  expect("h0.mlp.fc1.weight", 0, 0.02);
  expect("h0.mlp.router.weight", 0, 0.02);
  expect("h0.ln1.weight", 1, 0);
  expect("h0.ln2.bias", 0, 0);
  expect("ln_f.weight", 1, 0);
  expect("head.weight", 0, 0.02);
  expect("h0.norm1.gamma", 1, 0);
  expect("h0.norm1.beta", 0, 0);
  EXPECT_DOUBLE_EQ(initial_rule("h0.conv1.weight", 8, {64, 2, 3, 3}).deviation, 1.0 / 3);  // of 18 numbers
  EXPECT_DOUBLE_EQ(initial_rule("h0.attn.qkv.lora_a.weight", 8, {12, 4}).deviation, 1.0 / 6);
  EXPECT_EQ(initial_rule("h0.attn.qkv.lora_b.weight", 8, {4, 12}).deviation, 0);  // nothing is added at first
  expect("h0.ln1.weight.m", 0, 0);
  expect("embedding.word.v", 0, 0);
}

TEST(Initial, IsNormal) {
  const std::vector<double> x = drawn("embedding.word", {200, 500}, {{0, 200}, {0, 500}});
  const double n = static_cast<double>(x.size());
  double moment[5] = {};
  for (double value : x)
    for (int k = 1; k <= 4; ++k) moment[k] += std::pow(value / 0.02, k) / n;
  EXPECT_NEAR(moment[1], 0, 4 / std::sqrt(n));
  EXPECT_NEAR(moment[2], 1, 4 * std::sqrt(2 / n));
  EXPECT_NEAR(moment[3], 0, 4 * std::sqrt(15 / n));
  EXPECT_NEAR(moment[4], 3, 4 * std::sqrt(96 / n));
}

TEST(Initial, APartIsWhatTheWholeHasThere) {
  const std::vector<double> whole = drawn("h0.mlp.fc1.weight", {5, 7}, {{0, 5}, {0, 7}});
  const std::vector<double> part = drawn("h0.mlp.fc1.weight", {5, 7}, {{2, 4}, {3, 7}});
  for (size_t row = 0; row < 2; ++row)
    for (size_t column = 0; column < 4; ++column)
      EXPECT_EQ(part[row * 4 + column], whole[(row + 2) * 7 + column + 3]);
  EXPECT_TRUE(drawn("h0.mlp.fc1.weight", {5, 7}, {{5, 5}, {0, 7}}).empty());
}

TEST(Initial, DependsOnSeedAndName) {
  const auto first = drawn("embedding.word", {2, 3}, {{0, 2}, {0, 3}});
  EXPECT_EQ(first, drawn("embedding.word", {2, 3}, {{0, 2}, {0, 3}}));
  EXPECT_NE(first, drawn("embedding.word", {2, 3}, {{0, 2}, {0, 3}}, 2));
  EXPECT_NE(first, drawn("head.weight", {2, 3}, {{0, 2}, {0, 3}}));
}

}  // namespace
}  // namespace boxcar::backends::host

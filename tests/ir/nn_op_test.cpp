// Neural-network ops: rules that other systems lack, attributes of parts, work, shapes and messages.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/op.h"
#include "op_texts.h"
#include "sbp/error.h"

namespace boxcar::ir {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsSupersetOf;
using testing::Not;
using Ints = std::vector<int64_t>;

// Localized attributes of part `index` of `parts`, where they differ from `attrs`.
std::string told(const char* name, const std::vector<std::string>& inputs, const Attrs& attrs,
                 const char* signature, int64_t parts, int64_t index) {
  const Attrs whole = complete(op(name), attrs);
  Attrs changed;
  for (const auto& entry :
       localize(op(name), types(inputs), whole, sbp::parse_signature(signature), parts, index)) {
    if (whole.at(entry.first) != entry.second) changed.insert(entry);
  }
  return to_text(changed);
}

Work work_of(const char* name, const std::vector<std::string>& inputs, const Attrs& attrs = {}) {
  const Attrs full = complete(op(name), attrs);
  return work(op(name), types(inputs), op(name).infer(types(inputs), full), full);
}

// --- rules

TEST(NnRules, OfEmbeddingSplitTheVocabulary) {
  EXPECT_THAT(
      rules("embedding", {"float32[8, 4]", "int64[2, 3]"}),
      ElementsAre("B, B -> B", "S(1), B -> S(2)", "B, S(0) -> S(0)", "B, S(1) -> S(1)", "P(sum), B -> P(sum)",
                  "P(max), B -> P(max)", "P(min), B -> P(min)", "S(0), B -> P(sum)"));
  EXPECT_EQ(told("embedding", {"float32[8, 4]", "int64[6]"}, {}, "S(0), B -> P(sum)", 3, 2), "{offset=6}");
  EXPECT_EQ(
      told("embedding_grad", {"float32[6, 4]", "int64[6]"}, {{"rows", int64_t{8}}}, "B, B -> S(0)", 3, 2),
      "{offset=6, rows=2}");
}

TEST(NnRules, OfSampledClassesKeepPartsWhole) {
  const auto split_over = [](const Attrs& attrs, int64_t devices) {
    return rules("sample_rows", {"float32[24, 4]", "int64[6]"}, attrs, devices);
  };
  const Attrs four{{"samples", int64_t{12}}, {"parts", int64_t{4}}};
  EXPECT_THAT(split_over(four, 2),
              ElementsAre("B, B -> B", "S(1), B -> S(1)", "P(sum), B -> P(sum)", "P(max), B -> P(max)",
                          "P(min), B -> P(min)", "S(0), B -> S(0)"));
  EXPECT_THAT(split_over(four, 4), testing::Contains("S(0), B -> S(0)"));
  EXPECT_THAT(split_over(four, 3), testing::Not(testing::Contains("S(0), B -> S(0)")));
  // of 10 samples in four parts, two devices would have 5 each, their parts 6 and 4
  EXPECT_THAT(split_over({{"samples", int64_t{10}}, {"parts", int64_t{4}}}, 2),
              testing::Not(testing::Contains("S(0), B -> S(0)")));
  EXPECT_EQ(told("sample_rows", {"float32[24, 4]", "int64[6]"}, four, "S(0), B -> S(0)", 2, 1),
            "{first=12, parts=2, samples=6}");
  EXPECT_EQ(told("sample_rows_grad", {"float32[12, 4]", "int64[6]"},
                 {{"classes", int64_t{24}}, {"parts", int64_t{4}}}, "S(0), B -> S(0)", 4, 3),
            "{classes=6, first=18, parts=1}");
}

// Figure 11 of the paper: softmax and loss over split classes, with a small exchange per row.
TEST(NnRules, OfLossesSplitTheClasses) {
  EXPECT_THAT(rules("reduce_max", {"float32[4, 8]"}, {{"axes", Ints{-1}}}), Contains("S(1) -> P(max)"));
  EXPECT_THAT(rules("sum_exp", {"float32[4, 8]", "float32[4]"}), Contains("S(1), B -> P(sum)"));
  EXPECT_THAT(rules("pick", {"float32[4, 8]", "int64[4]"}), Contains("S(1), B -> P(sum)"));
  EXPECT_THAT(
      rules("cross_entropy_grad", {"float32[4]", "float32[4, 8]", "float32[4]", "float32[4]", "int64[4]"}),
      Contains("B, S(1), B, B, B -> S(1)"));
  EXPECT_EQ(told("pick", {"float32[4, 8]", "int64[4]"}, {}, "S(1), B -> P(sum)", 2, 1), "{offset=4}");
}

TEST(NnRules, OfLinearGradientsKeepPartialSums) {
  EXPECT_THAT(rules("softmax_grad", {"float32[4, 8]", "float32[4, 8]"}), Contains("P(sum), B -> P(sum)"));
  EXPECT_THAT(rules("dropout_grad", {"float32[4, 8]"}), Contains("P(sum) -> P(sum)"));
  EXPECT_THAT(
      rules("layer_norm_grad", {"float32[4, 8]", "float32[4, 8]", "float32[8]", "float32[4]", "float32[4]"}),
      ElementsAre("B, B, B, B, B -> B, B, B", "S(0), S(0), B, S(0), S(0) -> S(0), P(sum), P(sum)",
                  "P(sum), B, B, B, B -> P(sum), P(sum), P(sum)", "B, B, P(sum), B, B -> P(sum), B, B"));
}

const std::vector<std::string> kGrouped = {"float16[2, 8, 6, 4]", "float16[2, 2, 6, 4]",
                                           "float16[2, 2, 6, 4]"};
const char* kAttention = "scaled_dot_product_attention";

TEST(NnRules, OfAttentionSplitBatchHeadsAndQueries) {
  EXPECT_THAT(rules(kAttention, kGrouped),
              ElementsAre("B, B, B -> B, B", "S(0), S(0), S(0) -> S(0), S(0)", "S(2), B, B -> S(2), S(2)",
                          "S(1), B, B -> S(1), S(1)", "B, B, S(3) -> S(3), B", "B, B, P(sum) -> P(sum), B",
                          "S(1), S(1), S(1) -> S(1), S(1)"));
  // 2 key heads over 4 devices: no device would have whole groups, so the keys stay whole.
  EXPECT_THAT(rules(kAttention, kGrouped, {}, 4), Not(Contains("S(1), S(1), S(1) -> S(1), S(1)")));
  EXPECT_EQ(told(kAttention, kGrouped, {}, "S(1), B, B -> S(1), S(1)", 4, 3), "{group=4, head_offset=6}");
  EXPECT_EQ(told(kAttention, kGrouped, {}, "S(1), S(1), S(1) -> S(1), S(1)", 2, 1), "{}");
  EXPECT_EQ(told(kAttention, kGrouped, {{"causal", true}}, "S(2), B, B -> S(2), S(2)", 2, 1), "{offset=3}");
  EXPECT_EQ(told(kAttention, kGrouped, {{"p", 0.5}}, "S(1), S(1), S(1) -> S(1), S(1)", 2, 1),
            "{shape=[2, 8, 6, 6], starts=[0, 4, 0, 0]}");
}

// With out and lse available, keys can be split as well: ring attention.
TEST(NnRules, OfAttentionsGradientSplitKeys) {
  const std::vector<std::string> inputs = {"float16[2, 8, 6, 4]", kGrouped[0],           kGrouped[1],
                                           kGrouped[2],           "float16[2, 8, 6, 4]", "float32[2, 8, 6]"};
  EXPECT_THAT(rules("scaled_dot_product_attention_grad", inputs),
              IsSupersetOf({"B, B, S(2), S(2), B, B -> P(sum), S(2), S(2)",
                            "S(2), S(2), B, B, S(2), S(2) -> S(2), P(sum), P(sum)"}));
  EXPECT_EQ(told("scaled_dot_product_attention_grad", inputs, {{"causal", true}},
                 "B, B, S(2), S(2), B, B -> P(sum), S(2), S(2)", 2, 1),
            "{offset=-3}");
}

TEST(NnRules, OfConvolutionsSplitChannels) {
  EXPECT_THAT(rules("conv2d", {"float32[4, 6, 7, 7]", "float32[8, 6, 3, 3]"}),
              ElementsAre("B, B -> B", "S(0), B -> S(0)", "B, S(0) -> S(1)", "S(1), S(1) -> P(sum)",
                          "P(sum), B -> P(sum)", "B, P(sum) -> P(sum)"));
  // Grouped convolutions split channels with their weights; 3 groups do not split over 2 devices.
  const Attrs grouped = {{"groups", int64_t{3}}};
  EXPECT_THAT(rules("conv2d", {"float32[4, 6, 7, 7]", "float32[9, 2, 3, 3]"}, grouped, 3),
              Contains("S(1), S(0) -> S(1)"));
  EXPECT_THAT(rules("conv2d", {"float32[4, 6, 7, 7]", "float32[9, 2, 3, 3]"}, grouped, 2),
              Not(Contains("S(1), S(0) -> S(1)")));
  // Patches do not overlap, so an image can be split between them.
  EXPECT_THAT(rules("conv2d", {"float32[4, 3, 8, 8]", "float32[8, 3, 2, 2]"}, {{"stride", int64_t{2}}}),
              IsSupersetOf({"S(2), B -> S(2)", "S(3), B -> S(3)"}));
}

TEST(NnRules, OfBatchNormSplitTheBatchOnlyWhereDeclared) {
  const std::vector<std::string> inputs = {"float32[4, 6, 7, 7]", "float32[6]", "float32[6]"};
  EXPECT_THAT(rules("batch_norm", inputs), Contains("S(1), S(0), S(0) -> S(1), S(0), S(0)"));
  EXPECT_THAT(rules("batch_norm", inputs), Not(Contains("S(0), B, B -> S(0), B, B")));
  EXPECT_THAT(rules("batch_norm", inputs, {{"local", true}}), Contains("S(0), B, B -> S(0), B, B"));
}

TEST(NnRules, OfExpertsSplitExpertsTokensAndGroups) {
  EXPECT_THAT(rules("moe_dispatch", {"float32[2, 6, 8]", "int64[2, 6, 2]"},
                    {{"experts", int64_t{4}}, {"capacity", int64_t{3}}}),
              ElementsAre("B, B -> B", "S(0), S(0) -> S(0)", "S(2), B -> S(3)", "P(sum), B -> P(sum)",
                          "P(max), B -> P(max)", "P(min), B -> P(min)", "B, B -> S(1)", "S(1), B -> P(sum)"));
  EXPECT_EQ(told("moe_dispatch", {"float32[6, 8]", "int64[6, 2]"},
                 {{"experts", int64_t{4}}, {"capacity", int64_t{3}}}, "B, B -> S(0)", 2, 1),
            "{expert_offset=2, experts=2}");
  EXPECT_EQ(told("moe_combine", {"float32[4, 3, 8]", "int64[6, 2]", "float32[6, 2]"}, {},
                 "B, B, S(0) -> S(0)", 2, 1),
            "{token_offset=3, tokens=3}");
}

// --- work

TEST(NnWork, OfAttentionCountsItsProducts) {
  const std::vector<std::string> inputs = {"float16[2, 8, 16, 4]", "float16[2, 2, 32, 4]",
                                           "float16[2, 2, 32, 4]"};
  const double products = 4.0 * 2 * 8 * 16 * 32 * 4;
  const double bytes = 2 * (2 * (2 * 8 * 16 * 4) + 2 * (2 * 2 * 32 * 4)) + 4 * (2 * 8 * 16);
  EXPECT_EQ(work_of(kAttention, inputs).flops, products);
  EXPECT_EQ(work_of(kAttention, inputs, {{"causal", true}}).flops, products / 2);
  // A window of 8 of 32 tokens leaves 8 x 32 - 8 x 8 / 2 = 224 of 1024 pairs.
  EXPECT_EQ(work_of(kAttention, inputs, {{"causal", true}, {"window", int64_t{8}}}).flops,
            products * 224 / 1024);
  // Four documents of 8 of 32 tokens: a quarter of the pairs, half of them hidden; each with a window of 4.
  EXPECT_EQ(work_of(kAttention, inputs, {{"causal", true}, {"document", int64_t{8}}}).flops, products / 8);
  EXPECT_EQ(
      work_of(kAttention, inputs, {{"causal", true}, {"document", int64_t{8}}, {"window", int64_t{4}}}).flops,
      products * (4 * 8 - 4 * 4 / 2) * 4 / 1024);
  EXPECT_EQ(work_of(kAttention, inputs).bytes, bytes);
  const std::vector<std::string> backward = {inputs[0], inputs[0], inputs[1],
                                             inputs[2], inputs[0], "float32[2, 8, 16]"};
  EXPECT_EQ(work_of("scaled_dot_product_attention_grad", backward).flops, 2.5 * products);
}

TEST(NnWork, OfConvolutionsIsTheSameForAllThree) {
  const double flops = 2.0 * 4 * 8 * 5 * 5 * 6 * 3 * 3;
  EXPECT_EQ(work_of("conv2d", {"float32[4, 6, 7, 7]", "float32[8, 6, 3, 3]"}).flops, flops);
  EXPECT_EQ(work_of("conv2d_input_grad", {"float32[4, 8, 5, 5]", "float32[8, 6, 3, 3]"},
                    {{"input_size", Ints{7, 7}}})
                .flops,
            flops);
  EXPECT_EQ(
      work_of("conv2d_weight_grad", {"float32[4, 8, 5, 5]", "float32[4, 6, 7, 7]"}, {{"kernel", Ints{3, 3}}})
          .flops,
      flops);
}

TEST(NnWork, OfMemoryBoundOpsIsTheirBytes) {
  EXPECT_EQ(work_of("layer_norm", {"float16[4, 8]", "float16[8]", "float16[8]"}).bytes,
            2 * (32 + 8 + 8 + 32) + 4 * (4 + 4));
  EXPECT_EQ(work_of("layer_norm", {"float16[4, 8]", "float16[8]", "float16[8]"}).flops, 0);
  // the rows read, not the whole table
  EXPECT_EQ(work_of("embedding", {"float16[50000, 8]", "int64[4]"}).bytes, 4 * 8 + 2 * (4 * 8) * 2);
  // statistics, then another pass over the values
  EXPECT_EQ(work_of("batch_norm", {"float32[4, 2]", "float32[2]", "float32[2]"}).bytes, 4 * (3 * 8 + 4 * 2));
}

// --- shapes and messages

TEST(NnInfer, KeepsStatisticsInFloat32) {
  EXPECT_EQ(inferred("layer_norm", {"bfloat16[2, 4, 8]", "bfloat16[8]", "bfloat16[8]"}),
            "bfloat16[2, 4, 8], float32[2, 4], float32[2, 4]");
  EXPECT_EQ(inferred("cross_entropy", {"float16[4, 8]", "int64[4]"}), "float32[4]");
  EXPECT_EQ(inferred(kAttention, kGrouped), "float16[2, 8, 6, 4], float32[2, 8, 6]");
}

TEST(NnInfer, GivesShapes) {
  EXPECT_EQ(inferred("embedding", {"float16[8, 4]", "int64[2, 3]"}), "float16[2, 3, 4]");
  EXPECT_EQ(inferred("conv2d", {"float32[4, 3, 224, 224]", "float32[64, 3, 7, 7]"},
                     {{"stride", int64_t{2}}, {"padding", int64_t{3}}}),
            "float32[4, 64, 112, 112]");
  EXPECT_EQ(inferred("max_pool2d", {"float32[4, 64, 112, 112]"},
                     {{"kernel", int64_t{3}}, {"stride", int64_t{2}}, {"padding", int64_t{1}}}),
            "float32[4, 64, 56, 56]");
  EXPECT_EQ(inferred("moe_combine", {"float16[4, 3, 8]", "int64[6, 2]", "float16[6, 2]"}), "float16[6, 8]");
}

struct NnRefusal {
  const char* name;
  std::vector<std::string> inputs;
  Attrs attrs;
  std::string message;
};

TEST(NnInfer, RefusesAndSaysWhy) {
  const NnRefusal refusals[] = {
      {"layer_norm",
       {"float32[4, 6]", "float32[5]", "float32[6]"},
       {},
       "layer_norm: gamma is float32[5], expected shape [6] to go with x float32[4, 6]"},
      {"softmax", {"int64[4]"}, {}, "softmax: x is int64[4], expected a floating-point type"},
      {"dropout",
       {"float32[4]"},
       {{"p", 1.0}},
       "dropout: p is 1.0, expected a probability of at least 0 and below 1"},
      {"rotary", {"float32[4, 5]"}, {}, "rotary: x is float32[4, 5], expected an even last dimension"},
      {"embedding",
       {"float32[8, 4]", "float32[2]"},
       {},
       "embedding: indices is float32[2], expected int64 or int32"},
      {"embedding_grad",
       {"float32[2, 4]", "int64[2]"},
       {},
       "embedding_grad: rows is -1, expected the number of rows of the table"},
      {"sample_rows",
       {"float32[8, 4]", "int64[2]"},
       {{"samples", int64_t{9}}},
       "sample_rows: samples is 9, expected at most one for each of 8 classes"},
      {"sample_rows",
       {"float32[8, 4]", "int64[2]"},
       {{"samples", int64_t{4}}, {"parts", int64_t{5}}},
       "sample_rows: parts is 5, expected 1 to 4, so that each draws a class"},
      {"sample_rows_grad",
       {"float32[8, 4]", "int64[2]"},
       {{"classes", int64_t{7}}},
       "sample_rows_grad: classes is 7, expected at least the 8 that are drawn"},
      {"sample_labels", {"float32[8]"}, {}, "sample_labels: labels is float32[8], expected int64 or int32"},
      {"cross_entropy",
       {"float32[4, 8]", "int64[5]"},
       {},
       "cross_entropy: labels is int64[5], expected shape [4] to go with logits float32[4, 8]"},
      {kAttention,
       {"float32[2, 8, 6, 4]", "float32[2, 3, 6, 4]", "float32[2, 3, 6, 4]"},
       {},
       "scaled_dot_product_attention: q is float32[2, 8, 6, 4], expected a multiple of the heads as k "
       "float32[2, 3, 6, "
       "4]"},
      {kAttention,
       {"float32[2, 8, 6, 4]", "float32[2, 2, 6, 5]", "float32[2, 2, 6, 5]"},
       {},
       "scaled_dot_product_attention: k is float32[2, 2, 6, 5], expected shape [2, 2, 6, 4] to go with q "
       "float32[2, 8, "
       "6, 4]"},
      {"conv2d",
       {"float32[4, 6, 7, 7]", "float32[8, 5, 3, 3]"},
       {},
       "conv2d: weight is float32[8, 5, 3, 3], expected the channels of x / groups 1 in its second axis as x "
       "float32[4, 6, 7, 7]"},
      {"conv2d",
       {"float32[4, 6, 2, 7]", "float32[8, 6, 3, 3]"},
       {},
       "conv2d: x is float32[4, 6, 2, 7], expected axis 2 to hold a kernel of 3 with padding 0"},
      {"avg_pool2d",
       {"float32[4, 6, 7, 7]"},
       {{"stride", int64_t{-1}}},
       "avg_pool2d: stride is -1, expected at least 1"},
      {"moe_dispatch",
       {"float32[6, 8]", "int64[5, 2]"},
       {{"experts", int64_t{4}}, {"capacity", int64_t{3}}},
       "moe_dispatch: x is float32[6, 8], expected shape [5, 8] to go with index int64[5, 2]"},
      {"moe_dispatch", {"float32[6, 8]", "int64[6, 2]"}, {}, "moe_dispatch: experts is -1, expected a count"},
      {"conv2d",
       {"float32[4, 6, 7, 7]", "float32[8, 6, 3, 3]"},
       {{"groups", INT64_MAX}},
       "conv2d: groups is 9223372036854775807, expected numbers from -2147483648 to 2147483648"},
      {"dropout",
       {"float32[4, 6]"},
       {{"shape", std::vector<int64_t>{8, 6}}, {"starts", std::vector<int64_t>{5, 0}}},
       "dropout: starts is [5, 0], expected where float32[4, 6] begins in a tensor of shape [8, 6]"},
      {"dropout",
       {"float32[4]"},
       {{"shape", std::vector<int64_t>{4, 4}}, {"starts", std::vector<int64_t>{0, 0}}},
       "dropout: starts is [0, 0], expected where float32[4] begins in a tensor of shape [4, 4]"},
  };
  for (const NnRefusal& r : refusals) EXPECT_EQ(inferred(r.name, r.inputs, r.attrs), r.message);
}

}  // namespace
}  // namespace boxcar::ir

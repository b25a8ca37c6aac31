// The registry: look-up, attributes, work, the rules of the paper's Table 1; and infer's messages about bad
// operands.
#include "ir/op.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "op_texts.h"
#include "sbp/error.h"

namespace boxcar::ir {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Registry, IsSortedAndNamesAreUnique) {
  std::set<std::string> names;
  std::string last;
  for (const OpDef& def : all_ops()) {
    EXPECT_LT(last, def.name);
    last = def.name;
    EXPECT_EQ(&op(def.name), &def);
  }
  EXPECT_TRUE(has_op("matmul"));
  EXPECT_FALSE(has_op("matmull"));
}

TEST(Registry, SuggestsTheNearestName) {
  try {
    op("matmull");
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "matmull: no such op (did you mean matmul?)");
  }
}

TEST(Attributes, AreCompletedAndChecked) {
  EXPECT_EQ(to_text(complete(op("matmul"), {{"transpose_b", true}})),
            "{transpose_a=false, transpose_b=true}");
  EXPECT_EQ(attr_float(complete(op("scale"), {{"factor", int64_t{2}}}), "factor"), 2.0);
  EXPECT_THAT(
      [] {
        complete(op("matmul"), {{"transposeb", true}});
      },
      testing::ThrowsMessage<Error>("matmul: no attribute transposeb; known are transpose_a, transpose_b"));
  EXPECT_THAT(
      [] {
        complete(op("relu"), {{"axis", int64_t{1}}});
      },
      testing::ThrowsMessage<Error>("relu: no attribute axis; it has none"));
  EXPECT_THAT(
      [] {
        complete(op("matmul"), {{"transpose_b", int64_t{1}}});
      },
      testing::ThrowsMessage<Error>("matmul: attribute transpose_b is 1, expected true or false"));
}

// Table 1 of the paper.
TEST(Rules, OfMatmulAreTable1) {
  EXPECT_THAT(rules("matmul", {"float32[4, 6]", "float32[6, 8]"}),
              ElementsAre("B, B -> B", "S(0), B -> S(0)", "B, S(1) -> S(1)", "S(1), S(0) -> P(sum)",
                          "P(sum), B -> P(sum)", "B, P(sum) -> P(sum)"));
}

TEST(Rules, WhereOthersHaveNone) {
  EXPECT_THAT(rules("gather", {"float32[8, 4]", "int64[6]"}),
              ElementsAre("B, B -> B", "S(1), B -> S(1)", "B, S(0) -> S(0)", "S(0), B -> P(sum)",
                          "P(sum), B -> P(sum)", "P(max), B -> P(max)", "P(min), B -> P(min)"));
  EXPECT_THAT(rules("relu_grad", {"float32[4]", "float32[4]"}),
              ElementsAre("B, B -> B", "S(0), S(0) -> S(0)", "P(sum), B -> P(sum)", "P(max), B -> P(max)",
                          "P(min), B -> P(min)"));
  EXPECT_THAT(rules("reshape", {"float32[6, 4]"}, {{"shape", std::vector<int64_t>{2, 3, 4}}}),
              ElementsAre("B -> B", "P(sum) -> P(sum)", "P(max) -> P(max)", "P(min) -> P(min)",
                          "S(0) -> S(0)", "S(1) -> S(2)"));
}

TEST(Rules, OfManyUpdatesAreNotAllListed) {
  Attrs attrs = {{"tensors", int64_t{40}}};
  const std::vector<std::string> inputs(80, "float32[4, 6]");
  EXPECT_EQ(op("sgd_all").infer(types(inputs), complete(op("sgd_all"), attrs)).size(), 40);
  EXPECT_LE(rules("sgd_all", inputs, attrs).size(), 4096);
}

TEST(Localize, GivesAPartItsOffsetAndCount) {
  const OpDef& gather = op("gather");
  Types inputs = types({"float32[8, 4]", "int64[6]"});
  auto signature = sbp::parse_signature("S(0), B -> P(sum)");
  Attrs local = localize(gather, inputs, complete(gather, {}), signature, 4, 3);
  EXPECT_EQ(to_text(local), "{axis=0, below=0, offset=6}");
  const OpDef& mean = op("reduce_mean");
  local = localize(mean, types({"float32[8, 4]"}), complete(mean, {}), sbp::parse_signature("S(0) -> P(sum)"),
                   4, 0);
  EXPECT_EQ(attr_int(local, "count"), 32);
}

TEST(Work, OfProductsIsTwoFlopsPerTerm) {
  Types inputs = types({"float16[4, 6]", "float16[6, 8]"});
  const OpDef& matmul = op("matmul");
  Work w = work(matmul, inputs, matmul.infer(inputs, matmul.attrs), matmul.attrs);
  EXPECT_EQ(w.flops, 2 * 4 * 6 * 8);
  EXPECT_EQ(w.bytes, 2 * (4 * 6 + 6 * 8 + 4 * 8));
  EXPECT_EQ(matmul.family, Family::matmul);

  Attrs transposed = complete(matmul, {{"transpose_a", true}});
  inputs = types({"float16[6, 4]", "float16[6, 8]"});
  EXPECT_EQ(work(matmul, inputs, matmul.infer(inputs, transposed), transposed).flops, 2 * 4 * 6 * 8);

  const OpDef& grad = op("matmul_weight_grad");
  inputs = types({"float16[2, 5, 6]", "float16[2, 5, 8]"});
  EXPECT_EQ(work(grad, inputs, grad.infer(inputs, {}), {}).flops, 2 * (2 * 5) * 6 * 8);

  const OpDef& batch = op("batch_matmul");
  inputs = types({"float16[3, 4, 6]", "float16[3, 6, 8]"});
  EXPECT_EQ(work(batch, inputs, batch.infer(inputs, batch.attrs), batch.attrs).flops, 2 * 3 * 4 * 6 * 8);
}

TEST(Work, OfMovementIsWhatMoves) {
  const OpDef& gather = op("gather");
  Types inputs = types({"float32[1000, 4]", "int64[6]"});
  EXPECT_EQ(work(gather, inputs, gather.infer(inputs, gather.attrs), gather.attrs).bytes,
            2 * 6 * 4 * 4 + 6 * 8);
  const OpDef& reshape = op("reshape");
  Attrs attrs = {{"shape", std::vector<int64_t>{24}}};
  inputs = types({"float32[4, 6]"});
  EXPECT_EQ(work(reshape, inputs, reshape.infer(inputs, attrs), attrs).bytes, 0);
  const OpDef& accumulate = op("accumulate");
  inputs = types({"float16[10]"});
  attrs = accumulate.attrs;
  EXPECT_EQ(work(accumulate, inputs, accumulate.infer(inputs, attrs), attrs).bytes, 10 * 2 + 2 * 10 * 4);
}

TEST(Infer, GivesShapesAndTypes) {
  using Ints = std::vector<int64_t>;
  EXPECT_EQ(inferred("matmul", {"float32[2, 4, 6]", "float32[8, 6]"}, {{"transpose_b", true}}),
            "float32[2, 4, 8]");
  EXPECT_EQ(inferred("matmul_weight_grad", {"float16[2, 4, 6]", "float16[2, 4, 8]"}), "float16[6, 8]");
  EXPECT_EQ(inferred("add", {"float32[4, 1]", "float32[6]"}), "float32[4, 6]");
  EXPECT_EQ(inferred("reduce_sum", {"float32[4, 6, 2]"}, {{"axes", Ints{-1, 0}}}), "float32[6]");
  EXPECT_EQ(inferred("reduce_sum", {"float32[4, 6]"}, {{"keepdims", true}}), "float32[1, 1]");
  EXPECT_EQ(inferred("reshape", {"float32[4, 6]"}, {{"shape", Ints{8, -1}}}), "float32[8, 3]");
  EXPECT_EQ(inferred("gather", {"float16[8, 4]", "int64[2, 3]"}), "float16[2, 3, 4]");
  EXPECT_EQ(inferred("gather_grad", {"float16[2, 3, 4]", "int64[2, 3]"}, {{"extent", int64_t{8}}}),
            "float16[8, 4]");
  EXPECT_EQ(inferred("concat", {"float32[4, 6]", "float32[4, 2]"}, {{"axis", int64_t{-1}}}), "float32[4, 8]");
  EXPECT_EQ(inferred("top_k", {"float32[4, 6]"}, {{"k", int64_t{2}}}), "float32[4, 2], int64[4, 2]");
  EXPECT_EQ(inferred("cast", {"float32[4]"}, {{"to", "bfloat16"}}), "bfloat16[4]");
  EXPECT_EQ(inferred("adam", {"float32[4]", "float16[4]", "float32[4]", "float32[4]"}),
            "float32[4], float32[4], float32[4]");
}

struct Refusal {
  const char* name;
  std::vector<std::string> inputs;
  Attrs attrs;
  std::string message;
};

// Whole messages: op, operand, the value found, the value expected, and the operand that requires it.
TEST(Infer, RefusesAndSaysWhy) {
  using Ints = std::vector<int64_t>;
  const Refusal refusals[] = {
      {"matmul",
       {"float32[4, 6]", "float32[5, 8]"},
       {},
       "matmul: b is float32[5, 8], expected 6 rows, to match the columns, as a float32[4, 6]"},
      {"matmul", {"float32[4, 6]"}, {}, "matmul: got 1 operand (float32[4, 6]), expected (a, b)"},
      {"matmul",
       {"float32[4]", "float32[4, 8]"},
       {},
       "matmul: a is float32[4], expected at least 2 dimensions"},
      {"matmul",
       {"float32[4, 6]", "float32[2, 6, 8]"},
       {},
       "matmul: b is float32[2, 6, 8], expected 2 dimensions"},
      {"matmul",
       {"float32[4, 6]", "float16[6, 8]"},
       {},
       "matmul: b is float16[6, 8], expected the same element type as a float32[4, 6]"},
      {"batch_matmul",
       {"float32[3, 4, 6]", "float32[2, 6, 8]"},
       {},
       "batch_matmul: b is float32[2, 6, 8], expected the same batch dimensions as a float32[3, 4, 6]"},
      {"matmul_weight_grad",
       {"float32[4, 6]", "float32[5, 8]"},
       {},
       "matmul_weight_grad: dy is float32[5, 8], expected the same leading dimensions as x float32[4, 6]"},
      {"add",
       {"float32[4, 6]", "float32[4]"},
       {},
       "add: b is float32[4], expected extents that are equal or 1 as a float32[4, 6]"},
      {"relu_grad",
       {"float32[4]", "float32[5]"},
       {},
       "relu_grad: y is float32[5], expected the same type as dy float32[4]"},
      {"where",
       {"float32[4]", "float32[4]", "float32[4]"},
       {},
       "where: condition is float32[4], expected element type boolean"},
      {"reduce_sum",
       {"float32[4, 6]"},
       {{"axes", Ints{2}}},
       "reduce_sum: axes is 2, expected -2 to 1 for float32[4, 6]"},
      {"reduce_max",
       {"float32[4, 6]"},
       {{"axes", Ints{1, -1}}},
       "reduce_max: axes is [1, -1], expected each axis once"},
      {"reshape",
       {"float32[4, 6]"},
       {{"shape", Ints{5, 5}}},
       "reshape: shape is [5, 5], expected 24 elements as x float32[4, 6]"},
      {"transpose",
       {"float32[4, 6]"},
       {{"perm", Ints{0, 0}}},
       "transpose: perm is [0, 0], expected a permutation of the axes of x float32[4, 6]"},
      {"slice",
       {"float32[4, 6]"},
       {{"starts", Ints{0}}, {"ends", Ints{4, 6}}},
       "slice: starts is [0], expected 2 numbers, one per dimension"},
      {"slice",
       {"float32[4, 6]"},
       {{"starts", Ints{0, 3}}, {"ends", Ints{4, 7}}},
       "slice: ends is [4, 7], expected 0 <= start <= end <= extent for starts [0, 3] in x float32[4, 6]"},
      {"concat",
       {"float32[4, 6]", "float32[5, 6]"},
       {{"axis", int64_t{1}}},
       "concat: x1 is float32[5, 6], expected the same type but for axis 1 as x0 float32[4, 6]"},
      {"broadcast_to",
       {"float32[4, 6]"},
       {{"shape", Ints{4, 7}}},
       "broadcast_to: x is float32[4, 6], expected extents 1 or those of float32[4, 7]"},
      {"gather",
       {"float32[4, 6]", "float32[2]"},
       {},
       "gather: indices is float32[2], expected element type int64 or int32"},
      {"gather_grad",
       {"float32[3, 6]", "int64[2]"},
       {},
       "gather_grad: dy is float32[3, 6], expected from axis 0 on the dimensions as indices int64[2]"},
      {"top_k",
       {"float32[4, 6]"},
       {{"k", int64_t{7}}},
       "top_k: k is 7, expected 0 to the last extent of x float32[4, 6]"},
      {"top_k",
       {"float32[4, 6]"},
       {{"groups", int64_t{4}}},
       "top_k: groups is 4, expected a divisor of the last extent of x float32[4, 6]"},
      {"top_k",
       {"float32[4, 6]"},
       {{"k", int64_t{3}}, {"groups", int64_t{3}}, {"top_groups", int64_t{1}}},
       "top_k: top_groups is 1, expected at most groups 3, with k 3 elements or more"},
      {"cast",
       {"float32[4]"},
       {{"to", "half"}},
       "\"half\": no such element type; known are float64, float32, float16, bfloat16, float8, int64, int32, "
       "int8, "
       "boolean"},
      {"adam",
       {"float32[4]", "float32[5]", "float32[4]", "float32[4]"},
       {},
       "adam: g is float32[5], expected the same shape as w float32[4]"},
      {"adam_all",
       {"float32[4]", "float32[4]", "float32[4]", "float32[4]", "float32[3]", "float32[5]", "float32[3]",
        "float32[3]"},
       {{"tensors", int64_t{2}}},
       "adam: g is float32[5], expected the same shape as w float32[3]"},
      {"sgd_all",
       {"float32[4]", "float32[4]", "float32[3]"},
       {{"tensors", int64_t{2}}},
       "sgd_all: 3 inputs, expected 2 for each of 2 tensors, then scale? finite?"},
      {"sgd_all", {"float32[4]"}, {{"tensors", int64_t{0}}}, "sgd_all: tensors is 0, expected at least 1"},
      {"sgd_all",
       {"float32[4]", "float32[4]"},
       {{"copies", Shape{1}}},
       "sgd_all: copies is [1], expected numbers of tensors, ascending, below 1"},
      {"broadcast_to",
       {"float32[]"},
       {{"shape", Ints{-3}}},
       "broadcast_to: makes float32[-3]: an extent is negative"},
      {"broadcast_to",
       {"float32[]"},
       {{"shape", Ints{1 << 21, 1 << 21, 1 << 21}}},
       "broadcast_to: makes float32[2097152, 2097152, 2097152]: its extents multiply to more than "
       "1152921504606846976"},
      {"slice_grad",
       {"float32[4]"},
       {{"starts", Ints{0}}, {"shape", Ints{INT64_MAX}}},
       "slice_grad: shape is [9223372036854775807], expected numbers from -2147483648 to 2147483648"},
      {"concat",
       {"float32[2147483648]", "float32[1]"},
       {},
       "concat: makes float32[2147483649]: an extent is beyond 2147483648"},
  };
  for (const Refusal& refusal : refusals) {
    EXPECT_EQ(inferred(refusal.name, refusal.inputs, refusal.attrs), refusal.message);
  }
}

}  // namespace
}  // namespace boxcar::ir

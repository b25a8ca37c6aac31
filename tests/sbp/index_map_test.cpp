#include "sbp/index_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sbp/error.h"

namespace boxcar::sbp {
namespace {

using testing::ElementsAre;
using testing::IsSupersetOf;

std::vector<std::string> derived(std::string_view map) {
  std::vector<std::string> texts;
  for (const Signature& signature : derive(parse_index_map(map))) texts.push_back(to_text(signature));
  return texts;
}

std::string message(std::string_view map) {
  try {
    parse_index_map(map);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::bad_input);
    return error.what();
  }
  return "no error";
}

TEST(IndexMap, TextReadsBack) {
  for (const char* text : {
           "m k, k n -> m n ; sum k ; linear 0 ; linear 1",
           "m k, k n, n -> m n ; sum k ; linear 0 2 ; linear 1 2 ; after 2",
           "i _ -> i _",
           "i j, 1 j -> i j ; linear 0 1",
           "i j -> i ; max j ; increasing 0",
           "i -> i, i",
           "i ->  ; sum i",
           " -> ",
           ",  -> , ",
       }) {
    EXPECT_EQ(to_text(parse_index_map(text)), text);
  }
  EXPECT_EQ(to_text(parse_index_map("a b->a ;sum b;linear 0")), "a b -> a ; sum b ; linear 0");
  EXPECT_EQ(to_text(parse_index_map("a b -> ; sum a b")), "a b ->  ; sum a ; sum b");
}

TEST(IndexMap, BadTextNamesThePlace) {
  const std::pair<const char*, const char*> cases[] = {
      {"m k", R"~(index map "m k": expected an index, "," or "->" at the end)~"},
      {"m k -> m ! n", R"~(index map "m k -> m ! n": expected an index, "," or ";" at "! n")~"},
      {"m k -> m ; sum", R"~(index map "m k -> m ; sum": expected an index at the end)~"},
      {"m k -> m ; sum n", R"~(index map "m k -> m ; sum n": no input has index "n" at the end)~"},
      {"m _ -> m ; sum _", R"~(index map "m _ -> m ; sum _": no input has index "_" at the end)~"},
      {"m -> m ; linear", R"~(index map "m -> m ; linear": expected an input at the end)~"},
      {"m -> m ; linear 1", R"~(index map "m -> m ; linear 1": expected an input of at most 0 at "1")~"},
      {"m -> m ; affine 0",
       R"~(index map "m -> m ; affine 0": unknown clause "affine", expected sum, max, min, linear, increasing, decreasing or after at "0")~"},
  };
  for (const auto& [text, expected] : cases) EXPECT_EQ(message(text), expected);
}

TEST(Signature, TextReadsBack) {
  for (const char* text : {"S(1), S(0) -> P(sum)", "B -> B, S(0)", "P(max) -> P(min)"})
    EXPECT_EQ(to_text(parse_signature(text)), text);
  EXPECT_THROW(parse_signature("S(0)"), Error);
  EXPECT_THROW(parse_signature("S(0) -> B B"), Error);
}

// Table 1 of the paper, all six rows and nothing else.
TEST(Paper, Table1) {
  EXPECT_THAT(derived("m k, k n -> m n ; sum k ; linear 0 ; linear 1"),
              ElementsAre("B, B -> B", "S(0), B -> S(0)", "B, S(1) -> S(1)", "S(1), S(0) -> P(sum)",
                          "P(sum), B -> P(sum)", "B, P(sum) -> P(sum)"));
}

// Table 3: one signature of Table 1 per mesh dimension.
TEST(Paper, Table3) {
  const auto matmul = derive(parse_index_map("m k, k n -> m n ; sum k ; linear 0 ; linear 1"));
  std::vector<std::string> rows;
  for (const Signature& outer : matmul)
    for (const Signature& inner : matmul)
      rows.push_back(to_text(NdSbp{outer.inputs[0], inner.inputs[0]}) + " " +
                     to_text(NdSbp{outer.inputs[1], inner.inputs[1]}) + " " +
                     to_text(NdSbp{outer.outputs[0], inner.outputs[0]}));
  EXPECT_EQ(rows.size(), 36u);
  EXPECT_THAT(rows,
              IsSupersetOf({"(S(0), B) (B, S(1)) (S(0), S(1))", "(S(0), S(1)) (B, S(0)) (S(0), P(sum))"}));
}

TEST(Derive, FusedBiasIsPartialWhereTheSumIsSplit) {
  EXPECT_THAT(derived("m k, k n, n -> m n ; sum k ; linear 0 2 ; linear 1 2 ; after 2"),
              ElementsAre("B, B, B -> B", "S(0), B, B -> S(0)", "B, S(1), S(0) -> S(1)",
                          "S(1), S(0), P(sum) -> P(sum)", "P(sum), B, P(sum) -> P(sum)",
                          "B, P(sum), P(sum) -> P(sum)"));
}

TEST(Derive, TermAddedAfterAMaxStaysB) {
  EXPECT_THAT(derived("i j, i -> i ; max j ; after 1"),
              ElementsAre("B, B -> B", "S(0), S(0) -> S(0)", "S(1), B -> P(max)"));
}

TEST(Derive, JointlyLinear) {
  EXPECT_THAT(
      derived("i j, i j -> i j ; linear 0 1"),
      ElementsAre("B, B -> B", "S(0), S(0) -> S(0)", "S(1), S(1) -> S(1)", "P(sum), P(sum) -> P(sum)"));
}

TEST(Derive, BroadcastExtentStaysB) {
  EXPECT_THAT(derived("i j, 1 j -> i j ; linear 0 ; linear 1"),
              ElementsAre("B, B -> B", "S(0), B -> S(0)", "S(1), S(1) -> S(1)", "P(sum), B -> P(sum)",
                          "B, P(sum) -> P(sum)"));
}

TEST(Derive, ReductionsAndMonotoneInputs) {
  EXPECT_THAT(
      derived("i j -> i ; max j ; increasing 0"),
      ElementsAre("B -> B", "S(0) -> S(0)", "S(1) -> P(max)", "P(max) -> P(max)"));  // max of min: no rule
  EXPECT_THAT(derived("i j -> i 1 ; min j"), ElementsAre("B -> B", "S(0) -> S(0)", "S(1) -> P(min)"));
  EXPECT_THAT(
      derived("i -> i ; linear 0 ; decreasing 0"),
      ElementsAre("B -> B", "S(0) -> S(0)", "P(sum) -> P(sum)", "P(max) -> P(min)", "P(min) -> P(max)"));
}

TEST(Derive, UnsplittableAndScalar) {
  EXPECT_THAT(derived("i _ -> i _"), ElementsAre("B -> B", "S(0) -> S(0)"));
  EXPECT_THAT(derived("i -> ; sum i"), ElementsAre("B -> B", "S(0) -> P(sum)"));
  EXPECT_THAT(derived(" -> ; linear 0"), ElementsAre("B -> B", "P(sum) -> P(sum)"));
}

// An index that one output has and another sums (the gradient of layer_norm), or that another lacks.
TEST(Derive, SeveralOutputs) {
  EXPECT_THAT(derived("i j, i j -> i j, j ; sum i"),
              ElementsAre("B, B -> B, B", "S(0), S(0) -> S(0), P(sum)", "S(1), S(1) -> S(1), S(0)"));
  EXPECT_THAT(derived("i j -> i j, i"), ElementsAre("B -> B, B", "S(0) -> S(0), S(0)"));
}

TEST(Derive, IndexThatOnlyTheOutputHas) {
  EXPECT_THAT(derived("i -> i d"), ElementsAre("B -> B", "S(0) -> S(0)", "B -> S(1)"));
}

TEST(Derive, NothingFollowsFromADiagonalOrTwoReductions) {
  EXPECT_THAT(derived("i i -> i"), ElementsAre("B -> B"));
  EXPECT_THAT(derived("i j -> i ; sum j ; max j"), ElementsAre("B -> B", "S(0) -> S(0)"));
}

}  // namespace
}  // namespace boxcar::sbp

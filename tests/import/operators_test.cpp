// Operators by themselves: the results of an imported graph, which of its parameters are one, and refusals.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "onnx_models.h"

namespace boxcar::tests {
namespace {

using testing::DoubleNear;
using testing::HasSubstr;
using testing::Pointwise;

HostTensor x24(const Numbers& numbers) { return {{{2, 4}, DType::float32}, numbers}; }
const HostTensor counted = x24({1, 2, 3, 4, 5, 6, 7, 8});

// x.chunk(2, dim=-1) is exported so: the last extent, halved.
TEST(ImportOperators, CountKnownIndicesFromTheEnd) {
  const auto onnx =
      model({node("Shape", {"x"}, "shape"), node("Gather", {"shape", "last"}, "width"),
             node("Div", {"width", "two"}, "half"), node("Slice", {"x", "zero", "half", "one"}, "part"),
             node("Mul", {"part", "w"}, "y")},
            {{"last", wholes({-1})},
             {"two", wholes({2})},
             {"zero", wholes({0})},
             {"one", wholes({1})},
             {"w", floats({2}, {1, 3})}});
  EXPECT_EQ(run(onnx, counted).y, (Numbers{1, 6, 5, 18}));
}

// Exporters reverse lists of pads so.
TEST(ImportOperators, TakeEveryFewElementsOfListsThatAreKnown) {
  const auto shaped = [](const Numbers& list, int64_t start, int64_t end, int64_t step) {
    const auto onnx = model({node("Constant", {}, "list", {{"value", wholes(list)}}),
                             node("Slice", {"list", "start", "end", "zero", "step"}, "shape"),
                             node("Reshape", {"x", "shape"}, "rows"), node("Mul", {"rows", "w"}, "y")},
                            {{"start", wholes({static_cast<double>(start)})},
                             {"end", wholes({static_cast<double>(end)})},
                             {"zero", wholes({0})},
                             {"step", wholes({static_cast<double>(step)})},
                             {"w", floats({4}, {1, 1, 1, 2})}});
    try {
      return import_onnx(onnx, {.loss = "mean_squared"}).text;
    } catch (const Error& error) {
      return std::string(error.what());
    }
  };
  const auto rows = HasSubstr("%rows: float32[batch, 1, 4] = reshape(%x)");
  constexpr int64_t most = int64_t{1} << 62;
  EXPECT_THAT(shaped({4, 1, -1}, -1, -most, -1), rows);
  EXPECT_THAT(shaped({4, 1, -1}, most, -4, -1), rows);
  EXPECT_THAT(shaped({4, 9, 1, 9, -1}, 4, -6, -2), rows);
  EXPECT_THAT(shaped({-1, 9, 1, 9, 4, 9}, -6, most, 2), rows);
  EXPECT_THAT(shaped({9, 4, 1, -1}, -1, 0, -1), rows);
  EXPECT_THAT(shaped({4, 1, -1}, 1, 2, most), HasSubstr("Reshape"));
  EXPECT_EQ(shaped({4, 1, -1}, 0, 2, -1), "Slice /shape: picks no elements");
  EXPECT_EQ(shaped({4, 1, -1}, 0, 2, 0), "Slice /shape: has steps of 0");
}

TEST(ImportOperators, RefuseStepsOfData) {
  const auto onnx =
      model({node("Slice", {"x", "one", "four", "one", "two"}, "part"), node("Mul", {"part", "w"}, "y")},
            {{"one", wholes({1})}, {"four", wholes({4})}, {"two", wholes({2})}, {"w", floats({2}, {1, 1})}});
  EXPECT_EQ(error_of(onnx, {.loss = "mean_squared"}), "Slice /part: has steps of 2");
  const auto weight = model(
      {node("Slice", {"w", "zero", "four", "zero", "two"}, "part"), node("Mul", {"x", "part"}, "y")},
      {{"zero", wholes({0})}, {"four", wholes({4})}, {"two", wholes({2})}, {"w", floats({4}, {1, 2, 3, 4})}});
  EXPECT_EQ(error_of(weight, {.loss = "mean_squared"}), "Slice /part: has steps of 2");
}

TEST(ImportOperators, SwishTakesItsSlope) {
  const Numbers x{-2, -1, 0, 1, 2, 3, 4, 5};
  for (const double alpha : {1.0, 1.5}) {
    const auto onnx =
        model({node("Swish", {"x"}, "swish", {{"alpha", alpha}}), node("Mul", {"swish", "w"}, "y")},
              {{"w", floats({4}, {1, 1, 1, 1})}});
    Numbers expected;
    for (const double v : x) expected.push_back(v / (1 + std::exp(-alpha * v)));
    EXPECT_THAT(run(onnx, x24(x)).y, Pointwise(DoubleNear(1e-6), expected)) << alpha;
  }
}

// Training leaves no label out.
TEST(ImportOperators, LossesLeaveNoClassOut) {
  const auto said = [](int64_t ignored) {
    OnnxModel onnx = model({node("Mul", {"x", "w"}, "scores"),
                            node("SoftmaxCrossEntropyLoss", {"scores", "labels"}, "y",
                                 {{"ignore_index", ignored}, {"reduction", std::string("mean")}})},
                           {{"w", floats({4}, {1, 1, 1, 1})}});
    onnx.inputs.push_back({"labels", DType::int64, {{0, "n"}}});
    return error_of(onnx, {});
  };
  EXPECT_THAT(said(1), HasSubstr("leaves out class 1 of 4 (leave out ignore_index, or make it negative)"));
  EXPECT_EQ(said(-100), "no error");
  EXPECT_EQ(said(4), "no error");
}

TEST(ImportOperators, KeepTheRowsThatAConstantAdds) {
  const auto onnx = model(
      {node("Unsqueeze", {"x", "one"}, "row"), node("Mul", {"row", "twos"}, "rows"),
       node("ReduceSum", {"rows", "one"}, "sum", {{"keepdims", int64_t{0}}}), node("Mul", {"sum", "w"}, "y")},
      {{"one", wholes({1})}, {"w", floats({4}, {1, 1, 1, 2})}});
  OnnxModel filled = onnx;
  filled.nodes.insert(filled.nodes.begin(),
                      node("Constant", {}, "twos", {{"value", floats({1, 3, 1}, {2, 2, 2})}}));
  EXPECT_EQ(run(filled, counted).y, (Numbers{6, 12, 18, 48, 30, 36, 42, 96}));
}

TEST(ImportOperators, FoldEachBatchNormByItsOwnStatistics) {
  const Numbers zeros(4, 0), ones(4, 1);
  const auto norm = [&](const char* x, const char* mean, const char* y) {
    return node("BatchNormalization", {x, "scale", "shift", mean, "variance"}, y, {{"epsilon", 0.0}});
  };
  const auto onnx =
      model({norm("x", "mean1", "a"), norm("a", "mean2", "y")}, {{"scale", floats({4}, {1, 2, 1, 1})},
                                                                 {"shift", floats({4}, zeros)},
                                                                 {"variance", floats({4}, ones)},
                                                                 {"mean1", floats({4}, zeros)},
                                                                 {"mean2", floats({4}, {1, 1, 1, 2})}});
  EXPECT_EQ(run(onnx, counted).y, (Numbers{0, 6, 2, 2, 4, 22, 6, 6}));
}

TEST(ImportOperators, TakeLimitsInEitherOrder) {
  const auto onnx =
      model({node("Constant", {}, "three", {{"value", floats({}, {3})}}), node("Max", {"three", "x"}, "low"),
             node("Min", {"low", "six"}, "high"), node("Constant", {}, "six", {{"value", floats({}, {6})}}),
             node("Mul", {"high", "w"}, "y")},
            {{"w", floats({4}, {1, 1, 1, 2})}});
  OnnxModel sorted = onnx;
  std::swap(sorted.nodes[3], sorted.nodes[1]);
  std::swap(sorted.nodes[3], sorted.nodes[2]);
  EXPECT_EQ(run(sorted, counted).y, (Numbers{3, 3, 3, 8, 5, 6, 6, 12}));
  OnnxModel three = sorted;
  three.nodes[2].inputs.push_back("x");
  EXPECT_EQ(error_of(three, {.loss = "mean_squared"}), "Max /low: has 3 operands, expected 2");
}

TEST(ImportOperators, TakeLogarithmsOfWhatUnderflows) {
  const auto onnx =
      model({node("LogSoftmax", {"x"}, "logs", {{"axis", int64_t{-1}}}), node("Mul", {"logs", "w"}, "y")},
            {{"w", floats({4}, {1, 1, 1, 1.5})}});
  const auto y = run(onnx, x24({0, 0, 0, 300, 0, 0, 0, 0})).y;
  EXPECT_THAT(y, Pointwise(DoubleNear(1e-6), Numbers{-300, -300, -300, 0, -1.3862943611, -1.3862943611,
                                                     -1.3862943611, -2.0794415417}));
}

TEST(ImportOperators, TrainNumbersThatAreWeights) {
  const auto onnx = model({node("Mul", {"x", "gain"}, "y")}, {{"gain", floats({}, {1.5})}});
  const Ran ran = run(onnx, counted);
  EXPECT_THAT(ran.text, HasSubstr("%gain: float32[] = parameter()"));
  EXPECT_EQ(ran.y, (Numbers{1.5, 3, 4.5, 6, 7.5, 9, 10.5, 12}));
}

// Exporters write a folded copy for each operator that reads a shared weight.
TEST(ImportOperators, ReadOneWeightWhereCopiesAreEqual) {
  const auto square = floats({4, 4}, {0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 1, 0});
  const auto onnx =
      model({node("MatMul", {"x", "onnx::MatMul_1"}, "a"), node("MatMul", {"a", "onnx::MatMul_2"}, "y")},
            {{"onnx::MatMul_1", square}, {"onnx::MatMul_2", square}});
  const Imported imported = import_onnx(onnx, {.loss = "mean_squared"});
  EXPECT_EQ(imported.weights.tensors.size(), 1u) << imported.text;
}

TEST(ImportOperators, KeepNamesOfTheLossApart) {
  OnnxModel onnx = model({node("Mul", {"loss", "w"}, "y")}, {{"w", floats({4}, {1, 1, 1, 2})}});
  onnx.inputs[0].name = "loss";
  const Imported imported = import_onnx(onnx, {.loss = "mean_squared"});
  EXPECT_THAT(imported.text, HasSubstr("%loss_2: float32[batch, 4] = input()"));
}

TEST(ImportOperators, AreInTheLayersOfTheirModules) {
  const Numbers numbers{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
  OnnxModel onnx = model({node("MatMul", {"x", "a"}, "one"), node("MatMul", {"one", "d"}, "two"),
                          node("MatMul", {"two", "b"}, "three"), node("MatMul", {"three", "c"}, "y")},
                         {{"a", floats({4, 4}, numbers)},
                          {"b", floats({4, 4}, numbers)},
                          {"c", floats({4, 4}, numbers)},
                          {"d", floats({4, 4}, numbers)}});
  const char* names[] = {"/layers/encoder_layer_0/mlp/mlp.0/MatMul",
                         "/layers/encoder_layer_0/mlp/mlp.1/MatMul",
                         "/layers/encoder_layer_1/mlp/mlp.0/MatMul", "/head/MatMul"};
  for (size_t n = 0; n < 4; ++n) onnx.nodes[n].name = names[n];
  const std::string text = import_onnx(onnx, {.loss = "mean_squared"}).text;
  EXPECT_THAT(text, HasSubstr("graph model layers=2\n"));
  EXPECT_THAT(text, HasSubstr("layers.encoder_layer_1.mlp.mlp.0.MatMul: float32[batch, 4] = "
                              "matmul(%layers.encoder_layer_0.mlp.mlp.1.MatMul, %b) layer=1\n"));
  EXPECT_THAT(text, HasSubstr(", %c) layer=2\n"));
}

// --- classes

OnnxModel scores(std::vector<OnnxExtent> extents, std::vector<OnnxNode> nodes, ir::Shape weight) {
  int64_t elements = 1;
  for (const int64_t extent : weight) elements *= extent;
  Numbers numbers;
  for (int64_t i = 0; i < elements; ++i) numbers.push_back(static_cast<double>(i % 5));
  return model(std::move(nodes), {{"w", floats(std::move(weight), numbers)}, {"flat", wholes({-1, 4})}},
               std::move(extents));
}

TEST(ImportLoss, HasTheClassesOfImagesOnTheSecondAxis) {
  const auto onnx = scores({{0, "n"}, {3, ""}, {5, ""}, {6, ""}}, {node("Mul", {"x", "w"}, "y")}, {3, 1, 1});
  const std::string text = import_onnx(onnx, {.loss = "cross_entropy"}).text;
  EXPECT_THAT(text, HasSubstr("%scores: float32[batch, 5, 6, 3] = transpose(%y) {perm=[0, 2, 3, 1]}"));
  EXPECT_THAT(text, HasSubstr("%labels: int64[batch, 5, 6] = input()"));
}

TEST(ImportLoss, HasLabelsOfFlatScoresWhereTheirOrderIsKnown) {
  const std::vector<OnnxExtent> sequence = {{0, "n"}, {7, ""}, {4, ""}};
  const auto flat =
      scores(sequence, {node("Reshape", {"x", "flat"}, "rows"), node("MatMul", {"rows", "w"}, "y")}, {4, 3});
  EXPECT_THAT(import_onnx(flat, {.loss = "cross_entropy"}).text,
              HasSubstr("%labels: int64[batch, 7] = input()"));
  const auto turned =
      scores(sequence,
             {node("Transpose", {"x"}, "turned", {{"perm", Ints{1, 0, 2}}}),
              node("Reshape", {"turned", "flat"}, "rows"), node("MatMul", {"rows", "w"}, "y")},
             {4, 3});
  EXPECT_EQ(error_of(turned, {.loss = "cross_entropy"}),
            "y: is float32[7063, 3], expected scores of classes [batch, ..., classes]");
  EXPECT_EQ(error_of(turned, {.loss = "mean_squared"}),
            "y: is float32[7063, 3], expected an output that begins with the batch");
}

TEST(ImportLoss, NamesNumbersThatDependOnTheBatch) {
  const auto onnx = model({node("Shape", {"x"}, "shape"), node("Gather", {"shape", "zero"}, "n"),
                           node("Cast", {"n"}, "count", {{"to", int64_t{1}}}),
                           node("Div", {"x", "count"}, "share"), node("Mul", {"share", "w"}, "y")},
                          {{"zero", wholes({0})}, {"w", floats({4}, {1, 1, 1, 2})}});
  EXPECT_EQ(error_of(onnx, {.loss = "mean_squared"}),
            "%share: has a number that depends on the batch and is no multiple of it");
  OnnxModel times = onnx;
  times.nodes[3].type = "Mul";  // a multiple, but no extent
  EXPECT_EQ(error_of(times, {.loss = "mean_squared"}),
            "%share: has a number that depends on the batch and is no multiple of it");
}

TEST(ImportLoss, NamesSizesOfNoAxis) {
  const auto onnx =
      model({node("Mul", {"x", "w"}, "y")}, {{"w", floats({1}, {2})}}, {{0, "n"}, {0, "width"}});
  EXPECT_EQ(error_of(onnx, {.loss = "mean_squared", .sizes = {{"widht", 3}, {"width", 3}}}),
            "--size: no axis behind the batch is called widht (did you mean width?); open are: width");
}

}  // namespace
}  // namespace boxcar::tests

// Operators that become one op or several: their values against loops written here, and refusals.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>

#include "ir/autodiff.h"
#include "onnx_models.h"

namespace boxcar::tests {
namespace {

// --- activations

TEST(ImportValues, OfActivations) {
  const HostTensor x{{{2, 4}, DType::float32}, {-30, -2, -0.5, -1e-4, 0, 0.5, 2, 30}};
  const auto elu = [](double a) { return [a](double v) { return v > 0 ? v : a * std::expm1(v); }; };
  const auto softplus = [](double v) { return std::log1p(std::exp(v)); };
  struct Case {
    const char* type;
    Attributes attributes;
    std::function<double(double)> value;
  };
  const Case cases[] = {
      {"Elu", {}, elu(1)},
      {"Elu", {{"alpha", 0.5}}, elu(0.5)},
      {"Selu",
       {},
       [](double v) { return 1.0507009873554805 * (v > 0 ? v : 1.6732632423543772 * std::expm1(v)); }},
      {"Selu", {{"alpha", 2.0}, {"gamma", 1.0}}, elu(2)},
      {"Softplus", {}, softplus},
      {"Softsign", {}, [](double v) { return v / (1 + std::abs(v)); }},
      {"Mish", {}, [&](double v) { return v * std::tanh(softplus(v)); }},
      {"Sin", {}, [](double v) { return std::sin(v); }},
      {"Cos", {}, [](double v) { return std::cos(v); }}};
  for (const Case& c : cases) {
    SCOPED_TRACE(c.type);
    Numbers want;
    for (const double v : x.data) want.push_back(c.value(v));
    expect_near(trained(one(c.type, {2, 4}, c.attributes), x).y, want);
  }
}

// --- repeats

TEST(ImportValues, OfTilesAreWholeOneBehindTheOther) {
  const HostTensor x{{{2, 2, 1}, DType::float32}, {1, 2, 3, 4}};
  const auto tiled = [&](const Numbers& repeats) {
    return trained(one("Tile", {2, 2, 1}, {}, {{"repeats", wholes(repeats)}}), x).y;
  };
  EXPECT_EQ(tiled({1, 2, 1}), (Numbers{1, 2, 1, 2, 3, 4, 3, 4}));
  EXPECT_EQ(tiled({1, 1, 2}), (Numbers{1, 1, 2, 2, 3, 3, 4, 4}));
  EXPECT_EQ(tiled({1, 2, 2}), (Numbers{1, 1, 2, 2, 1, 1, 2, 2, 3, 3, 4, 4, 3, 3, 4, 4}));
  EXPECT_EQ(tiled({1, 1, 1}), (Numbers{1, 2, 3, 4}));
}

TEST(ImportValues, OfTilesRefuseWhatIsNotThere) {
  const auto said = [](const Numbers& repeats) {
    return refusal(one("Tile", {2, 3}, {}, {{"repeats", wholes(repeats)}}));
  };
  EXPECT_EQ(said({1, 0}), "Tile /y: repeats an axis 0 times");
  EXPECT_EQ(said({1}), "Tile /y: repeats 1 axes of float32[1009, 3]");
  EXPECT_EQ(refusal(model({node("Tile", {"x", "x"}, "y")}, {})), "Tile /y: repeats depends on data");
}

// --- rows

TEST(ImportValues, OfReductions) {
  const HostTensor x{{{2, 2, 2}, DType::float32}, {3, -1, 4, 2, 0, -5, 12, 0}};
  const auto of = [&](const char* type, Ints axes, bool keeps) {
    return trained(one(type, {2, 2, 2}, {{"axes", axes}, {"keepdims", whole(keeps)}}), x).y;
  };
  EXPECT_EQ(of("ReduceL1", {1}, false), (Numbers{7, 3, 12, 5}));
  EXPECT_EQ(of("ReduceSumSquare", {-1}, true), (Numbers{10, 20, 25, 144}));
  expect_near(of("ReduceL2", {1}, true), {5, std::sqrt(5), 12, 5});
}

// The gradient of a row of zeros is 0, as in PyTorch, where a root's alone would be infinite.
TEST(ImportValues, OfLengthsHaveSlopesAtZero) {
  const OnnxModel onnx =
      model({node("Mul", {"x", "w"}, "row"), node("ReduceL2", {"row"}, "y", {{"axes", Ints{1}}})},
            {{"w", floats({4}, {1, 2, 3, 4})}});
  const Imported imported = import_onnx(onnx, {.loss = "mean_squared"});
  ir::Graph graph = build(ir::models::read_graph_model(imported.text), 2);
  const auto gradients = ir::differentiate(graph, find_tensor(graph, "loss"));
  backends::cpu::Values values{{"x", {{{2, 4}, DType::float32}, {0, 0, 0, 0, 3, 0, 2, 0}}},
                               {"w", {{{4}, DType::float32}, {1, 2, 3, 4}}},
                               {"targets", backends::cpu::zeros({{2, 1}, DType::float32})}};
  ASSERT_EQ(gradients.size(), 1u);
  // The mean of the squares of the lengths: each 2 x x w / 2.
  expect_near(evaluate(graph, values).at(graph.tensor(gradients[0].gradient).name).data, {9, 0, 12, 0});
}

TEST(ImportValues, OfSoftmaxesOverAnyAxis) {
  const HostTensor x = varied({2, 3, 2, 2});
  for (const int64_t axis : {1, 2, 3, -3}) {
    const int64_t extent = x.type.shape[static_cast<size_t>(axis < 0 ? axis + 4 : axis)],
                  apart = axis == 1 || axis == -3 ? 4
                          : axis == 2             ? 2
                                                  : 1;
    Numbers logs;
    for (int64_t i = 0; i < x.type.elements(); ++i) {
      const int64_t first = i - i / apart % extent * apart;
      double sum = 0;
      for (int64_t j = 0; j < extent; ++j) sum += std::exp(x.data[static_cast<size_t>(first + j * apart)]);
      logs.push_back(x.data[static_cast<size_t>(i)] - std::log(sum));
    }
    expect_near(trained(one("LogSoftmax", x.type.shape, {{"axis", axis}}), x).y, logs);
    for (double& y : logs) y = std::exp(y);
    expect_near(trained(one("Softmax", x.type.shape, {{"axis", axis}}), x).y, logs);
  }
  OnnxModel early = one("Softmax", x.type.shape, {{"axis", whole(1)}});  // over all axes from 1 on
  early.opset = 11;
  EXPECT_EQ(refusal(early), "Softmax /y: is over axis 1 of float32[1009, 3, 2, 2], expected the last one");
}

TEST(ImportValues, OfPlacesOfExtremes) {
  const HostTensor x{{{2, 2, 3}, DType::float32}, {3, 7, 7, 9, 1, 2, 0, -1, -1, -1, 5, -2}};
  const auto of = [&](const char* type, int64_t axis, bool keeps) {
    OnnxModel onnx = one(type, {2, 2, 3}, {{"axis", axis}, {"keepdims", whole(keeps)}});
    onnx.nodes[0].outputs = {"place"};
    onnx.nodes.push_back(node("Cast", {"place"}, "y", {{"to", whole(1)}}));
    return trained(onnx, x).y;
  };
  EXPECT_EQ(of("ArgMax", -1, false), (Numbers{1, 0, 0, 1}));
  EXPECT_EQ(of("ArgMax", 1, true), (Numbers{1, 0, 0, 0, 1, 0}));
  EXPECT_EQ(of("ArgMin", 2, true), (Numbers{0, 1, 1, 2}));
  EXPECT_EQ(refusal(one("ArgMax", {2, 3}, {{"axis", whole(1)}, {"select_last_index", whole(1)}})),
            "ArgMax /y: has select_last_index");
  OnnxModel wholes_of = one("ArgMax", {2, 3});
  wholes_of.inputs[0].dtype = DType::int64;
  EXPECT_EQ(refusal(wholes_of), "ArgMax /y: is of int64[1009, 3], expected floating-point numbers");
}

// --- known before data

TEST(ImportValues, OfRemainders) {
  const HostTensor x{{{1, 2}, DType::float32}, {1, 2}};
  const auto tiled = [](const Numbers& a, const Numbers& b, bool as_c) {
    return model(
        {node("Mod", {"a", "b"}, "repeats", {{"fmod", whole(as_c)}}), node("Tile", {"x", "repeats"}, "y")},
        {{"a", wholes(a)}, {"b", wholes(b)}}, {{0, "n"}, {2, ""}});
  };
  EXPECT_EQ(trained(tiled({7, -7}, {3, 3}, false), x).y, (Numbers{1, 2, 1, 2}));  // 1 and 2
  EXPECT_EQ(trained(tiled({7, 8}, {3, -3}, true), x).y, (Numbers{1, 2, 1, 2}));   // 1 and 2
  EXPECT_EQ(refusal(tiled({7, 8}, {3, -3}, false)), "Tile /y: repeats an axis -1 times");
  EXPECT_EQ(refusal(tiled({7, -7}, {3, 3}, true)), "Tile /y: repeats an axis -1 times");
  EXPECT_EQ(refusal(tiled({7, 8}, {3, 0}, false)), "Mod /repeats: divides by 0");
  EXPECT_EQ(refusal(one("Mod", {2, 2}, {}, {{"b", floats({2}, {2, 2})}})),
            "Mod /y: an operand depends on data");
}

// --- operators without a form

TEST(ImportValues, RefuseRecurrentLayersByName) {
  const OnnxModel onnx = model({node("LSTM", {"x", "w", "w"}, "a"), node("GRU", {"a", "w", "w"}, "y")},
                               {{"w", floats({4}, {1, 2, 3, 4})}});
  EXPECT_EQ(refusal(onnx), "operators that have no form here: 1 GRU, 1 LSTM");
}

}  // namespace
}  // namespace boxcar::tests

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

// --- Einsum

// Sums over all labels that the result lacks, one element after the other.
Numbers einsum(const std::string& equation, const HostTensor& a, const HostTensor& b) {
  const size_t comma = equation.find(','), arrow = equation.find("->");
  const std::string of_a = equation.substr(0, comma), of_b = equation.substr(comma + 1, arrow - comma - 1),
                    of_y = equation.substr(arrow + 2);
  std::map<char, int64_t> extents, at;
  for (size_t i = 0; i < of_a.size(); ++i) extents[of_a[i]] = a.type.shape[i];
  for (size_t i = 0; i < of_b.size(); ++i) extents[of_b[i]] = b.type.shape[i];
  const auto place = [&](const std::string& labels) {
    int64_t element = 0;
    for (const char label : labels) element = element * extents[label] + at[label];
    return static_cast<size_t>(element);
  };
  int64_t all = 1, results = 1;
  for (const auto& [label, extent] : extents) all *= extent;
  for (const char label : of_y) results *= extents[label];
  Numbers y(static_cast<size_t>(results), 0);
  for (int64_t i = 0; i < all; ++i) {
    int64_t left = i;
    for (const auto& [label, extent] : extents) {
      at[label] = left % extent;
      left /= extent;
    }
    y[place(of_y)] += a.data[place(of_a)] * b.data[place(of_b)];
  }
  return y;
}

OnnxModel of_equation(const char* equation, std::vector<std::string> operands, const ir::Shape& x,
                      const HostTensor& w) {
  OnnxModel onnx = one("Einsum", x, {{"equation", word(equation)}});
  onnx.nodes[0].inputs = std::move(operands);
  onnx.weights = {{"w", weight(w)}};
  return onnx;
}

struct Equation {
  const char* text;
  ir::Shape x, w;               // w empty: x is both operands
  const char* operands = "xw";  // in their order
  int ops;                      // that the graph needs besides the loss
};

TEST(ImportValues, OfEinsums) {
  const Equation cases[] = {{"bij,jk->bik", {2, 3, 4}, {4, 5}, "xw", 1},
                            {"bij,kj->bik", {2, 3, 4}, {5, 4}, "xw", 1},
                            {"jk, bij -> bik", {2, 3, 4}, {4, 5}, "wx", 1},
                            {"ij,jk->ik", {3, 4}, {4, 5}, "xw", 1},
                            {"bsd,dhk->bshk", {2, 3, 4}, {4, 2, 3}, "xw", 3},
                            {"bsd,dhk->bhsk", {2, 3, 4}, {4, 2, 3}, "xw", 4},
                            {"bshk,hkd->bsd", {2, 3, 2, 4}, {2, 4, 5}, "xw", 3},
                            {"bij,ij->b", {2, 3, 4}, {3, 4}, "xw", 4},
                            {"bhi,hij->bhj", {2, 3, 4}, {3, 4, 5}, "xw", 0},
                            {"bi,j->bij", {2, 3}, {4}, "xw", 0},
                            {"bi,i->bi", {2, 3}, {3}, "xw", 0},
                            {"bhid,bhjd->bhij", {2, 3, 4, 5}, {}, "xx", 1},
                            {"bqhd,bkhd->bhqk", {2, 3, 4, 5}, {}, "xx", 3},
                            {"bhij,bhid->bhjd", {2, 3, 4, 5}, {}, "xx", 1},
                            {"bhji,bhjd->bhdi", {2, 3, 4, 5}, {}, "xx", 0},
                            {"bid,bje->bjide", {2, 3, 4}, {}, "xx", 0},
                            {"bid,bid->b", {2, 3, 4}, {}, "xx", 0}};
  for (const Equation& c : cases) {
    SCOPED_TRACE(c.text);
    const HostTensor x = varied(c.x), w = varied(c.w, 0.5);
    const std::string order = c.operands;
    std::vector<std::string> operands;
    for (const char operand : order) operands.emplace_back(1, operand);
    const Ran ran = trained(of_equation(c.text, operands, c.x, w), x);
    std::string plain = c.text;
    std::erase(plain, ' ');
    expect_near(ran.y, einsum(plain, order[0] == 'x' ? x : w, order[1] == 'x' ? x : w));
    const auto lines = std::count(ran.text.begin(), ran.text.end(), '\n');
    const int beside = c.w.empty() ? 8 : 9;  // the graph's own line, operands, the unit and the loss
    if (c.ops > 0) {
      EXPECT_EQ(lines - beside, c.ops) << ran.text;
    }
  }
}

TEST(ImportValues, OfEinsumsRefuseOtherEquations) {
  const HostTensor w = varied({4, 5});
  for (const char* equation : {"bij,jk", "bii,jk->bk", "...ij,jk->...ik", "bij,jk->bi", "bij,jk->bikl",
                               "bij->bij", "bij,jk,kl->bil", "bij,jk->bikk", ""})
    EXPECT_EQ(
        refusal(of_equation(equation, {"x", "w"}, {2, 3, 4}, w)),
        fmt::format("Einsum /y: has the equation {}, expected a product of two operands with each letter "
                    "once in an operand, such as bhid,bhjd->bhij",
                    equation));
  EXPECT_EQ(refusal(of_equation("bij,kj->bik", {"x", "w"}, {2, 3, 4}, w)),
            "Einsum /y: multiplies float32[1009, 3, 4] by float32[4, 5]");
  EXPECT_EQ(refusal(of_equation("bi,ik->bk", {"x", "w"}, {2, 3, 4}, w)),
            "Einsum /y: has float32[1009, 3, 4] for the axes bi");
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

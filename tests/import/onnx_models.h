// Models written in C++, and what an imported model computes, for the tests of operators.
//
//   run(model({node("Relu", {"x"}, "y")}, {}), x).y
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "backends/cpu/convert.h"
#include "backends/cpu/evaluate.h"
#include "backends/onnx/import.h"
#include "ir/models/graph_model.h"
#include "sbp/error.h"

namespace boxcar::tests {

using backends::cpu::HostTensor;
using ir::DType;
using namespace backends::onnx;
using Numbers = std::vector<double>;
using Ints = std::vector<int64_t>;

inline StoredTensor stored(const ir::TensorType& type, const Numbers& numbers) {
  StoredTensor tensor{type, std::vector<std::byte>(static_cast<size_t>(type.bytes()))};
  backends::cpu::store({type, numbers}, tensor.bytes.data());
  return tensor;
}
inline StoredTensor floats(ir::Shape shape, const Numbers& numbers) {
  return stored({std::move(shape), DType::float32}, numbers);
}
inline StoredTensor wholes(const Numbers& numbers) {
  return stored({{static_cast<int64_t>(numbers.size())}, DType::int64}, numbers);
}

inline OnnxNode node(const char* type, std::vector<std::string> inputs, std::string output,
                     std::map<std::string, OnnxAttribute> attributes = {}) {
  return {"/" + output, type, std::move(inputs), {std::move(output)}, std::move(attributes)};
}

// y of x[batch, ...].
inline OnnxModel model(std::vector<OnnxNode> nodes, std::map<std::string, StoredTensor> weights,
                       std::vector<OnnxExtent> extents = {{0, "n"}, {4, ""}}) {
  return {17,
          std::move(nodes),
          std::move(weights),
          {{"x", DType::float32, std::move(extents)}},
          {{"y", DType::float32, {}}}};
}

struct Ran {
  std::string text;
  Numbers y;
};
inline Ran run(const OnnxModel& onnx, const HostTensor& x) {
  const Imported imported = import_onnx(onnx, {.loss = "mean_squared"});
  const ir::Graph graph = build(ir::models::read_graph_model(imported.text), x.type.shape[0]);
  backends::cpu::Values values{{"x", x}};
  for (const auto& [name, tensor] : imported.weights.tensors)
    values[name] = backends::cpu::load(tensor.type, tensor.bytes.data());
  values["targets"] = backends::cpu::zeros(graph.tensor(find_tensor(graph, "targets")).type);
  return {imported.text, evaluate(graph, values).at("errors").data};
}

inline std::string error_of(const OnnxModel& onnx, const ImportOptions& options) {
  try {
    import_onnx(onnx, options);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

using Attributes = std::map<std::string, OnnxAttribute>;
using Weights = std::map<std::string, StoredTensor>;

constexpr int64_t whole(int64_t number) { return number; }
inline std::string word(const char* text) { return text; }

// Numbers of both signs that are exact in float32.
inline HostTensor varied(ir::Shape shape, double from = 0) {
  HostTensor tensor = backends::cpu::zeros({std::move(shape), DType::float32});
  for (size_t i = 0; i < tensor.data.size(); ++i)
    tensor.data[i] = std::round(64 * 3 * std::sin(from + 1.7 * static_cast<double>(i))) / 64;
  return tensor;
}
inline StoredTensor weight(const HostTensor& values) { return floats(values.type.shape, values.data); }

// y of one operator on x, whose first axis is the batch, and on weights, which are its further operands.
inline OnnxModel one(const char* type, const ir::Shape& x, Attributes attributes = {},
                     const Weights& weights = {}) {
  std::vector<OnnxExtent> extents = {{0, "n"}};
  for (size_t i = 1; i < x.size(); ++i) extents.push_back({x[i], ""});
  std::vector<std::string> operands = {"x"};
  for (const auto& [name, tensor] : weights) operands.push_back(name);
  return model({node(type, std::move(operands), "y", std::move(attributes))}, weights, std::move(extents));
}

// With a weight of 1 behind the operator, since a graph has parameters.
inline Ran trained(OnnxModel onnx, const HostTensor& x) {
  onnx.nodes.back().outputs = {"made"};
  onnx.nodes.push_back(node("Mul", {"made", "unit"}, "y"));
  onnx.weights["unit"] = floats({}, {1});
  return run(onnx, x);
}

inline std::string refusal(const OnnxModel& onnx) { return error_of(onnx, {.loss = "mean_squared"}); }

inline void expect_near(const Numbers& got, const Numbers& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR(got[i], want[i], 1e-5 * std::max(1.0, std::abs(want[i]))) << "at " << i;
}

}  // namespace boxcar::tests

// Models that PyTorch exported: imported, they give PyTorch's results.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <set>
#include <sstream>

#include "backends/cpu/convert.h"
#include "backends/cpu/evaluate.h"
#include "backends/onnx/conversion.h"
#include "backends/onnx/import.h"
#include "ir/models/graph_model.h"

namespace boxcar::tests {
namespace {

using backends::cpu::HostTensor;
using backends::cpu::Values;
using namespace backends::onnx;

const std::string folder = BOXCAR_SOURCE_DIR "/tests/import/models/";

void add(const backends::host::StoredFile& file, Values& values) {
  for (const auto& [name, tensor] : file.tensors)
    values[name] = backends::cpu::load(tensor.type, tensor.bytes.data());
}

struct Exported {
  std::string name;
  double layers;
  std::vector<std::string> ops;  // that it must have: layers were recognized
};
std::ostream& operator<<(std::ostream& out, const Exported& exported) { return out << exported.name; }

class ImportedModel : public testing::TestWithParam<Exported> {};

TEST_P(ImportedModel, ComputesWhatPyTorchComputed) {
  const std::string path = folder + GetParam().name;
  const Imported imported = import_onnx(read_onnx(path + ".onnx"), {.loss = "cross_entropy"});
  const auto model = ir::models::read_graph_model(imported.text);
  EXPECT_EQ(model.layers, GetParam().layers) << imported.text;
  const auto file = backends::host::read_safetensors(path + ".safetensors");
  Values given;
  add(file, given);
  add(imported.weights, given);
  const HostTensor expected = given.at("output");
  const int64_t batch = expected.type.shape[0];
  const ir::Graph graph = build(model, batch);
  const ir::TensorId labels = find_tensor(graph, "labels");
  given["labels"] = backends::cpu::zeros(graph.tensor(labels).type);
  const Values values = evaluate(graph, given);

  const auto loss = std::find_if(graph.ops.begin(), graph.ops.end(),
                                 [](const ir::Op& op) { return op.type == "cross_entropy"; });
  ASSERT_NE(loss, graph.ops.end());
  const HostTensor& scores = values.at(graph.tensor(loss->inputs[0]).name);
  ASSERT_EQ(scores.type.shape, expected.type.shape);
  double largest = 0;
  for (const double x : expected.data) largest = std::max(largest, std::abs(x));
  for (size_t i = 0; i < expected.data.size(); ++i)
    ASSERT_NEAR(scores.data[i], expected.data[i], 1e-5 * std::max(1.0, largest)) << "element " << i;

  for (const std::string& type : GetParam().ops)
    EXPECT_TRUE(
        std::any_of(graph.ops.begin(), graph.ops.end(), [&](const ir::Op& op) { return op.type == type; }))
        << type << " in " << imported.text;
}

// PyTorch wrote the head's copy of the table as a weight of its own.
TEST(ImportedModel, TiesTheHeadToTheTable) {
  const Imported imported = import_onnx(read_onnx(folder + "gpt.onnx"), {.loss = "cross_entropy"});
  EXPECT_THAT(imported.text, testing::HasSubstr(" = embedding(%wte.weight, %tokens)"));
  EXPECT_THAT(imported.text, testing::HasSubstr(", %wte.weight) {transpose_b=true}\n"));
}

INSTANTIATE_TEST_SUITE_P(OfPyTorch, ImportedModel,
                         testing::Values(Exported{"mlp", 3, {"relu"}},
                                         Exported{"gpt", 2, {"layer_norm", "gelu", "causal_mask", "softmax"}},
                                         Exported{"gpt_opset17", 2, {"layer_norm", "gelu", "causal_mask"}},
                                         Exported{"bert", 2, {"layer_norm", "gelu", "tanh"}},
                                         Exported{"resnet50", 16, {"max_pool2d"}},
                                         Exported{"mobilenet_v2", 7, {"clamp_max"}},
                                         Exported{"resnet50_training", 16, {"batch_norm"}}),
                         testing::PrintToStringParamName());

// "| products | Gemm, MatMul |"
TEST(ImportPage, ListsTheOperators) {
  std::ifstream page(BOXCAR_SOURCE_DIR "/docs/import.md");
  std::set<std::string> listed, known;
  bool inside = false;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("| kind |")) inside = true;
    if (!line.starts_with("|")) inside = false;
    if (!inside || line.starts_with("| kind |") || line.starts_with("| ---")) continue;
    std::istringstream words(line.substr(line.find('|', 1) + 1));
    for (std::string word; words >> word && word != "|";)
      listed.insert(word.ends_with(',') ? word.substr(0, word.size() - 1) : word);
  }
  for (const auto& [name, converter] : converters()) known.insert(name);
  EXPECT_EQ(listed, known);
}

}  // namespace
}  // namespace boxcar::tests

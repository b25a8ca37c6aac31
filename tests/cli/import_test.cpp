// `boxcar import`, and training that continues from its output.
#include "backends/onnx/import.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "backends/host/safetensors.h"
#include "sbp/error.h"
#include "train.h"

namespace boxcar::tests {
namespace {

namespace host = backends::host;
using namespace backends::onnx;
using testing::HasSubstr;

const std::string models = BOXCAR_SOURCE_DIR "/tests/import/models/";

class Import : public Train {
 protected:
  Output import(const std::string& model, const Words& more = {"--loss=cross_entropy"}) const {
    Words words{"import", models + model + ".onnx", "-o", path(model + ".txt")};
    words.insert(words.end(), more.begin(), more.end());
    return run_program(words);
  }
  double first_loss(const std::string& model, const std::string& data, const Words& more) const {
    Words words{"train",
                "--json",
                "--graph=" + path(model + ".txt"),
                "--init-from=" + path(model + ".safetensors"),
                "--steps=2",
                "--data=" + data};
    words.insert(words.end(), more.begin(), more.end());
    const Output output = run_program(words);
    EXPECT_EQ(output.exit_code, 0) << output.err;
    return losses(output.out)[1];
  }
};

TEST_F(Import, SaysWhatItWroteAndHowToUseIt) {
  const Output output = import("mlp");
  ASSERT_EQ(output.exit_code, 0) << output.err;
  EXPECT_EQ(
      output.out,
      fmt::format(
          "mlp: 0.000565 million parameters in 3 layers; inputs of a sample: x float32[12] labels int64[]\n"
          "simulate, search and train take it as --graph {0}.txt; train starts from its weights with "
          "--init-from {0}.safetensors\n",
          path("mlp")));
  std::ifstream text(path("mlp.txt"));
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(text), {}), R"(graph mlp layers=3
%x: float32[batch, 12] = input()
%0.weight: float32[16, 12] = parameter()
%0.Gemm.product: float32[batch, 16] = matmul(%x, %0.weight) {transpose_b=true} layer=0
%0.bias: float32[16] = parameter()
%0.Gemm: float32[batch, 16] = add(%0.Gemm.product, %0.bias)
%1.Relu: float32[batch, 16] = relu(%0.Gemm)
%2.weight: float32[16, 16] = parameter()
%2.Gemm.product: float32[batch, 16] = matmul(%1.Relu, %2.weight) {transpose_b=true} layer=1
%2.bias: float32[16] = parameter()
%2.Gemm: float32[batch, 16] = add(%2.Gemm.product, %2.bias)
%3.Relu: float32[batch, 16] = relu(%2.Gemm)
%4.weight: float32[5, 16] = parameter()
%4.Gemm.product: float32[batch, 5] = matmul(%3.Relu, %4.weight) {transpose_b=true} layer=2
%4.bias: float32[5] = parameter()
%4.Gemm: float32[batch, 5] = add(%4.Gemm.product, %4.bias)
%labels: int64[batch] = input()
%losses: float32[batch] = cross_entropy(%4.Gemm, %labels) layer=3
%loss: float32[] = reduce_mean(%losses) {axes=[0]}
)");
}

// The loss that training begins with is that of PyTorch's scores, for every split.
TEST_F(Import, TrainingGoesOnFromTheWeights) {
  ASSERT_EQ(import("gpt").exit_code, 0);
  const host::StoredFile exported = host::read_safetensors(models + "gpt.safetensors");
  const host::StoredTensor& scores = exported.tensors.at("output");
  const int64_t rows = scores.type.shape[0] * scores.type.shape[1], classes = scores.type.shape[2];
  std::vector<float> values(static_cast<size_t>(rows * classes));
  std::memcpy(values.data(), scores.bytes.data(), scores.bytes.size());
  host::StoredFile data;
  data.tensors["tokens"] = exported.tensors.at("tokens");
  host::StoredTensor labels{exported.tensors.at("tokens").type, {}};
  labels.bytes.resize(static_cast<size_t>(labels.type.bytes()));
  double expected = 0;
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t label = (row * 5) % classes;
    std::memcpy(labels.bytes.data() + row * 8, &label, 8);
    double sum = 0;
    for (int64_t c = 0; c < classes; ++c) sum += std::exp(values[static_cast<size_t>(row * classes + c)]);
    expected +=
        (std::log(sum) - values[static_cast<size_t>(row * classes + label)]) / static_cast<double>(rows);
  }
  data.tensors["labels"] = labels;
  host::write_safetensors(path("data.safetensors"), data);
  for (const Words& plan : {Words{}, Words{"--dp=2", "--zero=2"}, Words{"--pp=2", "--micro-batch=1"},
                            Words{"--tp=2", "--gpus=2", "--recompute=selective"}}) {
    Words words{"--global-batch=2"};
    words.insert(words.end(), plan.begin(), plan.end());
    EXPECT_NEAR(first_loss("gpt", path("data.safetensors"), words), expected, 2e-5 * expected)
        << testing::PrintToString(plan);
  }
}

TEST_F(Import, RefusesByName) {
  const auto refused = [&](const std::string& model, const Words& more) {
    const Output output = import(model, more);
    EXPECT_EQ(output.exit_code, 2) << output.out;
    EXPECT_FALSE(fs::exists(path(model + ".txt")));
    return output.err;
  };
  EXPECT_EQ(refused("mlp", {}),
            fmt::format("boxcar: {}mlp.onnx: output: is float32[1009, 5], no loss (give --loss "
                        "cross_entropy or mean_squared)\n",
                        models));
  EXPECT_EQ(
      refused("mlp", {"--loss=cros_entropy"}),
      "boxcar: --loss: \"cros_entropy\" is unknown (did you mean cross_entropy?); known are cross_entropy, "
      "mean_squared\n");
  EXPECT_EQ(refused("mlp", {"--loss=mean_squared", "--of=score"}),
            "boxcar: --of: the model has no output score; it has output\n");
  EXPECT_EQ(refused("mlp", {"--size=batch"}), "boxcar: --size: \"batch\" is no size (as in sequence=128)\n");
  EXPECT_EQ(refused("none", {}),
            fmt::format("boxcar: {}none.onnx: cannot be read; check the path\n", models));
  const Output same = run_program({"import", "a.onnx", "-o", "a.onnx"});
  EXPECT_THAT(same.err, HasSubstr("--output"));
}

// --- files of other kinds

host::StoredTensor tensor(const ir::TensorType& type, const std::vector<float>& values) {
  host::StoredTensor stored{type, std::vector<std::byte>(values.size() * sizeof(float))};
  std::memcpy(stored.bytes.data(), values.data(), stored.bytes.size());
  return stored;
}

OnnxModel one_node(OnnxNode node) {
  node.outputs = {"y"};
  return {13,
          {node},
          {{"w", tensor({{4, 4}, ir::DType::float32}, std::vector<float>(16, 0.5F))}},
          {{"x", ir::DType::float32, {{0, "n"}, {4, ""}}}},
          {{"y", ir::DType::float32, {}}}};
}

std::string error_of(const OnnxModel& model) {
  try {
    import_onnx(model, {.loss = "mean_squared"});
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(ImportOperators, RefuseWhatHasNoForm) {
  using Ints = std::vector<int64_t>;
  const auto node = [](const char* type, std::map<std::string, OnnxAttribute> attributes = {},
                       std::vector<std::string> inputs = {"x"}) {
    return one_node({"/a/" + std::string(type), type, std::move(inputs), {}, std::move(attributes)});
  };
  EXPECT_EQ(error_of(node("LSTM")), "operators that have no form here: 1 LSTM");
  EXPECT_EQ(error_of(node("com.microsoft.Gelu")), "operators that have no form here: 1 com.microsoft.Gelu");
  EXPECT_EQ(error_of(node("Softmax", {{"axis", std::string("0")}})),
            "Softmax /a/Softmax: axis is of a kind that is not read here");
  EXPECT_EQ(error_of(node("Conv", {}, {"x", "w"})),
            "Conv /a/Conv: is of float32[1009, 4], expected images [n, channels, height, width]");
  EXPECT_EQ(error_of(node("MatMul")), "MatMul /a/MatMul: has no operand 1");
  EXPECT_EQ(error_of(node("Reshape", {}, {"x", "x"})), "Reshape /a/Reshape: the shape depends on data");
  EXPECT_EQ(error_of(node("Pow", {}, {"x", "w"})),
            "Pow /a/Pow: the exponent is float32[4, 4], expected one number");
  EXPECT_EQ(error_of(node("Transpose", {{"perm", Ints{0, 2}}})),
            "Transpose /a/Transpose: a.Transpose: transpose: perm is [0, 2], expected a permutation of the "
            "axes of x "
            "float32[1009, 4]");
  EXPECT_EQ(error_of(node("Flatten", {{"axis", int64_t{7}}})), "Flatten /a/Flatten: is over axis 7 of 2");
  EXPECT_EQ(error_of(node("Relu", {}, {"w"})), "y: does not depend on data");
  OnnxModel open = node("Relu");
  open.inputs[0].extents[1] = {0, "width"};
  EXPECT_EQ(error_of(open), "x: axis 1 has no size (give it as --size width=...)");
}

TEST(ImportOperators, NameWhatIsNoModel) {
  const auto refused = [](const std::string& bytes) {
    const TemporaryFile file("model.onnx", bytes);
    try {
      read_onnx(file.path());
    } catch (const Error& error) {
      return std::string(error.what()).substr(file.path().size() + 2);
    }
    return std::string("no error");
  };
  EXPECT_EQ(refused("no model"), "is no ONNX model");
  EXPECT_EQ(refused(""), "is no ONNX model");
}

}  // namespace
}  // namespace boxcar::tests

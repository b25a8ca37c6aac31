// Kinds of parameters, from the ops that read them.
#include "ir/parameter_kinds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "graphs.h"
#include "ir/models/conv_net.h"

namespace boxcar::tests {
namespace {

using ir::ParameterKind;

std::vector<std::string> names_of(const ir::Graph& graph, ParameterKind kind) {
  const std::vector<ParameterKind> kinds = ir::parameter_kinds(graph);
  std::vector<std::string> names;
  for (size_t t = 0; t < kinds.size(); ++t)
    if (kinds[t] == kind) names.push_back(graph.tensors[t].name);
  return names;
}

// Layer 0 is dense. A router and shared experts serve all tokens.
TEST(ParameterKinds, ExpertsAreReadBetweenDispatchAndCombine) {
  ir::models::Transformer model = tiny("gpt");
  model.layers = 2, model.experts = 4, model.expert_ffn = 12, model.dense_layers = 1,
  model.shared_experts = 1;
  model.top_k = 2;
  ir::TrainOptions options;
  options.recompute = ir::Recompute::full;
  for (const bool mixed : {false, true}) {
    options.precision = mixed ? ir::Precision::bf16 : ir::Precision::fp32;
    const ir::Graph step = step_of(ir::models::build(model, 2), options);
    std::vector<std::string> expected;
    for (const char* name : {"fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"})
      for (const char* copy : {"", ".half"})
        if (mixed || *copy == 0) expected.push_back(std::string("h1.mlp.") + name + copy);
    EXPECT_THAT(names_of(step, ParameterKind::experts), testing::UnorderedElementsAreArray(expected));
    EXPECT_EQ(ir::parameter_kinds(ir::parse_graph(to_text(step))), ir::parameter_kinds(step));
  }
}

TEST(ParameterKinds, ConvolutionsAreReadByConvolutions) {
  const ir::models::ConvNet net{"alexnet", 8, 4, 1, 64, 10};
  const ir::Graph step = step_of(ir::models::build(net, 2), plain());
  EXPECT_THAT(names_of(step, ParameterKind::convolution),
              testing::ElementsAre("h0.conv.weight", "h1.conv.weight", "h2.conv.weight", "h3.conv.weight",
                                   "h4.conv.weight"));
}

std::vector<std::string> matrices_of(const ir::Graph& graph) {
  const std::vector<bool> vectors = ir::vector_parameters(graph);
  std::vector<std::string> names;
  for (const ir::Op& op : graph.ops)
    if (op.is(ir::OpKind::parameter) && !vectors[static_cast<size_t>(op.outputs[0])] &&
        !op.name.ends_with(".m") && !op.name.ends_with(".v"))
      names.push_back(op.name);
  return names;
}

// Biases of experts have one axis of experts and one of columns; in epilogues a product reads biases.
TEST(ParameterKinds, VectorsAreBiasesAndFactorsOfNorms) {
  ir::models::Transformer model = tiny("gpt");
  model.experts = 4, model.expert_ffn = 12, model.top_k = 2;
  ir::TrainOptions options;
  for (const bool mixed : {false, true})
    for (const bool epilogues : {false, true}) {
      options.precision = mixed ? ir::Precision::bf16 : ir::Precision::fp32;
      options.epilogues = epilogues;
      EXPECT_THAT(matrices_of(step_of(ir::models::build(model, 2), options)),
                  testing::UnorderedElementsAre("embedding.word", "embedding.position", "h0.attn.qkv.weight",
                                                "h0.attn.proj.weight", "h0.mlp.router.weight",
                                                "h0.mlp.fc1.weight", "h0.mlp.fc2.weight"));
    }
}

TEST(ParameterKinds, BiasesOfChannelsAreVectors) {
  for (const bool channels_last : {false, true}) {
    ir::models::ConvNet net{"alexnet", 8, 4, 1, 64, 10};
    net.channels_last = channels_last;
    EXPECT_THAT(matrices_of(step_of(ir::models::build(net, 2), plain())),
                testing::Each(testing::EndsWith(".weight")));
  }
}

// Shapes alone would make vectors of these.
TEST(ParameterKinds, FactorsOfProductsAndConvolutionsAreMatrices) {
  ir::Builder b("narrow");
  const auto f32 = [](ir::Shape shape) { return ir::TensorType{std::move(shape), ir::DType::float32}; };
  const ir::TensorId image = b.input("image", f32({2, 1, 4, 4}));
  const ir::TensorId pixels =
      b.op1("conv2d", {image, b.parameter("kernel", f32({1, 1, 1, 3}))}, {{"padding", int64_t{0}}}, "conv");
  const ir::TensorId rows = b.op1("reshape", {pixels}, {{"shape", ir::Shape{2, 8}}}, "rows");
  const ir::TensorId y = b.op1("matmul", {rows, b.parameter("column", f32({8, 1}))}, {}, "product");
  b.op1("add", {y, b.parameter("bias", f32({1, 1}))}, {}, "sum");
  EXPECT_THAT(matrices_of(b.finish()), testing::ElementsAre("kernel", "column"));
}

}  // namespace
}  // namespace boxcar::tests

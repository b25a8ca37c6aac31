// Kinds of parameters, from the ops that read them.
#include "ir/parameter_kinds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
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

}  // namespace
}  // namespace boxcar::tests

// Which ops are recomputed in the backward pass, and where.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "graphs.h"
#include "ir/passes/passes.h"
#include "sbp/at.h"

namespace boxcar::tests {
namespace {

using ir::Graph;
using ir::Op;
using ir::Phase;
using ir::Recompute;
using ir::TrainOptions;

int recomputed(const Graph& graph, int layer) {
  int n = 0;
  for (const Op& op : graph.ops) n += op.recomputed && op.layer == layer;
  return n;
}

// The second and fourth of a layer's products (qkv, proj, fc1, fc2) run again; attention as one op does not.
TEST(Recompute, ByOpKeepsEveryOtherProductAndAttention) {
  TrainOptions options = plain();
  options.recompute = Recompute::ops;
  options.flash = true;
  std::vector<std::string> products;
  int others = 0;
  for (const Op& op : step_of(gpt(2), options).ops) {
    if (!op.recomputed || op.layer != 0) continue;
    EXPECT_NE(op.type, "scaled_dot_product_attention");
    if (op.type.starts_with("matmul"))
      products.push_back(op.name);
    else
      ++others;
  }
  EXPECT_EQ(products, (std::vector<std::string>{"h0.attn.proj.recomputed", "h0.mlp.fc2.recomputed"}));
  EXPECT_GT(others, 0);
}

TEST(Recompute, FullRunsALayerAgainBeforeItsBackwardOps) {
  TrainOptions options = plain();
  options.recompute = Recompute::full;
  const Graph step = step_of(gpt(2), options);
  for (int layer = 0; layer < 2; ++layer) {
    bool backward = false;
    for (const Op& op : step.ops) {
      if (op.layer != layer || op.phase != Phase::backward) continue;
      backward = backward || !op.recomputed;
      EXPECT_FALSE(op.recomputed && backward) << op.name << " comes late";
      for (const ir::TensorId input : op.inputs) {
        const Op& made = at(step.ops, step.tensor(input).producer);
        EXPECT_FALSE(made.phase == Phase::forward && made.layer == layer && !made.inputs.empty())
            << op.name << " keeps %" << step.tensor(input).name;
      }
    }
    EXPECT_TRUE(backward);
  }
}

// Without dropout no op after a layer's last product is read again; with it, the mask's op is.
TEST(Recompute, StopsWhereTheBackwardPassHasAllItReads) {
  TrainOptions options = plain();
  options.recompute = Recompute::full;
  const auto last_again = [&](double dropout) {
    auto config = tiny("gpt");
    config.dropout = dropout;
    const Graph step = step_of(ir::models::build(config, 2), options);
    std::string name;
    for (const Op& op : step.ops)
      if (op.recomputed && op.layer == 0) name = op.name;
    return name;
  };
  EXPECT_EQ(last_again(0), "h0.residual2.recomputed");
  options.recompute_stop = true;
  EXPECT_EQ(last_again(0), "h0.mlp.gelu.recomputed");
}

// Whatever is fused behind it.
TEST(Recompute, MarksBothRunsOfAnOp) {
  TrainOptions options = plain();
  for (const Recompute kind : {Recompute::selective, Recompute::full, Recompute::ops})
    for (const bool epilogues : {false, true})
      for (const bool stops : {false, true}) {
        options.recompute = kind, options.epilogues = epilogues, options.recompute_stop = stops;
        std::vector<std::string> first, second;
        for (const Op& op : step_of(gpt(2), options).ops) {
          EXPECT_FALSE(op.runs_again && op.recomputed) << op.name;
          if (op.runs_again) first.push_back(op.name + ".recomputed");
          if (op.recomputed) second.push_back(op.name);
        }
        EXPECT_FALSE(first.empty());
        EXPECT_THAT(first, testing::UnorderedElementsAreArray(second));
      }
}

TEST(Recompute, LayersCountFromEachStagesFirst) {
  TrainOptions options = plain();
  options.recompute = Recompute::full;
  options.recompute_layers = {1};
  options.stage_starts = {0, 2};
  const Graph step = step_of(gpt(4), options);
  EXPECT_GT(recomputed(step, 0), 0);
  EXPECT_EQ(recomputed(step, 1), 0);
  EXPECT_GT(recomputed(step, 2), 0);
  EXPECT_EQ(recomputed(step, 3), 0);
}

// Stages of 2, 1 and 1 layers: the first recomputes one of two, the second none, the third all.
TEST(Recompute, LayersMayDifferByStage) {
  TrainOptions options = plain();
  options.recompute = Recompute::full;
  options.recompute_layers = {1, 0, 3};
  options.stage_starts = {0, 2, 3};
  const auto by_layer = [&] {
    const Graph step = step_of(gpt(4), options);
    std::vector<int> counts;
    for (int layer = 0; layer < 4; ++layer) counts.push_back(recomputed(step, layer));
    return counts;
  };
  const std::vector<int> alone = by_layer();
  const int whole = alone[0], core = 4;
  EXPECT_GT(whole, core);
  EXPECT_EQ(alone, (std::vector{whole, 0, 0, whole}));
  options.recompute_others = Recompute::selective;
  EXPECT_EQ(by_layer(), (std::vector{whole, core, core, whole}));
  options.recompute = Recompute::selective, options.recompute_others = Recompute::none;
  EXPECT_EQ(by_layer(), (std::vector{core, 0, 0, core}));
}

// Recomputed ops of the first layer in their order, without ".recomputed". Of `with`, what runs before them.
std::vector<std::string> recomputed_names(const Graph& step, const std::set<std::string>& with = {}) {
  std::vector<std::string> names;
  const std::string_view suffix = ".recomputed";
  for (const Op& op : step.ops) {
    if (op.layer != 0 || op.phase != Phase::backward) continue;
    if (op.recomputed)
      names.push_back(op.name.substr(0, op.name.size() - suffix.size()));
    else if (with.contains(op.name))
      names.push_back(op.name);
  }
  return names;
}

Graph mixture_step(const std::set<ir::Module>& modules) {
  auto config = tiny("llama");
  config.experts = 4, config.top_k = 2, config.shared_experts = 1, config.weigh_inside = true;
  TrainOptions options = plain();
  options.recompute = Recompute::selective, options.recompute_modules = modules;
  options.off = {"fuse_patterns", "fuse_elementwise"};
  return step_of(ir::models::build(config, 2), options);
}

TEST(Recompute, OfModulesRunsThemAloneAgain) {
  using enum ir::Module;
  using Names = std::vector<std::string>;
  EXPECT_EQ(recomputed_names(mixture_step({moe_act})), (Names{"h0.mlp.swiglu", "h0.mlp.weighed"}));
  EXPECT_EQ(recomputed_names(mixture_step({layernorm})), (Names{"h0.ln2", "h0.ln1"}));
  EXPECT_EQ(recomputed_names(mixture_step({shared_experts})),
            (Names{"h0.mlp.shared.fc1", "h0.mlp.shared.swiglu", "h0.mlp.shared.fc2"}));
  EXPECT_EQ(recomputed_names(mixture_step({mlp})), Names());  // all layers have experts
  const Names all = recomputed_names(mixture_step({moe, moe_act, shared_experts}));
  EXPECT_EQ(all, recomputed_names(mixture_step({moe})));
  EXPECT_EQ(all.front(), "h0.mlp.router");
  EXPECT_EQ(all.back(), "h0.mlp.sum");
}

// Each waits for its first reader. Experts read a norm's result, which runs before them though no backward op
// has asked for it.
TEST(Recompute, OfModulesRunsEachWhereItIsNeeded) {
  using enum ir::Module;
  const std::string gradient = "h0.attn.proj.grad_w";
  const std::vector<std::string> names = recomputed_names(mixture_step({layernorm, moe}), {gradient});
  EXPECT_EQ(names.front(), "h0.ln2");
  EXPECT_EQ(names.back(), "h0.ln1");
  EXPECT_EQ(at(names, names.size() - 2), gradient);
  for (const Graph& step : {mixture_step({layernorm, moe}), mixture_step({layernorm, moe_act})})
    for (const Op& op : step.ops)
      if (op.layer == 0 && op.phase == Phase::backward)
        for (const ir::TensorId input : op.inputs) {
          const Op& made = at(step.ops, step.tensor(input).producer);
          EXPECT_FALSE(made.runs_again) << op.name << " keeps %" << step.tensor(input).name;
        }
}

// An early stop is of whole layers: it leaves no result of a module's first run to be read.
TEST(Recompute, OfModulesStopsNowhere) {
  for (const bool stops : {false, true}) {
    TrainOptions options = plain();
    options.recompute = Recompute::full, options.recompute_layers = {0};
    options.recompute_others = Recompute::selective, options.recompute_stop = stops;
    options.recompute_modules = {ir::Module::core_attn, ir::Module::layernorm, ir::Module::mlp};
    const Graph step = step_of(gpt(2), options);
    EXPECT_GT(recomputed(step, 0), 0);
    for (const Op& op : step.ops) {
      if (op.phase != Phase::backward) continue;
      for (const ir::TensorId input : op.inputs)
        EXPECT_FALSE(at(step.ops, step.tensor(input).producer).runs_again)
            << op.name << " keeps %" << step.tensor(input).name;
    }
  }
}

TEST(Recompute, SelectiveRunsTheAttentionCoreAgain) {
  TrainOptions options = plain();
  options.recompute = Recompute::selective;
  const Graph step = step_of(gpt(), options);
  std::vector<std::string> names;
  for (const Op& op : step.ops)
    if (op.recomputed) names.push_back(op.name);
  EXPECT_THAT(names,
              testing::ElementsAre("h0.attn.core.scores.recomputed", "h0.attn.core.softmax.recomputed",
                                   "h0.attn.core.dropout.recomputed", "h0.attn.core.context.recomputed"));
}

}  // namespace
}  // namespace boxcar::tests

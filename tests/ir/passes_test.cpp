// Every pass keeps losses and updated weights; and each pass's effect on the list of ops.
#include "ir/passes/passes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <set>
#include <type_traits>

#include "graphs.h"
#include "ir/models/conv_net.h"
#include "sbp/at.h"
#include "sbp/error.h"

namespace boxcar::tests {
namespace {

using backends::cpu::Values;
using ir::Graph;
using ir::Op;
using ir::Phase;
using ir::Recompute;
using ir::TrainOptions;

int count(const Graph& graph, std::string_view type) {
  int n = 0;
  for (const Op& op : graph.ops) n += op.type == type;
  return n;
}

// Loss and all next states of `step` equal those of `wanted`, on the same random values.
void expect_same(const Graph& step, const Graph& wanted, uint64_t seed, double tolerance = 1e-9) {
  SCOPED_TRACE(fmt::format("seed {}", seed));
  const Values given = backends::cpu::draw(wanted, seed, 11);
  const Values a = backends::cpu::evaluate(step, given), b = backends::cpu::evaluate(wanted, given);
  expect_near(a.at("loss"), b.at("loss"), "loss", tolerance);
  ASSERT_FALSE(wanted.updates.empty());
  for (const ir::Update& update : wanted.updates) {
    const std::string& name = wanted.tensor(update.next).name;
    ASSERT_TRUE(a.contains(name)) << name;
    expect_near(a.at(name), b.at(name), name, tolerance);
  }
}

// sgd, so that an error in a gradient shows in full.
TrainOptions sgd() {
  TrainOptions options = plain();
  options.optimizer = ir::Optimizer::sgd;
  options.learning_rate = 1;
  return options;
}

Graph unchanged(const Graph& forward) {
  TrainOptions options = sgd();
  options.off = {"fuse_patterns", "fuse_elementwise"};
  return step_of(forward, options);
}

std::vector<ir::models::Transformer> styles() {
  auto gpt = tiny("gpt"), llama = tiny("llama"), mixed = tiny("gpt"), bert = tiny("bert");
  gpt.layers = 2;
  bert.gelu = "tanh";
  llama.kv_heads = 2;
  mixed.bias = false;
  mixed.kv_heads = 2;
  auto mixture = tiny("llama");
  mixture.experts = 4;
  mixture.top_k = 2;
  return {gpt, llama, mixed, bert, mixture};
}

class PassTest : public testing::TestWithParam<size_t> {
 protected:
  Graph forward = ir::models::build(styles()[GetParam()], 2);
  Graph wanted = unchanged(forward);
};
INSTANTIATE_TEST_SUITE_P(Styles, PassTest, testing::Range(size_t{0}, size_t{5}));

TEST_P(PassTest, FusionChangesNoNumber) { expect_same(step_of(forward, sgd()), wanted, 1); }

TEST_P(PassTest, ElementwiseFusionAloneChangesNoNumber) {
  TrainOptions options = sgd();
  options.off = {"fuse_patterns"};
  expect_same(step_of(forward, options), wanted, 9);
}

// A square reads its input twice.
TEST(Passes, AChainThatIsReadTwiceByOneOpIsFused) {
  ir::Builder b("squares");
  const ir::TensorType three{{3}, ir::DType::float32};
  const ir::TensorId x = b.parameter("x", three), y = b.input("y", three);
  const ir::TensorId off = b.op1("sub", {x, y}, {}, "off");
  b.op1("reduce_mean", {b.op1("mul", {off, off}, {}, "square")}, {{"axes", ir::Shape{0}}}, "loss");
  const Graph forward = b.finish(), step = step_of(forward, sgd());
  EXPECT_EQ(count(step, "fused"), 1);
  expect_same(step, unchanged(forward), 1);
}

TEST_P(PassTest, FlashAttentionChangesNoNumber) {
  TrainOptions options = sgd();
  options.flash = true;
  const Graph step = step_of(forward, options);
  EXPECT_EQ(count(step, "scaled_dot_product_attention"), forward.layers);
  for (const Op& op : step.ops)
    EXPECT_TRUE(op.type != "batch_matmul" || op.name.find(".core.") == std::string::npos) << op.name;
  expect_same(step, wanted, 2);
}

TEST_P(PassTest, EpiloguesChangeNoNumber) {
  for (const Recompute recompute : {Recompute::none, Recompute::full}) {
    TrainOptions options = sgd();
    options.epilogues = true;
    options.recompute = recompute;
    const Graph step = step_of(forward, options);
    int biases = 0;
    for (const ir::Tensor& tensor : forward.tensors)
      biases += tensor.role == ir::Role::parameter && tensor.name.ends_with("qkv.bias");
    EXPECT_EQ(count(step, "matmul_bias_grad") > 0, biases > 0);
    EXPECT_EQ(count(step, "matmul_bias") > 0, biases > 0);
    expect_same(step, wanted, 3);
  }
  TrainOptions mixed = sgd();
  mixed.epilogues = true;
  mixed.precision = ir::Precision::bf16;
  mixed.micro_batches = 1;
  expect_same(step_of(forward, mixed), wanted, 4);
}

TEST_P(PassTest, AFusedLossChangesNoNumber) {
  for (const bool whole : {true, false}) {
    TrainOptions options = sgd();
    options.fused_loss = true;
    options.whole_classes = whole;
    const Graph step = step_of(forward, options);
    EXPECT_EQ(count(step, "cross_entropy_parts") > 0, whole);
    EXPECT_EQ(count(step, "sum_exp_pick") > 0, !whole);
    EXPECT_EQ(count(step, "sum_exp") + count(step, "pick"), 0);
    expect_same(step, wanted, 3);
    options.precision = ir::Precision::bf16;
    options.half_logits = true;
    options.micro_batches = 1;
    expect_same(step_of(forward, options), wanted, 4);
  }
}

TEST_P(PassTest, RecomputationChangesNoNumber) {
  for (const Recompute recompute : {Recompute::selective, Recompute::full, Recompute::ops}) {
    TrainOptions options = sgd();
    options.recompute = recompute;
    const Graph step = step_of(forward, options);
    EXPECT_GT(step.ops.size(), step_of(forward, sgd()).ops.size());
    expect_same(step, wanted, 3);
  }
}

// Nothing is rounded here, so half types and the loss scale cancel out.
TEST_P(PassTest, MixedPrecisionComputesTheSame) {
  for (const ir::Precision precision : {ir::Precision::fp16, ir::Precision::bf16, ir::Precision::fp8}) {
    TrainOptions options = sgd();
    options.precision = precision;
    options.recompute = Recompute::full;
    expect_same(step_of(forward, options), wanted, 4);
    options.half_logits = true;
    for (const ir::Gradients kept : {ir::Gradients::half, ir::Gradients::half_but_tables}) {
      options.gradients = kept;
      expect_same(step_of(forward, options), wanted, 4);
    }
  }
}

TEST_P(PassTest, AccumulationOfOneMicroBatchIsHalfOfTwo) {
  TrainOptions options = sgd();
  options.micro_batches = 2;
  options.learning_rate = 2;  // evaluate() sees one of the two
  expect_same(step_of(forward, options), wanted, 5);
}

TEST_P(PassTest, ClippingScalesTheGlobalNorm) {
  const Values given = backends::cpu::draw(wanted, 6, 11);
  const Values before = backends::cpu::evaluate(wanted, given);
  double norm2 = 0;
  for (const ir::Update& update : wanted.updates) {
    const auto& w = given.at(wanted.tensor(update.state).name).data;
    const auto& next = before.at(wanted.tensor(update.next).name).data;
    for (size_t i = 0; i < w.size(); ++i) norm2 += (w[i] - next[i]) * (w[i] - next[i]);
  }
  TrainOptions options = sgd();
  options.clip_norm = std::sqrt(norm2) / 4;
  options.precision = ir::Precision::fp16;
  const Graph step = step_of(forward, options);
  const Values after = backends::cpu::evaluate(step, given);
  EXPECT_NEAR(after.at("grad_scale").data[0] * options.loss_scale, 0.25, 1e-5);
  EXPECT_EQ(after.at("grads_finite").data[0], 1);
  for (const ir::Update& update : step.updates) {
    const std::string state = step.tensor(update.state).name, name = step.tensor(update.next).name;
    for (size_t i = 0; i < given.at(state).data.size(); ++i) {
      const double w = given.at(state).data[i];
      ASSERT_NEAR(after.at(name).data[i] - w, 0.25 * (before.at(name).data[i] - w), 1e-5) << name;
    }
  }
}

// From moments of zero a matrix moves by the learning rate times its norm under LAMB, and by a thousandth of
// that under LARS; vectors move as under Adam and momentum without decay.
TEST_P(PassTest, TrustRatiosAreOfMatrices) {
  struct Row {
    ir::Optimizer optimizer, of_vectors;
    double decay, share;
  };
  for (const Row& row : {Row{ir::Optimizer::lamb, ir::Optimizer::adam, 0.5, 1.0},
                         Row{ir::Optimizer::lars, ir::Optimizer::momentum, 0.0, 1e-3}}) {
    TrainOptions options = sgd();
    ir::set_optimizer(options, row.optimizer);
    options.learning_rate = 0.25, options.weight_decay = row.decay, options.clip_norm = 0.5;
    const Graph step = step_of(forward, options);
    options.optimizer = row.of_vectors;
    const Graph plainly = step_of(forward, options);
    const Values given = backends::cpu::draw(step, 12, 11);
    const Values after = backends::cpu::evaluate(step, given),
                 plain = backends::cpu::evaluate(plainly, given);
    int matrices = 0;
    for (const ir::Update& update : step.updates) {
      const std::string& state = step.tensor(update.state).name;
      if (step.tensor(update.state).type.shape.size() == 1) {
        expect_near(after.at(state + ".next"), plain.at(state + ".next"), state);
      } else if (!state.ends_with(".m") && !state.ends_with(".v")) {
        const auto &old = given.at(state).data, &next = after.at(state + ".next").data;
        double moved = 0, norm = 0;
        for (size_t i = 0; i < old.size(); ++i)
          moved += (next[i] - old[i]) * (next[i] - old[i]), norm += old[i] * old[i];
        if (moved == 0) continue;  // no token went to this expert
        EXPECT_NEAR(std::sqrt(moved / norm), 0.25 * row.share, 1e-4 * row.share) << state;
        ++matrices;
      }
    }
    EXPECT_GT(matrices, 4);
  }
}

TEST_P(PassTest, DoublePrecisionIsOfEveryFloat) {
  for (const ir::Optimizer optimizer :
       {ir::Optimizer::sgd, ir::Optimizer::momentum, ir::Optimizer::adam, ir::Optimizer::lamb}) {
    TrainOptions options;
    options.precision = ir::Precision::fp64;
    options.optimizer = optimizer;
    options.recompute = Recompute::selective;
    options.micro_batches = 2;
    const Graph step = step_of(forward, options);
    for (const ir::Tensor& tensor : step.tensors) {
      const bool chosen = at(step.ops, tensor.producer).type == "one_hot";  // 0 or 1, then cast
      EXPECT_EQ(tensor.type.dtype != ir::DType::float64 && ir::is_float(tensor.type.dtype), chosen)
          << tensor.name;
    }
  }
  TrainOptions options = sgd();
  options.precision = ir::Precision::fp64;
  const Graph step = step_of(forward, options);
  const Values given = backends::cpu::draw(step, 8, 11);
  const Values wide = backends::cpu::evaluate(step, given);
  Values narrow = backends::cpu::draw(wanted, 8, 11);
  narrow = backends::cpu::evaluate(wanted, narrow);
  for (const ir::Update& update : wanted.updates)
    expect_near(wide.at(wanted.tensor(update.next).name), narrow.at(wanted.tensor(update.next).name),
                "state");
}

// --- what the passes do

TEST(Passes, OverflowLeavesTheStateAsItWas) {
  TrainOptions options = sgd();
  options.precision = ir::Precision::fp16;
  const Graph step = step_of(gpt(), options);
  Values given = backends::cpu::draw(step, 7, 11);
  given.at("ln_f.weight").data[0] = std::numeric_limits<double>::infinity();
  const Values after = backends::cpu::evaluate(step, given);
  EXPECT_EQ(after.at("grads_finite").data[0], 0);
  for (const ir::Update& update : step.updates)
    EXPECT_EQ(after.at(step.tensor(update.next).name).data, given.at(step.tensor(update.state).name).data);
}

TEST(Passes, HalfGradientsAreKeptInSixteenBits) {
  TrainOptions options = sgd();
  options.precision = ir::Precision::bf16;
  const auto types = [&] {
    const Graph step = step_of(gpt(), options);
    std::set<ir::DType> found;
    for (const Op& op : step.ops)
      if (op.type == "accumulate") found.insert(step.tensor(op.outputs[0]).type.dtype);
    return found;
  };
  EXPECT_EQ(types(), std::set{ir::DType::float32});
  options.gradients = ir::Gradients::half;
  EXPECT_EQ(types(), std::set{ir::DType::bfloat16});
  options.gradients = ir::Gradients::half_but_tables;
  EXPECT_EQ(types(), (std::set{ir::DType::float32, ir::DType::bfloat16}));
}

TEST(Passes, HalfLogitsAreNotCast) {
  TrainOptions options = sgd();
  options.precision = ir::Precision::bf16;
  const auto type_read = [&] {
    const Graph step = step_of(gpt(), options);
    for (const Op& op : step.ops)
      if (op.type == "sum_exp") return step.tensor(op.inputs[0]).type.dtype;
    return ir::DType::int8;
  };
  EXPECT_EQ(type_read(), ir::DType::float32);
  options.half_logits = true;
  EXPECT_EQ(type_read(), ir::DType::bfloat16);
}

// Experts' results are weighed by the op that makes them, which keeps its operands.
TEST(Passes, TheWeightsOfExpertsJoinSwiglu) {
  auto config = tiny("llama");
  config.experts = 4, config.top_k = 2, config.weigh_inside = true;
  const auto step = [&] { return step_of(ir::models::build(config, 2), plain()); };
  EXPECT_EQ(count(step(), "weighed_swiglu_pairs"), config.layers);
  EXPECT_EQ(count(step(), "weighed_swiglu_pairs_grad"), config.layers);
  EXPECT_EQ(count(step(), "swiglu_pairs"), 0);
  config.weigh_inside = false;
  EXPECT_EQ(count(step(), "weighed_swiglu_pairs"), 0);
  EXPECT_EQ(count(step(), "swiglu_pairs"), config.layers);
}

TEST(Passes, PatternsOfALayer) {
  const Graph step = step_of(gpt(), plain());
  EXPECT_EQ(count(step, "bias_gelu"), 1);
  EXPECT_EQ(count(step, "bias_dropout_add"), 2);
  EXPECT_EQ(count(step, "scale_mask_softmax"), 1);
  EXPECT_EQ(count(step, "gelu"), 0);
  EXPECT_EQ(count(step, "causal_mask"), 0);
}

// One of four products has its own bias, all a bias gradient. The last one sums the residual's gradient.
TEST(Passes, ProductsOfALayerTakeBiases) {
  TrainOptions options = plain();
  options.epilogues = true;
  const Graph step = step_of(gpt(), options);
  EXPECT_EQ(count(step, "matmul_bias"), 1);
  EXPECT_EQ(count(step, "matmul_bias_grad"), 4);
  EXPECT_EQ(count(step, "matmul_add"), 0);
  const ir::TensorId made = ir::find_tensor(step, "h0.attn.qkv.bias_add");
  EXPECT_EQ(at(step.ops, step.tensor(made).producer).type, "matmul_bias");
  for (const Op& op : step.ops)
    EXPECT_TRUE(op.type != "reduce_sum" || op.name.find("attn") == std::string::npos) << op.name;
}

// Products also take residuals, with or without biases, where no dropout comes before.
TEST(Passes, ProductsOfALayerTakeResiduals) {
  for (const char* family : {"gpt", "llama"}) {
    ir::models::Transformer model = tiny(family);
    model.dropout = 0;
    const Graph forward = ir::models::build(model, 2);
    TrainOptions options = sgd();
    options.epilogues = true;
    const Graph step = step_of(forward, options);
    EXPECT_EQ(count(step, "matmul_add"), 2 * model.layers);
    expect_same(step, unchanged(forward), 5);
    options.whole_products = false;
    EXPECT_EQ(count(step_of(forward, options), "matmul_add"), 0);
  }
}

// GELU with tanh and its gradient fuse into products with the bias's; the exact one does not.
TEST(Passes, ProductsTakeGelu) {
  for (const Recompute recompute : {Recompute::none, Recompute::full}) {
    TrainOptions options = plain();
    options.epilogues = true;
    options.recompute = recompute;
    const auto model = [](const char* form) {
      ir::models::Transformer config = tiny("gpt");
      config.gelu = form;
      return ir::models::build(config, 2);
    };
    const Graph exact = step_of(model("erf"), options), step = step_of(model("tanh"), options);
    const int layers = count(exact, "bias_gelu_grad"), again = recompute == Recompute::full ? 2 : 1;
    EXPECT_GT(layers, 0);
    EXPECT_EQ(count(exact, "matmul_bias_gelu") + count(exact, "matmul_dgelu"), 0);
    EXPECT_EQ(count(step, "matmul_bias_gelu"), again * layers);
    EXPECT_EQ(count(step, "matmul_dgelu"), layers);
    EXPECT_EQ(count(step, "bias_gelu") + count(step, "bias_gelu_grad") + count(step, "gelu_grad"), 0);
    EXPECT_EQ(count(step, "matmul_bias_grad"), count(exact, "matmul_bias_grad") - layers);
  }
}

// A product read twice, a column of biases, and the sum over columns stay unfused.
TEST(Passes, ProductsWithOtherReadersKeepTheirBiasesApart) {
  ir::Builder b("kept");
  const auto f32 = [](ir::Shape shape) { return ir::TensorType{std::move(shape), ir::DType::float32}; };
  const auto x = b.parameter("x", f32({2, 4}));
  const auto twice = b.op1("matmul", {x, b.parameter("v", f32({4, 4}))});
  const auto first = b.op1("add", {b.op1("add", {twice, b.parameter("row", f32({4}))}), twice});
  const auto other = b.op1("matmul", {first, b.parameter("w", f32({4, 3}))});
  const auto second = b.op1("add", {other, b.parameter("column", f32({2, 1}))});
  b.op("reduce_sum", {second}, {{"axes", ir::Shape{0, 1}}}, "loss");
  TrainOptions options = plain();
  options.off = {"fuse_elementwise"};
  options.epilogues = true;
  const Graph step = step_of(b.finish(), options);
  EXPECT_EQ(count(step, "matmul_bias"), 0);
  EXPECT_EQ(count(step, "matmul_bias_grad"), 0);
  EXPECT_EQ(count(step, "matmul_weight_grad"), 2);
}

TEST(Passes, AReaderOfAnInnerStepForbidsFusion) {
  ir::Builder b("kept");
  const auto x = b.parameter("x", {{2, 4}, ir::DType::float32});
  const auto sum = b.op1("add", {x, b.parameter("bias", {{4}, ir::DType::float32})});
  const auto y = b.op1("add", {b.op1("gelu", {sum}), b.op1("neg", {sum})});
  b.op("reduce_sum", {y}, {{"axes", ir::Shape{0, 1}}}, "loss");
  TrainOptions options = plain();
  options.off = {"fuse_elementwise"};
  EXPECT_EQ(count(step_of(b.finish(), options), "bias_gelu"), 0);
}

TEST(Passes, HalfCopiesAreMadeOfFloatMastersOncePerStep) {
  TrainOptions options;
  options.precision = ir::Precision::bf16;
  const Graph step = step_of(gpt(), options);
  for (const Op& op : step.ops) {
    if (op.phase == Phase::update) continue;
    for (const ir::TensorId input : op.inputs)
      EXPECT_NE(step.tensor(input).role, ir::Role::optimizer)
          << op.name << " reads %" << step.tensor(input).name;
  }
  EXPECT_EQ(to_text(step.tensor(ir::find_tensor(step, "h0.mlp.fc1.weight.half")).type), "bfloat16[8, 12]");
  EXPECT_EQ(to_text(step.tensor(ir::find_tensor(step, "h0.mlp.fc1.weight.grad.sum")).type), "float32[8, 12]");
  EXPECT_EQ(to_text(step.tensor(ir::find_tensor(step, "h0.ln1.mean")).type), "float32[2, 3]");
  EXPECT_EQ(to_text(step.tensor(ir::find_tensor(step, "loss")).type), "float32[]");
  EXPECT_THROW(ir::find_tensor(step, "grads_finite"), Error);
}

ir::Attrs update_of(const TrainOptions& options, const std::string& weight) {
  const Graph step = step_of(gpt(), options);
  for (const ir::Update& update : step.updates)
    if (step.tensor(update.state).name == weight)
      return at(step.ops, step.tensor(update.next).producer).attrs;
  return {};
}

// Biases of experts and of channels have more than one axis.
TEST(Passes, VectorsNeitherDecayNorHaveATrustRatio) {
  ir::models::Transformer model = tiny("gpt");
  model.experts = 4, model.expert_ffn = 12, model.top_k = 2;
  const ir::models::ConvNet net{"alexnet", 8, 4, 1, 64, 10};
  TrainOptions options = plain();
  ir::set_optimizer(options, ir::Optimizer::lamb);
  options.weight_decay = 0.1;
  for (const Graph& forward : {ir::models::build(model, 2), ir::models::build(net, 2)}) {
    const Graph step = step_of(forward, options);
    for (const ir::Update& update : step.updates) {
      const std::string& weight = step.tensor(update.state).name;
      if (weight.ends_with(".m") || weight.ends_with(".v")) continue;
      const Op& op = at(step.ops, step.tensor(update.next).producer);
      const bool matrix = weight.starts_with("embedding.") ||
                          (weight.ends_with(".weight") && weight.find("ln") == std::string::npos);
      EXPECT_EQ(op.type, matrix ? "lamb" : "adam") << weight;
      EXPECT_EQ(ir::attr_float(op.attrs, "weight_decay"), matrix ? 0.1 : 0) << weight;
    }
  }
}

TEST(Passes, OptimizersAreAsTheOptionsSay) {
  TrainOptions options;
  options.weight_decay = 0.1, options.beta1 = 0.8, options.beta2 = 0.95, options.eps = 1e-6;
  EXPECT_EQ(ir::to_text(update_of(options, "h0.mlp.fc1.weight")),
            "{beta1=0.8, beta2=0.95, eps=1e-06, lr=0.0001, step=1, weight_decay=0.1}");
  EXPECT_EQ(ir::attr_float(update_of(options, "h0.ln1.weight"), "weight_decay"), 0);
  EXPECT_EQ(ir::attr_float(update_of(options, "h0.mlp.fc1.bias"), "weight_decay"), 0);
  options.optimizer = ir::Optimizer::momentum, options.momentum = 0.5;
  EXPECT_EQ(ir::to_text(update_of(options, "h0.mlp.fc1.weight")),
            "{lr=0.0001, momentum=0.5, weight_decay=0.1}");
  options.optimizer = ir::Optimizer::lars, options.trust_coefficient = 0.25;
  EXPECT_EQ(ir::to_text(update_of(options, "h0.mlp.fc1.weight")),
            "{eps=1e-06, lr=0.0001, momentum=0.5, trust_coefficient=0.25, weight_decay=0.1}");
}

TEST(Passes, ATiedEmbeddingIsAddedUpOncePerStep) {
  TrainOptions options;
  options.micro_batches = 4;
  const Graph step = step_of(gpt(), options);
  const Op& sum = at(step.ops, step.tensor(ir::find_tensor(step, "embedding.word.grad.sum")).producer);
  EXPECT_EQ(sum.type, "add");
  EXPECT_EQ(sum.phase, Phase::update);
  std::vector<int> layers;
  for (const ir::TensorId part : sum.inputs) {
    const Op& accumulate = at(step.ops, step.tensor(part).producer);
    EXPECT_EQ(accumulate.type, "accumulate");
    layers.push_back(accumulate.layer);
  }
  EXPECT_THAT(layers, testing::UnorderedElementsAre(-1, 1));
}

TEST(Passes, OneGradientCrossesFromLayerToLayer) {
  const Graph step = step_of(gpt(3), plain());
  for (int layer = 0; layer + 1 < 3; ++layer) {
    std::set<std::string> crossing;
    for (const Op& op : step.ops) {
      if (op.phase != Phase::backward || op.layer != layer) continue;
      for (const ir::TensorId input : op.inputs) {
        const Op& made = at(step.ops, step.tensor(input).producer);
        if (made.phase == Phase::backward && made.layer == layer + 1)
          crossing.insert(step.tensor(input).name);
      }
    }
    EXPECT_EQ(crossing.size(), 1u);
  }
}

TEST(Passes, NamesMustBeKnown) {
  TrainOptions options;
  options.off = {"fuse_pattern"};
  try {
    step_of(gpt(), options);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "passes: no pass 'fuse_pattern' (did you mean fuse_patterns?)");
  }
}

TEST(Passes, AnyMayBeSwitchedOff) {
  for (const std::string& name : ir::pass_names()) {
    TrainOptions options;
    options.recompute = Recompute::full;
    options.off = {name};
    EXPECT_NO_THROW(step_of(gpt(), options)) << name;
  }
}

// Fusions, recomputation and other rewrites of a step, in every combination.
void expect_any_passes_together(unsigned seed, int count) {
  std::mt19937 random(seed);
  const auto pick = [&](auto... all) {
    const std::common_type_t<decltype(all)...> values[] = {all...};
    return values[random() % sizeof...(all)];
  };
  std::vector<ir::models::Transformer> all = styles();
  all.push_back(tiny("t5"));
  all.back().layers = 2;
  all[0].dropout = 0;  // a residual's product fuses it
  std::vector<Graph> forwards, wanted;
  for (const auto& style : all) {
    forwards.push_back(ir::models::build(style, 2));
    wanted.push_back(unchanged(forwards.back()));
  }
  for (int i = 0; i < count; ++i) {
    TrainOptions options = sgd();
    const size_t style = random() % all.size();
    options.recompute = pick(Recompute::none, Recompute::selective, Recompute::full, Recompute::ops);
    options.recompute_others = pick(Recompute::none, Recompute::selective, Recompute::ops);
    if (pick(true, false)) options.recompute_layers = {1};
    options.recompute_stop = pick(true, false);
    options.epilogues = pick(true, true, false);
    options.whole_products = pick(true, false);
    options.flash = pick(true, false);
    options.fused_loss = pick(true, false);
    options.whole_classes = pick(true, false);
    options.optimizer = pick(ir::Optimizer::sgd, ir::Optimizer::adam);
    for (const char* fusion : {"fuse_patterns", "fuse_elementwise", "fuse_loss", "fuse_products"})
      if (random() % 3 == 0) options.off.insert(fusion);
    SCOPED_TRACE(fmt::format(
        "seed {} case {}: style {} recompute {} others {} layers {} stop {} epilogues {} whole products {} "
        "flash {} fused loss {} whole classes {} off {}",
        seed, i, style, static_cast<int>(options.recompute), static_cast<int>(options.recompute_others),
        fmt::join(options.recompute_layers, ","), options.recompute_stop, options.epilogues,
        options.whole_products, options.flash, options.fused_loss, options.whole_classes,
        fmt::join(options.off, ",")));
    Graph step;
    ASSERT_NO_THROW(step = step_of(forwards[style], options));
    if (options.optimizer == ir::Optimizer::sgd) expect_same(step, wanted[style], 20);
    if (testing::Test::HasFailure()) return;
  }
}

TEST(Passes, AnyTogetherChangeNoNumber) { expect_any_passes_together(1, 60); }
TEST(Passes, LongAnyTogetherChangeNoNumber) { expect_any_passes_together(2, 1500); }

// The bias's gradient is summed before the weight gradient's recomputed operand exists.
TEST(Passes, AFusedOpStandsBehindItsRecomputedOperand) {
  auto model = tiny("gpt");
  model.gelu = "tanh";
  TrainOptions options = sgd();
  options.epilogues = true;
  options.recompute = Recompute::ops;
  const Graph forward = ir::models::build(model, 2), step = step_of(forward, options);
  bool recomputed = false;
  for (const Op& op : step.ops)
    if (op.type == "matmul_bias_grad")
      for (const ir::TensorId input : op.inputs)
        recomputed |= at(step.ops, step.tensor(input).producer).recomputed;
  EXPECT_TRUE(recomputed);
  expect_same(step, unchanged(forward), 1);
}

}  // namespace
}  // namespace boxcar::tests

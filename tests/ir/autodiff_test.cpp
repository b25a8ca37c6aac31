// Gradients against finite differences: of every op with a rule, and of whole models.
#include "ir/autodiff.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>

#include "graphs.h"
#include "ir/grad/rules.h"
#include "ir/ops/pointwise.h"
#include "sbp/error.h"

namespace boxcar::tests {
namespace {

using backends::cpu::evaluate;
using backends::cpu::Values;
using ir::Attrs;
using ir::Builder;
using ir::DType;
using ir::Graph;
using ir::Shape;
using ir::TensorId;
using ir::TensorType;

double loss_at(const Graph& forward, const Values& values) {
  return evaluate(forward, values).at("loss").data[0];
}

// Compares "<parameter>.grad" with central differences of the loss, at up to 12 elements of every parameter.
void expect_gradients(const Graph& forward, uint64_t seed, int64_t below) {
  SCOPED_TRACE(fmt::format("seed {}", seed));
  Graph graph = forward;
  const auto gradients = ir::differentiate(graph, ir::find_tensor(graph, "loss"));
  verify(graph);
  ASSERT_FALSE(gradients.empty());
  Values given = backends::cpu::draw(forward, seed, below);
  const Values values = evaluate(graph, given);
  constexpr double step = 1e-5;
  for (const ir::Gradient& gradient : gradients) {
    const std::string name = graph.tensor(gradient.parameter).name;
    const std::vector<double>& exact = values.at(graph.tensor(gradient.gradient).name).data;
    std::vector<double>& x = given.at(name).data;
    ASSERT_EQ(x.size(), exact.size()) << name;
    for (size_t i = 0; i < x.size(); i += 1 + x.size() / 12) {
      const double before = x[i];
      x[i] = before + step;
      const double above = loss_at(forward, given);
      x[i] = before - step;
      const double under = loss_at(forward, given);
      x[i] = before;
      const double slope = (above - under) / (2 * step);
      ASSERT_NEAR(exact[i], slope, 1e-6 * (1 + std::abs(slope))) << name << "[" << i << "]";
    }
  }
}

Graph model(ir::models::Transformer config) { return ir::models::build(config, 2); }

TEST(Autodiff, Gpt) { expect_gradients(model(tiny("gpt")), 1, 11); }
TEST(Autodiff, Bert) { expect_gradients(model(tiny("bert")), 2, 11); }
TEST(Autodiff, Llama) { expect_gradients(model(tiny("llama")), 3, 11); }

TEST(Autodiff, GroupedQueries) {
  auto config = tiny("llama");
  config.kv_heads = 2;
  expect_gradients(model(config), 4, 11);
}

TEST(Autodiff, FlashAttention) {
  auto config = tiny("gpt");
  config.flash = true;
  config.kv_heads = 2;
  expect_gradients(model(config), 5, 11);
}

TEST(Autodiff, MixedStyles) {
  auto config = tiny("gpt");
  config.position = "rotary";
  config.norm = "rms";
  config.mlp = "swiglu";
  config.layers = 2;
  config.tied = false;
  expect_gradients(model(config), 6, 11);
}

TEST(Autodiff, Mlp) {
  Builder b("mlp");
  TensorId x = b.input("x", {{4, 5}, DType::float32});
  for (const int layer : {0, 1}) {
    b.set_layer(layer, fmt::format("h{}", layer));
    x = b.op1("matmul", {x, b.parameter("w", {{5, 5}, DType::float32})});
    x = b.op1("relu", {b.op1("add", {x, b.parameter("bias", {{5}, DType::float32})})});
  }
  b.set_layer(2, "");
  b.op("reduce_mean", {b.op1("mul", {x, x})}, {{"axes", Shape{0, 1}}}, "loss");
  expect_gradients(b.finish(), 11, 2);
}

// Several layers read one tensor: each adds its own gradients to the sum of the layers behind it.
TEST(Autodiff, LayersAddToTheSumOfThoseBehindThem) {
  Builder b("shared");
  b.set_layer(0, "h0");
  const TensorId memory = b.op1("relu", {b.parameter("w", {{3, 3}, DType::float32})}, {}, "memory");
  TensorId x = memory;
  for (const int layer : {1, 2, 3}) {
    b.set_layer(layer, fmt::format("h{}", layer));
    const TensorId y = b.op1("add", {b.op1("matmul", {memory, x}), b.op1("tanh", {memory})});
    x = b.op1("tanh", {y});
  }
  b.set_layer(4, "");
  b.op("reduce_mean", {b.op1("mul", {x, x})}, {{"axes", Shape{0, 1}}}, "loss");
  const Graph forward = b.finish();
  expect_gradients(forward, 12, 2);
  Graph graph = forward;
  ir::differentiate(graph, ir::find_tensor(graph, "loss"));
  std::vector<std::pair<std::string, int>> sums;
  for (const ir::Op& op : graph.ops)
    if (const std::string& name = graph.tensor(op.outputs[0]).name;
        op.type == "add" && name.starts_with("h0.memory.grad"))
      sums.emplace_back(name, op.layer);
  EXPECT_EQ(sums, (std::vector<std::pair<std::string, int>>{{"h0.memory.grad.partial1", 3},
                                                            {"h0.memory.grad.partial2", 2},
                                                            {"h0.memory.grad.partial3", 2},
                                                            {"h0.memory.grad.partial4", 1},
                                                            {"h0.memory.grad.partial5", 1},
                                                            {"h0.memory.grad", 1}}));
}

TEST(Autodiff, MixtureOfExperts) {
  for (const char* family : {"gpt", "llama"}) {
    auto config = tiny(family);
    config.experts = 4;
    config.top_k = 2;
    expect_gradients(model(config), 10, 11);
  }
}

// --- one op at a time: loss = sum of weights times the op's results

struct Call {
  const char* op;
  std::vector<TensorType> inputs;
  Attrs attrs = {};
  size_t outputs = 1;  // results that the loss depends on
};

TensorType f32(Shape shape) { return {std::move(shape), DType::float32}; }
TensorType i64(Shape shape) { return {std::move(shape), DType::int64}; }

std::ostream& operator<<(std::ostream& out, const Call& call) {
  return out << call.op << ir::to_text(call.attrs);
}

Graph graph_of(const Call& call) {
  Builder b(call.op);
  std::vector<TensorId> inputs;
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    const std::string name = fmt::format("x{}", i);
    const TensorType& type = call.inputs[i];
    inputs.push_back(type.dtype == DType::float32 ? b.parameter(name, type) : b.input(name, type));
  }
  const auto results = b.op(call.op, inputs, call.attrs, "y");
  std::vector<TensorId> terms;
  for (size_t i = 0; i < call.outputs; ++i) {
    const TensorId weight = b.input(fmt::format("weight{}", i), b.type(results[i]));
    const TensorId product = b.op1("mul", {results[i], weight});
    std::vector<int64_t> axes;
    for (size_t a = 0; a < b.type(product).shape.size(); ++a) axes.push_back(static_cast<int64_t>(a));
    terms.push_back(b.op1("reduce_sum", {product}, {{"axes", axes}}));
  }
  b.op("sum", terms, {}, "loss");
  return b.finish();
}

class OpGradient : public testing::TestWithParam<Call> {};
TEST_P(OpGradient, EqualsFiniteDifferences) { expect_gradients(graph_of(GetParam()), 7, 3); }

const TensorType a23 = f32({2, 3});

const Call kOps[] = {
    Call{"matmul", {f32({2, 4, 3}), f32({3, 5})}},
    Call{"matmul", {f32({4, 3}), f32({5, 3})}, {{"transpose_b", true}}},
    Call{"matmul", {f32({3, 4}), f32({3, 5})}, {{"transpose_a", true}}},
    Call{"matmul", {f32({3, 4}), f32({5, 3})}, {{"transpose_a", true}, {"transpose_b", true}}},
    Call{"matmul_bias", {f32({2, 4, 3}), f32({3, 5}), f32({5})}},
    Call{"matmul_bias", {f32({4, 3}), f32({5, 3}), f32({5})}, {{"transpose_b", true}}},
    Call{"matmul_weight_grad", {f32({2, 3, 4}), f32({2, 3, 5})}},
    Call{"batch_matmul", {f32({2, 4, 3}), f32({2, 3, 5})}},
    Call{"batch_matmul", {f32({2, 4, 3}), f32({2, 5, 3})}, {{"transpose_b", true}}},
    Call{"batch_matmul", {f32({2, 3, 4}), f32({2, 3, 5})}, {{"transpose_a", true}}},
    Call{"batch_matmul", {f32({2, 3, 4}), f32({2, 5, 3})}, {{"transpose_a", true}, {"transpose_b", true}}},
    Call{"add", {a23, f32({3})}},
    Call{"sub", {a23, f32({2, 1})}},
    Call{"mul", {f32({2, 1}), f32({1, 3})}},
    Call{"div", {a23, f32({3})}},
    Call{"where", {{{2, 3}, DType::boolean}, a23, f32({3})}},
    Call{"scale", {a23}, {{"factor", 2.5}}},
    Call{"identity", {a23}},
    Call{"cast", {a23}, {{"to", "float64"}}},
    Call{"dropout", {a23}, {{"p", 0.5}}},
    Call{"swiglu", {a23, a23}},
    Call{"swiglu_pairs", {f32({2, 4})}},
    Call{"weighed_swiglu_pairs", {f32({2, 4}), f32({2, 1})}},
    Call{"matmul_add", {a23, f32({3, 4}), f32({2, 4})}},
    Call{"matmul_add", {a23, f32({3, 4}), f32({2, 4}), f32({4})}},
    Call{"bias_gelu", {a23, f32({3})}},
    Call{"bias_gelu", {a23, f32({3})}, {{"tanh", true}}},
    Call{"bias_dropout_add", {a23, f32({3}), a23}, {{"p", 0.5}}},
    Call{"bias_dropout_add", {a23, f32({3}), a23}},
    Call{"causal_mask", {f32({3, 3})}, {{"fill", -9.0}}},
    Call{"sum", {a23, a23, a23}},
    Call{"fused", {a23, f32({3}), a23}, {{"program", "add(0, 1); gelu(3); dropout(4) {p=0.5}; mul(5, 2)"}}}};
INSTANTIATE_TEST_SUITE_P(Ops, OpGradient, testing::ValuesIn(kOps),
                         [](const auto& info) { return fmt::format("{}{}", info.param.op, info.index); });

// Every pointwise op on numbers of both signs, with both values of its parameter.
std::vector<Call> pointwise_calls() {
  std::vector<Call> calls;
  for (const ir::PointwiseRow& row : ir::pointwise_rows()) {
    if (row.values.low >= 0) continue;
    for (const ir::Sample& sample : ir::op(row.name).samples([] { return int64_t{3}; }))
      calls.push_back({row.name, sample.inputs, sample.attrs});
  }
  return calls;
}
INSTANTIATE_TEST_SUITE_P(Pointwise, OpGradient, testing::ValuesIn(pointwise_calls()),
                         [](const auto& info) { return fmt::format("{}{}", info.param.op, info.index); });

const Call kMovements[] = {
    Call{"reduce_sum", {a23}, {{"axes", Shape{0}}}},
    Call{"reduce_mean", {a23}},
    Call{"reduce_mean", {a23}, {{"axes", Shape{-1}}, {"keepdims", true}}},
    Call{"reduce_max", {a23}, {{"axes", Shape{1}}}},
    Call{"reduce_min", {a23}, {{"axes", Shape{0, 1}}}},
    Call{"broadcast_to", {f32({3})}, {{"shape", Shape{2, 3}}}},
    Call{"reshape", {a23}, {{"shape", Shape{3, 2}}}},
    Call{"transpose", {f32({2, 3, 4})}, {{"perm", Shape{2, 0, 1}}}},
    Call{"slice", {f32({4, 3})}, {{"starts", Shape{1, 0}}, {"ends", Shape{3, 2}}}},
    Call{"slice_grad", {a23}, {{"starts", Shape{1, 0}}, {"shape", Shape{5, 3}}}},
    Call{"concat", {a23, f32({1, 3}), a23}, {{"axis", int64_t{0}}}},
    Call{"gather", {f32({3, 4}), i64({5})}, {{"axis", int64_t{0}}}},
    Call{"cumsum", {a23}, {{"axis", int64_t{1}}}},
    Call{"top_k", {f32({2, 5})}, {{"k", int64_t{2}}}},
    Call{"top_k", {f32({2, 6})}, {{"k", int64_t{3}}, {"groups", int64_t{3}}, {"top_groups", int64_t{2}}}},
    Call{"split_heads", {f32({2, 3, 16})}, {{"group", int64_t{2}}, {"head_dim", int64_t{2}}}, 3},
    Call{"split_heads", {f32({2, 3, 16})}, {{"group", int64_t{2}}, {"head_dim", int64_t{2}}}, 1},
    Call{"split_heads_grad", {f32({2, 4, 3, 2}), f32({2, 2, 3, 2}), f32({2, 2, 3, 2})}},
    Call{"merge_heads", {f32({2, 4, 3, 2})}},
    Call{"merge_heads_grad", {f32({2, 3, 8})}, {{"head_dim", int64_t{2}}}},
    Call{"embedding", {f32({3, 4}), i64({2, 2})}},
    Call{"sample_rows", {f32({5, 2}), i64({2})}, {{"samples", int64_t{4}}, {"parts", int64_t{2}}}}};
INSTANTIATE_TEST_SUITE_P(Movements, OpGradient, testing::ValuesIn(kMovements),
                         [](const auto& info) { return fmt::format("{}{}", info.param.op, info.index); });

const Call kNetworks[] = {
    Call{"softmax", {a23}},
    Call{"scale_mask_softmax", {f32({2, 3, 3})}, {{"scale", 0.7}, {"causal", true}}},
    Call{"scale_mask_softmax", {f32({2, 5, 5})}, {{"causal", true}, {"window", int64_t{2}}}},
    Call{"layer_norm", {f32({2, 4}), f32({4}), f32({4})}},
    Call{"rms_norm", {f32({2, 4}), f32({4})}},
    Call{"batch_norm", {f32({4, 2, 2, 3}), f32({2}), f32({2})}},
    Call{"rotary", {f32({2, 2, 3, 4})}},
    Call{"scaled_dot_product_attention",
         {f32({2, 4, 3, 2}), f32({2, 2, 3, 2}), f32({2, 2, 3, 2})},
         {{"causal", true}}},
    Call{"scaled_dot_product_attention",
         {f32({1, 2, 5, 2}), f32({1, 1, 5, 2}), f32({1, 1, 5, 2})},
         {{"causal", true}, {"window", int64_t{2}}}},
    Call{"scaled_dot_product_attention",
         {f32({1, 2, 5, 2}), f32({1, 1, 5, 2}), f32({1, 1, 5, 2}), i64({1, 5})},
         {{"causal", true}}},
    Call{"moe_dispatch", {f32({5, 2}), i64({5, 2})}, {{"experts", int64_t{3}}, {"capacity", int64_t{2}}}},
    Call{"moe_dispatch_grad", {f32({3, 2, 4}), i64({5, 2})}},
    Call{"moe_combine", {f32({3, 2, 4}), i64({5, 2}), f32({5, 2})}},
    Call{"cross_entropy", {f32({2, 3}), i64({2})}},
    Call{"cross_entropy_parts", {f32({2, 3}), i64({2})}},
    Call{"sum_exp", {f32({2, 3}), f32({2})}},
    Call{"pick", {f32({2, 3}), i64({2})}},
    Call{"conv2d", {f32({2, 2, 5, 5}), f32({4, 2, 3, 3})}, {{"stride", int64_t{2}}, {"padding", int64_t{1}}}},
    Call{"conv2d_input_grad",
         {f32({2, 4, 3, 3}), f32({4, 2, 2, 2})},
         {{"stride", int64_t{2}}, {"padding", int64_t{0}}, {"input_size", Shape{6, 6}}}},
    Call{"max_pool2d", {f32({2, 2, 4, 4})}, {{"kernel", int64_t{2}}, {"stride", int64_t{2}}}},
    Call{"avg_pool2d", {f32({2, 2, 4, 4})}, {{"kernel", int64_t{2}}, {"stride", int64_t{2}}}}};
INSTANTIATE_TEST_SUITE_P(Networks, OpGradient, testing::ValuesIn(kNetworks),
                         [](const auto& info) { return fmt::format("{}{}", info.param.op, info.index); });

// --- the walk itself

// The gradient of an extremum is shared evenly among equal elements. It reads the operand once, by an op that
// takes no parts of it: where it is a sum over devices, two readers may have it added up in two orders.
TEST(Autodiff, EqualElementsShareTheGradientOfAnExtremum) {
  for (const char* op : {"reduce_max", "reduce_min"}) {
    Builder b("ties");
    const TensorId x = b.parameter("x", f32({3, 4})), y = b.op1(op, {x}, {{"axes", Shape{1}}});
    b.op("reduce_sum", {y}, {{"axes", Shape{0}}}, "loss");
    Graph graph = b.finish();
    const auto gradients = ir::differentiate(graph, ir::find_tensor(graph, "loss"));
    Values given;
    const double sign = op == std::string("reduce_max") ? 1 : -1;
    given["x"] = {f32({3, 4}), {1, 3, 3, 2, 2, 2, 2, 2, 0, -1, -2, -3}};
    for (double& element : given["x"].data) element *= sign;
    EXPECT_THAT(evaluate(graph, given).at(graph.tensor(gradients.at(0).gradient).name).data,
                testing::ElementsAre(0, 0.5, 0.5, 0, 0.25, 0.25, 0.25, 0.25, 1, 0, 0, 0))
        << op;
    std::vector<std::string> readers;
    for (const ir::Op& reader : graph.ops)
      if (reader.phase == ir::Phase::backward &&
          std::count(reader.inputs.begin(), reader.inputs.end(), x) > 0)
        readers.push_back(reader.type);
    EXPECT_THAT(readers, testing::ElementsAre("clamp_min")) << op;
  }
}

// nll of any three numbers, not only the pieces of one loss.
TEST(Autodiff, OfALossInPieces) {
  Builder b("pieces");
  const TensorId m = b.parameter("m", f32({4})), c = b.parameter("c", f32({4}));
  const TensorId z = b.op1("exp", {b.parameter("x", f32({4}))});
  b.op("reduce_sum", {b.op1("nll", {m, z, c})}, {{"axes", Shape{0}}}, "loss");
  expect_gradients(b.finish(), 12, 2);
}

// exp, log, sqrt and nll have separate tests; to_global only changes where a tensor is.
TEST(Autodiff, EveryRuleIsHeldAgainstFiniteDifferences) {
  std::set<std::string_view> checked = {"log", "sqrt", "nll", "to_global"};
  for (const Call& call : kOps) checked.insert(call.op);
  const std::vector<Call> pointwise = pointwise_calls();
  for (const Call& call : pointwise) checked.insert(call.op);
  for (const Call& call : kMovements) checked.insert(call.op);
  for (const Call& call : kNetworks) checked.insert(call.op);
  for (const auto rules :
       {ir::elementwise_gradients(), ir::matmul_gradients(), ir::shape_gradients(), ir::nn_gradients()})
    for (const ir::GradRule& rule : rules) EXPECT_TRUE(checked.count(rule.op)) << rule.op;
}

// exp, log and sqrt of a positive value, and a tensor with three consumers.
TEST(Autodiff, AddsUpSeveralUses) {
  Builder b("uses");
  const TensorId x = b.parameter("x", f32({3}));
  const TensorId e = b.op1("exp", {x}, {}, "e");
  const TensorId all = b.op1("sum", {b.op1("log", {e}), b.op1("sqrt", {e}), b.op1("mul", {e, e})});
  b.op("reduce_sum", {all}, {{"axes", Shape{0}}}, "loss");
  const Graph graph = b.finish();
  expect_gradients(graph, 8, 2);
  Graph backward = graph;
  ir::differentiate(backward, ir::find_tensor(backward, "loss"));
  EXPECT_THAT(to_text(backward),
              testing::HasSubstr("%e.grad: float32[3] = add(%e.grad.partial2, %e.grad.3) phase=backward\n"));
}

TEST(Autodiff, ParametersThatTheLossDoesNotDependOnGetNone) {
  Builder b("unused");
  b.parameter("unused", f32({3}));
  const TensorId w = b.parameter("w", f32({3}));
  b.op("reduce_sum", {w}, {{"axes", Shape{0}}}, "loss");
  Graph graph = b.finish();
  const auto gradients = ir::differentiate(graph, ir::find_tensor(graph, "loss"));
  ASSERT_EQ(gradients.size(), 1u);
  EXPECT_EQ(graph.tensor(gradients[0].parameter).name, "w");
  EXPECT_EQ(graph.tensor(gradients[0].gradient).name, "w.grad");
  EXPECT_EQ(graph.tensor(gradients[0].gradient).role, ir::Role::gradient);
}

std::string message(const std::function<void()>& run) {
  try {
    run();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Autodiff, RefusesWhatHasNoGradient) {
  Builder b("norms");
  const TensorId w = b.parameter("w", f32({2, 3}));
  const TensorId norm =
      b.op("layer_norm", {w, b.parameter("g", f32({3})), b.parameter("b", f32({3}))}, {}, "norm")[1];
  b.op("reduce_sum", {norm}, {{"axes", Shape{0}}}, "loss");
  Graph graph = b.finish();
  EXPECT_EQ(message([&] { ir::differentiate(graph, ir::find_tensor(graph, "loss")); }),
            "norm: layer_norm has no gradient through its result %norm.mean");
}

TEST(Autodiff, ALossIsOneNumber) {
  Builder b("vector");
  b.op("neg", {b.parameter("w", f32({3}))}, {}, "loss");
  Graph graph = b.finish();
  EXPECT_EQ(message([&] { ir::differentiate(graph, ir::find_tensor(graph, "loss")); }),
            "%loss: a loss is one number, got float32[3]");
}

}  // namespace
}  // namespace boxcar::tests

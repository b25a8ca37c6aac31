// The states that batch norm keeps, and forward passes that use them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graphs.h"
#include "ir/ops/batch_statistics.h"
#include "ir/passes/use_averages.h"
#include "sbp/at.h"

namespace boxcar::tests {
namespace {

using ir::Graph;
using ir::Op;
using ir::Shape;
using testing::ElementsAre;

// Two norms of two channels in a layer each, of images, and of rows with channels last.
Graph norms() {
  ir::Builder b("norms");
  ir::TensorId x = b.input("x", {{4, 2, 1, 1}, ir::DType::float32});
  for (const bool last : {false, true}) {
    b.set_layer(last, ir::layer_name(last));
    const ir::TensorId gamma = b.parameter("norm.gamma", {{2}, ir::DType::float32}),
                       beta = b.parameter("norm.beta", {{2}, ir::DType::float32});
    if (last) x = b.op1("reshape", {x}, {{"shape", Shape{4, 2}}});
    x = b.op("batch_norm", {x, gamma, beta}, {{"local", true}, {"channels_last", last}, {"eps", 1.0}},
             "norm")[0];
  }
  b.set_layer(2, "");
  b.op1("reduce_mean", {b.op1("mul", {x, x})}, {{"axes", Shape{0, 1}}}, "loss");
  Graph graph = b.finish();
  graph.layers = 2;
  return graph;
}

// The ops that make a tensor, from the last one back, along first operands or, of averages, along second
// ones.
std::vector<std::string> made_by(const Graph& step, const std::string& tensor) {
  std::vector<std::string> types;
  const Op* op = &at(step.ops, step.tensor(ir::find_tensor(step, tensor)).producer);
  while (types.empty() || types.back() != "batch_norm_grad") {
    types.push_back(op->type);
    if (op->inputs.empty()) break;
    op = &at(step.ops, step.tensor(op->inputs.at(op->type == ir::running_average_op ? 1 : 0)).producer);
  }
  return types;
}

TEST(RunningAverages, AreStatesOfAStep) {
  const Graph step = step_of(norms(), plain());
  EXPECT_THAT(made_by(step, "h1.norm.running_mean.next"), ElementsAre("running_average", "batch_norm_grad"));
  std::vector<std::string> states;
  for (const ir::Update& update : step.updates)
    if (ir::is_running_average(step.tensor(update.state).name)) {
      states.push_back(step.tensor(update.state).name);
      EXPECT_EQ(step.tensor(update.state).role, ir::Role::optimizer);
      EXPECT_EQ(step.tensor(update.next).name, states.back() + ".next");
    }
  EXPECT_THAT(states, testing::UnorderedElementsAre("h0.norm.running_mean", "h0.norm.running_var",
                                                    "h1.norm.running_mean", "h1.norm.running_var"));
}

TEST(RunningAverages, TakeTheMeanOverMicroBatches) {
  ir::TrainOptions options = plain();
  options.micro_batches = 4;
  const Graph step = step_of(norms(), options);
  EXPECT_THAT(made_by(step, "h0.norm.running_var.next"),
              ElementsAre("running_average", "accumulate_statistics", "batch_norm_grad"));
  std::vector<double> shares;
  for (const Op& op : step.ops)
    if (op.type == "batch_norm_grad") shares.push_back(ir::attr_float(op.attrs, "share"));
  EXPECT_THAT(shares, ElementsAre(0.25, 0.25));
}

TEST(RunningAverages, StayInAStepThatIsSkipped) {
  ir::TrainOptions options = plain();
  options.precision = ir::Precision::fp16;
  const Graph step = step_of(norms(), options);
  int averages = 0;
  for (const Op& op : step.ops)
    if (op.type == ir::running_average_op) {
      ++averages;
      EXPECT_EQ(step.tensor(op.inputs.at(2)).name, "grads_finite");
      EXPECT_EQ(step.tensor(op.inputs[0]).type.dtype, ir::DType::float32);
    }
  EXPECT_EQ(averages, 4);
}

TEST(RunningAverages, MoveOnceWhereForwardPassesRunAgain) {
  ir::TrainOptions options = plain();
  options.recompute = ir::Recompute::full;
  const Graph step = step_of(norms(), options);
  const auto recomputed = std::count_if(step.ops.begin(), step.ops.end(), [](const Op& op) {
    return op.type == "batch_norm" && op.recomputed;
  });
  EXPECT_EQ(recomputed, 2);
  EXPECT_NO_THROW(made_by(step, "h0.norm.running_mean.next"));
  options.off = {"running_averages"};
  EXPECT_EQ(step_of(norms(), options).updates.size(), step.updates.size() - 4);
}

// x by channel: {1, 1, 5, 5} and {0, 2, 0, 2}. In validation, y = (x - mean) / sqrt(variance + 1) gamma +
// beta.
TEST(RunningAverages, AreReadInValidation) {
  const Graph graph = ir::use_running_averages(norms());
  const auto values = [](Shape shape, std::vector<double> data) {
    return backends::cpu::HostTensor{{std::move(shape), ir::DType::float32}, std::move(data)};
  };
  backends::cpu::Values given{{"x", values({4, 2, 1, 1}, {1, 0, 1, 2, 5, 0, 5, 2})},
                              {"h0.norm.gamma", values({2}, {1, 2})},
                              {"h0.norm.beta", values({2}, {0, 10})},
                              {"h0.norm.running_mean", values({2}, {1, -1})},
                              {"h0.norm.running_var", values({2}, {3, 0})},
                              {"h1.norm.gamma", values({2}, {3, 1})},
                              {"h1.norm.beta", values({2}, {0, 0})},
                              {"h1.norm.running_mean", values({2}, {0, 12})},
                              {"h1.norm.running_var", values({2}, {8, 0})}};
  const backends::cpu::Values made = backends::cpu::evaluate(graph, given);
  EXPECT_THAT(made.at("h0.norm.normal").data, ElementsAre(0, 12, 0, 16, 2, 12, 2, 16));
  EXPECT_THAT(made.at("h1.norm.normal").data, ElementsAre(0, 0, 0, 4, 2, 0, 2, 4));
  EXPECT_EQ(made.at("loss").data[0], (2 * 16 + 2 * 4) / 8.0);
}

}  // namespace
}  // namespace boxcar::tests

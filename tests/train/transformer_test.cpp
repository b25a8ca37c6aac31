// Law 4 for transformers under plans from hints.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "law4.h"
#include "plans.h"
#include "support/error_of.h"

namespace boxcar::tests {
namespace {

using planner::Job;

// The row's model on one device in one micro-batch, op by op as written; documents need attention as one op.
planner::ResolvedJob alone_of(const TransformerRow& row, const ir::TrainOptions& options) {
  Job job = transformer(row.family, row.dropout, plan_batch);
  row.change(job);
  job.parallel = transformer(row.family, row.dropout, plan_batch).parallel;
  job.train = options;
  job.train.off = {"fuse_patterns", "fuse_elementwise"};
  job.train.flash = job.model->document_length > 0;
  return planner::resolve(job);
}

class TransformerLaw4 : public testing::TestWithParam<TransformerRow> {
 protected:
  // Whether servers refuse the optimizer: each has a share of every tensor.
  static bool refuses(const TransformerRow& row, const ir::TrainOptions& options) {
    const planner::Hints hints = job_of(row, plan_batch, {})->parallel;
    if (hints.servers == 0 || !hints.servers_update) return false;
    EXPECT_THAT(
        support::error_of([&] { job_of(row, plan_batch, options); }),
        testing::EndsWith("needs norms of whole tensors, of which a server has a share (switch it off)"));
    return true;
  }
};

TEST_P(TransformerLaw4, TrainsAsOneDeviceDoes) {
  const TransformerRow& row = GetParam();
  ASSERT_EQ(job_of(row, plan_batch, {})->train.micro_batches, row.micro_batches);
  expect_law_4(
      [&](const ir::TrainOptions& options) { return planner::lay_out(job_of(row, plan_batch, options)); },
      [&](const ir::TrainOptions& options) { return planner::lay_out(alone_of(row, options)); },
      transformer_start(alone_of(row, {})));
}

// Devices hold parts of the tensors whose norms decide how far they move.
TEST_P(TransformerLaw4, NormsAreOfWholeTensors) {
  const TransformerRow& row = GetParam();
  const Start start = transformer_start(alone_of(row, {}));
  for (const auto& [optimizer, rate] : {std::pair(ir::Optimizer::lars, 5.0), {ir::Optimizer::lamb, 0.01}}) {
    ir::TrainOptions options;
    ir::set_optimizer(options, optimizer);
    options.precision = ir::Precision::fp64;
    options.learning_rate = rate, options.weight_decay = 0.01, options.clip_norm = 0.5;
    if (refuses(row, options)) continue;
    const Outcome alone = train(planner::lay_out(alone_of(row, options)), start, 5);
    expect_same(train(planner::lay_out(job_of(row, plan_batch, options)), start, 5), alone, 1e-9);
  }
}

// Devices hold parts of the matrices whose rows and columns have means. Models without biases: the gradient
// of keys' biases is rounding, which Adafactor scales to whole steps.
TEST_P(TransformerLaw4, MomentsAreOfWholeRowsAndColumns) {
  const TransformerRow& row = GetParam();
  const auto unbiased = [](const TransformerRow& of) {
    TransformerRow result = of;
    result.change = [change = of.change](Job& job) {
      change(job);
      job.model->bias = job.model->qkv_bias = false;
    };
    return result;
  };
  const Start start = transformer_start(alone_of(row, {}));
  ir::TrainOptions options;
  ir::set_optimizer(options, ir::Optimizer::adafactor);
  options.precision = ir::Precision::fp64;
  options.learning_rate = 0.01, options.weight_decay = 0.01, options.clip_norm = 0.5;
  if (refuses(row, options)) return;
  const Outcome alone = train(planner::lay_out(alone_of(unbiased(row), options)), start, 5);
  expect_same(train(planner::lay_out(job_of(unbiased(row), plan_batch, options)), start, 5), alone, 1e-9);
  int factored = 0;
  for (const auto& [name, tensor] : alone.state)
    if (name.ends_with(".weight.r")) factored += tensor.type.shape.back() == 1;
  EXPECT_GT(factored, 3);
}
INSTANTIATE_TEST_SUITE_P(Plans, TransformerLaw4, testing::ValuesIn(transformer_plans()),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace boxcar::tests

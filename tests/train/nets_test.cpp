// Law 4 for an MLP and a convolution net under hints, and for all models in 16 bits.
#include <gtest/gtest.h>

#include "law4.h"
#include "plans.h"

namespace boxcar::tests {
namespace {

using planner::Job;

class NetsLaw4 : public testing::TestWithParam<NetRow> {
 protected:
  static void expect_law_4_of(Net net, const Start& start) {
    const NetRow& row = GetParam();
    expect_law_4([&](const ir::TrainOptions& options) { return lay_out_net(net, row, options); },
                 [&](const ir::TrainOptions& options) { return lay_out_net_alone(net, row, options); }, start,
                 {ir::Optimizer::sgd, ir::Optimizer::momentum, ir::Optimizer::adam, ir::Optimizer::adagrad,
                  ir::Optimizer::lars, ir::Optimizer::lamb});
  }
};

TEST_P(NetsLaw4, AnMlpTrainsAsOnOneDevice) { expect_law_4_of(mlp, graph_start(6)); }
// Batch norm takes its mean and deviation from a micro-batch, so both sides use the same micro-batches.
TEST_P(NetsLaw4, AConvolutionNetTrainsAsOnOneDevice) { expect_law_4_of(convnet, graph_start(3 * 8 * 6)); }
INSTANTIATE_TEST_SUITE_P(Plans, NetsLaw4, testing::ValuesIn(net_plans()),
                         [](const auto& info) { return std::string(info.param.name); });

// --- whole image models: in float64, since rounding grows through fifty norms

class ImagesLaw4 : public testing::TestWithParam<TransformerRow> {};

TEST_P(ImagesLaw4, TrainAsOneDeviceDoes) {
  const TransformerRow& row = GetParam();
  ir::TrainOptions options;
  options.precision = ir::Precision::fp64;
  options.optimizer = ir::Optimizer::momentum, options.learning_rate = 0.02, options.clip_norm = 1;
  const Job job = job_of(row, plan_batch, options);
  const TransformerRow alone{row.name, row.family, 0, job.parallel.dp * row.micro_batches, [](Job&) {}};
  const Start start = transformer_start(job);
  const Outcome one = train(planner::lay_out(job_of(alone, plan_batch, options)), start, 5);
  // Convolutions sum by strips of images, which other plans cut differently, and fifty norms amplify that.
  expect_same(train(planner::lay_out(planner::resolve(job)), start, 5), one, 1e-6);
  EXPECT_LT(one.losses[4], one.losses[0]);
}
INSTANTIATE_TEST_SUITE_P(Plans, ImagesLaw4, testing::ValuesIn(image_plans()),
                         [](const auto& info) { return std::string(info.param.name); });

// --- 16 bits

class NarrowLaw4 : public testing::TestWithParam<NarrowRow> {};

TEST_P(NarrowLaw4, LossesAreOneDevicesWithinRounding) {
  const auto& [precision, row] = GetParam();
  const TransformerRow alone{row.name, row.family, row.dropout, 1, [](Job&) {}};
  const auto laying = [](const TransformerRow& row) {
    return [&row](const ir::TrainOptions& options) {
      return planner::lay_out(job_of(row, plan_batch, options));
    };
  };
  expect_law_4_in_16_bits(precision, laying(row), laying(alone),
                          transformer_start(job_of(alone, plan_batch, {})));
}
INSTANTIATE_TEST_SUITE_P(Plans, NarrowLaw4, testing::ValuesIn(narrow_plans()),
                         [](const auto& info) { return std::string(info.param.row.name); });

}  // namespace
}  // namespace boxcar::tests

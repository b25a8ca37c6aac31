// Image networks train alike with channels first and last: the same losses, weights and moments, under the
// same names and shapes.
#include <gtest/gtest.h>

#include <ostream>

#include "models.h"
#include "trainer.h"

namespace boxcar::tests {
namespace {

using planner::Job;

struct ImageRow {
  const char* name;
  const char* family;
  int64_t layers, channels, image, batch;
  std::function<void(Job&)> change;
};
std::ostream& operator<<(std::ostream& out, const ImageRow& row) { return out << row.name; }

const ImageRow image_rows[] = {
    {"resnet", "resnet", 16, 2, 32, 2, [](Job&) {}},
    {"resnet_dp2_zero1", "resnet", 16, 2, 32, 4, [](Job& j) { j.parallel.dp = 2, j.parallel.zero = 1; }},
    {"wide_resnet_pp2", "wide_resnet", 16, 2, 32, 4, [](Job& j) { j.parallel.pp = 2; }},
    {"alexnet", "alexnet", 8, 2, 63, 2, [](Job&) {}},
    {"alexnet_tp2", "alexnet", 8, 2, 63, 2, [](Job& j) { j.parallel.tp = 2; }},
    {"unet_pp3", "unet", 3, 2, 8, 4, [](Job& j) { j.parallel.pp = 3; }},
    {"diffusion_unet", "diffusion_unet", 5, 8, 4, 2, [](Job&) {}},
};

class ChannelsLast : public testing::TestWithParam<ImageRow> {
 protected:
  static planner::LaidOut laid_out(bool channels_last) {
    const ImageRow& row = GetParam();
    Job job;
    job.model = ir::models::ConvNet{row.family, row.layers, row.channels, 1, row.image, 5, channels_last};
    job.train.optimizer = ir::Optimizer::momentum;
    job.train.learning_rate = 0.01;
    job.train.precision = ir::Precision::fp64;
    row.change(job);
    job.gpus = job.parallel.dp = std::max(job.parallel.dp, 1);
    job.gpus *= job.parallel.tp * job.parallel.pp;
    job.parallel.micro_batch = 2;
    job.global_batch = row.batch;
    return planner::lay_out(planner::resolve(job));
  }
};

TEST_P(ChannelsLast, TrainsAsChannelsFirst) {
  const ImageRow& row = GetParam();
  const Start start = graph_start(3 * row.image * row.image);
  const planner::LaidOut last = laid_out(true);
  const Outcome here = train(last, start, 3);
  const Outcome there = train(laid_out(false), start, 3);
  // Norms over few elements amplify rounding, and biases before them have gradients of rounding only.
  EXPECT_LE(loss_distance(here, there), 1e-6);
  EXPECT_NE(here.losses[0], here.losses[2]);
  ASSERT_EQ(here.state.size(), there.state.size());
  for (const auto& [name, tensor] : there.state) {
    ASSERT_TRUE(here.state.contains(name)) << name;
    EXPECT_EQ(here.state.at(name).type, tensor.type) << name;
    EXPECT_LE(distance(here.state.at(name), tensor), 1e-6) << name;
  }
  int64_t images = 0;
  for (const ir::Op& op : last.graph.ops)
    if (op.type == "conv2d") images += ir::attr_bool(op.attrs, "channels_last") ? 1 : -1000;
  EXPECT_GT(images, 0);
}
INSTANTIATE_TEST_SUITE_P(Nets, ChannelsLast, testing::ValuesIn(image_rows),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace boxcar::tests

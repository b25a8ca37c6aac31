// Checks the additions of CONTRIBUTING.md's walks, in a build of the files that they change: everything that
// the text promises of a row is there. Tests that go through registry and rows cover laws, gradients and
// kernels.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "backends/cpu/kernels.h"
#include "backends/cpu/reference.h"
#include "backends/cuda/kernel_table.h"
#include "backends/machines/cluster.h"
#include "ir/grad/rules.h"
#include "ir/ops/fused.h"
#include "ir/ops/optimizers.h"
#include "ir/ops/pointwise.h"
#include "ir/passes/passes.h"
#include "planner/schedule.h"

namespace boxcar::tests {
namespace {

void expect_kernels(const std::string& op) {
  EXPECT_TRUE(ir::has_op(op)) << op;
  EXPECT_TRUE(backends::cpu::reference_kernels().contains(op)) << op;
  EXPECT_TRUE(backends::cpu::fast_kernels().contains(op)) << op;
  EXPECT_TRUE(backends::cuda::kernels().contains(op)) << op;
}

TEST(Walks, ARowIsAPointwiseOp) {
  expect_kernels("leaky_relu");
  expect_kernels("leaky_relu_grad");
  EXPECT_TRUE(ir::is_fusable("leaky_relu"));
  std::set<std::string_view> rules;
  for (const ir::GradRule& rule : ir::elementwise_gradients()) rules.insert(rule.op);
  EXPECT_TRUE(rules.contains("leaky_relu"));
}

TEST(Walks, ARowIsAnOptimizer) {
  expect_kernels("rmsprop");
  expect_kernels("rmsprop_all");
  EXPECT_THAT(words_of(ir::Optimizer()), testing::Contains("rmsprop"));
  ir::Builder b("net");
  const ir::TensorId w = b.parameter("w", {{3, 2}, ir::DType::float32});
  b.op("reduce_sum", {b.op1("leaky_relu", {w})}, {{"axes", ir::Shape{0, 1}}}, "loss");
  const ir::Graph forward = b.finish();
  ir::TrainOptions options;
  options.precision = ir::Precision::fp32, options.eps = 0.5;
  options.optimizer = ir::Optimizer::rmsprop;
  const std::string step = to_text(ir::training_step(forward, ir::find_tensor(forward, "loss"), options));
  EXPECT_THAT(step, testing::HasSubstr("%w.m: float32[3, 2]"));
  EXPECT_THAT(step, testing::HasSubstr("= rmsprop(%w, %w.grad"));
  EXPECT_THAT(step, testing::HasSubstr("eps=0.5"));
}

TEST(Walks, AWordAndARowAreASchedule) {
  const planner::PipelineSchedule eager = planner::parse_schedule("eager");
  EXPECT_EQ(to_text(eager), "eager");
  EXPECT_FALSE(planner::splits_backward(eager.kind));
  EXPECT_EQ(planner::most_in_flight(eager, 4, 1, 100), 5);
}

TEST(Walks, AFileIsACluster) {
  const backends::Cluster cluster =
      backends::load_cluster(BOXCAR_WALKS "/backends/presets/clusters/two-boxes.yaml", 16);
  EXPECT_EQ(cluster.devices(), 16);
  EXPECT_EQ(cluster.node.nics, 2);
}

// "+++ b/ir/ops/pointwise_rows.h" and so on.
TEST(Walks, TouchFewFiles) {
  std::ifstream page(BOXCAR_SOURCE_DIR "/CONTRIBUTING.md");
  std::vector<std::string> files;
  for (std::string line; std::getline(page, line);)
    if (line.starts_with("+++ b/")) files.push_back(line.substr(6));
  EXPECT_THAT(files, testing::ElementsAre(
                         "ir/ops/pointwise_rows.h", "tests/backends/reference_test.cpp",
                         "ir/ops/optimizer_rows.h", "tests/backends/reference_test.cpp", "planner/schedule.h",
                         "planner/schedule.cpp", "tests/planner/schedule_test.cpp",
                         "backends/presets/clusters/two-boxes.yaml", "backends/machines/collective_model.h",
                         "sim/models/collective_time.cpp", "tests/sim/collective_time_test.cpp",
                         "backends/machines/framework.h", "docs/frameworks.md", "sim/framework_effects.cpp",
                         "tests/sim/host_time_test.cpp", "backends/host/hugging_face.cpp",
                         "tests/cli/bad_files_test.cpp", "cli/report_text.cpp", "cli/schemas/simulate.json",
                         "docs/output.md", "tests/cli/report_test.cpp", "planner/search/dimension_rows.cpp",
                         "cli/keys.cpp", "tests/search/estimate_test.cpp", "ir/passes/passes.h",
                         "ir/passes/recompute.cpp", "tests/ir/recompute_test.cpp", "docs/jobs.md"));
}

}  // namespace
}  // namespace boxcar::tests

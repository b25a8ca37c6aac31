// The solver compared with an integer program that CBC solves, on graphs shaped like training steps. Skipped
// if cbc is missing (scripts/setup --clang installs it).
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "planner/estimate/layout_graph.h"
#include "planner/estimate/layouts.h"
#include "planner/mesh.h"
#include "planner/planner.h"
#include "planner/resolve.h"
#include "planner/training_graph.h"
#include "search/integer_program.h"
#include "search/problems.h"

namespace boxcar::search {
namespace {

// `proved`: the answer within a limit must be the optimum; otherwise the optimum must be within its bound.
void compare(const Assignment& problem, bool proved = true) {
  Answer free = solve(problem);
  ASSERT_TRUE(free.optimal());
  EXPECT_NEAR(free.value, IntegerProgram(problem, infinity).solve(), 1e-5 * free.value);

  // A limit between the need of the fastest choice and the least possible.
  double least = solve(problem, {.weights = {0, 1}}).value;
  Objective limited;
  limited.limits[1] = std::round(least + (free.cost[1] - least) / 3);
  double optimum = IntegerProgram(problem, limited.limits[1]).solve();
  Answer answer = solve(problem, limited);
  ASSERT_TRUE(answer.found);
  EXPECT_TRUE(answer.optimal() || !proved);
  if (answer.optimal()) {
    EXPECT_NEAR(answer.value, optimum, 1e-5 * optimum);
  }
  EXPECT_LE(answer.lower, optimum * (1 + 1e-5));
  EXPECT_GE(answer.value, optimum * (1 - 1e-5));
  Answer hasty = solve(problem, limited, {.table = 16, .points = 4, .sums = 1000, .branches = 300});
  EXPECT_LE(hasty.lower, optimum * (1 + 1e-5));
  EXPECT_GE(hasty.value, optimum * (1 - 1e-5));
}

void compare(const Shape& shape, unsigned seed, bool whole) {
  if (!has_cbc()) GTEST_SKIP() << "cbc is not installed: scripts/setup --clang installs it (coinor-cbc)";
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  compare(draw(random, shape, {.space = {2, 0}, .least_choices = 2, .forbidden = 5, .whole = whole}));
}

// The layouts of a model on the devices of a tensor dimension, with costs by the time models: microseconds,
// and resident mebibytes.
Assignment layouts_of(planner::Job job, int devices, int samples) {
  job.model = ir::models::complete(job.model);
  job.cluster = backends::load_cluster("dgx-a100-80g", devices);
  job.gpus = job.parallel.tp = devices;
  job.parallel.micro_batch = samples;
  job.global_batch = samples;
  job = planner::resolve(job);
  const ir::Graph training = planner::training_graph(planner::resolve(job));
  const planner::Mesh mesh = planner::mesh_of(job.parallel);
  LayoutCosts costs(job.cluster, mesh);
  const LayoutGraph graph(training, job.parallel, mesh, 1, {}, costs);
  Assignment problem = graph.part(graph.all_ops()).problem;
  problem.space = {2, 0};
  const auto fold = [](std::vector<Cost>& all) {
    for (Cost& c : all) c = {1e6 * (c[kernels] + c[collectives] + c[states]), c[memory] / 0x1p20};
  };
  for (auto& node : problem.nodes) fold(node);
  for (auto& edge : problem.edges) fold(edge.costs);
  return problem;
}

planner::Job words(int experts) {
  planner::Job job;
  job.model = ir::models::defaults("gpt");
  job.model->layers = 1, job.model->hidden = 2048, job.model->heads = 16, job.model->seq = 1024;
  job.model->vocab = 8192;
  job.model->experts = experts;
  return job;
}

planner::Job images(const char* family, int layers, int channels, int image) {
  planner::Job job;
  job.model = ir::models::ConvNet{family, layers, channels, 1, image, 16};
  return job;
}

void compare(const planner::Job& job, int devices, bool proved = true) {
  if (!has_cbc()) GTEST_SKIP() << "cbc is not installed: scripts/setup --clang installs it (coinor-cbc)";
  for (const int samples : {devices, 4 * devices}) {
    SCOPED_TRACE(samples);
    compare(layouts_of(job, devices, samples), proved);
  }
}

TEST(Cbc, LayoutsOfGpt) {
  if (!has_cbc()) GTEST_SKIP() << "cbc is not installed: scripts/setup --clang installs it (coinor-cbc)";
  for (const int samples : {1, 16}) {
    SCOPED_TRACE(samples);
    compare(layouts_of(words(0), 8, samples));
  }
}

TEST(Cbc, LayoutsOfExperts) { compare(words(4), 4, false); }
TEST(Cbc, LayoutsOfAConvolutionNet) { compare(images("alexnet", 8, 64, 224), 4); }
TEST(Cbc, LayoutsOfAUnet) { compare(images("unet", 3, 32, 64), 4, false); }

TEST(Cbc, Transformer) { compare(transformer_shape(3), 1, false); }
TEST(Cbc, Convolutions) { compare(conv_shape(8), 2, false); }
TEST(Cbc, Experts) { compare(expert_shape(2, 4), 3, false); }
TEST(Cbc, ManySkips) { compare(skip_shape(8), 4, false); }
TEST(Cbc, TransformerWithTies) { compare(transformer_shape(2), 5, true); }

TEST(Cbc, LongManyGraphs) {
  for (unsigned seed = 10; seed < 30; ++seed) {
    compare(transformer_shape(2), seed, seed % 2 == 0);
    compare(conv_shape(5), seed, seed % 2 == 0);
    compare(expert_shape(1, 6), seed, seed % 2 == 0);
    compare(skip_shape(6), seed, seed % 2 == 0);
  }
}

}  // namespace
}  // namespace boxcar::search

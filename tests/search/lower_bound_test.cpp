// The lower bound of a step time with which the search proves its degrees: below every simulation.
#include "planner/estimate/lower_bound.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>

#include "planner/resolve.h"
#include "planner/search/points.h"
#include "planner/search/search.h"
#include "search/simulating.h"
#include "sim/simulate.h"

namespace boxcar::search {
namespace {

using planner::Job;

// A job of random family, size, batch and precision.
Job random_job(std::mt19937& random) {
  const auto one_of = [&](auto... values) {
    const std::vector<int> all{values...};
    return all[random() % all.size()];
  };
  Job job;
  job.model = ir::models::defaults(one_of(0, 1) == 0 ? "gpt" : "llama");
  job.model->layers = one_of(4, 6, 8), job.model->hidden = one_of(256, 1024, 2048), job.model->heads = 8;
  job.model->seq = one_of(128, 512, 1024), job.model->vocab = one_of(1024, 8192);
  job.model->experts = one_of(0, 0, 0, 4);
  if (job.model->experts > 0) job.model->expert_every = 2;
  if (random() % 5 == 0) {
    job.model = ir::models::defaults("t5");
    job.model->layers = 8, job.model->decoder_layers = 4, job.model->hidden = 512, job.model->heads = 8;
    job.model->seq = 256, job.model->vocab = 1024;
  }
  job.model = ir::models::complete(job.model);
  job.train.precision = one_of(0, 1) == 0 ? ir::Precision::fp16 : ir::Precision::fp32;
  job.gpus = one_of(1, 4, 8, 16);
  job.cluster = backends::load_cluster(one_of(0, 1) == 0 ? "dgx-a100-80g" : "p3-16xlarge", job.gpus);
  job.global_batch = one_of(16, 32);
  return job;
}

TEST(LowerBound, IsBelowTheSimulationOfRandomPoints) {
  std::mt19937 random(20261122);
  int tried = 0;
  double nearest = 0;
  std::set<std::pair<int, int>> pipelines;
  for (int j = 0; j < 25; ++j) {
    const Job job = random_job(random);
    std::vector<Job> points;
    each_point(job, {}, [&](const Job& point) { return points.push_back(point), false; });
    std::shuffle(points.begin(), points.end(), random);
    for (size_t p = 0; p < points.size() && p < 6; ++p) {
      Job point = planner::resolve(points[p]);
      if (point.parallel.pp > 1 && point.parallel.virtual_stages == 1 && p % 3 > 0)
        point.parallel.schedule = p % 3 == 1 ? planner::Schedule::zb_h1 : planner::Schedule::zb_h2;
      if (point.parallel.virtual_stages == 2 && p % 3 > 0)
        point.parallel.schedule = p % 3 == 1 ? planner::Schedule::zb_v : planner::Schedule::dualpipe_v;
      Job others = point;
      others.train.recompute = ir::Recompute::none;
      const ModelCost again = measure(point, sim::act_seconds), none = measure(others, sim::act_seconds);
      if (p % 2 == 0)
        for (const int layers : point.parallel.stage_layers)
          point.train.recompute_layers.push_back(
              static_cast<int>(random() % static_cast<size_t>(layers + 1)));
      const double least = least_seconds(point, {again, none});
      const double seconds =
          sim::simulate(planner::compile(planner::resolve(point)), point.cluster).step_seconds;
      EXPECT_GT(least, 0);
      EXPECT_LE(least, seconds * (1 + 1e-6))
          << point.model.family() << " on " << point.gpus << ": dp " << point.parallel.dp << " tp "
          << point.parallel.tp << " pp " << point.parallel.pp << " v " << point.parallel.virtual_stages
          << " zero " << point.parallel.zero << " micro-batch " << point.parallel.micro_batch;
      nearest = std::max(nearest, least / seconds);
      pipelines.insert({point.parallel.pp, point.parallel.virtual_stages});
      ++tried;
    }
  }
  EXPECT_GT(tried, 100);
  EXPECT_GT(pipelines.size(), 5);
  EXPECT_GT(nearest, 0.9);
}

// Kernels of 3 s on two stages: 4 micro-batches take 6 s on each, after the second stage's start.
TEST(LowerBound, KnowsThatStagesWait) {
  ModelCost cost;
  cost.layer.computing = 1, cost.first.computing = 0.5, cost.last.computing = 0.5;
  Job job;
  job.model->layers = 2;
  job.parallel.stage_layers = {1, 1};
  job.train.micro_batches = 4;
  const auto of_kernels = [&](const ModelCost& costs) { return least_seconds(job, costs, Counted::kernels); };
  EXPECT_DOUBLE_EQ(of_kernels(cost), 12);
  EXPECT_DOUBLE_EQ(least_seconds(job, cost), 12);
  job.parallel.pp = 2;
  EXPECT_DOUBLE_EQ(of_kernels(cost), 3 / (1 - 0.75 * 0.75));
  EXPECT_NEAR(least_seconds(job, cost), 4 * 1.5 + 1.5,
              1e-6);                // a layer on each, which is better than 2 and 0
  job.parallel.virtual_stages = 2;  // as if each first chunk were half of its stage
  EXPECT_DOUBLE_EQ(of_kernels(cost), 1.5 / (1 - 0.875 * 0.875));
  job.parallel.virtual_stages = 1;
  job.parallel.schedule = planner::Schedule::zb_h1;
  EXPECT_DOUBLE_EQ(of_kernels(cost), 6);
  ModelCost layers;  // before the second stage come forward passes alone
  layers.layer.computing = 1.5, layers.layer.forward_computing = 0.75;
  EXPECT_DOUBLE_EQ(of_kernels(layers), 0.5 * 3 / (1 - 0.875 * 0.875));
  EXPECT_NEAR(least_seconds(job, layers), 4 * 1.5 + 0.75, 1e-6);
  job.parallel.schedule = planner::Schedule::one_f_one_b;
  job.parallel.virtual_stages = 2;  // as they are cut: before the second stage comes a chunk of no layers
  job.parallel.stage_layers = {0, 1, 1, 0}, job.model->layers = 2;
  EXPECT_DOUBLE_EQ(least_seconds(job, cost), std::max(4 * 1.5, 4 * 1.5 + 0.5));
  job.parallel.virtual_stages = 1, job.parallel.stage_layers = {1, 1};
  cost.layer.waiting = 0.25;  // 1.75 s on each
  EXPECT_NEAR(least_seconds(job, cost), 5 * 1.75, 1e-6);
  EXPECT_DOUBLE_EQ(of_kernels(cost), 3 / (1 - 0.75 * 0.75));
  cost.layer.waiting = 0;
  cost.behind_boundary = 100;  // nothing waits
  EXPECT_DOUBLE_EQ(least_seconds(job, cost), 6);
}

// Any cut of whole layers takes as long, by the sum that the bound is the least of.
TEST(LowerBound, OfWholeLayersIsThatOfTheBestCut) {
  std::mt19937 random(7);
  const auto some = [&] { return std::uniform_real_distribution<double>(0, 1)(random); };
  int tried = 0;
  for (int i = 0; i < 200; ++i) {
    ModelCost cost;
    cost.layer.computing = 1, cost.first.computing = some(), cost.last.computing = 3 * some();
    cost.layer.waiting = some(), cost.behind_boundary = i % 2 == 0 ? 0.2 * some() : 0;
    Job job;
    job.train.micro_batches = static_cast<int>(1 + random() % 8);
    const int stages = static_cast<int>(2 + random() % 3), layers = static_cast<int>(1 + random() % 9);
    job.parallel.pp = stages, job.model->layers = layers;
    job.parallel.stage_layers.assign(static_cast<size_t>(stages), 0);
    job.parallel.stage_layers[0] = layers;
    const double m = job.train.micro_batches, layer = 1 + cost.layer.waiting;
    double best = infinity;
    std::function<void(int, int, double, double)> cut = [&](int stage, int left, double before, double most) {
      if (stage == stages) {
        if (left == 0) best = std::min(best, most);
        return;
      }
      for (int n = 0; n <= left; ++n) {
        double own = n * layer + (stage == 0 ? cost.first.computing : 0);
        if (stage + 1 == stages) own += cost.last.computing;
        cut(stage + 1, left - n, before + own - cost.behind_boundary, std::max(most, m * own + before));
      }
    };
    cut(0, layers, 0, 0);
    EXPECT_LE(least_seconds(job, cost), best * (1 + 1e-6)) << "job " << i;
    EXPECT_GE(least_seconds(job, cost), best * (1 - 1e-6)) << "job " << i;
    ++tried;
  }
  EXPECT_EQ(tried, 200);
}

// The search's bound on points that it did not simulate holds for each of them.
TEST(LowerBound, OfASearchHoldsForEveryPoint) {
  std::mt19937 random(4);
  for (int j = 0; j < 3; ++j) {
    Job job = random_job(random);
    job.gpus = 4, job.global_batch = 8;
    backends::resize(job.cluster, 4);
    const Outcome found = search(job, {.simulate = 2}, oracle());
    ASSERT_FALSE(found.best.empty());
    ASSERT_TRUE(found.least) << found.unknown_least;
    const double best = found.best.front().seconds;
    each_point(job, {}, [&](const Job& hints) {
      const Job point = planner::resolve(hints);
      const double seconds =
          sim::simulate(planner::compile(planner::resolve(point)), point.cluster).step_seconds;
      EXPECT_GE(seconds, std::min(best, *found.least));
      return true;
    });
  }
}

TEST(LowerBound, IsSaidToBeUnknownWhereItIs) {
  std::mt19937 random(4);
  Job job = random_job(random);
  job.gpus = 2, job.global_batch = 4;
  backends::resize(job.cluster, 2);
  const auto why = [&](const SearchOptions& options) {
    const Outcome found = search(job, options, oracle());
    EXPECT_FALSE(found.least);
    return found.unknown_least;
  };
  EXPECT_EQ(why({.goal = Goal::memory}), "estimates of memory bound nothing");
  EXPECT_EQ(why({.partial = false, .simulate = 1}), "every point has its own layouts");
  EXPECT_EQ(why({.go_on = [](const Progress& p) { return p.simulated == 0; }}), "the search ended early");
}

}  // namespace
}  // namespace boxcar::search

// Searches on clusters whose devices differ: estimates, cuts, orders and the found plans.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "backends/machines/device_profile.h"
#include "planner/estimate/level_layers.h"
#include "planner/estimate/lower_bound.h"
#include "planner/estimate/slow_stages.h"
#include "planner/estimate/step_estimate.h"
#include "planner/resolve.h"
#include "planner/search/points.h"
#include "sbp/at.h"
#include "search/jobs.h"
#include "search/simulating.h"

namespace boxcar::search {
namespace {

using planner::Job;

void slow_node(Job& job, int node, double times) {
  const int gpus = job.cluster.node.gpus;
  for (int device = node * gpus; device < (node + 1) * gpus; ++device) job.cluster.slowdown[device] = times;
}

// GPT or Llama on two or four nodes.
Job random_slow_job(std::mt19937& random) {
  const auto one_of = [&](auto... values) {
    const std::vector<int> all{values...};
    return all[random() % all.size()];
  };
  Job job;
  job.model = ir::models::defaults(one_of(0, 1) == 0 ? "gpt" : "llama");
  job.model->layers = one_of(4, 8, 12), job.model->hidden = one_of(1024, 2048), job.model->heads = 16;
  job.model->seq = one_of(512, 1024), job.model->vocab = one_of(1024, 8192);
  job.model->experts = one_of(0, 0, 0, 4);
  job.model = ir::models::complete(job.model);
  job.train.precision = one_of(0, 1) == 0 ? ir::Precision::fp16 : ir::Precision::fp32;
  job.gpus = one_of(8, 16, 32);
  job.cluster = backends::load_cluster(one_of(0, 1) == 0 ? "dgx-a100-80g" : "p3-16xlarge", job.gpus);
  job.cluster.device->memory_bytes = int64_t{1} << 40;  // so that every point fits
  job.global_batch = one_of(32, 64);
  return job;
}

// Slows a node, a device of every node, or some devices; returns whether it was a node.
bool make_slow(Job& job, std::mt19937& random) {
  const double times = 1.1 + 0.1 * static_cast<double>(random() % 8);
  const size_t kind = random() % 4;
  if (kind <= 1) slow_node(job, static_cast<int>(random() % static_cast<unsigned>(job.cluster.nodes)), times);
  for (int device = 0; device < job.gpus; ++device)
    if (kind == 2 ? device % job.cluster.node.gpus == 0 : kind == 3 && random() % 8 == 0)
      job.cluster.slowdown[device] = kind == 2 ? times : 1.1 + 0.1 * static_cast<double>(random() % 8);
  return kind <= 1;
}

// A point of the job with its layers cut for its stages, in some order.
Job level_point(Job point, std::mt19937& random) {
  const char* const orders[] = {"pp,dp,cp,tp", "pp,dp,cp,tp", "pp,dp,cp,tp", "dp,pp,cp,tp", "pp,tp,cp,dp"};
  point.parallel.mesh_order = planner::parse_mesh_order(orders[random() % 5]);
  for (int stage = 0; stage < point.parallel.pp; ++stage) point.parallel.stage_order.push_back(stage);
  std::shuffle(point.parallel.stage_order.begin(), point.parallel.stage_order.end(), random);
  point = planner::resolve(point);
  const planner::Hints& h = point.parallel;
  if (h.pp > 1 && h.virtual_stages == 1)
    point.parallel.stage_layers =
        level_layers(point.model, measure(point, oracle().act_seconds), slowness_by_stage(h, point.cluster),
                     point.train.micro_batches);
  return point;
}

TEST(SlowStages, AreThoseWithSlowDevices) {
  Job job;
  job.cluster = backends::load_cluster("dgx-a100-80g", 32);
  job.gpus = 32, job.parallel.dp = 8, job.parallel.pp = 4;
  using Factors = std::vector<double>;
  EXPECT_EQ(slowness_by_stage(job.parallel, job.cluster), (Factors{1, 1, 1, 1}));
  slow_node(job, 2, 1.3);
  job.cluster.slowdown[17] = 1.5;
  job.cluster.slowdown[40] = 9;  // outside the job
  EXPECT_EQ(slowest_device(job), 1.5);
  EXPECT_EQ(slowness_by_stage(job.parallel, job.cluster), (Factors{1, 1, 1.5, 1}));
  EXPECT_EQ(least_slowness(job.parallel, job.cluster), (Factors{1, 1, 1, 1.5}));
  using Orders = std::vector<std::vector<int>>;
  EXPECT_EQ(slow_orders(job.parallel, job.cluster), (Orders{{2, 0, 1, 3}, {0, 1, 3, 2}}));
  job.parallel.stage_order = {2, 0, 1, 3};
  EXPECT_EQ(slowness_by_stage(job.parallel, job.cluster), (Factors{1.5, 1, 1, 1}));
  EXPECT_EQ(slow_orders(job.parallel, job.cluster), (Orders{{0, 1, 3, 2}}));
  job.parallel.stage_order = {};
  job.parallel.mesh_order = planner::parse_mesh_order("dp,pp,cp,tp");
  EXPECT_EQ(slowness_by_stage(job.parallel, job.cluster), (Factors{1.3, 1.5, 1.3, 1.3}));
  EXPECT_EQ(least_slowness(job.parallel, job.cluster), (Factors{1, 1, 1, 1.5}));
  job.cluster.slowdown[0] = 1.2;
  EXPECT_EQ(least_slowness(job.parallel, job.cluster), (Factors{1, 1, 1.2, 1.5}));
}

TEST(SlowStages, EstimatesAreNearTheSimulationAndBoundsBelowIt) {
  std::mt19937 random(20261123);
  struct Off {
    double slow = 0, alike = 0, unknown = 0;
    int points = 0;
  };
  Off off[2];  // by whether it is a node, in the usual order: in others links dominate
  int points = 0, stages = 0;
  for (int j = 0; j < 40; ++j) {
    Job job = random_slow_job(random);
    const bool node = make_slow(job, random);
    std::vector<Job> all;
    each_point(job, {{"zero"}, {}}, [&](const Job& point) { return all.push_back(point), false; });
    std::shuffle(all.begin(), all.end(), random);
    for (size_t p = 0; p < all.size() && p < 4; ++p) {
      const Job point = level_point(all[p], random);
      const ModelCost cost = measure(point, oracle().act_seconds);
      const double seconds =
          sim::simulate(planner::compile(planner::resolve(point)), point.cluster).step_seconds;
      Job alike = point;
      alike.cluster.slowdown.clear();
      EXPECT_LE(least_seconds(point, cost), seconds * (1 + 1e-6))
          << "dp " << point.parallel.dp << " tp " << point.parallel.tp << " pp " << point.parallel.pp << " v "
          << point.parallel.virtual_stages << " " << to_text(point.parallel.mesh_order);
      EXPECT_GE(least_seconds(point, cost), least_seconds(alike, cost));
      ++points;
      if (point.parallel.mesh_order != planner::Hints().mesh_order) continue;
      const double alike_seconds =
          sim::simulate(planner::compile(planner::resolve(point)), alike.cluster).step_seconds;
      Off& sum = off[node ? 1 : 0];
      sum.slow += std::abs(estimate(point, cost).seconds / seconds - 1);
      sum.alike += std::abs(estimate(alike, cost).seconds / alike_seconds - 1);
      sum.unknown += std::abs(estimate(alike, cost).seconds / seconds - 1);
      ++sum.points;
      stages += point.parallel.pp > 1 ? 1 : 0;
    }
  }
  EXPECT_GT(points, 100);
  EXPECT_GT(stages, 50);
  for (const Off& sum : off) {
    RecordProperty(&sum == off ? "devices" : "node",
                   fmt::format("{:.4f} of {}, {:.4f} without", sum.slow / sum.points, sum.points,
                               sum.alike / sum.points));
    EXPECT_GT(sum.points, 30);
    EXPECT_LT(sum.slow, sum.alike + 0.02 * sum.points);
    EXPECT_LT(sum.slow, 0.07 * sum.points);
    EXPECT_GT(sum.unknown, 2 * sum.slow);
  }
}

// Calls `visit` with each cut of `layers` into stages.
template <typename Visit>
void each_cut(int layers, std::vector<int>& cut, size_t stage, const Visit& visit) {
  const int behind = static_cast<int>(cut.size() - stage) - 1;
  if (behind == 0) return cut[stage] = layers, visit(cut);
  for (cut[stage] = 1; cut[stage] <= layers - behind; ++cut[stage])
    each_cut(layers - cut[stage], cut, stage + 1, visit);
}

// The fastest by estimate among all cuts.
TEST(SlowStages, HaveTheLayersThatAreFastest) {
  std::mt19937 random(5);
  int fewer = 0;
  for (int j = 0; j < 24; ++j) {
    Job job = small_gpt(4);
    if (j % 4 == 0) job.model = ir::models::defaults("t5"), job.model->decoder_layers = 4;
    job.model->layers = 8 + static_cast<int>(random() % 4), job.model->hidden = 1024, job.model->heads = 16;
    job.model->seq = 512, job.model->vocab = random() % 2 == 0 ? 1024 : 32768;
    job.model = ir::models::complete(job.model);
    job.parallel.pp = j % 3 == 0 ? 2 : 4;
    job.parallel.micro_batch = j % 2 == 0 ? 1 : 4;
    job.global_batch = 256;  // the cut is for many micro-batches
    job.cluster.slowdown = {{static_cast<int>(random() % 4), 1.2 + 0.1 * static_cast<double>(random() % 8)}};
    if (j % 5 == 0) job.cluster.slowdown[1] = 2.5;
    job = planner::resolve(job);
    const ModelCost cost = measure(job, oracle().act_seconds);
    const std::vector<double> slowness = slowness_by_stage(job.parallel, job.cluster);
    const auto seconds = [&](const std::vector<int>& cut) {
      Job with = job;
      with.parallel.stage_layers = cut;
      return estimate(with, cost).seconds;
    };
    const auto layers = static_cast<int>(job.model.layers());
    const std::vector<int> level = level_layers(job.model, cost, slowness, job.train.micro_batches);
    double least = infinity;
    std::vector<int> cut(slowness.size());
    each_cut(layers, cut, 0, [&](const std::vector<int>& c) { least = std::min(least, seconds(c)); });
    EXPECT_LE(seconds(level), 1.006 * least) << job.model.family() << " " << j;
    const auto slow = std::max_element(slowness.begin(), slowness.end()) - slowness.begin();
    const std::vector<int> even = planner::balanced_layers(layers, job.parallel.pp);
    fewer += at(level, slow) < at(even, slow) ? 1 : 0;
  }
  EXPECT_GT(fewer, 12);
}

// Orders in which other stages are slow, also where no group leaves a node.
TEST(SlowStages, HangOnTheOrderOfTheMesh) {
  Job job = small_gpt(4);
  job.parallel.dp = job.parallel.pp = 2;
  EXPECT_TRUE(other_orders(job).empty());
  job.cluster.slowdown = {{0, 1.3}, {2, 1.3}};  // in both stages; in the other order in one
  EXPECT_EQ(other_orders(job), std::vector{planner::parse_mesh_order("cp,dp,pp,tp")});
  job.cluster.slowdown = {{0, 1.3}};
  EXPECT_TRUE(other_orders(job).empty());
}

// A plan found with the slow devices known, compared with one found as if all were equal.
TEST(SlowStages, AreWorthKnowing) {
  for (const int node : {0, 1}) {
    Job job = small_gpt(16);
    job.model->layers = 12;
    job.cluster = backends::load_cluster("p3-16xlarge", 16);
    job.train.precision = ir::Precision::fp16;
    job.global_batch = 64;
    const Outcome alike = search(job, {}, oracle());
    slow_node(job, node, 1.5);
    const Outcome known = search(job, {}, oracle());
    ASSERT_FALSE(alike.best.empty());
    ASSERT_FALSE(known.best.empty());
    const double seconds = sim::simulate(plan_of(alike.best.front()), job.cluster).step_seconds;
    EXPECT_LT(known.best.front().seconds, 0.98 * seconds) << "node " << node;
  }
}

// A slow device holds the first stages, which keep most micro-batches.
TEST(SlowStages, StandWhereThatIsFaster) {
  Job job = small_gpt(4);
  job.model->layers = 12;
  job.parallel.pp = 4, job.parallel.micro_batch = 1;
  job.cluster.slowdown = {{2, 2}};
  SearchOptions options{.pinned = {"pp", "micro_batch", "recompute"}};
  const Outcome found = search(job, options, oracle());
  options.pinned.insert("stage_order");
  const Outcome usual = search(job, options, oracle());
  ASSERT_FALSE(found.best.empty());
  ASSERT_FALSE(usual.best.empty());
  EXPECT_EQ(found.best.front().job.parallel.stage_order, (std::vector{2, 0, 1, 3}));
  EXPECT_TRUE(usual.best.front().job.parallel.stage_order.empty());
  EXPECT_LT(found.best.front().seconds, usual.best.front().seconds);
  // The same plan as where the first device is slow.
  job.cluster.slowdown = {{0, 2}};
  EXPECT_DOUBLE_EQ(search(job, options, oracle()).best.front().seconds, found.best.front().seconds);
}

}  // namespace
}  // namespace boxcar::search

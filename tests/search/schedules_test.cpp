// Estimates of pipelines under each schedule: random jobs, like points of a search.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "backends/machines/device_profile.h"
#include "planner/estimate/level_layers.h"
#include "planner/estimate/step_estimate.h"
#include "planner/resolve.h"
#include "search/jobs.h"
#include "search/simulating.h"

namespace boxcar::search {
namespace {

using planner::Job;

// A pipeline of random model, cluster, degrees, cut and recomputation, with all backward passes whole.
Job random_pipeline(std::mt19937& random) {
  const auto one_of = [&](auto... values) {
    const std::vector<int> all{values...};
    return all[random() % all.size()];
  };
  Job job;
  job.model = ir::models::defaults(one_of(0, 1, 2) < 2 ? "gpt" : "llama");
  job.model->layers = one_of(6, 8, 12, 16, 24), job.model->hidden = one_of(1024, 2048, 4096);
  job.model->heads = 16, job.model->seq = one_of(256, 1024, 2048),
  job.model->vocab = one_of(8192, 32000, 51200);
  if (job.model.family() == "gpt") job.model->experts = one_of(0, 0, 0, 4);
  job.model = ir::models::complete(job.model);
  job.train.precision = one_of(0, 0, 1) == 0 ? ir::Precision::fp16 : ir::Precision::fp32;
  job.gpus = one_of(4, 8, 16, 32);
  job.cluster =
      backends::load_cluster(std::array{"dgx-a100-80g", "p3-16xlarge", "dgx-h100"}[random() % 3], job.gpus);
  job.cluster.device->memory_bytes = int64_t{1} << 40;  // so that every point fits
  planner::Hints& h = job.parallel;
  h.pp = one_of(2, 4, 8);
  while (h.pp > job.gpus || h.pp > job.model.layers()) h.pp /= 2;
  h.tp = std::min(one_of(1, 2, 4), job.gpus / h.pp);
  h.dp = job.gpus / h.pp / h.tp;
  h.sequence_parallel = h.tp > 1 && one_of(0, 1) == 1;
  h.zero = h.dp > 1 ? one_of(0, 1, 1) : 0;
  h.micro_batch = one_of(1, 2, 4);
  job.global_batch = int64_t{h.micro_batch} * h.dp * one_of(2, 4, 8, 16, 32);
  job.train.recompute =
      std::array{ir::Recompute::none, ir::Recompute::selective, ir::Recompute::full}[random() % 3];
  return job;
}

// The same with its layers cut level, and some of each stage's recomputed.
Job with_level_stages(Job job, std::mt19937& random) {
  job = planner::resolve(job);
  const auto stages = static_cast<size_t>(job.parallel.pp * job.parallel.virtual_stages);
  job.parallel.stage_layers = level_layers(job.model, measure(job, oracle().act_seconds),
                                           std::vector<double>(stages, 1), job.train.micro_batches);
  if (job.train.recompute != ir::Recompute::none && random() % 2 == 0)
    for (const int layers : job.parallel.stage_layers)
      job.train.recompute_layers.push_back(static_cast<int>(random() % static_cast<size_t>(layers + 1)));
  return job;
}

struct Off {
  double seconds = 0, bytes = 0, most_bytes = 0;  // sums, and the most
  int points = 0, near = 0;                       // near: within 5 % of the step
};

// Step and memory, as a search estimates them. A few steps are further off: those in which transfers out of a
// node wait for each other in both directions.
TEST(Schedules, EstimatesOfEachAreNearTheSimulation) {
  std::mt19937 random(20261127);
  std::map<std::string, Off> off;
  for (unsigned j = 0; j < 40; ++j) {
    const Job drawn = random_pipeline(random);
    for (const std::string schedule : {"1f1b", "zb-h1", "zb-h2", "zb-v", "dualpipe-v", "interleaved"}) {
      Job job = drawn;
      if (schedule != "interleaved") job.parallel.schedule = planner::parse_schedule(schedule);
      const bool two = schedule == "interleaved" || planner::is_v_shaped(job.parallel.schedule.kind);
      if (two && job.model.layers() % (2 * job.parallel.pp) != 0) continue;
      if (two) job.parallel.virtual_stages = 2;
      std::mt19937 same(j);
      job = with_level_stages(job, same);
      const Estimate e = estimated(job);
      const ir::Plan plan = planner::compile(planner::resolve(job));
      const double seconds = std::abs(e.seconds / sim::simulate(plan, job.cluster).step_seconds - 1);
      const double bytes = std::abs(e.bytes / static_cast<double>(peak_of(plan)) - 1);
      Off& of = off[schedule];
      of.seconds += seconds, of.bytes += bytes, ++of.points;
      of.most_bytes = std::max(of.most_bytes, bytes);
      of.near += seconds < 0.05 ? 1 : 0;
    }
  }
  for (const auto& [schedule, of] : off) {
    EXPECT_GT(of.points, 15) << schedule;
    const bool splits = schedule.starts_with("zb-h");
    EXPECT_LT(of.seconds / of.points, splits ? 0.01 : 0.015) << schedule;
    EXPECT_LT(of.bytes / of.points, splits ? 0.001 : 0.005) << schedule;
    EXPECT_LT(of.most_bytes, splits ? 0.005 : 0.08) << schedule;
    EXPECT_GE(of.near, 0.97 * of.points) << schedule;
  }
}

// With one micro-batch a stage gathers parameters and reduces gradients while it waits for the other stage,
// the more so the more virtual stages there are.
TEST(Schedules, StatesOfOneMicroBatchAreSharedWhileAStageWaits) {
  for (const int virtual_stages : {1, 2, 4}) {
    Job job = small_gpt(8);
    job.model->layers = 8, job.model->hidden = 512, job.model->ffn = 0;
    job.model = ir::models::complete(job.model);
    job.cluster = backends::load_cluster("pcie-a100-80g", 8);
    job.parallel.dp = 4, job.parallel.pp = 2, job.parallel.virtual_stages = virtual_stages;
    job.parallel.zero = 3, job.parallel.micro_batch = 4, job.global_batch = 16;
    job = planner::resolve(job);
    const double simulated = sim::simulate(planner::compile(planner::resolve(job)), job.cluster).step_seconds;
    EXPECT_NEAR(estimated(job).seconds / simulated, 1, 0.12) << virtual_stages;
  }
}

// The last layer of a stage recomputes while the stage waits for its gradient.
TEST(Schedules, RecomputationNeedsNoGradient) {
  Job job = small_gpt(4);
  job.parallel.pp = 4, job.parallel.micro_batch = 4;
  job = planner::resolve(job);
  EXPECT_EQ(measure(job, oracle().act_seconds).before_gradient, 0);
  job.train.recompute = ir::Recompute::full;
  const ModelCost cost = measure(job, oracle().act_seconds);
  EXPECT_NEAR(cost.before_gradient / cost.layer.forward, 1, 0.25);
}

}  // namespace
}  // namespace boxcar::search

#include "planner/search/fitting.h"

#include <gtest/gtest.h>

#include <random>

#include "backends/machines/device_profile.h"
#include "planner/resolve.h"
#include "planner/search/dimensions.h"
#include "search/jobs.h"
#include "search/simulating.h"

namespace boxcar::search {
namespace {

using planner::Job;

// A job of random degrees on devices that have part of the memory that it needs.
Job too_large(std::mt19937& random) {
  const auto one_of = [&](auto... values) {
    const std::vector<int> all{values...};
    return all[random() % all.size()];
  };
  Job job = small_gpt(8);
  job.model->layers = 8, job.model->hidden = 1024, job.model->seq = one_of(512, 2048);
  job.model = ir::models::complete(job.model);
  job.global_batch = 64;
  job.parallel.tp = one_of(1, 2), job.parallel.pp = one_of(1, 2), job.parallel.micro_batch = one_of(1, 4);
  job.parallel.zero = one_of(0, 1);
  const int64_t needs = peak_of(planner::compile(planner::resolve(job)));
  job.cluster.device->memory_bytes = needs * one_of(60, 75, 95) / 100;
  return job;
}

// Each way differs from the job in what it names, and dp, and fits by its plan.
TEST(Fitting, WaysChangeWhatTheySayAndFit) {
  std::mt19937 random(3);
  int ways = 0;
  for (int j = 0; j < 8; ++j) {
    const planner::ResolvedJob job = planner::resolve(too_large(random));
    for (const Alternative& way : ways_to_fit(job, job->cluster, oracle().act_seconds)) {
      const Job& to = way.candidate.job;
      Job other = job;
      if (way.fused_attention) other.model->flash = other.train.flash = true;
      other.gpus = to.gpus, other.cluster = to.cluster;
      EXPECT_EQ(way.gpus, to.gpus == job->gpus ? 0 : to.gpus);
      for (const std::string& key : way.without) {
        EXPECT_NE(value_of(dimension(key), job), value_of(dimension(key), to)) << key;
        copy_value(dimension(key), to, other);
      }
      other.parallel.dp = 0, other.parallel.stage_layers.clear();
      const planner::ResolvedJob again = planner::resolve(other);
      EXPECT_TRUE(*again == to);
      EXPECT_EQ(peak_of(planner::compile(again)), way.candidate.peak_bytes);
      EXPECT_LE(way.candidate.peak_bytes, job->cluster.device->memory_bytes);
      ++ways;
    }
  }
  EXPECT_GT(ways, 12);
}

// Each stage's number is the least: one layer less, on any of them, does not fit.
TEST(Fitting, RecomputesTheFewestLayersThatFit) {
  Job job = small_gpt(4);
  job.model->layers = 16, job.model->seq = 1024, job.global_batch = 32;
  job.model = ir::models::complete(job.model);
  job.parallel.pp = 4, job.parallel.micro_batch = 2;
  const auto bytes = [&](const std::vector<int>& recomputed) {
    Job one = job;
    one.train.recompute = ir::Recompute::full, one.train.recompute_layers = recomputed;
    return peak_of(planner::compile(planner::resolve(one)));
  };
  job.train.recompute = ir::Recompute::full;
  job.cluster.device->memory_bytes = (bytes({0, 0, 0, 0}) + bytes({4, 4, 4, 4})) / 2;
  const auto fewest = with_fewest_recomputed(planner::resolve(job), false, oracle().act_seconds);
  ASSERT_TRUE(fewest);
  const std::vector<int> counts = (*fewest)->train.recompute_layers;
  ASSERT_EQ(counts.size(), 4u);
  EXPECT_LE(bytes(counts), job.cluster.device->memory_bytes);
  EXPECT_GT(counts[0], 0);
  for (size_t s = 0; s < counts.size(); ++s)
    if (counts[s] > 0) {
      std::vector<int> fewer = counts;
      --fewer[s];
      EXPECT_GT(bytes(fewer), job.cluster.device->memory_bytes) << s;
    }
  job.cluster.device->memory_bytes = bytes({4, 4, 4, 4}) - 1;
  EXPECT_FALSE(with_fewest_recomputed(planner::resolve(job), false, oracle().act_seconds));
  job.train.recompute = ir::Recompute::none;
  EXPECT_FALSE(with_fewest_recomputed(planner::resolve(job), false, oracle().act_seconds));
}

TEST(Fitting, KeepsAnUnevenCutOfTheLayers) {
  Job job = small_gpt(4);
  job.model->layers = 8, job.parallel.pp = 2, job.parallel.stage_layers = {6, 2};
  job.model = ir::models::complete(job.model);
  job.parallel.micro_batch = 2;
  const planner::ResolvedJob plain = planner::resolve(job);
  job.cluster.device->memory_bytes = peak_of(planner::compile(plain)) * 9 / 10;
  const auto ways = ways_to_fit(planner::resolve(job), job.cluster, oracle().act_seconds);
  ASSERT_FALSE(ways.empty());
  for (const Alternative& way : ways)
    EXPECT_EQ(way.candidate.job.parallel.stage_layers, (std::vector<int>{6, 2}));
}

}  // namespace
}  // namespace boxcar::search

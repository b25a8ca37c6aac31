// Estimates against plans and their simulation.
#include "planner/estimate/estimate.h"

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "backends/machines/framework.h"
#include "planner/estimate/level_layers.h"
#include "planner/estimate/phase_walks.h"
#include "planner/estimate/placed_probe.h"
#include "planner/estimate/step_estimate.h"
#include "planner/resolve.h"
#include "planner/search/points.h"
#include "search/jobs.h"
#include "search/simulating.h"

namespace boxcar::search {
namespace {

using planner::Job;

TEST(Search, EstimatesAreNearTheSimulation) {
  const Job job = small_gpt(8);
  double sum = 0, worst_memory = 1;
  int points = 0;
  each_plan(job, {"micro_batch", "virtual_stages"}, [&](const Job& point, const ir::Plan& plan) {
    const Estimate e = estimate(point, measure(point, oracle().act_seconds));
    sum += std::abs(e.seconds / sim::simulate(plan, point.cluster).step_seconds - 1);
    const double memory = e.bytes / static_cast<double>(peak_of(plan));
    worst_memory = std::max({worst_memory, memory, 1 / memory});
    ++points;
  });
  EXPECT_GT(points, 50);
  EXPECT_LT(sum / points, 0.02);
  EXPECT_LT(worst_memory, 1.5);
}

// Any number of recomputed layers on each stage, the others with a lesser kind of recomputation.
TEST(Search, EstimatesOfLayersThatDifferInRecomputationAreNearTheSimulation) {
  std::mt19937 random(11);
  Job job = small_gpt(8);
  job.model->layers = 8, job.global_batch = 32;
  double seconds = 0, bytes = 0;
  int points = 0;
  each_point(job, {{"micro_batch", "zero"}, {}}, [&](const Job& point) {
    if (point.train.recompute == ir::Recompute::none) return false;
    Job mixed = planner::resolve(point);
    for (const int layers : mixed.parallel.stage_layers)
      mixed.train.recompute_layers.push_back(static_cast<int>(random() % static_cast<size_t>(layers + 1)));
    if (mixed.train.recompute == ir::Recompute::full && random() % 2 == 0)
      mixed.train.recompute_others = ir::Recompute::selective;
    const Estimate e = estimated(mixed);
    const ir::Plan plan = planner::compile(planner::resolve(mixed));
    seconds += std::abs(e.seconds / sim::simulate(plan, mixed.cluster).step_seconds - 1);
    bytes += std::abs(e.bytes / static_cast<double>(peak_of(plan)) - 1);
    ++points;
    return false;
  });
  EXPECT_GT(points, 40);
  EXPECT_LT(seconds / points, 0.04);
  EXPECT_LT(bytes / points, 0.02);
}

// With virtual stages every chunk has slots for its maximum in flight, not for the mean.
TEST(Search, EstimatesTheMemoryOfVirtualStages) {
  Job job = small_gpt(8);
  job.model->layers = 16;
  job.global_batch = 32;
  int points = 0;
  each_plan(job, {"tp", "micro_batch", "zero"}, [&](const Job& point, const ir::Plan& plan) {
    if (point.parallel.virtual_stages == 1) return;
    const Estimate e = estimate(point, measure(point, oracle().act_seconds));
    EXPECT_NEAR(e.bytes / static_cast<double>(peak_of(plan)), 1, 0.05)
        << point.parallel.pp << " stages of " << point.parallel.virtual_stages;
    ++points;
  });
  EXPECT_GT(points, 5);
}

// Over nodes communication takes as long as kernels, so its overlap decides.
TEST(Search, EstimatesOfShardedStatesOverManyNodesAreNearTheSimulation) {
  for (const int zero : {2, 3})
    for (const int gpus : {32, 128}) {
      Job job = small_gpt(gpus);
      job.model->layers = 24, job.model->hidden = 4096, job.model->heads = 32, job.model->seq = 1024;
      job.model->ffn = job.model->kv_heads = 0;
      job.model = ir::models::complete(job.model);
      job.train.precision = ir::Precision::fp16;
      job.parallel.zero = zero, job.parallel.micro_batch = 4;
      job.global_batch = gpus * 8;
      job = planner::resolve(job);
      const Estimate e = estimate(job, measure(job, oracle().act_seconds));
      const double simulated =
          sim::simulate(planner::compile(planner::resolve(job)), job.cluster).step_seconds;
      EXPECT_NEAR(e.seconds / simulated, 1, 0.05) << "zero " << zero << " on " << gpus;
    }
}

// Every virtual stage waits for the gradients of its first layer, in every micro-batch.
TEST(Search, EstimatesOfVirtualStagesWithShardedGradientsAreNearTheSimulation) {
  for (const int virtual_stages : {2, 6}) {
    Job job = small_gpt(128);
    job.model->layers = 24, job.model->hidden = 4096, job.model->heads = 32, job.model->seq = 1024;
    job.model->ffn = job.model->kv_heads = 0;
    job.model = ir::models::complete(job.model);
    job.train.precision = ir::Precision::fp16;
    job.parallel.tp = 4, job.parallel.pp = 4, job.parallel.virtual_stages = virtual_stages;
    job.parallel.zero = 2, job.parallel.micro_batch = 4;
    job.global_batch = 8 * 4 * 8;
    job = planner::resolve(job);
    const Estimate e = estimate(job, measure(job, oracle().act_seconds));
    const double simulated = sim::simulate(planner::compile(planner::resolve(job)), job.cluster).step_seconds;
    EXPECT_NEAR(e.seconds / simulated, 1, 0.12) << virtual_stages;
  }
}

// Uneven virtual stages, empty ones at the ends, and micro-batches that pp does not divide.
TEST(Search, EstimatesOfVirtualStagesThatDifferAreNearTheSimulation) {
  double off = 0, memory_off = 0;
  int points = 0;
  for (const int64_t vocab : {8192, 65536})
    for (const auto& [layers, pp, virtual_stages] :
         std::vector<std::array<int, 3>>{{6, 4, 2}, {10, 4, 3}, {14, 4, 4}, {14, 4, 2}, {18, 2, 5}})
      for (const int micro_batches : {3, 4, 7, 8, 22}) {
        Job job = small_gpt(8);
        job.model->layers = layers, job.model->vocab = vocab;
        job.parallel.tp = 8 / pp, job.parallel.dp = 1;
        job.parallel.pp = pp, job.parallel.virtual_stages = virtual_stages, job.parallel.micro_batch = 2;
        job.global_batch = 2 * micro_batches;
        job = planner::resolve(job);
        const ModelCost cost = measure(job, oracle().act_seconds);
        job.parallel.stage_layers = level_layers(
            job.model, cost, std::vector<double>(static_cast<size_t>(pp * virtual_stages), 1), 8);
        const Estimate e = estimate(job, cost);
        const ir::Plan plan = planner::compile(planner::resolve(job));
        const double ratio = e.seconds / sim::simulate(plan, job.cluster).step_seconds;
        const double memory = e.bytes / static_cast<double>(peak_of(plan));
        EXPECT_NEAR(ratio, 1, 0.08) << fmt::format("{} on {} x {}, {} micro-batches",
                                                   fmt::join(job.parallel.stage_layers, ","), pp,
                                                   virtual_stages, micro_batches);
        off += std::abs(ratio - 1), memory_off += std::abs(memory - 1), ++points;
      }
  EXPECT_LT(off / points, 0.03);
  EXPECT_LT(memory_off / points, 0.05);
}

// Backward passes in two parts: zb-h1 and zb-h2, whose second parts fill what 1F1B waits for.
TEST(Search, EstimatesOfSplitBackwardPassesAreNearTheSimulation) {
  double off = 0, memory_off = 0;
  int points = 0;
  for (const planner::Schedule schedule : {planner::Schedule::zb_h1, planner::Schedule::zb_h2})
    for (const ir::Recompute recompute : {ir::Recompute::none, ir::Recompute::full})
      for (const auto& [pp, tp, zero] :
           std::vector<std::array<int, 3>>{{2, 2, 1}, {4, 1, 0}, {4, 2, 0}, {8, 1, 0}})
        for (const int micro_batches : {3, 8, 32}) {
          Job job = small_gpt(8);
          job.model->layers = 16, job.model->vocab = 32768, job.train.precision = ir::Precision::fp16;
          job.train.recompute = recompute;
          planner::Hints& h = job.parallel;
          h.pp = pp, h.tp = tp, h.dp = 8 / pp / tp, h.zero = h.dp > 1 ? zero : 0, h.micro_batch = 2;
          h.schedule = schedule;
          job.global_batch = 2 * micro_batches * h.dp;
          job = planner::resolve(job);
          const Estimate e = estimated(job);
          const ir::Plan plan = planner::compile(planner::resolve(job));
          const double ratio = e.seconds / sim::simulate(plan, job.cluster).step_seconds;
          const double memory = e.bytes / static_cast<double>(peak_of(plan));
          EXPECT_NEAR(ratio, 1, 0.1) << fmt::format("{} pp {} tp {} micro-batches {} recompute {}",
                                                    to_text(h.schedule), pp, tp, micro_batches,
                                                    static_cast<int>(recompute));
          EXPECT_NEAR(memory, 1, 0.05)
              << fmt::format("{} pp {} tp {} micro-batches {} recompute {}", to_text(h.schedule), pp, tp,
                             micro_batches, static_cast<int>(recompute));
          off += std::abs(ratio - 1), memory_off += std::abs(memory - 1), ++points;
        }
  EXPECT_LT(off / points, 0.03);
  EXPECT_LT(memory_off / points, 0.02);
}

// Gradients are reduced over positions too, unsharded ones together with data parallelism. A node's groups
// that reach another node share its NICs.
TEST(Estimate, OfContextParallelismReducesGradients) {
  double off = 0;
  int points = 0;
  for (const char* cluster : {"p3-16xlarge", "dgx-a100-80g"})
    for (const auto& [dp, tp, cp, pp] : std::vector<std::array<int, 4>>{
             {2, 2, 2, 1}, {1, 8, 2, 1}, {1, 2, 4, 2}, {4, 2, 2, 1}, {4, 1, 2, 2}})
      for (const int zero : {0, 1, 2, 3}) {
        if (dp == 1 && zero > 0) continue;
        Job job = small_gpt(0);
        job.model->hidden = 2048, job.model->heads = 16, job.model->seq = 4096, job.model->vocab = 32000;
        job.model->ffn = job.model->kv_heads = 0;
        job.model = ir::models::complete(job.model);
        job.gpus = dp * tp * cp * pp;
        job.cluster = backends::load_cluster(cluster, job.gpus);
        job.train.precision = ir::Precision::fp16;
        job.global_batch = 8;
        planner::Hints& h = job.parallel;
        h.dp = dp, h.tp = tp, h.cp = cp, h.pp = pp, h.zero = zero, h.micro_batch = 1;
        job = planner::resolve(job);
        const Estimate e = estimate(job, measure(job, oracle().act_seconds));
        const double simulated =
            sim::simulate(planner::compile(planner::resolve(job)), job.cluster).step_seconds;
        EXPECT_NEAR(e.seconds / simulated, 1, 0.35)
            << cluster << " dp " << dp << " tp " << tp << " cp " << cp << " pp " << pp << " zero " << zero;
        off += std::abs(e.seconds / simulated - 1), ++points;
      }
  EXPECT_LT(off / points, 0.04);
}

// Fewer micro-batches than stages: each stage has room for all of them.
TEST(Estimate, OfFewMicroBatchesWaitsForNoRoom) {
  Job job = small_gpt(8);
  job.model->layers = 8, job.model->hidden = 768, job.model->heads = 12,
  job.model->ffn = job.model->kv_heads = 0;
  job.model = ir::models::complete(job.model);
  job.parallel.pp = 8;
  for (const int micro_batch : {2, 8, 16}) {
    job.parallel.micro_batch = micro_batch;
    const Job point = planner::resolve(job);
    const Estimate e = estimate(point, measure(point, oracle().act_seconds));
    const double simulated =
        sim::simulate(planner::compile(planner::resolve(point)), point.cluster).step_seconds;
    EXPECT_NEAR(e.seconds / simulated, 1, 0.03) << micro_batch;
  }
}

// Stages side by side on a node share its NIC: with groups of a stage over several nodes as far as they are
// at work at once, with reductions of gradients behind their last passes.
TEST(Estimate, OfStagesInsideANodeIsNearTheSimulation) {
  Job job = small_gpt(8);
  job.cluster = backends::load_cluster("p3-16xlarge", 32);
  job.model->layers = 8, job.model->hidden = 1024, job.model->heads = 16;
  job.model->ffn = job.model->kv_heads = 0;
  job.model = ir::models::complete(job.model);
  const struct {
    int gpus, tp, pp, global_batch;
    const char* order;
    double allowed;
  } rows[] = {{16, 2, 8, 8, "cp,dp,tp,pp", 0.35}, {16, 2, 8, 64, "cp,dp,tp,pp", 0.35},
              {16, 4, 4, 8, "cp,dp,tp,pp", 0.35}, {16, 4, 4, 64, "cp,dp,tp,pp", 0.35},
              {16, 2, 4, 8, "cp,dp,tp,pp", 0.05}, {16, 2, 4, 64, "cp,dp,tp,pp", 0.05},
              {32, 2, 8, 16, "cp,dp,tp,pp", 0.2}, {32, 4, 4, 16, "tp,dp,cp,pp", 0.2},
              {32, 2, 8, 16, "dp,pp,cp,tp", 0.05}};
  for (const auto& row : rows) {
    job.gpus = row.gpus, job.global_batch = row.global_batch;
    job.parallel.tp = row.tp, job.parallel.pp = row.pp;
    job.parallel.mesh_order = planner::parse_mesh_order(row.order);
    const Job point = planner::resolve(job);
    const Estimate e = estimate(point, measure(point, oracle().act_seconds));
    const double simulated =
        sim::simulate(planner::compile(planner::resolve(point)), point.cluster).step_seconds;
    EXPECT_NEAR(e.seconds / simulated, 1, row.allowed)
        << row.gpus << " tp " << row.tp << " pp " << row.pp << " of " << row.global_batch << " " << row.order;
  }
}

TEST(Estimate, OfANicIsSharedWhileStagesAreAtWork) {
  EXPECT_DOUBLE_EQ(nic_sharing(8, {4, 0.75}), 6.5);
  EXPECT_DOUBLE_EQ(nic_sharing(8, {8, 1}), 8);
  EXPECT_DOUBLE_EQ(nic_sharing(8, {}), 8);
  EXPECT_DOUBLE_EQ(nic_sharing(1, {}), 1);
}

struct Worst {
  double seconds = 0, bytes = 0;
};

Worst worst_estimate(const Job& job, const std::set<std::string>& pinned, int* points) {
  Worst worst;
  each_point(job, {pinned, {}}, [&](const Job& point) {
    const Job resolved = planner::resolve(point);
    Candidate candidate{resolved};
    if (needs_layouts(resolved)) candidate.layouts = LayoutRequest{};
    const Estimate e = estimate(resolved, measure(resolved, oracle().act_seconds));
    const ir::Plan plan = plan_of(candidate);
    const double seconds = sim::simulate(plan, job.cluster).step_seconds;
    worst.seconds = std::max(worst.seconds, std::abs(e.seconds / seconds - 1));
    worst.bytes = std::max(worst.bytes, std::abs(e.bytes / static_cast<double>(peak_of(plan)) - 1));
    ++*points;
    return false;
  });
  return worst;
}

// 64 images on four A100s, in micro-batches of eight.
Job images_job(const char* family, int64_t layers, int64_t channels, int64_t classes, int64_t image = 224) {
  Job job;
  job.model = ir::models::ConvNet{family, layers, channels, 1, image, classes};
  job.cluster = backends::load_cluster("dgx-a100-80g", 4);
  job.gpus = 4, job.global_batch = 64, job.parallel.micro_batch = 8;
  return job;
}

// Layers that all differ, on stages of whole layers; the tensor dimension has found layouts.
TEST(Search, EstimatesOfAConvolutionalNetworkAreNearTheSimulation) {
  const Job job = images_job("wide_resnet", 16, 64, 1000);
  int points = 0;
  const Worst worst = worst_estimate(job, {"micro_batch", "virtual_stages", "zero"}, &points);
  EXPECT_LT(worst.seconds, 0.1);
  EXPECT_LT(worst.bytes, 0.5);
  EXPECT_GT(points, 8);
}

// Outputs of the down levels are read by the up levels, stages apart.
TEST(Search, EstimatesOfADiffusionUnetAreNearTheSimulation) {
  const Job job = images_job("diffusion_unet", 7, 64, 4, 32);
  int points = 0;
  const Worst worst = worst_estimate(job, {"micro_batch", "virtual_stages", "zero", "tp"}, &points);
  EXPECT_LT(worst.seconds, 0.15);
  EXPECT_LT(worst.bytes, 0.4);
  EXPECT_GT(points, 4);
}

// Experts on every other layer: the number of devices that share them is a dimension of the space.
TEST(Search, EstimatesOfExpertsAreNearTheSimulation) {
  Job job = small_gpt(4);
  job.model->experts = 4;
  job.model->expert_every = 2;
  std::set<int> degrees;
  each_point(job, {}, [&](const Job& point) { return degrees.insert(point.parallel.ep), true; });
  EXPECT_EQ(degrees, (std::set<int>{1, 2, 4}));
  int points = 0;
  const Worst worst = worst_estimate(job, {"micro_batch", "virtual_stages", "zero", "recompute"}, &points);
  EXPECT_LT(worst.seconds, 0.15);
  EXPECT_LT(worst.bytes, 0.4);
  EXPECT_GT(points, 8);
}

// Gradients of experts are made in parts by ranks of context parallelism.
TEST(Search, EstimatesOfExpertsAndContextParallelismAreNearTheSimulation) {
  double off = 0;
  int points = 0;
  for (const char* order : {"pp,dp,cp,tp", "cp,tp,dp,pp"})
    for (const auto& [dp, ep, cp, pp] :
         std::vector<std::array<int, 4>>{{1, 1, 4, 2}, {1, 1, 2, 4}, {2, 1, 4, 2}, {2, 2, 4, 2}})
      for (const int zero : {0, 1, 2}) {
        Job job = small_gpt(16);
        job.cluster = backends::load_cluster("dgx-1-v100-32g", 16);
        job.gpus = dp * cp * pp;
        job.model->layers = 4, job.model->hidden = 1024, job.model->heads = 16, job.model->seq = 1024;
        job.model->ffn = job.model->kv_heads = 0, job.model->experts = 8;
        job.model = ir::models::complete(job.model);
        job.train.precision = ir::Precision::fp16;
        job.global_batch = 16;
        planner::Hints& h = job.parallel;
        h.dp = dp, h.ep = ep, h.cp = cp, h.pp = pp, h.zero = zero, h.micro_batch = 1;
        h.mesh_order = planner::parse_mesh_order(order);
        const Job point = planner::resolve(job);
        const Estimate e = estimate(point, measure(point, oracle().act_seconds));
        const double simulated =
            sim::simulate(planner::compile(planner::resolve(point)), point.cluster).step_seconds;
        EXPECT_NEAR(e.seconds / simulated, 1, 0.25) << "dp " << dp << " ep " << ep << " cp " << cp << " pp "
                                                    << pp << " zero " << zero << " " << order;
        off += std::abs(e.seconds / simulated - 1), ++points;
      }
  EXPECT_LT(off / points, 0.06);
}

// Data parallelism between nodes: with virtual stages most gradients are reduced behind later chunks, and the
// last bucket is not.
TEST(Search, EstimatesOfGradientsReducedBehindChunksAreNearTheSimulation) {
  for (const int layers : {8, 16})
    for (const int zero : {0, 1})
      for (const int chunks : {1, 2, 4}) {
        Job job = small_gpt(16);
        job.cluster = backends::load_cluster("dgx-1-v100-32g", 16);
        job.gpus = 16, job.global_batch = 128;
        job.model->layers = layers, job.model->hidden = 64 * layers, job.model->heads = 8;
        job.model->seq = 32 * layers, job.model->vocab = 1024, job.model->tied = false;
        job.model->ffn = job.model->kv_heads = 0;
        job.model = ir::models::complete(job.model);
        job.train.precision = ir::Precision::fp16;
        planner::Hints& h = job.parallel;
        h.dp = 8, h.tp = 1, h.pp = 2, h.virtual_stages = chunks, h.zero = zero, h.micro_batch = 4;
        h.mesh_order = planner::parse_mesh_order("cp,dp,pp,tp");
        const Job point = planner::resolve(job);
        const Estimate e = estimate(point, measure(point, oracle().act_seconds));
        const double simulated =
            sim::simulate(planner::compile(planner::resolve(point)), point.cluster).step_seconds;
        EXPECT_NEAR(e.seconds / simulated, 1, 0.08)
            << layers << " layers, zero " << zero << ", " << chunks << " virtual stages";
      }
}

// Two kinds of layers; the decoder's read fewer tokens.
TEST(Search, EstimatesOfADecoderAreNearTheSimulation) {
  Job job = small_gpt(4);
  job.model = ir::models::defaults("t5");
  job.model->layers = 10, job.model->decoder_layers = 4, job.model->decoder_seq = 128;
  job.model->hidden = 1024, job.model->heads = 16, job.model->seq = 512, job.model->vocab = 8192;
  job.model = ir::models::complete(job.model);
  std::set<int> stages;
  int points = 0;
  each_point(job, {}, [&](const Job& point) {
    EXPECT_EQ(point.parallel.virtual_stages, 1);
    return stages.insert(point.parallel.pp), true;
  });
  EXPECT_EQ(stages, (std::set<int>{1, 2, 4}));
  const Worst worst = worst_estimate(job, {"micro_batch", "zero"}, &points);
  EXPECT_LT(worst.seconds, 0.1);
  EXPECT_LT(worst.bytes, 0.3);
  EXPECT_GT(points, 8);
}

// The decoder's layers read the encoder's output, stages apart; both halves read tables at both ends.
TEST(Search, EstimatesOfAnEncoderAndDecoderOnStagesAreNearTheSimulation) {
  Job job = small_gpt(16);
  job.model = ir::models::defaults("t5");
  job.model->layers = 8, job.model->hidden = 1024, job.model->heads = 16, job.model->seq = 512;
  job.model->vocab = 32128;
  job.model = ir::models::complete(job.model);
  job.cluster = backends::load_cluster("p3-16xlarge", 16);
  job.train.precision = ir::Precision::fp16;
  job.global_batch = 128, job.parallel.micro_batch = 2, job.parallel.zero = 1;
  double sum = 0;
  int points = 0;
  each_plan(job, {"micro_batch", "zero", "tp", "recompute"}, [&](const Job& point, const ir::Plan& plan) {
    if (point.parallel.pp == 1) return;
    const Estimate e = estimate(point, measure(point, oracle().act_seconds));
    const double seconds = sim::simulate(plan, point.cluster).step_seconds;
    EXPECT_NEAR(e.seconds / seconds, 1, 0.1) << point.parallel.pp << " stages";
    EXPECT_NEAR(e.bytes / static_cast<double>(peak_of(plan)), 1, 0.05) << point.parallel.pp << " stages";
    sum += std::abs(e.seconds / seconds - 1);
    ++points;
  });
  EXPECT_GE(points, 3);
  EXPECT_LT(sum / points, 0.07);
}

// Random jobs and points: states, activations kept by micro-batches, transfer slots, short-lived tensors.
TEST(Search, EstimatesOfMemoryAreNearThePlans) {
  std::mt19937 random(7);
  const auto one_of = [&](auto... values) {
    const std::vector<int> all{values...};
    return all[random() % all.size()];
  };
  // By level of ZeRO, and whether an allocator gives memory: sum, points.
  std::map<std::pair<int, bool>, std::pair<double, int>> off;
  for (int j = 0; j < 24; ++j) {
    Job job = small_gpt(16);
    const std::string family = std::array{"gpt", "llama", "t5", "gpt"}[static_cast<size_t>(j % 4)];
    job.model = ir::models::defaults(family);
    job.model->layers = one_of(4, 8, 24), job.model->hidden = one_of(512, 2048, 4096);
    job.model->heads = 16;
    job.model->seq = one_of(512, 2048), job.model->vocab = one_of(8192, 51200);
    job.model->experts = j % 4 == 3 ? 8 : 0;
    if (j % 4 == 3) job.model->expert_every = one_of(1, 2);
    job.model = ir::models::complete(job.model);
    job.train.precision = one_of(0, 1) == 0 ? ir::Precision::fp16 : ir::Precision::fp32;
    job.global_batch = one_of(32, 64);
    job.cluster.framework->fragmentation = j % 3 == 0 ? 0.5 : 0;
    if (j % 5 < 2) job.cluster.framework->allocator = backends::CachingAllocator{};
    std::vector<Job> points;
    each_point(job, {}, [&](const Job& point) { return points.push_back(point), false; });
    std::shuffle(points.begin(), points.end(), random);
    for (size_t p = 0; p < points.size() && p < 8; ++p) {
      Job point = planner::resolve(points[p]);
      if (p % 2 == 0)
        for (const int layers : point.parallel.stage_layers)
          point.train.recompute_layers.push_back(one_of(0, 1, layers));
      const double plan = static_cast<double>(peak_of(planner::compile(planner::resolve(point))));
      const double ratio = estimated(point).bytes / plan;
      const planner::Hints& h = point.parallel;
      EXPECT_TRUE(ratio > 0.8 && ratio < 1.25) << fmt::format(
          "{} layers of {} {}, experts {} on every {}, seq {} vocab {}: dp {} tp {} pp {} v {} ep {} "
          "zero {} micro-batches {} recompute {}: {:.3f} of {:.0f} MB",
          job.model->layers, job.model->hidden, family, job.model->experts, job.model->expert_every,
          job.model->seq, job.model->vocab, h.dp, h.tp, h.pp, h.virtual_stages, h.ep, h.zero,
          point.train.micro_batches, fmt::join(point.train.recompute_layers, ","), ratio, plan / 1e6);
      auto& [sum, count] = off[{h.zero, job.cluster.framework->allocator.has_value()}];
      sum += std::abs(ratio - 1), ++count;
    }
  }
  EXPECT_EQ(off.size(), 8u);
  for (const auto& [kind, error] : off) {
    const auto& [zero, allocates] = kind;
    EXPECT_GT(error.second, 10) << "ZeRO " << zero << allocates;
    const bool moving =
        allocates && zero >= 2;  // parts of parameters and gradients come and go by themselves
    EXPECT_LT(error.first / error.second, moving ? 0.07 : 0.05) << "ZeRO " << zero << allocates;
    RecordProperty(fmt::format("zero{}{}", zero, allocates ? "given" : ""),
                   fmt::format("{:.4f}", error.first / error.second));
  }
}

// States are sharded over dp and context parallelism, or over a group of dp.
TEST(Search, EstimatesShardStatesOverTheRanksThatShareThem) {
  for (const int zero : {1, 2, 3})
    for (const auto& [dp, cp, group] : {std::array{2, 4, 0}, std::array{1, 8, 0}, std::array{8, 1, 2}}) {
      Job job = small_gpt(8);
      job.model->hidden = 2048, job.model->seq = 2048, job.model->heads = 16, job.train.flash = true;
      job.model = ir::models::complete(job.model);
      job.parallel.dp = dp, job.parallel.cp = cp, job.parallel.fsdp_group = group, job.parallel.zero = zero;
      const planner::ResolvedJob resolved = planner::resolve(job);
      const double plan = static_cast<double>(peak_of(planner::compile(resolved)));
      EXPECT_NEAR(estimated(resolved).bytes / plan, 1, 0.1)
          << fmt::format("zero {} dp {} cp {}", zero, dp, cp);
    }
}

// A head that shares the embedding has one table on one device: one sum over the micro-batches, one update.
TEST(Estimate, CountsATiedTableOnce) {
  Job job = small_gpt(1);
  job.model->layers = 2, job.model->vocab = 51200, job.model->seq = 64;
  job.model = ir::models::complete(job.model);
  job.parallel.micro_batch = 1;
  job = planner::resolve(job);
  const ir::Plan plan = planner::compile(planner::resolve(job));
  const Estimate e = estimate(job, measure(job, oracle().act_seconds));
  EXPECT_NEAR(e.seconds / sim::simulate(plan, job.cluster).step_seconds, 1, 0.02);
  EXPECT_NEAR(e.bytes / static_cast<double>(peak_of(plan)), 1, 0.02);
}

// A vocabulary that tp does not divide makes ranks differ, but not a layer's cost.
TEST(Estimate, OfRanksThatDifferIsThatOfOne) {
  Job job = small_gpt(4);
  job.parallel.tp = 4;
  job.parallel.dp = 1;
  job.parallel.micro_batch = 1;
  const ModelCost even = measure(planner::resolve(job), oracle().act_seconds);
  job.model->vocab = 8190;
  job.model->pad_vocab_to = 1;
  const ModelCost uneven = measure(planner::resolve(job), oracle().act_seconds);
  EXPECT_GT(even.layer.forward, 0);
  EXPECT_NEAR(uneven.layer.forward, even.layer.forward, 1e-3 * even.layer.forward);
  EXPECT_NEAR(uneven.last.backward, even.last.backward, 0.05 * even.last.backward);
  EXPECT_EQ(uneven.boundary_bytes, even.boundary_bytes);
}

// Work at a model's ends takes the place of layers.
TEST(Points, StagesAreLevel) {
  ModelCost cost;
  cost.layer.forward = 1;
  cost.first.forward = 0.5;
  cost.last.backward = 2;
  const auto level = [&](int64_t layers, const std::vector<double>& slowness) {
    ir::models::Model model = ir::models::defaults("gpt");
    model.layers() = layers;
    return level_layers(model, cost, slowness, 8);
  };
  EXPECT_EQ(level(10, {1, 1, 1}), (std::vector{4, 4, 2}));
  EXPECT_EQ(level(3, {1, 1, 1}), (std::vector{1, 2, 0}));
  cost.last.backward = 5;
  EXPECT_EQ(level(4, {1, 1, 1}), (std::vector{2, 2, 0}));
  cost.last.backward = 0;
  std::vector<int> published(64, 2);
  published[0] = published[1] = 1;
  EXPECT_EQ(level(126, std::vector<double>(64, 1)), published);
}

// a (2 s) -> b on another queue (3 s) -> c (1 s); d (4 s) beside b.
TEST(Estimate, APhaseTakesWhatItsQueuesInOrderTake) {
  ir::Program p;
  p.phases = {"F0"};
  p.queues = {{"compute", ir::QueueKind::compute, true}, {"net", ir::QueueKind::network, true}};
  p.registers.resize(4);
  const auto act = [&](int queue, std::vector<int> reads, int writes) {
    ir::Actor actor;
    actor.queue = queue;
    for (int reg : reads) {
      ir::Input input;
      input.reg = reg;
      actor.inputs.push_back(input);
    }
    actor.outputs = {writes};
    p.actors.push_back(actor);
  };
  act(0, {}, 0);
  act(1, {0}, 1);
  act(0, {0}, 3);
  act(0, {1}, 2);
  EXPECT_EQ(phase_seconds(p, 0, {2, 3, 4, 1}), 7);
  EXPECT_EQ(phase_seconds(p, 0, {2, 6, 4, 1}), 9);
  EXPECT_EQ(waiting_seconds(p, 0, {2, 3, 4, 1}), 0);
  EXPECT_EQ(waiting_seconds(p, 0, {2, 6, 4, 1}), 2);
  EXPECT_EQ(waiting_seconds(p, 0, {2, 6, 4, 1}, 2), 2);
  EXPECT_EQ(waiting_seconds(p, 0, {2, 6, 4, 1}, 3), 0);
  p.actors[1].kind = ir::ActorKind::pull;
  EXPECT_EQ(phase_seconds(p, 0, {2, 6, 4, 1}), 7);
}

}  // namespace
}  // namespace boxcar::search

// The search against simulating every point, on jobs small enough for that; and its results.
#include "planner/search/search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <set>
#include <string>

#include "planner/resolve.h"
#include "planner/search/points.h"
#include "search/jobs.h"
#include "search/simulating.h"

namespace boxcar::search {
namespace {

using planner::Job;

struct ShortJob {
  const char* family;
  int64_t layers, heads, hidden, seq, vocab;
  const char* cluster;
  int gpus;
  int64_t global_batch;
};

Job job_of(const ShortJob& of) {
  Job job;
  job.model = ir::models::defaults(of.family);
  job.model->layers = of.layers, job.model->heads = of.heads, job.model->hidden = of.hidden;
  job.model->seq = of.seq, job.model->vocab = of.vocab;
  job.model = ir::models::complete(job.model);
  job.train.precision = ir::Precision::fp16;
  job.cluster = backends::load_cluster(of.cluster, of.gpus);
  job.gpus = of.gpus, job.global_batch = of.global_batch;
  return job;
}

// The free search is not more than 1 % slower than one with keys given.
void expect_none_faster(const Job& job, const Job& given, const std::set<std::string>& pinned) {
  const Outcome found = search(job, {}, oracle()), narrower = search(given, {.pinned = pinned}, oracle());
  EXPECT_LE(found.best.front().seconds, 1.01 * narrower.best.front().seconds);
}

// Over slow links between nodes, the tensor dimension over nodes with all replicas inside of them is fastest
// once layouts are found, and five times as slow before.
TEST(Search, LaysOutTheTensorDimensionOverNodes) {
  const Job job = job_of({"gpt", 4, 8, 1024, 128, 32000, "p3-16xlarge", 32, 64});
  Job given = job;
  given.parallel.pp = 2, given.parallel.tp = 4;
  expect_none_faster(job, given, {"pp", "tp"});
}

// A pipeline of replicas with layouts found for ZeRO 1; with ZeRO 3, its points are faster before.
TEST(Search, LaysOutOtherShardingWithoutTensorParallelism) {
  const Job job = job_of({"llama", 2, 12, 768, 512, 51200, "dgx-a100-80g", 8, 8});
  Job given = job;
  given.parallel.pp = 2, given.parallel.micro_batch = 2;
  given.parallel.schedule = planner::Schedule::zb_h2;
  expect_none_faster(job, given, {"pp", "tp", "micro_batch", "schedule"});
}

// Pipelines that split backward passes pay with other cuts, or with another level of ZeRO and another cut.
TEST(Search, CutsAndShardsSplitPipelinesByEstimates) {
  Job job = job_of({"gpt", 8, 16, 2048, 128, 51200, "dgx-a100-40g", 8, 16}), given = job;
  given.parallel.pp = 4, given.parallel.schedule = planner::Schedule::zb_h2;
  expect_none_faster(job, given, {"pp", "tp", "schedule"});
  given = job = job_of({"llama", 4, 12, 768, 512, 51200, "dgx-a100-80g", 4, 4});
  given.parallel.pp = 2;
  expect_none_faster(job, given, {"pp", "tp", "virtual_stages"});
}

// Replicas alone, by estimate 10 % slower than the best.
TEST(Search, LaysOutReplicasAlone) {
  const Job job = job_of({"llama", 2, 12, 1536, 1024, 51200, "dgx-a100-40g", 4, 8});
  Job given = job;
  given.parallel.micro_batch = 2;
  expect_none_faster(job, given, {"pp", "micro_batch"});
}

// The second best degrees, whose first layouts are slower than those of the degrees.
TEST(Search, LaysOutOtherDegreesInOtherWays) {
  const Job job = job_of({"llama", 4, 12, 1536, 128, 32000, "dgx-a100-40g", 16, 64});
  Job given = job;
  given.parallel.pp = 2, given.parallel.schedule = planner::Schedule::zb_h1;
  expect_none_faster(job, given, {"pp", "tp", "schedule"});
}

// Memory for all points, and for few: the answer is within the estimate's error of the fastest that fits.
TEST(Search, FindsWhatSimulatingEveryPointFinds) {
  const Job job = small_gpt(4);
  const std::set<std::string> pinned{"micro_batch"};
  for (const int64_t memory : {int64_t{0}, int64_t{1'500'000'000}}) {
    double fastest = std::numeric_limits<double>::infinity();
    int points = 0;
    each_plan(job, pinned, [&](const Job& point, const ir::Plan& plan) {
      if (memory > 0 && peak_of(plan) > memory) return;
      ++points;
      fastest = std::min(fastest, sim::simulate(plan, point.cluster).step_seconds);
    });
    ASSERT_GT(points, 10);
    const Outcome found = search(job, {.pinned = pinned, .memory_bytes = memory}, oracle());
    ASSERT_FALSE(found.best.empty());
    EXPECT_LE(found.best.front().seconds, 1.03 * fastest) << memory;
    if (memory > 0) {
      EXPECT_LE(found.best.front().peak_bytes, memory);
    }
  }
}

// Any step time, and limits that the plan of least memory misses.
TEST(Search, FindsTheMemoryThatCompilingEveryPointFinds) {
  const Job job = small_gpt(4);
  const std::set<std::string> pinned{"micro_batch"};
  struct Seen {
    double seconds = 0;
    int64_t bytes = 0;
  };
  std::vector<Seen> all;
  each_plan(job, pinned, [&](const Job& point, const ir::Plan& plan) {
    all.push_back({sim::simulate(plan, point.cluster).step_seconds, peak_of(plan)});
  });
  const auto least = [&](double seconds) {
    Seen best{infinity, std::numeric_limits<int64_t>::max()};
    for (const Seen& seen : all)
      if (seen.seconds <= seconds && seen.bytes < best.bytes) best = seen;
    return best;
  };
  const Seen any = least(infinity);
  for (const double limit : {infinity, 0.8 * any.seconds}) {
    const Outcome found =
        search(job, {.goal = Goal::memory, .max_step_seconds = limit, .pinned = pinned}, oracle());
    ASSERT_FALSE(found.best.empty());
    EXPECT_LE(static_cast<double>(found.best.front().peak_bytes),
              1.02 * static_cast<double>(least(limit).bytes));
    for (const Candidate& c : found.best) EXPECT_LE(c.seconds, limit);
    EXPECT_TRUE(
        std::is_sorted(found.best.begin(), found.best.end(),
                       [](const Candidate& a, const Candidate& b) { return a.peak_bytes < b.peak_bytes; }));
  }
  EXPECT_GT(least(0.8 * any.seconds).bytes, any.bytes);
}

// The least price is that of one of the GPU numbers, each searched separately; a time limit needs more GPUs.
TEST(Search, FindsTheLeastPriceAndHowManyGpusItTakes) {
  Job job = small_gpt(8);
  job.cluster.price_per_gpu_hour = 3.6;
  std::map<int, double> seconds;  // by GPUs
  for (const int gpus : {1, 2, 4, 8}) {
    Job some = job;
    some.gpus = gpus;
    backends::resize(some.cluster, gpus);
    seconds[gpus] = search(some, {}, oracle()).best.front().seconds;
  }
  for (const double limit : {infinity, 1.1 * seconds[2], 1.1 * seconds[4], seconds[4]}) {
    int cheapest = 0;
    for (const auto& [gpus, time] : seconds)
      if (time <= limit && (cheapest == 0 || gpus * time < cheapest * seconds[cheapest])) cheapest = gpus;
    const Outcome found = search(job, {.goal = Goal::cost, .max_step_seconds = limit}, oracle());
    ASSERT_FALSE(found.best.empty());
    const Candidate& best = found.best.front();
    EXPECT_EQ(best.job.gpus, cheapest);
    EXPECT_EQ(best.job.cluster.devices(), cheapest);
    EXPECT_LE(price_of(best.job, best.seconds), 1.03 * cheapest * seconds[cheapest] / 1000);
    EXPECT_LE(best.seconds, limit);
  }
  EXPECT_GT(seconds[1], 1.1 * seconds[2]);
  EXPECT_GT(seconds[2], 1.1 * seconds[4]);
}

// Where the degrees' layouts do not fit, other layouts of the same degrees may.
TEST(Search, FitsByLayoutsWhereDegreesAloneDoNot) {
  Job job = small_gpt(8);
  job.parallel.dp = 8;
  job.train.recompute = ir::Recompute::none;
  SearchOptions options{.goal = Goal::memory,
                        .pinned = {"dp", "tp", "pp", "zero", "micro_batch", "recompute"}};
  const Outcome least = search(job, options, oracle());
  ASSERT_FALSE(least.best.empty());
  const auto plain = std::find_if(least.best.begin(), least.best.end(),
                                  [](const Candidate& c) { return !c.layouts.has_value(); });
  ASSERT_NE(plain, least.best.end());
  const int64_t found = least.best.front().peak_bytes, degrees = plain->peak_bytes;
  ASSERT_LT(found, degrees * 9 / 10);
  options.memory_bytes = (found + degrees) / 2;
  for (const Goal goal : {Goal::memory, Goal::time}) {
    options.goal = goal;
    const Outcome some = search(job, options, oracle());
    ASSERT_FALSE(some.best.empty());
    EXPECT_LE(some.best.front().peak_bytes, options.memory_bytes);
  }
  options.memory_bytes = found / 2;
  const Outcome none = search(job, options, oracle());
  EXPECT_TRUE(none.best.empty());
  EXPECT_GE(none.smallest.peak_bytes, found);
}

// 14 layers with a large head on 4 x 4 virtual stages: the first has the embedding, the last the head, and no
// other number of virtual stages or layers is better. Megatron's stages have 4,4,3,3 layers.
TEST(Search, InterleavesLayersThatStagesDoNotDivide) {
  Job job = small_gpt(8);
  job.model->layers = 14, job.model->hidden = 2048, job.model->vocab = 51200, job.model->seq = 1024;
  job.model->ffn = job.model->kv_heads = 0, job.model->heads = 16;
  job.model = ir::models::complete(job.model);
  job.train.precision = ir::Precision::fp16;
  job.parallel.dp = 1, job.parallel.tp = 2, job.parallel.pp = 4, job.parallel.micro_batch = 1,
  job.global_batch = 8;
  const SearchOptions options{.pinned = {"dp", "tp", "pp", "micro_batch", "schedule"}, .lay_out = 0};
  const Outcome found = search(job, options, oracle());
  ASSERT_FALSE(found.best.empty());
  const planner::Hints& best = found.best.front().job.parallel;
  EXPECT_GT(best.virtual_stages, 1);
  Job whole = job;
  SearchOptions given = options;
  given.pinned.insert({"virtual_stages", "stage_layers"});
  EXPECT_LT(found.best.front().seconds, 0.98 * search(whole, given, oracle()).best.front().seconds);
  whole.parallel.virtual_stages = 4, whole.parallel.stage_layers = std::vector<int>(16, 1);
  whole.parallel.stage_layers.front() = whole.parallel.stage_layers.back() = 0;
  const Outcome by_hand = search(whole, given, oracle());
  ASSERT_FALSE(by_hand.best.empty());
  EXPECT_EQ(by_hand.best.front().job.parallel.stage_layers, whole.parallel.stage_layers);
  EXPECT_LE(found.best.front().seconds, 1.01 * by_hand.best.front().seconds);
}

// Stages on separate nodes with 25 Gb/s between them: 1F1B waits for transfers, GPipe keeps all
// micro-batches. Counts in between are faster than the former and hold far less than the latter.
TEST(Search, HasMoreMicroBatchesInFlightWhereTransfersAreSlow) {
  Job job = small_gpt(32);
  job.model->layers = 8, job.model->hidden = 2048, job.model->seq = 1024;
  job.model = ir::models::complete(job.model);
  job.cluster = backends::load_cluster("p3-16xlarge", 32);
  job.train.precision = ir::Precision::fp16;
  job.parallel.tp = 8;
  job.parallel.pp = 4;
  job.global_batch = 32;
  const Outcome found = search(job, {.pinned = {"tp", "pp", "micro_batch", "virtual_stages"}}, oracle());
  const auto whole = std::find_if(found.best.begin(), found.best.end(), [](const Candidate& c) {
    return !planner::splits_backward(c.job.parallel.schedule.kind);  // without split backward passes
  });
  ASSERT_NE(whole, found.best.end());
  const Candidate& best = *whole;
  EXPECT_EQ(to_text(best.job.parallel.schedule), "7,5,3,1");
  const auto under = [&](const char* schedule) {
    Candidate other = best;
    other.job.parallel.schedule = planner::parse_schedule(schedule);
    const ir::Plan plan = plan_of(other);
    return std::pair(sim::simulate(plan, job.cluster).step_seconds, peak_of(plan));
  };
  EXPECT_EQ(under("7,5,3,1"), std::pair(best.seconds, best.peak_bytes));
  EXPECT_LT(best.seconds, 0.87 * under("1f1b").first);
  EXPECT_LT(best.seconds, 1.01 * under("gpipe").first);
  EXPECT_LT(best.peak_bytes, under("gpipe").second / 2);
}

// Few micro-batches on many stages, which virtual stages do not divide: stages with split backward passes
// wait less.
TEST(Search, SplitsBackwardPassesWhereStagesWait) {
  Job job = small_gpt(4);
  job.parallel.pp = 4;
  job.global_batch = 6;
  const Outcome found = search(job, {.pinned = {"pp", "micro_batch"}}, oracle());
  ASSERT_FALSE(found.best.empty());
  const Candidate& best = found.best.front();
  EXPECT_TRUE(planner::splits_backward(best.job.parallel.schedule.kind));
  job.parallel.schedule = planner::Schedule::one_f_one_b;
  const Outcome whole = search(job, {.pinned = {"pp", "micro_batch", "schedule"}}, oracle());
  ASSERT_FALSE(whole.best.empty());
  EXPECT_LT(best.seconds, 0.95 * whole.best.front().seconds);
  for (const Candidate& c : whole.best) EXPECT_EQ(c.job.parallel.schedule, planner::Schedule::one_f_one_b);
}

// Few tokens and large weights, one NIC per node: gradients dominate, so ranks that share them are
// neighbours, and tensor parallelism goes between nodes; or a tied embedding stays within a node.
TEST(Search, StandsRanksBesideEachOtherThatExchangeMost) {
  Job job = small_gpt(16);
  job.model->hidden = 2048, job.model->seq = 128, job.model->vocab = 51200;
  job.model = ir::models::complete(job.model);
  job.cluster = backends::load_cluster("p3-16xlarge", 16);
  job.train.precision = ir::Precision::fp16;
  job.global_batch = 8;
  const Outcome usual = search(job, {.pinned = {"mesh_order"}}, oracle());
  const Outcome found = search(job, {}, oracle());
  ASSERT_FALSE(usual.best.empty());
  ASSERT_FALSE(found.best.empty());
  const Candidate& best = found.best.front();
  EXPECT_NE(best.job.parallel.mesh_order, planner::Hints().mesh_order);
  EXPECT_LT(best.seconds, 0.85 * usual.best.front().seconds);
  Candidate same = best;
  same.job.parallel.mesh_order = planner::Hints().mesh_order;
  EXPECT_LT(best.seconds, 0.6 * sim::simulate(plan_of(same), job.cluster).step_seconds);
}

// Orders in which other groups cross nodes; none on one node.
TEST(Search, LooksAtOrdersThatChangeWhatCrossesNodes) {
  Job job = small_gpt(16);
  job.parallel.dp = 2, job.parallel.tp = 8;
  EXPECT_EQ(other_orders(job), std::vector{planner::parse_mesh_order("cp,pp,tp,dp")});
  job.parallel.dp = 16, job.parallel.tp = 1;
  EXPECT_TRUE(other_orders(job).empty());
  job = small_gpt(8);
  job.parallel.dp = 2, job.parallel.tp = 4;
  EXPECT_TRUE(other_orders(job).empty());
}

// No plan of chosen layouts or slots stands before the plain one that is as good.
TEST(Search, PutsPlainPlansBeforeThoseThatAreBetterByNothing) {
  int refined = 0;
  for (const int stages : {1, 2, 4})
    for (const Goal goal : {Goal::time, Goal::memory}) {
      Job job = small_gpt(4);
      job.parallel.pp = stages;
      const Outcome found = search(job, {.goal = goal, .pinned = {"pp"}}, oracle());
      const std::vector<Candidate>& best = found.best;
      for (size_t i = 0; i < best.size(); ++i)
        for (size_t j = i + 1; j < best.size(); ++j) {
          const Candidate &first = best[i], &next = best[j];
          const bool plain = !next.layouts && next.slots.changes.empty();
          if (key_of(first.job) != key_of(next.job) || !plain) continue;
          ++refined;
          EXPECT_TRUE(simulated(goal, first) < 0.999 * simulated(goal, next) ||
                      static_cast<double>(first.peak_bytes) < 0.999 * static_cast<double>(next.peak_bytes))
              << first.seconds << " " << next.seconds << " " << first.peak_bytes << " " << next.peak_bytes;
        }
    }
  EXPECT_GT(refined, 0);
}

// For the least memory, slots that the period does not need go too.
TEST(Search, TakesTheFewestSlotsForTheLeastMemory) {
  Job job = small_gpt(4);
  job.parallel.pp = 4;
  const Outcome found =
      search(job, {.goal = Goal::memory, .pinned = {"pp", "micro_batch", "recompute", "recompute_layers"}},
             oracle());
  ASSERT_FALSE(found.best.empty());
  const auto refined =
      std::ranges::find_if(found.best, [](const Candidate& c) { return !c.slots.changes.empty(); });
  ASSERT_NE(refined, found.best.end());
  Candidate best = *refined;
  EXPECT_TRUE(best.slots.optimal);
  EXPECT_EQ(peak_of(plan_of(best)), best.peak_bytes);
  best.slots = {};
  EXPECT_GT(peak_of(plan_of(best)), best.peak_bytes);
}

// Without a pinned key the search finds the same as with it.
void expect_sharding_found(const Job& job, const std::vector<int>& shardings) {
  const double found = search(job, {}, oracle()).best.front().seconds;
  for (const int zero : shardings) {
    Job pinned = job;
    pinned.parallel.zero = zero;
    const Outcome with = search(pinned, {.pinned = {"zero"}}, oracle());
    EXPECT_LE(found, 1.001 * with.best.front().seconds) << zero;
  }
}

// Here ZeRO 3, which has the shortest update and whose collectives hide behind kernels.
TEST(Search, FindsTheShardingThatAPinFinds) {
  Job job = small_gpt(8);
  job.model->layers = 4, job.model->hidden = 1024, job.model->heads = 16, job.model->seq = 512;
  job.model->vocab = 8192, job.model->ffn = job.model->kv_heads = 0;
  job.model = ir::models::complete(job.model);
  job.train.precision = ir::Precision::fp16;
  job.global_batch = 32;
  expect_sharding_found(job, {0, 1, 2, 3});
}

// Points with stages have ZeRO 1 where it fits; the fastest is then tried with sharded gradients too.
TEST(Search, ShardsTheFastestOtherwise) {
  Job job = small_gpt(32);
  job.model = ir::models::defaults("llama");
  job.model->layers = 8, job.model->hidden = 4096, job.model->heads = 32, job.model->seq = 1024;
  job.model->vocab = 51200;
  job.model = ir::models::complete(job.model);
  job.cluster = backends::load_cluster("p3-16xlarge", 32);
  job.train.precision = ir::Precision::fp16;
  job.global_batch = 256;
  const Outcome found = search(job, {}, oracle());
  const auto sharded = std::find_if(found.best.begin(), found.best.end(), [](const Candidate& c) {
    return c.job.parallel.zero == 1 && c.job.parallel.pp > 1;
  });
  ASSERT_NE(sharded, found.best.end());
  const planner::Hints& first = sharded->job.parallel;
  EXPECT_TRUE(std::any_of(found.best.begin(), found.best.end(), [&](const Candidate& c) {
    const planner::Hints& h = c.job.parallel;
    return h.zero == 2 && h.dp == first.dp && h.tp == first.tp && h.pp == first.pp &&
           h.schedule == first.schedule;
  }));
}

// Sharded gradients leave room for enough micro-batches in flight to hide transfers between nodes.
TEST(Search, ShardsGradientsOfStagesWhereThatLetsMoreBeInFlight) {
  Job job = small_gpt(16);
  job.cluster = backends::load_cluster("p3-16xlarge", 16);
  job.model->layers = 24, job.model->hidden = 2048, job.model->heads = 16, job.model->seq = 4096;
  job.model->vocab = 51200, job.model->ffn = job.model->kv_heads = 0;
  job.model = ir::models::complete(job.model);
  job.train.precision = ir::Precision::fp16;
  job.global_batch = 128;
  expect_sharding_found(job, {1, 2});
}

// One micro-batch, whose weight gradients fill the stages' waits; both split orders are then one plan.
TEST(Search, SplitsBackwardPassesOfOneMicroBatch) {
  Job job = small_gpt(8);
  job.model->hidden = 512, job.model->heads = 8, job.model->seq = 256, job.model->vocab = 1000;
  job.model->ffn = job.model->kv_heads = 0;
  job.model = ir::models::complete(job.model);
  job.global_batch = 64;
  const Outcome found = search(job, {.lay_out = 0}, oracle());
  for (const Candidate& c : found.best)
    EXPECT_TRUE(c.job.train.micro_batches > 2 || c.job.parallel.schedule != planner::Schedule::zb_h2);
  Job known = job;
  known.parallel.dp = 2, known.parallel.pp = 4, known.parallel.micro_batch = 32, known.parallel.zero = 1;
  known.parallel.schedule = planner::Schedule::zb_h1;
  const double seconds = sim::simulate(plan_of({planner::resolve(known)}, nullptr), job.cluster).step_seconds;
  ASSERT_FALSE(found.best.empty());
  EXPECT_LE(found.best.front().seconds, seconds * 1.0001);
}

// Experts' weights dominate this model: too large for a device, so several devices share them.
TEST(Search, SharesExpertsWhereMemoryAsksForIt) {
  Job job = small_gpt(4);
  job.model->experts = 32;
  const auto best = [&](int64_t memory) {
    const Outcome found =
        search(job, {.pinned = {"tp", "pp", "micro_batch", "zero"}, .memory_bytes = memory, .simulate = 3},
               oracle());
    return found.best.empty() ? Candidate{} : found.best.front();
  };
  const Candidate shared = best(6'000'000'000);
  EXPECT_EQ(shared.job.parallel.ep, 4);
  EXPECT_LE(shared.peak_bytes, 6'000'000'000);
  job.parallel.ep = 1;
  Candidate alone{planner::resolve([&] {
    Job whole = job;
    whole.parallel.dp = 4;
    return whole;
  }())};
  EXPECT_GT(peak_of(plan_of(alone)), 12'000'000'000);
}

}  // namespace
}  // namespace boxcar::search

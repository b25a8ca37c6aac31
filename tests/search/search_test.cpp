// The search against simulating every point, on jobs small enough for that.
#include "planner/search/search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <random>

#include "planner/laid_out.h"
#include "planner/resolve.h"
#include "planner/search/points.h"
#include "planner/search/step_estimate.h"
#include "planner/verify.h"
#include "search/simulating.h"
#include "sim/simulate.h"
#include "support/error_of.h"

namespace boxcar::search {
namespace {

using planner::Job;

Job small_gpt(int gpus) {
  Job job;
  job.model = ir::models::defaults("gpt");
  job.model.layers = 4, job.model.hidden = 1024, job.model.heads = 16, job.model.seq = 512;
  job.model.vocab = 8192;
  job.model = ir::models::complete(job.model);
  job.cluster = backends::load_cluster("dgx-a100-80g", gpus);
  job.gpus = gpus;
  job.global_batch = 16;
  return job;
}

int64_t peak_of(const ir::Plan& plan) {
  int64_t peak = 0;
  for (const planner::MemoryUse& use : planner::memory_use(plan)) peak = std::max(peak, use.total);
  return peak;
}

// Visits every legal point with its plan.
template <typename Visit>
void each_plan(const Job& job, const std::set<std::string>& pinned, const Visit& visit) {
  each_point(job, {pinned, {}}, [&](const Job& point) {
    const Job resolved = planner::resolve(point);
    visit(resolved, planner::compile(resolved));
    return false;  // so that no recomputation is left out
  });
}

// Memory for all, and for few: the answer is within what an estimate may be off of the fastest that fits.
TEST(Search, finds_what_simulating_every_point_finds) {
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

// Steps of any time, and of such that the least memory of all is too slow.
TEST(Search, finds_the_memory_that_compiling_every_point_finds) {
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

// The least price is that of one of the numbers of GPUs, each searched by itself; a limit of time asks for
// more of them.
TEST(Search, finds_the_least_price_and_how_many_gpus_it_takes) {
  Job job = small_gpt(8);
  job.cluster.price_per_gpu_hour = 3.6;
  std::map<int, double> seconds;  // by GPUs
  for (const int gpus : {1, 2, 4, 8}) {
    Job some = job;
    some.gpus = gpus;
    backends::resize(some.cluster, gpus);
    seconds[gpus] = search(some, {}, oracle()).best.front().seconds;
  }
  for (const double limit : {infinity, 1.1 * seconds[2], 1.1 * seconds[4]}) {
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

TEST(Search, cost_needs_a_price) {
  EXPECT_EQ(support::error_of([] { search(small_gpt(4), {.goal = Goal::cost}, oracle()); }),
            "cluster: dgx-a100-80g has no price; give price_per_gpu_hour in a cluster file");
}

// By how much the fastest is too slow, and a number of GPUs with which a step is as fast indeed.
TEST(Search, says_what_comes_nearest_where_nothing_is_as_fast) {
  Job job = small_gpt(2);
  job.global_batch = 128;
  const double fastest = search(job, {}, oracle()).best.front().seconds;
  const double limit = 0.7 * fastest;
  const Outcome found = search(job, {.max_step_seconds = limit}, oracle());
  EXPECT_TRUE(found.best.empty());
  ASSERT_TRUE(found.fastest);
  EXPECT_NEAR(found.fastest->estimated_seconds, fastest, 0.1 * fastest);
  EXPECT_EQ(found.over_time, found.points);
  ASSERT_EQ(found.would_do.size(), 1);
  ASSERT_EQ(found.would_do.front().candidate.job.gpus, 4);
  job.gpus = 4;
  backends::resize(job.cluster, 4);
  EXPECT_LE(search(job, {}, oracle()).best.front().seconds, limit);
}

// A limit that the fastest plan keeps and its estimate does not: plans count, for every objective.
TEST(Search, keeps_a_limit_of_time_that_estimates_miss) {
  Job job = small_gpt(4);
  job.parallel.pp = 4, job.parallel.micro_batch = 1;
  job.cluster.price_per_gpu_hour = 1;
  const std::set<std::string> pinned{"pp", "micro_batch", "virtual_stages"};
  const Candidate fastest = search(job, {.pinned = pinned}, oracle()).best.front();
  ASSERT_LT(fastest.seconds, 0.95 * fastest.estimated_seconds);
  for (const Goal goal : {Goal::time, Goal::memory, Goal::cost}) {
    const double limit = 1.001 * fastest.seconds;
    const Outcome found = search(job, {.goal = goal, .max_step_seconds = limit, .pinned = pinned}, oracle());
    ASSERT_FALSE(found.best.empty());
    for (const Candidate& c : found.best) EXPECT_LE(c.seconds, limit);
    const Outcome none =
        search(job, {.goal = goal, .max_step_seconds = 0.999 * fastest.seconds, .pinned = pinned}, oracle());
    EXPECT_TRUE(none.best.empty());
    EXPECT_EQ(none.fastest->seconds, fastest.seconds);
  }
}

// Estimates say that it fits, and the plan does not: what is short is by the plan, and what would do has
// room. They are too low where virtual stages gather parameters, each its own.
TEST(Search, goes_by_plans_where_estimates_of_memory_are_too_low) {
  Job job = small_gpt(8);
  job.parallel.dp = 4, job.parallel.pp = 2, job.parallel.micro_batch = 1, job.parallel.zero = 3;
  job.parallel.virtual_stages = 2;
  const std::set<std::string> pinned{
      "dp", "tp", "pp", "micro_batch", "recompute", "schedule", "virtual_stages", "zero"};
  const int64_t memory = peak_of(planner::compile(planner::resolve(job))) - 1;
  const Outcome found = search(job, {.pinned = pinned, .memory_bytes = memory}, oracle());
  EXPECT_EQ(found.over_memory, 0);
  EXPECT_TRUE(found.best.empty());
  EXPECT_EQ(found.smallest.peak_bytes, memory + 1);
  EXPECT_FALSE(found.would_do.empty());
  for (const WouldDo& change : found.would_do) {
    EXPECT_LE(peak_of(planner::compile(planner::resolve(change.candidate.job))), memory);
  }
}

// Stages on nodes of their own, with 25 Gb/s between them: 1F1B waits for transfers, GPipe keeps all
// micro-batches. Counts in between are faster than the one and hold far less than the other.
TEST(Search, has_more_micro_batches_under_way_where_transfers_take_long) {
  Job job = small_gpt(32);
  job.model.layers = 8, job.model.hidden = 2048, job.model.seq = 1024;
  job.model = ir::models::complete(job.model);
  job.cluster = backends::load_cluster("p3-16xlarge", 32);
  job.train.precision = ir::Precision::fp16;
  job.parallel.tp = 8;
  job.parallel.pp = 4;
  job.global_batch = 32;
  const Outcome found = search(job, {.pinned = {"tp", "pp", "micro_batch", "virtual_stages"}}, oracle());
  const auto whole = std::find_if(found.best.begin(), found.best.end(), [](const Candidate& c) {
    return !c.job.parallel.schedule.starts_with("zb-");  // whose backward passes are in one part
  });
  ASSERT_NE(whole, found.best.end());
  const Candidate& best = *whole;
  EXPECT_EQ(best.job.parallel.schedule, "7,5,3,1");
  const auto under = [&](const char* schedule) {
    Candidate other = best;
    other.job.parallel.schedule = schedule;
    const ir::Plan plan = plan_of(other);
    return std::pair(sim::simulate(plan, job.cluster).step_seconds, peak_of(plan));
  };
  EXPECT_EQ(under("7,5,3,1"), std::pair(best.seconds, best.peak_bytes));
  EXPECT_LT(best.seconds, 0.87 * under("1f1b").first);
  EXPECT_LT(best.seconds, 1.01 * under("gpipe").first);
  EXPECT_LT(best.peak_bytes, under("gpipe").second / 2);
}

// Few micro-batches on many stages, which virtual stages do not divide: with backward passes in two parts
// they wait less.
TEST(Search, splits_backward_passes_where_stages_wait) {
  Job job = small_gpt(4);
  job.parallel.pp = 4;
  job.global_batch = 6;
  const Outcome found = search(job, {.pinned = {"pp", "micro_batch"}}, oracle());
  ASSERT_FALSE(found.best.empty());
  const Candidate& best = found.best.front();
  EXPECT_TRUE(best.job.parallel.schedule.starts_with("zb-h")) << best.job.parallel.schedule;
  job.parallel.schedule = "1f1b";
  const Outcome whole = search(job, {.pinned = {"pp", "micro_batch", "schedule"}}, oracle());
  ASSERT_FALSE(whole.best.empty());
  EXPECT_LT(best.seconds, 0.95 * whole.best.front().seconds);
  for (const Candidate& c : whole.best) EXPECT_EQ(c.job.parallel.schedule, "1f1b");
}

// Few tokens and large weights, one NIC per node: gradients are what is large, so ranks that share them stand
// beside each other, and tensor parallelism goes between nodes; or a tied embedding stays within a node.
TEST(Search, stands_ranks_beside_each_other_that_exchange_most) {
  Job job = small_gpt(16);
  job.model.hidden = 2048, job.model.seq = 128, job.model.vocab = 51200;
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
  EXPECT_LT(best.seconds, 0.6 * usual.best.front().seconds);
  Candidate same = best;
  same.job.parallel.mesh_order = planner::Hints().mesh_order;
  EXPECT_LT(best.seconds, 0.6 * sim::simulate(plan_of(same), job.cluster).step_seconds);
}

// Those in which other groups cross nodes; none on one node.
TEST(Search, looks_at_orders_that_change_what_crosses_nodes) {
  Job job = small_gpt(16);
  job.parallel.dp = 2, job.parallel.tp = 8;
  EXPECT_EQ(other_orders(job), (std::vector<std::string>{"cp,pp,tp,dp"}));
  job.parallel.dp = 16, job.parallel.tp = 1;
  EXPECT_TRUE(other_orders(job).empty());
  job = small_gpt(8);
  job.parallel.dp = 2, job.parallel.tp = 4;
  EXPECT_TRUE(other_orders(job).empty());
}

// For the least memory, slots that the period does not need go as well.
TEST(Search, takes_the_fewest_slots_for_the_least_memory) {
  Job job = small_gpt(4);
  job.parallel.pp = 4;
  const Outcome found =
      search(job, {.goal = Goal::memory, .pinned = {"pp", "micro_batch", "recompute", "recompute_layers"}},
             oracle());
  ASSERT_FALSE(found.best.empty());
  Candidate best = found.best.front();
  ASSERT_FALSE(best.slots.changes.empty());
  EXPECT_TRUE(best.slots.optimal);
  EXPECT_EQ(peak_of(plan_of(best)), best.peak_bytes);
  best.slots = {};
  EXPECT_GT(peak_of(plan_of(best)), best.peak_bytes);
}

TEST(Search, estimates_are_near_the_simulation) {
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
  EXPECT_LT(sum / points, 0.04);
  EXPECT_LT(worst_memory, 1.5);
}

// Without a key that is pinned the search finds what it finds with it.
void expect_sharding_found(const Job& job, const std::vector<int>& shardings) {
  const double found = search(job, {}, oracle()).best.front().seconds;
  for (const int zero : shardings) {
    Job pinned = job;
    pinned.parallel.zero = zero;
    const Outcome with = search(pinned, {.pinned = {"zero"}}, oracle());
    EXPECT_LE(found, 1.001 * with.best.front().seconds) << zero;
  }
}

// Here ZeRO 3, whose update is the shortest, and whose collectives kernels hide.
TEST(Search, finds_the_sharding_that_a_pin_finds) {
  Job job = small_gpt(8);
  job.model.layers = 4, job.model.hidden = 1024, job.model.heads = 16, job.model.seq = 512;
  job.model.vocab = 8192, job.model.ffn = job.model.kv_heads = 0;
  job.model = ir::models::complete(job.model);
  job.train.precision = ir::Precision::fp16;
  job.global_batch = 32;
  expect_sharding_found(job, {0, 1, 2, 3});
}

// Points with stages have ZeRO 1 where it fits, and the fastest is then tried with its gradients sharded too.
TEST(Search, shards_the_fastest_otherwise) {
  Job job = small_gpt(32);
  job.model = ir::models::defaults("llama");
  job.model.layers = 8, job.model.hidden = 4096, job.model.heads = 32, job.model.seq = 1024;
  job.model.vocab = 51200;
  job.model = ir::models::complete(job.model);
  job.cluster = backends::load_cluster("p3-16xlarge", 32);
  job.train.precision = ir::Precision::fp16;
  job.global_batch = 256;
  const Outcome found = search(job, {}, oracle());
  const planner::Hints& best = found.best.front().job.parallel;
  EXPECT_GT(best.pp, 1);
  EXPECT_EQ(best.zero, 2);
  EXPECT_TRUE(std::any_of(found.best.begin(), found.best.end(), [&](const Candidate& c) {
    const planner::Hints& h = c.job.parallel;
    return h.zero == 1 && h.dp == best.dp && h.tp == best.tp && h.pp == best.pp &&
           h.schedule == best.schedule;
  }));
}

// Sharded gradients leave room for the micro-batches under way that hide transfers between nodes.
TEST(Search, shards_gradients_of_stages_where_that_lets_more_be_under_way) {
  Job job = small_gpt(16);
  job.cluster = backends::load_cluster("p3-16xlarge", 16);
  job.model.layers = 24, job.model.hidden = 2048, job.model.heads = 16, job.model.seq = 4096;
  job.model.vocab = 51200, job.model.ffn = job.model.kv_heads = 0;
  job.model = ir::models::complete(job.model);
  job.train.precision = ir::Precision::fp16;
  job.global_batch = 128;
  expect_sharding_found(job, {1, 2});
}

// With virtual stages every chunk has slots for the most that it has under way, not for the mean.
TEST(Search, estimates_the_memory_of_virtual_stages) {
  Job job = small_gpt(8);
  job.model.layers = 16;
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

// Over nodes communication takes as long as kernels, and what hides it decides.
TEST(Search, estimates_of_sharded_states_over_many_nodes_are_near_the_simulation) {
  for (const int zero : {2, 3})
    for (const int gpus : {32, 128}) {
      Job job = small_gpt(gpus);
      job.model.layers = 24, job.model.hidden = 4096, job.model.heads = 32, job.model.seq = 1024;
      job.model.ffn = job.model.kv_heads = 0;
      job.model = ir::models::complete(job.model);
      job.train.precision = ir::Precision::fp16;
      job.parallel.zero = zero, job.parallel.micro_batch = 4;
      job.global_batch = gpus * 8;
      job = planner::resolve(job);
      const Estimate e = estimate(job, measure(job, oracle().act_seconds));
      const double simulated = sim::simulate(planner::compile(job), job.cluster).step_seconds;
      EXPECT_NEAR(e.seconds / simulated, 1, 0.05) << "zero " << zero << " on " << gpus;
    }
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

// 64 images on four A100s, by eights.
Job images_job(const char* family, int64_t layers, int64_t hidden, int64_t classes, int64_t image = 0) {
  Job job;
  job.model = ir::models::defaults(family);
  job.model.layers = layers, job.model.hidden = hidden, job.model.vocab = classes;
  if (image > 0) job.model.image = image;
  job.model = ir::models::complete(job.model);
  job.cluster = backends::load_cluster("dgx-a100-80g", 4);
  job.gpus = 4, job.global_batch = 64, job.parallel.micro_batch = 8;
  return job;
}

// Layers that all differ, on stages of whole layers; on the tensor dimension layouts are found.
TEST(Search, estimates_of_a_convolutional_network_are_near_the_simulation) {
  const Job job = images_job("wide_resnet", 16, 64, 1000);
  int points = 0;
  const Worst worst = worst_estimate(job, {"micro_batch", "virtual_stages", "zero"}, &points);
  EXPECT_LT(worst.seconds, 0.1);
  EXPECT_LT(worst.bytes, 0.5);
  EXPECT_GT(points, 8);
}

// What the levels down make is read by those up, stages apart.
TEST(Search, estimates_of_a_diffusion_unet_are_near_the_simulation) {
  const Job job = images_job("diffusion_unet", 7, 64, 4, 32);
  int points = 0;
  const Worst worst = worst_estimate(job, {"micro_batch", "virtual_stages", "zero", "tp"}, &points);
  EXPECT_LT(worst.seconds, 0.15);
  EXPECT_LT(worst.bytes, 0.4);
  EXPECT_GT(points, 4);
}

// Levels down on one stage, levels up on the other, channels or samples split on each.
TEST(Search, LongLaysADiffusionUnetOutOnStages) {
  Job job;
  job.model = ir::models::defaults("diffusion_unet");
  job.model.layers = 5, job.model.hidden = 128, job.model.vocab = 4, job.model.image = 32;
  job.cluster = backends::load_cluster("dgx-a100-80g", 4);
  job.gpus = 4;
  job.global_batch = 16;
  job.parallel.tp = job.parallel.pp = 2, job.parallel.micro_batch = 4;
  const Outcome found = search(job, {.pinned = {"tp", "pp", "micro_batch"}}, oracle());
  ASSERT_FALSE(found.best.empty());
  EXPECT_EQ(found.best.front().job.parallel.stage_layers.size(), 2);
  EXPECT_TRUE(found.best.front().found.optimal());
  const auto& cost = found.best.front().found.cost;
  EXPECT_GT(cost[collectives] + cost[states], 0);
}

// Experts on every other layer: how many devices share them is a point of the space.
TEST(Search, estimates_of_experts_are_near_the_simulation) {
  Job job = small_gpt(4);
  job.model.experts = 4;
  job.model.expert_every = 2;
  std::set<int> degrees;
  each_point(job, {}, [&](const Job& point) { return degrees.insert(point.parallel.ep), true; });
  EXPECT_EQ(degrees, (std::set<int>{1, 2, 4}));
  int points = 0;
  const Worst worst = worst_estimate(job, {"micro_batch", "virtual_stages", "zero", "recompute"}, &points);
  EXPECT_LT(worst.seconds, 0.15);
  EXPECT_LT(worst.bytes, 0.4);
  EXPECT_GT(points, 8);
}

// Two kinds of layers, of which the decoder's read fewer tokens.
TEST(Search, estimates_of_a_decoder_are_near_the_simulation) {
  Job job = small_gpt(4);
  job.model = ir::models::defaults("t5");
  job.model.layers = 10, job.model.decoder_layers = 4, job.model.decoder_seq = 128;
  job.model.hidden = 1024, job.model.heads = 16, job.model.seq = 512, job.model.vocab = 8192;
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

// The decoder's layers read what the encoder made, stages apart; tables are read at both ends of both.
TEST(Search, estimates_of_an_encoder_and_decoder_on_stages_are_near_the_simulation) {
  Job job = small_gpt(16);
  job.model = ir::models::defaults("t5");
  job.model.layers = 8, job.model.hidden = 1024, job.model.heads = 16, job.model.seq = 512;
  job.model.vocab = 32128;
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

// Of random jobs and points: states, what micro-batches keep, slots of transfers, what lives for a moment.
TEST(Search, estimates_of_memory_are_near_the_plans) {
  std::mt19937 random(7);
  const auto one_of = [&](auto... values) {
    const std::vector<int> all{values...};
    return all[random() % all.size()];
  };
  std::map<bool, std::pair<double, int>> off;  // by whether gradients are sharded: sum, points
  for (int j = 0; j < 24; ++j) {
    Job job = small_gpt(8);
    const std::string family = std::array{"gpt", "llama", "t5", "gpt"}[static_cast<size_t>(j % 4)];
    job.model = ir::models::defaults(family);
    job.model.layers = one_of(4, 8), job.model.hidden = one_of(512, 1024, 2048), job.model.heads = 16;
    job.model.seq = one_of(256, 1024), job.model.vocab = one_of(1024, 8192, 51200);
    job.model.experts = j % 4 == 3 ? 8 : 0;
    if (j % 4 == 3) job.model.expert_every = one_of(1, 2);
    job.model = ir::models::complete(job.model);
    job.train.precision = one_of(0, 1) == 0 ? ir::Precision::fp16 : ir::Precision::fp32;
    job.global_batch = one_of(16, 32);
    std::vector<Job> points;
    each_point(job, {}, [&](const Job& point) { return points.push_back(point), false; });
    std::shuffle(points.begin(), points.end(), random);
    for (size_t p = 0; p < points.size() && p < 6; ++p) {
      const Job point = planner::resolve(points[p]);
      const double plan = static_cast<double>(peak_of(planner::compile(point)));
      const double ratio = estimate(point, measure(point, oracle().act_seconds)).bytes / plan;
      const planner::Hints& h = point.parallel;
      EXPECT_GT(ratio, 0.7) << family << " dp " << h.dp << " tp " << h.tp << " pp " << h.pp;
      EXPECT_LT(ratio, 1.3) << family << " dp " << h.dp << " tp " << h.tp << " pp " << h.pp;
      auto& [sum, count] = off[h.zero >= 2];
      sum += std::abs(ratio - 1), ++count;
    }
  }
  EXPECT_GT(off[false].second, 50);
  EXPECT_GT(off[true].second, 50);
  EXPECT_LT(off[false].first / off[false].second, 0.03);
  EXPECT_LT(off[true].first / off[true].second, 0.08);
}

// A head that shares the embedding has one table on one device: one sum over the micro-batches, one update.
TEST(Estimate, counts_a_tied_table_once) {
  Job job = small_gpt(1);
  job.model.layers = 2, job.model.vocab = 51200, job.model.seq = 64;
  job.model = ir::models::complete(job.model);
  job.parallel.micro_batch = 1;
  job = planner::resolve(job);
  const ir::Plan plan = planner::compile(job);
  const Estimate e = estimate(job, measure(job, oracle().act_seconds));
  EXPECT_NEAR(e.seconds / sim::simulate(plan, job.cluster).step_seconds, 1, 0.02);
  EXPECT_NEAR(e.bytes / static_cast<double>(peak_of(plan)), 1, 0.02);
}

// A vocabulary that tp does not divide makes ranks differ; what a layer costs does not.
TEST(Estimate, of_ranks_that_differ_is_that_of_one) {
  Job job = small_gpt(4);
  job.parallel.tp = 4;
  job.parallel.dp = 1;
  job.parallel.micro_batch = 1;
  const ModelCost even = measure(planner::resolve(job), oracle().act_seconds);
  job.model.vocab = 8190;
  job.model.pad_vocab_to = 1;
  const ModelCost uneven = measure(planner::resolve(job), oracle().act_seconds);
  EXPECT_GT(even.layer.forward, 0);
  EXPECT_NEAR(uneven.layer.forward, even.layer.forward, 1e-3 * even.layer.forward);
  EXPECT_NEAR(uneven.last.backward, even.last.backward, 0.05 * even.last.backward);
  EXPECT_EQ(uneven.boundary_bytes, even.boundary_bytes);
}

// Weights of experts are most of the model here: too large for a device, so that several share them.
TEST(Search, shares_experts_where_memory_asks_for_it) {
  Job job = small_gpt(4);
  job.model.experts = 32;
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

TEST(Search, what_is_pinned_stays) {
  Job job = small_gpt(8);
  job.parallel.tp = 2;
  job.parallel.zero = 1;
  job.train.recompute = ir::Recompute::full;
  const Outcome found = search(job, {.pinned = {"tp", "zero", "recompute"}, .simulate = 3}, oracle());
  EXPECT_GE(found.best.size(), 3u);  // and with fewer layers computed again
  for (const Candidate& c : found.best) {
    EXPECT_EQ(c.job.parallel.tp, 2);
    EXPECT_EQ(c.job.parallel.zero, 1);
    EXPECT_EQ(c.job.train.recompute, ir::Recompute::full);
  }
  EXPECT_TRUE(std::is_sorted(found.best.begin(), found.best.end(),
                             [](const Candidate& a, const Candidate& b) { return a.seconds < b.seconds; }));
}

TEST(Search, what_is_given_as_a_range_stays_in_it) {
  const Outcome found =
      search(small_gpt(8),
             {.ranges = {{"tp", {2, 4}}, {"dp", {2, 8}}, {"micro_batch", {2, 2}}}, .simulate = 4}, oracle());
  ASSERT_FALSE(found.best.empty());
  for (const Candidate& c : found.best) {
    EXPECT_TRUE(c.job.parallel.tp == 2 || c.job.parallel.tp == 4);
    EXPECT_GE(c.job.parallel.dp, 2);
    EXPECT_EQ(c.job.parallel.micro_batch, 2);
  }
}

// The fastest of one tensor-parallel group, laid out again: optimal by the models, and faster when simulated
// than what the hints say of it; the plan is found again from what the candidate says.
TEST(Search, lays_the_fastest_out_again) {
  Job job = small_gpt(8);
  job.parallel.tp = 8;
  job.parallel.micro_batch = 8;
  job.model.hidden = 4096;
  const Outcome found = search(job, {.pinned = {"tp", "micro_batch"}}, oracle());
  ASSERT_GE(found.best.size(), 2u);
  const Candidate& best = found.best.front();
  ASSERT_TRUE(best.layouts);
  EXPECT_TRUE(best.found.optimal());
  const planner::LaidOut laid = planner::lay_out(best.job, best.choose());
  EXPECT_EQ(sim::simulate(planner::compile(laid, best.job), job.cluster).step_seconds, best.seconds);
  EXPECT_LT(best.seconds, sim::simulate(planner::compile(best.job), job.cluster).step_seconds);
}

TEST(Search, every_candidate_has_the_layouts_that_are_pinned) {
  Job job = small_gpt(4);
  const sbp::NdSbp rows{sbp::Sbp::S(0)};
  const Outcome found = search(
      job, {.ranges = {{"pp", {1, 1}}, {"tp", {1, 1}}}, .pins = {{"h*.mlp.fc1.weight", rows}}, .simulate = 3},
      oracle());
  ASSERT_FALSE(found.best.empty());
  for (const Candidate& c : found.best) {
    const planner::LaidOut laid = planner::lay_out(c.job, c.choose());
    for (const char* name : {"h0.mlp.fc1.weight.half", "h3.mlp.fc1.weight.half"})
      EXPECT_EQ(laid.pins.used[static_cast<size_t>(ir::find_tensor(laid.graph, name))], rows);
  }
}

// No op reads a partial value, and nothing is kept as one; that costs time.
TEST(Search, does_without_partial_values) {
  Job job = small_gpt(8);
  job.parallel.tp = 8;
  job.parallel.micro_batch = 8;
  job.model.hidden = 4096;
  const Outcome without = search(job, {.pinned = {"tp", "micro_batch"}, .partial = false}, oracle());
  const Outcome with = search(job, {.pinned = {"tp", "micro_batch"}}, oracle());
  ASSERT_FALSE(without.best.empty());
  const Candidate& best = without.best.front();
  const planner::LaidOut laid = planner::lay_out(best.job, best.choose());
  for (size_t o = 0; o < laid.graph.ops.size(); ++o)
    if (laid.graph.ops[o].phase != ir::Phase::update) {
      for (const sbp::NdSbp& input : laid.layouts.ops[o].inputs)
        EXPECT_FALSE(input[0].is_partial()) << laid.graph.ops[o].name;
    }
  EXPECT_GT(best.found.value, with.best.front().found.value);
  EXPECT_GT(best.seconds, with.best.front().seconds);
}

TEST(Search, the_same_every_time) {
  const Job job = small_gpt(4);
  const Outcome one = search(job, {.simulate = 4}, oracle()), two = search(job, {.simulate = 4}, oracle());
  ASSERT_EQ(one.best.size(), two.best.size());
  for (size_t i = 0; i < one.best.size(); ++i) {
    EXPECT_EQ(one.best[i].seconds, two.best[i].seconds);
    EXPECT_EQ(one.best[i].job.parallel.stage_layers, two.best[i].job.parallel.stage_layers);
  }
}

TEST(Search, says_what_comes_nearest_where_nothing_fits) {
  const Outcome found = search(small_gpt(4), {.memory_bytes = 1'000'000}, oracle());
  EXPECT_TRUE(found.best.empty());
  EXPECT_TRUE(found.ended);
  EXPECT_GT(found.points, 10);
  EXPECT_EQ(found.over_memory, found.points);
  EXPECT_GT(found.smallest.estimated_bytes, 1'000'000);
  for (const WouldDo& change : found.would_do) EXPECT_EQ(change.without, std::vector<std::string>{});
}

// Of what is given, each key that is in the way by itself, or two together; and the fewest GPUs.
TEST(Search, says_what_would_fit) {
  Job job = small_gpt(1);
  job.parallel.micro_batch = 16;
  const auto changes = [&](const std::set<std::string>& pinned, int64_t memory) {
    const Outcome found = search(job, {.pinned = pinned, .memory_bytes = memory}, oracle());
    EXPECT_TRUE(found.best.empty());
    EXPECT_TRUE(found.ended);
    std::vector<std::vector<std::string>> keys;
    for (const WouldDo& change : found.would_do) {
      EXPECT_LE(change.candidate.estimated_bytes, static_cast<double>(memory));
      keys.push_back(change.without);
    }
    return keys;
  };
  using Keys = std::vector<std::vector<std::string>>;
  EXPECT_EQ(changes({"micro_batch"}, 1'500'000'000), (Keys{{"micro_batch"}, {}}));
  EXPECT_EQ(changes({"micro_batch", "recompute"}, 1'500'000'000), (Keys{{"micro_batch"}}));
  EXPECT_EQ(changes({"recompute"}, 1'100'000'000), (Keys{{}}));
}

// The fewest, of parts of a node and of whole ones.
TEST(Search, says_how_many_gpus_would_fit) {
  Job job = small_gpt(1);
  job.global_batch = 48;
  const backends::Cluster whole = backends::load_cluster("dgx-a100-80g");
  const auto fits = [&](int gpus, int64_t memory) {
    Job on = job;
    on.gpus = gpus;
    on.cluster = whole;
    backends::resize(on.cluster, gpus);
    bool any = false;
    each_point(on, {}, [&](const Job& point) {
      const Job resolved = planner::resolve(point);
      return any |=
             estimate(resolved, measure(resolved, oracle().act_seconds)).bytes <= static_cast<double>(memory);
    });
    return any;
  };
  for (const int64_t memory : {int64_t{700'000'000}, int64_t{400'000'000}, int64_t{300'000'000}}) {
    const Outcome found = search(job, {.memory_bytes = memory, .described = whole}, oracle());
    ASSERT_TRUE(found.best.empty());
    ASSERT_EQ(found.would_do.size(), 1);
    const int gpus = found.would_do.front().candidate.job.gpus;
    EXPECT_TRUE(fits(gpus, memory));
    for (int fewer = 1; fewer < gpus; fewer += fewer < 8 ? 1 : 8)
      EXPECT_FALSE(fits(fewer, memory)) << fewer << " of " << gpus;
  }
}

// Told to end before anything was simulated, it simulates the best by estimate all the same.
TEST(Search, has_the_best_by_estimate_where_it_ends_early) {
  const Job job = small_gpt(8);
  SearchOptions options;
  options.go_on = [](const Progress& p) { return p.points < 64; };
  const Outcome found = search(job, options, oracle());
  EXPECT_FALSE(found.ended);
  EXPECT_TRUE(found.by_estimate);
  EXPECT_LE(found.points, 64);
  ASSERT_EQ(found.best.size(), 1);
  EXPECT_GT(found.best.front().seconds, 0);
  EXPECT_EQ(found.best.front().seconds,
            sim::simulate(plan_of(found.best.front()), found.best.front().job.cluster).step_seconds);
}

TEST(Search, ends_when_it_is_told_to) {
  int asked = 0;
  SearchOptions options;
  options.go_on = [&](const Progress&) { return ++asked < 3; };
  const Outcome found = search(small_gpt(4), options, oracle());
  EXPECT_FALSE(found.ended);
  EXPECT_EQ(asked, 3);
}

TEST(Search, refuses_where_nothing_is_legal_and_names_what_is_in_the_way) {
  const std::string legal = "no combination of degrees is legal for this model, batch and number of GPUs";
  const auto refusal = [&](const auto& change, const SearchOptions& options) {
    Job job = small_gpt(4);
    change(job);
    return support::error_of([&] { search(job, options, oracle()); });
  };
  EXPECT_EQ(refusal([](Job& j) { j.parallel.dp = 3; }, {.pinned = {"dp"}}), "parallel: with dp 3 " + legal);
  EXPECT_EQ(refusal([](Job& j) { j.parallel.tp = j.parallel.pp = 4, j.parallel.zero = 1; },
                    {.pinned = {"tp", "pp", "zero"}}),
            "parallel: pp 4 contradicts tp 4: with both " + legal);
  EXPECT_EQ(refusal([](Job& j) { j.parallel.dp = j.parallel.tp = 2, j.parallel.pp = 4; },
                    {.pinned = {"dp", "tp", "pp"}}),
            "parallel: pp 4 contradicts dp 2: with both " + legal);
  EXPECT_EQ(refusal([](Job& j) { j.parallel.dp = j.parallel.tp = j.parallel.pp = 2; },
                    {.pinned = {"dp", "tp", "pp"}}),
            "parallel: pp 2, tp 2 and dp 2 contradict each other: with all three " + legal);
  EXPECT_EQ(refusal([](Job& j) { j.parallel.tp = 4; }, {.pinned = {"tp"}, .ranges = {{"pp", {2, 3}}}}),
            "parallel: pp 2..3 contradicts tp 4: with both " + legal);
  EXPECT_EQ(
      refusal([](Job& j) { j.parallel.schedule = "3,1", j.parallel.pp = 4; }, {.pinned = {"schedule", "pp"}}),
      "parallel: schedule 3,1 contradicts pp 4: with both " + legal);
  EXPECT_EQ(refusal(
                [](Job& j) {
                  j.parallel.stage_layers = {3, 1}, j.parallel.pp = 4;
                },
                {.pinned = {"stage_layers", "pp"}}),
            "parallel: stage_layers 3,1 contradicts pp 4: with both " + legal);
  EXPECT_EQ(refusal(
                [](Job& j) {
                  j.parallel.stage_layers = {3, 2};
                },
                {.pinned = {"stage_layers"}}),
            "parallel: with stage_layers 3,2 " + legal);
}

// The ends of a model take a layer's place.
TEST(Points, stages_are_level) {
  ModelCost cost;
  cost.layer.forward = 1;
  cost.first.forward = 0.5;
  cost.last.backward = 2;
  EXPECT_EQ(level_layers(10, 3, cost), (std::vector{4, 4, 2}));
  EXPECT_EQ(level_layers(3, 3, cost), (std::vector{1, 1, 1}));
}

// a (2 s) -> b on another queue (3 s) -> c (1 s); d (4 s) beside b.
TEST(Estimate, a_phase_takes_what_its_queues_in_order_take) {
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
  p.actors[1].kind = ir::ActorKind::pull;
  EXPECT_EQ(phase_seconds(p, 0, {2, 6, 4, 1}), 7);
}

}  // namespace
}  // namespace boxcar::search

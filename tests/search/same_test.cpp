// A search's result depends neither on the number of threads nor on the order in which they reach points, and
// no point is lost: random jobs, each searched on 1 to 4 threads and with its branches shuffled.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <random>

#include "backends/machines/device_profile.h"
#include "planner/search/points.h"
#include "planner/search/search.h"
#include "sbp/error.h"
#include "search/jobs.h"
#include "search/simulating.h"

namespace boxcar::search {
namespace {

using planner::Job;

Job random_job(uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto one_of = [&](auto... values) {
    const std::array all{values...};
    return all[random() % all.size()];
  };
  const auto may = [&] { return random() % 2 == 0; };
  Job job;
  job.model = ir::models::defaults(one_of("gpt", "gpt", "llama", "bert"));
  job.model->layers = one_of(1, 2), job.model->hidden = 64, job.model->heads = 4, job.model->seq = 32;
  job.model->vocab = one_of(512, 1024, 1000, 51);
  job.model->pad_vocab_to = one_of(1, 128, 128);
  if (job.model.family() == "gpt" && random() % 4 == 0) job.model->experts = 2, job.model->expert_every = 1;
  if (may()) job.model->dropout = 0;
  job.model->flash = job.train.flash = may();
  job.model = ir::models::complete(job.model);
  job.gpus = one_of(2, 4, 4, 4);
  job.cluster = backends::load_cluster(one_of("dgx-a100-80g", "p3-16xlarge"), job.gpus);
  job.global_batch = one_of(2, 4);
  job.train.precision = one_of(ir::Precision::fp16, ir::Precision::bf16, ir::Precision::fp32);
  job.train.epilogues = may(), job.train.fused_loss = may();
  job.train.half_logits = may() && ir::is_mixed(job.train.precision);
  job.parallel.gather_logits = may(), job.parallel.overlap_tp = may();
  job.parallel.scatter_gather = may(), job.parallel.overlap_grad = may();
  return job;
}

std::string text_of(const Dropped& dropped) {
  std::string text;
  for (const auto& [why, count] : dropped) text += fmt::format("{} x {}; ", count, why);
  return text;
}

// Everything reported about the result.
std::string text_of(const Outcome& found) {
  std::string text = fmt::format(
      "points {}, without estimate [{}], over memory {}, over time {}, compiled {}, without plan [{}], least "
      "{}, smallest {}, would do {}\n",
      found.points, text_of(found.dropped), found.over_memory, found.over_time, found.compiled,
      text_of(found.unmade), found.least.value_or(-1), found.smallest.estimated_bytes,
      found.alternatives.size());
  for (const Candidate& c : found.best) {
    const planner::Hints& h = c.job.parallel;
    text += fmt::format(
        "dp {} tp {} pp {} cp {} ep {} v {} mb {} zero {} sp {} layers {} {} {} {} again {}: ", h.dp, h.tp,
        h.pp, h.cp, h.ep, h.virtual_stages, h.micro_batch, h.zero, h.sequence_parallel,
        fmt::join(h.stage_layers, ","), to_text(h.schedule), to_text(h.mesh_order),
        c.layouts ? "found" : "hints", static_cast<int>(c.job.train.recompute));
    text += fmt::format("{} s, estimated {} s {} bytes, {} bytes\n", c.seconds, c.estimated_seconds,
                        c.estimated_bytes, c.peak_bytes);
  }
  return text;
}

void check_same(uint64_t first, int jobs) {
  int with_best = 0;
  int64_t points = 0;
  for (uint64_t seed = first; seed < first + static_cast<uint64_t>(jobs); ++seed) {
    const Job job = random_job(seed);
    SearchOptions options{.lay_out = 0, .simulate = 2, .threads = 1};
    if (seed % 3 == 0) options.memory_bytes = 4'000'000;  // not everything fits
    options.pinned = {"recompute_layers", "schedule"};
    const std::string alone = text_of(search(job, options, oracle()));
    for (const int threads : {1, 2, 3, 4}) {
      options.threads = threads;
      options.shuffle = 17 * seed + static_cast<uint64_t>(threads);
      const Outcome other = search(job, options, oracle());
      ASSERT_EQ(text_of(other), alone) << "seed " << seed << ", threads " << threads;
      EXPECT_TRUE(other.dropped.empty()) << "seed " << seed << ": " << text_of(other.dropped);
      EXPECT_TRUE(other.unmade.empty()) << "seed " << seed << ": " << text_of(other.unmade);
      with_best += other.best.empty() ? 0 : 1;
      points += other.points;
    }
  }
  EXPECT_GT(with_best, 2 * jobs);
  EXPECT_GT(points, 100 * jobs);
}

TEST(Search, TheSameOnAnyNumberOfThreadsAndInAnyOrder) { check_same(1, 50); }
TEST(Search, LongTheSameOnAnyNumberOfThreadsAndInAnyOrder) { check_same(1001, 500); }

// The same where plans are large enough to be made one by one or concurrently, and memory is tight.
TEST(Search, TheSameWithAllThatIsTried) {
  Job experts = small_gpt(8);
  experts.model->experts = 4;
  Job tight = small_gpt(4);
  tight.cluster.device->memory_bytes = 300'000'000;
  Job epilogues = small_gpt(8);
  epilogues.train.epilogues = epilogues.train.flash = epilogues.model->flash = true;
  epilogues.model->dropout = 0;
  Job two_kinds = small_gpt(4);  // 7 layers on 8 virtual stages
  two_kinds.model->layers = 7, two_kinds.model->experts = 4, two_kinds.model->top_k = 1;
  two_kinds.model->dense_layers = 1;
  for (const Job& job : {small_gpt(4), experts, tight, epilogues, two_kinds}) {
    const std::string alone = text_of(search(job, {.simulate = 4, .threads = 1}, oracle()));
    EXPECT_EQ(text_of(search(job, {.simulate = 4, .threads = 2}, oracle())), alone);
    EXPECT_EQ(text_of(search(job, {.simulate = 4, .threads = 4, .shuffle = 3}, oracle())), alone);
  }
}

bool has_tensor_parallelism_of(const ir::Plan& plan, size_t ranks) {
  return std::any_of(plan.comms.begin(), plan.comms.end(), [&](const ir::Comm& comm) {
    return comm.name == "tp" && comm.groups.front().size() == ranks;
  });
}

// Points with tensor parallelism over 4 have no estimate. Each of them counts, and all others count as they
// do with an estimate.
TEST(Search, CountsPointsWithoutAnEstimate) {
  const Job job = small_gpt(4);
  Oracle some = oracle();
  some.act_seconds = [](const ir::Plan& plan, const backends::Cluster& cluster, int cls,
                        const sim::Beside& others) {
    if (has_tensor_parallelism_of(plan, 4)) throw Error::input("net.tp", "no time is known of 4 ranks");
    return sim::act_seconds(plan, cluster, cls, others);
  };
  int64_t without = 0;
  each_point(job, {}, [&](const Job& point) -> std::optional<bool> {
    if (point.parallel.tp != 4) return true;
    ++without;
    return std::nullopt;
  });
  ASSERT_GT(without, 10);
  SearchOptions options{.simulate = 1};
  options.pinned = {"tp"};
  Job three = job;
  int64_t others = 0;
  for (const int tp : {1, 2}) {
    three.parallel.tp = tp;
    others += search(three, options, oracle()).points;
  }
  options.pinned = {};
  const Outcome found = search(job, options, some);
  EXPECT_EQ(found.dropped, (Dropped{{"net.tp: no time is known of 4 ranks", without}}));
  EXPECT_EQ(found.points, others + without);
  Job four = job;
  four.parallel.tp = 4;
  options.pinned = {"tp"};
  try {
    search(four, options, some);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "net.tp: no time is known of 4 ranks");
  }
}

TEST(Search, CountsPlansThatCouldNotBeMade) {
  const Job job = small_gpt(4);
  Oracle some = oracle();
  some.step = [](const ir::Plan& plan, const backends::Cluster& cluster, const std::function<void()>& look) {
    if (has_tensor_parallelism_of(plan, 2)) throw Error::input("net.tp", "2 ranks are not simulated");
    return oracle().step(plan, cluster, look);
  };
  const Outcome found = search(job, {}, some);
  ASSERT_EQ(found.unmade.size(), 1u);
  EXPECT_EQ(found.unmade.begin()->first, "net.tp: 2 ranks are not simulated");
  EXPECT_GT(found.unmade.begin()->second, 0);
  EXPECT_LT(found.unmade.begin()->second, found.compiled);
  EXPECT_TRUE(found.dropped.empty());
  for (const Candidate& c : found.best) EXPECT_NE(c.job.parallel.tp, 2);
}

}  // namespace
}  // namespace boxcar::search

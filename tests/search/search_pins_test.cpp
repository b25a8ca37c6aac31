// A search keeps the user's degrees, ranges and tensor layouts; and it finds layouts.
#include <gtest/gtest.h>

#include <algorithm>

#include "planner/laid_out.h"
#include "planner/resolve.h"
#include "sbp/at.h"
#include "search/jobs.h"
#include "search/simulating.h"
#include "support/error_of.h"

namespace boxcar::search {
namespace {

using planner::Job;

TEST(Search, PinnedLayoutsStay) {
  Job job = small_gpt(8);
  job.parallel.tp = 2;
  job.parallel.zero = 1;
  job.train.recompute = ir::Recompute::full;
  const Outcome found = search(job, {.pinned = {"tp", "zero", "recompute"}, .simulate = 3}, oracle());
  EXPECT_GE(found.best.size(), 3u);  // also with fewer recomputed layers
  for (const Candidate& c : found.best) {
    EXPECT_EQ(c.job.parallel.tp, 2);
    EXPECT_EQ(c.job.parallel.zero, 1);
    EXPECT_EQ(c.job.train.recompute, ir::Recompute::full);
  }
  EXPECT_TRUE(std::is_sorted(found.best.begin(), found.best.end(),
                             [](const Candidate& a, const Candidate& b) { return a.seconds < b.seconds; }));
}

TEST(Search, AKeyGivenAsARangeStaysInIt) {
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

// Lays out again the fastest of one tensor-parallel group: optimal by the models, and simulated faster than
// the hints' layouts. The candidate suffices to rebuild the plan.
TEST(Search, LaysTheFastestOutAgain) {
  Job job = small_gpt(8);
  job.parallel.tp = 8;
  job.parallel.micro_batch = 8;
  job.model->hidden = 4096;
  const Outcome found = search(job, {.pinned = {"tp", "micro_batch"}}, oracle());
  ASSERT_GE(found.best.size(), 2u);
  const Candidate& best = found.best.front();
  ASSERT_TRUE(best.layouts);
  EXPECT_TRUE(best.found.optimal());
  const planner::LaidOut laid = planner::lay_out(planner::resolve(best.job), best.choose());
  EXPECT_EQ(sim::simulate(planner::compile(laid, planner::resolve(best.job)), job.cluster).step_seconds,
            best.seconds);
  EXPECT_LT(best.seconds,
            sim::simulate(planner::compile(planner::resolve(best.job)), job.cluster).step_seconds);
}

// A parameter by its own name, or by that of the copy that ops read.
TEST(Search, EveryCandidateHasTheLayoutsThatArePinned) {
  const Job job = small_gpt(4);
  const sbp::NdSbp rows{sbp::Sbp::S(0)};
  for (const char* pattern : {"h*.mlp.fc1.weight", "h*.mlp.fc1.weight.half"}) {
    const Outcome found =
        search(job, {.ranges = {{"pp", {1, 1}}, {"tp", {1, 1}}}, .pins = {{pattern, rows}}, .simulate = 3},
               oracle());
    ASSERT_FALSE(found.best.empty());
    for (const Candidate& c : found.best) {
      const planner::LaidOut laid = planner::lay_out(planner::resolve(c.job), c.choose());
      for (const char* name : {"h0.mlp.fc1.weight.half", "h3.mlp.fc1.weight.half"})
        EXPECT_EQ(at(laid.pins.used, ir::find_tensor(laid.graph, name)), rows);
    }
  }
}

// Layouts that follow from the degrees satisfy this pin. They are tried unchanged where no layouts are
// pinned, and found where nothing else fits.
TEST(Search, LayoutsOfDegreesAreTriedWhereTheyKeepThePins) {
  Job job = small_gpt(4);
  job.parallel.dp = job.parallel.tp = 2, job.parallel.micro_batch = 8;
  for (const int zero : {0, 1}) {
    job.parallel.zero = zero;
    const planner::ResolvedJob resolved = planner::resolve(job);
    const ir::Plan plan = planner::compile(resolved);
    const SearchOptions options{.pinned = {"dp", "tp", "micro_batch", "zero", "recompute"},
                                .pins = {parse_pin("h*.mlp.fc1.weight=(B,S(1))")},
                                .memory_bytes = peak_of(plan)};
    const Outcome found = search(job, options, oracle());
    ASSERT_FALSE(found.best.empty()) << zero;
    EXPECT_LE(found.best.front().seconds, sim::simulate(plan, job.cluster).step_seconds) << zero;
    SearchOptions other = options;
    other.pins = {parse_pin("h*.mlp.fc1.weight=(B,B)")}, other.memory_bytes = 0;
    for (const Candidate& c : search(job, other, oracle()).best) EXPECT_TRUE(c.layouts) << zero;
  }
}

// Found layouts prefer states sharded like themselves: the fastest is laid out both ways.
TEST(Search, LaysOutWithLessShardingAndWithMore) {
  Job job = small_gpt(8);
  job.model->seq = 1024;
  job.global_batch = 64;
  job.parallel.pp = 1;
  for (const int tp : {4, 8}) {
    job.parallel.tp = tp;
    const Outcome free = search(job, {.pinned = {"tp", "pp"}}, oracle());
    Job pinned = job;
    pinned.parallel.zero = tp == 8 ? 2 : 1;
    const Outcome with = search(pinned, {.pinned = {"tp", "pp", "zero"}}, oracle());
    EXPECT_LE(free.best.front().seconds, with.best.front().seconds * (1 + 1e-9)) << tp;
  }
}

TEST(Search, NoTensorIsKeptPartialWithoutPartialValues) {
  const std::vector<LayoutPin> pins{parse_pin("h*.mlp.fc1=(S(0), P(sum))")};
  EXPECT_EQ(support::error_of([&] { search(small_gpt(4), {.partial = false, .pins = pins}, oracle()); },
                              Exit::cannot_run),
            "--pin h*.mlp.fc1=(S(0), P(sum)): contradicts --no-partial: no op reads a partial value");
}

// No op reads a partial value, and none is kept; that costs time.
TEST(Search, DoesWithoutPartialValues) {
  Job job = small_gpt(8);
  job.parallel.tp = 8;
  job.parallel.micro_batch = 8;
  job.model->hidden = 4096;
  const Outcome without = search(job, {.pinned = {"tp", "micro_batch"}, .partial = false}, oracle());
  const Outcome with = search(job, {.pinned = {"tp", "micro_batch"}}, oracle());
  ASSERT_FALSE(without.best.empty());
  const Candidate& best = without.best.front();
  const planner::LaidOut laid = planner::lay_out(planner::resolve(best.job), best.choose());
  for (size_t o = 0; o < laid.graph.ops.size(); ++o)
    if (laid.graph.ops[o].phase != ir::Phase::update) {
      for (const sbp::NdSbp& input : laid.layouts.ops[o].inputs)
        EXPECT_FALSE(input[0].is_partial()) << laid.graph.ops[o].name;
    }
  EXPECT_GT(best.seconds, with.best.front().seconds);
}

// The degrees' layouts have a large vocabulary on every device, so by estimates some layers must recompute.
// Found layouts split it, and none need.
TEST(Search, RecomputesLessWhereFoundLayoutsLeaveRoom) {
  Job job = small_gpt(4);
  job.model->vocab = 65536, job.model->tied = false;
  job.parallel.dp = 4, job.parallel.micro_batch = 4;
  const std::set<std::string> pinned{"dp", "tp", "pp", "micro_batch", "zero"};
  std::set<std::string> none = pinned;
  none.insert("recompute");
  const Outcome roomy = search(job, {.pinned = none}, oracle());
  ASSERT_FALSE(roomy.best.empty());
  const Candidate& best = roomy.best.front();
  ASSERT_TRUE(best.layouts);
  const int64_t hinted = peak_of(planner::compile(planner::resolve(best.job)));
  ASSERT_GT(hinted, best.peak_bytes + (int64_t{100} << 20));
  SearchOptions tight{.pinned = pinned};
  tight.memory_bytes = (hinted + best.peak_bytes) / 2;
  const Outcome found = search(job, tight, oracle());
  ASSERT_FALSE(found.best.empty());
  EXPECT_LE(found.best.front().seconds, 1.0001 * best.seconds);
}

// Down levels on one stage, up levels on the other, with channels or samples split on each.
TEST(Search, LongLaysADiffusionUnetOutOnStages) {
  Job job;
  job.model = ir::models::ConvNet{"diffusion_unet", 5, 128, 1, 32, 4};
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

}  // namespace
}  // namespace boxcar::search

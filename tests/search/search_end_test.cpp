// A search's answer if no plan fits, and if it is told to end.
#include <gtest/gtest.h>

#include <algorithm>

#include "planner/estimate/step_estimate.h"
#include "planner/resolve.h"
#include "planner/search/points.h"
#include "search/jobs.h"
#include "search/simulating.h"
#include "support/error_of.h"

namespace boxcar::search {
namespace {

using planner::Job;

TEST(Search, CostNeedsAPrice) {
  EXPECT_EQ(support::error_of([] { search(small_gpt(4), {.goal = Goal::cost}, oracle()); }),
            "cluster: dgx-a100-80g has no price; give price_per_gpu_hour in a cluster file");
}

// How much too slow the fastest plan is, and a number of GPUs that really reaches the time.
TEST(Search, SaysWhatComesNearestWhereNothingIsAsFast) {
  Job job = small_gpt(2);
  job.global_batch = 128;
  const double fastest = search(job, {}, oracle()).best.front().seconds;
  const double limit = 0.7 * fastest;
  const Outcome found = search(job, {.max_step_seconds = limit}, oracle());
  EXPECT_TRUE(found.best.empty());
  ASSERT_TRUE(found.fastest);
  EXPECT_NEAR(found.fastest->estimated_seconds, fastest, 0.1 * fastest);
  EXPECT_EQ(found.over_time, found.points);
  ASSERT_EQ(found.alternatives.size(), 1);
  ASSERT_EQ(found.alternatives.front().candidate.job.gpus, 4);
  job.gpus = 4;
  backends::resize(job.cluster, 4);
  EXPECT_LE(search(job, {}, oracle()).best.front().seconds, limit);
}

// The fastest plan keeps the limit though its estimate does not: plans decide, for every objective.
TEST(Search, KeepsALimitOfTimeThatEstimatesMiss) {
  Job job = small_gpt(4);
  job.parallel.pp = 4, job.parallel.micro_batch = 1;
  job.cluster.price_per_gpu_hour = 1;
  const std::set<std::string> pinned{"pp", "micro_batch", "virtual_stages"};
  const Candidate fastest = search(job, {.pinned = pinned}, oracle()).best.front();
  ASSERT_LT(fastest.seconds, fastest.estimated_seconds);
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

// The estimate fits but the plan does not: the reported shortage is the plan's, and the suggested change
// fits. Estimates are too low where virtual stages gather parameters separately.
TEST(Search, GoesByPlansWhereEstimatesOfMemoryAreTooLow) {
  Job job = small_gpt(8);
  job.parallel.dp = 2, job.parallel.cp = 2, job.parallel.pp = 2, job.parallel.micro_batch = 1;
  job.parallel.zero = 3, job.parallel.virtual_stages = 2;
  const std::set<std::string> pinned{
      "dp", "cp", "tp", "pp", "micro_batch", "recompute", "schedule", "virtual_stages", "zero"};
  const int64_t memory = peak_of(planner::compile(planner::resolve(job))) - 1;
  const Outcome found = search(job, {.pinned = pinned, .lay_out = 0, .memory_bytes = memory}, oracle());
  EXPECT_EQ(found.over_memory, 0);
  EXPECT_TRUE(found.best.empty());
  EXPECT_EQ(found.smallest.peak_bytes, memory + 1);
  EXPECT_FALSE(found.alternatives.empty());
  for (const Alternative& change : found.alternatives) {
    EXPECT_LE(peak_of(planner::compile(planner::resolve(change.candidate.job))), memory);
  }
}

TEST(Search, SaysWhatComesNearestWhereNothingFits) {
  const Outcome found = search(small_gpt(4), {.memory_bytes = 1'000'000}, oracle());
  EXPECT_TRUE(found.best.empty());
  EXPECT_TRUE(found.ended);
  EXPECT_GT(found.points, 10);
  EXPECT_EQ(found.over_memory, found.points);
  EXPECT_GT(found.smallest.estimated_bytes, 1'000'000);
  for (const Alternative& change : found.alternatives) EXPECT_EQ(change.without, std::vector<std::string>{});
}

// Where estimates already do not fit: they are too low here (as above), yet the suggested memory is enough.
TEST(Search, SaysWhatTheSmallestPlanNeeds) {
  Job job = small_gpt(8);
  job.parallel.dp = 2, job.parallel.cp = 2, job.parallel.pp = 2, job.parallel.micro_batch = 1;
  job.parallel.zero = 3, job.parallel.virtual_stages = 2;
  const std::set<std::string> pinned{
      "dp", "cp", "tp", "pp", "micro_batch", "recompute", "schedule", "virtual_stages", "zero"};
  const Outcome none = search(job, {.pinned = pinned, .lay_out = 0, .memory_bytes = 1'000'000}, oracle());
  ASSERT_TRUE(none.best.empty());
  EXPECT_EQ(none.over_memory, none.points);
  EXPECT_EQ(none.smallest.peak_bytes, peak_of(planner::compile(planner::resolve(job))));
  ASSERT_LT(none.smallest.estimated_bytes, static_cast<double>(none.smallest.peak_bytes));
  const auto with = [&](int64_t bytes) {
    return search(job, {.pinned = pinned, .lay_out = 0, .memory_bytes = bytes}, oracle());
  };
  EXPECT_TRUE(with(none.smallest.peak_bytes - 1).best.empty());
  EXPECT_FALSE(with(none.smallest.peak_bytes).best.empty());
}

// Its sequences are too short to be split for time alone.
Job on_a100s(const char* framework, int gpus, int layers, int64_t hidden, int64_t heads, int64_t vocab) {
  Job job;
  job.model = ir::models::defaults("gpt");
  job.model->layers = layers, job.model->hidden = hidden, job.model->heads = heads;
  job.model->seq = 1024, job.model->vocab = vocab;
  job.cluster = backends::load_cluster("dgx-a100-80g", gpus);
  job.cluster.framework = backends::load_framework(framework);
  job.gpus = gpus;
  return job;
}

TEST(Search, LaysOutOtherDegreesBeforeItSaysThatNothingFits) {
  Job job = on_a100s("internevo", 6, 7, 1024, 16, 32000);
  job.global_batch = 24;
  EXPECT_FALSE(search(job, {.goal = Goal::memory, .memory_bytes = 517'000'000}, oracle()).best.empty());
}

TEST(Search, SplitsSequencesWhereNothingElseFits) {
  Job job = on_a100s("deepspeed", 4, 12, 1600, 25, 50257);
  job.global_batch = 32;
  const Outcome whole = search(job, {.goal = Goal::memory, .pinned = {"cp"}}, oracle());
  ASSERT_FALSE(whole.best.empty());
  const Outcome found = search(job, {.memory_bytes = whole.best.front().peak_bytes - 1}, oracle());
  ASSERT_FALSE(found.best.empty());
  EXPECT_GT(found.best.front().job.parallel.cp, 1);
}

// Names each given key that alone prevents a plan, or two together, and the fewest GPUs.
TEST(Search, SaysWhatWouldFit) {
  Job job = small_gpt(1);
  job.parallel.micro_batch = 16;
  const auto changes = [&](const std::set<std::string>& pinned, int64_t memory) {
    const Outcome found = search(job, {.pinned = pinned, .memory_bytes = memory}, oracle());
    EXPECT_TRUE(found.best.empty());
    EXPECT_TRUE(found.ended);
    std::vector<std::vector<std::string>> keys;
    for (const Alternative& change : found.alternatives) {
      EXPECT_LE(change.candidate.estimated_bytes, static_cast<double>(memory));
      keys.push_back(change.without);
    }
    return keys;
  };
  using Keys = std::vector<std::vector<std::string>>;
  EXPECT_EQ(changes({"micro_batch"}, 1'500'000'000), (Keys{{"micro_batch"}, {}}));
  EXPECT_EQ(changes({"micro_batch", "recompute"}, 1'500'000'000), (Keys{{"micro_batch"}, {}}));
  EXPECT_EQ(changes({"recompute"}, 1'100'000'000), (Keys{{}}));
}

// The fewest GPUs, among parts of a node and whole nodes.
TEST(Search, SaysHowManyGpusWouldFit) {
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
    ASSERT_EQ(found.alternatives.size(), 1);
    const int gpus = found.alternatives.front().candidate.job.gpus;
    EXPECT_LE(found.alternatives.front().candidate.estimated_bytes, static_cast<double>(memory));
    for (int fewer = 1; fewer < gpus; fewer += fewer < 8 ? 1 : 8)
      EXPECT_FALSE(fits(fewer, memory)) << fewer << " of " << gpus;
  }
}

// Told to end before any simulation, it still simulates the best by estimate.
TEST(Search, HasTheBestByEstimateWhereItEndsEarly) {
  const Job job = small_gpt(8);
  SearchOptions options;
  options.go_on = [](const Progress& p) { return p.points == 0; };
  const Outcome found = search(job, options, oracle());
  EXPECT_FALSE(found.ended);
  EXPECT_TRUE(found.by_estimate);
  EXPECT_LT(found.points, search(job, {}, oracle()).points);
  ASSERT_EQ(found.best.size(), 1);
  EXPECT_GT(found.best.front().seconds, 0);
  EXPECT_EQ(found.best.front().seconds,
            sim::simulate(plan_of(found.best.front()), found.best.front().job.cluster).step_seconds);
}

// Ends during the second candidate's simulation, which is discarded.
TEST(Search, EndsInTheMiddleOfACandidate) {
  int steps = 0;
  bool stop = false;
  Oracle one = oracle();
  one.step = [&](const ir::Plan& plan, const backends::Cluster& cluster, const std::function<void()>& look) {
    stop = ++steps == 2;
    Oracle::Step step = oracle().step(plan, cluster, look);
    look();
    return step;
  };
  SearchOptions options;
  options.go_on = [&](const Progress&) { return !stop; };
  const Outcome found = search(small_gpt(4), options, one);
  EXPECT_EQ(steps, 2);
  EXPECT_FALSE(found.ended);
  EXPECT_FALSE(found.by_estimate);
  EXPECT_EQ(found.best.size(), 1);
}

// Known once a plan has been made, and reported from then on.
TEST(Search, SaysWhatTimeEndingTakes) {
  double before = -1, last = -1;
  SearchOptions options;
  options.go_on = [&](const Progress& p) {
    if (p.points == 0) before = p.ending_seconds;
    last = p.ending_seconds;
    return p.ending_seconds == 0;
  };
  const Outcome found = search(small_gpt(4), options, oracle());
  EXPECT_EQ(before, 0);
  EXPECT_GT(last, 0);
  EXPECT_FALSE(found.ended);
  EXPECT_EQ(found.best.size(), 1);
}

// So that the caller need not make it again.
TEST(Search, KeepsThePlanOfTheBest) {
  Job job = small_gpt(4);
  job.parallel.pp = 2;  // with transfers; the best has fewer slots for them
  const Outcome found = search(job, {.pinned = {"pp"}}, oracle());
  ASSERT_GT(found.best.size(), 1);
  const Candidate& best = found.best.front();
  ASSERT_TRUE(best.plan);
  EXPECT_EQ(ir::to_text(*best.plan), ir::to_text(plan_of(best)));
  for (size_t c = 1; c < found.best.size(); ++c) EXPECT_FALSE(found.best[c].plan);
  Outcome worse = found;
  worse.best.front().seconds *= 2;
  const Outcome both = merged(worse, found, Goal::time);
  EXPECT_TRUE(both.best.front().plan);
  for (size_t c = 1; c < both.best.size(); ++c) EXPECT_FALSE(both.best[c].plan);
}

TEST(Search, EndsInTheMiddleOfSlots) {
  Job job = small_gpt(4);
  job.parallel.pp = 4;
  const ir::Plan plan = planner::compile(planner::resolve(job));
  int looks = 0;
  EXPECT_THROW(fewest_slots(plan, job.cluster, oracle().act_seconds, 4000,
                            [&] {
                              if (++looks == 2) throw looks;
                            }),
               int);
}

TEST(Search, EndsInTheMiddleOfLayouts) {
  Job job = small_gpt(8);
  job.parallel.tp = 8, job.parallel.micro_batch = 1;
  Candidate candidate{planner::resolve(job)};
  candidate.layouts = LayoutRequest{};
  int looks = 0;
  Graphs graphs(1);
  EXPECT_THROW(plan_of(candidate, nullptr, graphs,
                       [&] {
                         if (++looks == 5) throw looks;
                       }),
               int);
}

TEST(Search, ASimulationThatIsEndedChangesNoneBehindIt) {
  const Job job = small_gpt(4);
  Job pipeline = job;
  pipeline.parallel.pp = 4;
  const ir::Plan plan = planner::compile(planner::resolve(pipeline));
  const double seconds = sim::simulate(plan, job.cluster).step_seconds;
  EXPECT_THROW(sim::simulate(plan, job.cluster, {.look = [] { throw 1; }}), int);
  EXPECT_EQ(sim::simulate(plan, job.cluster).step_seconds, seconds);
}

// Once a point fits, the remaining points are skipped, and those at hand are simulated.
TEST(Search, LeavesPointsOutWhereTimeIsShort) {
  SearchOptions options;
  options.more_points = [] { return false; };
  const Outcome some = search(small_gpt(8), options, oracle()), all = search(small_gpt(8), {}, oracle());
  EXPECT_LT(some.points, all.points);
  EXPECT_FALSE(some.ended);
  EXPECT_FALSE(some.by_estimate);
  EXPECT_FALSE(some.least);
  EXPECT_FALSE(some.best.empty());
  EXPECT_TRUE(all.least);
}

TEST(Search, EndsWhenItIsToldTo) {
  int asked = 0;
  SearchOptions options;
  options.go_on = [&](const Progress&) { return ++asked < 3; };
  const Outcome found = search(small_gpt(4), options, oracle());
  EXPECT_FALSE(found.ended);
  EXPECT_EQ(asked, 3);
}

}  // namespace
}  // namespace boxcar::search

// The cost of whole runs, and the error of simulated steps.
#include "sim/campaign/campaign.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <tuple>

#include "sim/campaign/step_error.h"

namespace boxcar::campaign {
namespace {

// The header's example.
Campaign example() {
  Campaign run;
  run.steps = 100'000, run.step_seconds = 6, run.gpus = 1024;
  run.checkpoint_seconds = 12, run.restart_seconds = 600;
  run.mtbf_seconds = mtbf_of(3 * 3600, 1024, run.gpus);
  run.price_per_gpu_hour = 2.5, run.watts_per_gpu = 700;
  return run;
}

std::vector<Campaign> random_runs(int count) {
  std::mt19937 random(7);
  const auto between = [&](double low, double high) {
    return std::exp(std::uniform_real_distribution<>(std::log(low), std::log(high))(random));
  };
  std::vector<Campaign> runs;
  for (int i = 0; i < count; ++i) {
    Campaign run = example();
    run.steps = static_cast<int64_t>(between(1, 1e6));
    run.step_seconds = between(0.1, 100);
    run.mtbf_seconds = between(1e3, 1e7);
    run.checkpoint_seconds = between(0.1, 0.3 * run.mtbf_seconds);
    run.restart_seconds = between(1, run.mtbf_seconds);
    run.pue = between(1, 2);
    runs.push_back(run);
  }
  return runs;
}

TEST(Campaign, TheExampleOfTheHeader) {
  const Cost cost = cost_of(example());
  EXPECT_EQ(cost.steps_between_checkpoints, 84);
  EXPECT_EQ(cost.seconds_between_checkpoints, 504);
  EXPECT_NEAR(cost.seconds, 665'141, 1);
  EXPECT_NEAR(cost.goodput, 0.9021, 1e-4);
  EXPECT_NEAR(cost.failures, 61.6, 0.05);
  EXPECT_NEAR(cost.gpu_hours, 189'196, 1);
  EXPECT_NEAR(*cost.price, 472'989, 1);
  EXPECT_NEAR(*cost.mwh, 132.4, 0.05);
}

TEST(Campaign, WithoutFailuresItIsTheSteps) {
  Campaign run = example();
  run.mtbf_seconds = std::numeric_limits<double>::infinity();
  const Cost cost = cost_of(run);
  EXPECT_EQ(cost.seconds, 100'000 * 6.0);
  EXPECT_EQ(cost.goodput, 1);
  EXPECT_EQ(cost.failures, 0);
  EXPECT_EQ(cost.steps_between_checkpoints, 0);
}

TEST(Campaign, RareFailuresCostLittle) {
  Campaign run = example();
  run.mtbf_seconds = 1e15;
  EXPECT_NEAR(expected_seconds(run, run.steps), 600'012, 1);  // one checkpoint, at the end
}

TEST(Campaign, NoOtherIntervalIsFaster) {
  for (const Campaign& run : random_runs(200)) {
    const int64_t best = best_interval(run);
    ASSERT_GE(best, 1);
    ASSERT_LE(best, run.steps);
    const double seconds = expected_seconds(run, best);
    for (double interval = 1; interval <= static_cast<double>(run.steps); interval = 1.02 * interval + 1)
      EXPECT_LE(seconds, expected_seconds(run, static_cast<int64_t>(interval)) * (1 + 1e-12));
    for (int64_t near = std::max<int64_t>(1, best - 3); near <= std::min(run.steps, best + 3); ++near)
      EXPECT_LE(seconds, expected_seconds(run, near) * (1 + 1e-12));
  }
}

// Daly 2006: for delta < 2 M, tau = sqrt(2 delta M) (1 + sqrt(delta / 2 M) / 3 + (delta / 2 M) / 9) - delta.
TEST(Campaign, TheIntervalIsDalysEstimate) {
  for (const double part : {1e-4, 1e-3, 1e-2, 0.1}) {
    Campaign run = example();
    run.step_seconds = 1e-3, run.steps = 1'000'000'000;
    run.checkpoint_seconds = part * run.mtbf_seconds;
    const double a = std::sqrt(part / 2);
    const double daly =
        std::sqrt(2 * part) * run.mtbf_seconds * (1 + a / 3 + a * a / 9) - run.checkpoint_seconds;
    EXPECT_NEAR(cost_of(run).seconds_between_checkpoints / daly, 1, 1e-3);
  }
}

// His figures 3 to 5, minutes: 500 hours of work, a restart of 10, a checkpoint of 5.
TEST(Campaign, TheIntervalsThatDalyPublished) {
  for (const auto& [mtbf, published, last_digit] :
       {std::tuple{24 * 60.0, 117.0, 0.5}, {6 * 60.0, 57.0, 0.5}, {15.0, 9.1, 0.1}}) {
    Campaign run;
    run.step_seconds = 1, run.steps = 500 * 3600;
    run.checkpoint_seconds = 5 * 60, run.restart_seconds = 10 * 60, run.mtbf_seconds = mtbf * 60;
    EXPECT_NEAR(cost_of(run).seconds_between_checkpoints / 60, published, last_digit) << mtbf;
  }
}

TEST(Campaign, MoneyAndEnergyAreProportional) {
  for (Campaign run : random_runs(50)) {
    const Cost once = cost_of(run);
    run.price_per_gpu_hour = 2 * *run.price_per_gpu_hour;
    run.pue *= 2;
    const Cost twice = cost_of(run);
    EXPECT_DOUBLE_EQ(*twice.price, 2 * *once.price);
    EXPECT_DOUBLE_EQ(*twice.mwh, 2 * *once.mwh);
    EXPECT_EQ(twice.seconds, once.seconds);
  }
  Campaign run = example();
  run.price_per_gpu_hour.reset(), run.watts_per_gpu.reset();
  EXPECT_FALSE(cost_of(run).price);
  EXPECT_FALSE(cost_of(run).mwh);
}

TEST(Campaign, WhateverIsWorseNeverHelps) {
  for (const Campaign& run : random_runs(100)) {
    const double goodput = cost_of(run).goodput;
    EXPECT_GT(goodput, 0);
    EXPECT_LT(goodput, 1);
    const auto worse = [&](const char* what, auto change) {
      Campaign other = run;
      change(other);
      EXPECT_LE(cost_of(other).goodput, goodput * (1 + 1e-12)) << what;
    };
    worse("more failures", [](Campaign& c) { c.mtbf_seconds *= 0.9; });
    worse("slower checkpoints", [](Campaign& c) { c.checkpoint_seconds *= 1.1; });
    worse("slower restarts", [](Campaign& c) { c.restart_seconds *= 1.1; });
    worse("more GPUs", [](Campaign& c) { c.mtbf_seconds = mtbf_of(c.mtbf_seconds, c.gpus, c.gpus + 8); });
  }
}

TEST(Campaign, FailuresArePerGpu) {
  EXPECT_EQ(mtbf_of(10'800, 1024, 2048), 5'400);
  EXPECT_EQ(mtbf_of(10'800, 1024, 1), 10'800 * 1024);
}

// The run as its header tells it, event by event, with failures that are drawn.
double drawn_seconds(const Campaign& run, int64_t interval, std::mt19937_64& random) {
  std::exponential_distribution<> next_failure(1 / run.mtbf_seconds);
  double now = 0, failure = next_failure(random);
  const auto passes = [&](double seconds) {  // false: a failure came before
    const bool whole = failure >= now + seconds;
    now = whole ? now + seconds : failure;
    if (!whole) failure = now + next_failure(random);
    return whole;
  };
  for (int64_t kept = 0; kept < run.steps; kept += interval)
    while (!passes(static_cast<double>(interval) * run.step_seconds + run.checkpoint_seconds))
      while (!passes(run.restart_seconds)) {
      }
  return now;
}

TEST(Campaign, DrawnFailuresAgreeWithTheFormula) {
  struct Case {
    double step, checkpoint, mtbf, restart;
    int64_t interval;
  };
  const Case cases[] = {{6, 12, 10'800, 600, 84},    // the example
                        {10, 60, 2'000, 300, 40},    // many failures
                        {1, 300, 1'000, 900, 500},   // more time lost than kept
                        {30, 5, 100'000, 600, 10}};  // few
  std::mt19937_64 random(11);
  for (const Case& c : cases) {
    Campaign run;
    run.steps = 2'000 * c.interval, run.step_seconds = c.step;
    run.checkpoint_seconds = c.checkpoint, run.mtbf_seconds = c.mtbf, run.restart_seconds = c.restart;
    double sum = 0;
    for (int i = 0; i < 20; ++i) sum += drawn_seconds(run, c.interval, random) / 20;
    EXPECT_NEAR(sum / expected_seconds(run, c.interval), 1, 0.03) << c.mtbf;
  }
}

TEST(Campaign, TheRangeHoldsTheEstimate) {
  for (const Campaign& run : random_runs(50)) {
    const CostRange range = cost_range(run, 0.9 * run.step_seconds, 1.1 * run.step_seconds);
    const auto holds = [&](auto number) {
      EXPECT_LE(number(range.low), number(range.estimate));
      EXPECT_LE(number(range.estimate), number(range.high));
    };
    holds([](const Cost& c) { return c.seconds; });
    holds([](const Cost& c) { return c.goodput; });
    holds([](const Cost& c) { return *c.price; });
    holds([](const Cost& c) { return *c.mwh; });
    holds([](const Cost& c) { return c.steps_between_checkpoints; });
    EXPECT_LT(range.low.seconds, range.high.seconds);
  }
}

TEST(Campaign, LostTimeIsTheRest) {
  for (const Campaign& run : random_runs(50)) {
    const Cost cost = cost_of(run);
    EXPECT_EQ(cost.step_seconds, run.step_seconds);
    EXPECT_GT(cost.lost_seconds, 0);
    EXPECT_NEAR(cost.lost_seconds / cost.seconds, 1 - cost.goodput, 1e-9);
  }
  const CostRange range = cost_range(example(), 5, 7);
  EXPECT_EQ(range.low.step_seconds, 5);
  EXPECT_EQ(range.high.step_seconds, 7);
  EXPECT_LT(range.low.lost_seconds, range.high.lost_seconds);
}

TEST(StepError, IsOfTheFrameworkOnTheDevice) {
  const ErrorBar bar = error_bar("megatron", "a100-sxm-80g", 1024);
  EXPECT_EQ(bar.error.framework, "megatron");
  EXPECT_EQ(bar.error.device, "a100-sxm-80g");
  EXPECT_FALSE(bar.of_other);
  EXPECT_EQ(error_bar("megatron", "a100-sxm-80g", 9).error.least_gpus, 9);
  EXPECT_EQ(error_bar("megatron", "a100-sxm-80g", 8).error.least_gpus, 1);
}

TEST(StepError, OfTooFewStepsIsThatOfTheDevice) {
  for (const char* framework : {"megatron", "composer", "my.yaml"}) {  // no steps, too few, unknown
    const ErrorBar bar = error_bar(framework, "h100-sxm", 512);
    EXPECT_EQ(bar.error.framework, "all") << framework;
    EXPECT_EQ(bar.error.device, "h100-sxm") << framework;
    EXPECT_FALSE(bar.of_other) << framework;
  }
  EXPECT_EQ(error_bar("jax", "h100-sxm", 512).error.framework, "jax");      // too few, but further off
  EXPECT_EQ(error_bar("fsdp", "a100-sxm-80g", 64).error.framework, "all");  // 8 steps of one paper
}

TEST(StepError, OfAnUnknownDeviceIsTheWidest) {
  for (const char* framework : {"megatron", "boxcar"})
    for (const int gpus : {8, 512})
      for (const char* device : {"v100-sxm2-32g", "h100-sxm in fp64", "my.yaml"}) {
        const ErrorBar bar = error_bar(framework, device, gpus);
        EXPECT_TRUE(bar.of_other);
        EXPECT_EQ(bar.device_steps, 0);
        const std::string any = framework == std::string("boxcar") ? "boxcar" : "all";
        for (const StepError& row : step_errors()) {
          const bool alike = row.framework == any && row.least_gpus == bar.error.least_gpus &&
                             !row.device.ends_with(with_experts);
          EXPECT_TRUE(!alike || row.share <= bar.error.share) << row.device;
        }
      }
}

TEST(StepError, OfADenseModelIsNoMixtures) {
  for (const int gpus : {8, 512})
    for (const char* device : {"h100-sxm", "h100-sxm in fp8", "b300-sxm"}) {
      const ErrorBar dense = error_bar("nemo-24", device, gpus);
      const ErrorBar mixture = error_bar("nemo-24", device + std::string(with_experts), gpus);
      EXPECT_FALSE(dense.error.device.ends_with(with_experts)) << device;
      EXPECT_GT(mixture.error.share, dense.error.share) << device;
    }
}

TEST(StepError, IsOfEnoughStepsUnlessItIsWider) {
  for (const StepError& row : step_errors()) {
    EXPECT_GT(row.share, 0);
    EXPECT_LT(row.share, 1);
    const ErrorBar bar = error_bar(row.framework, std::string(row.device), row.least_gpus);
    EXPECT_TRUE(bar.of_other || bar.error.steps >= enough_steps || bar.error.share >= row.share);
    EXPECT_TRUE(bar.of_other || bar.error.device == row.device);
  }
}

TEST(StepError, RangeIsOfPublishedSteps) {
  const auto [least, most] = step_range(6, 0.25);
  EXPECT_DOUBLE_EQ(6 / least - 1, 0.25);
  EXPECT_DOUBLE_EQ(6 / most - 1, -0.25);
}

TEST(StepError, ReadsAsASentence) {
  EXPECT_EQ(to_text({{"megatron", "a100-sxm-80g", 9, 41, 0.05}, "a100-sxm-80g", 331, false}),
            "9 of 10 steps of megatron on more than 8 a100-sxm-80g were simulated within 5.0 % of their "
            "published time (41 steps)");
  EXPECT_EQ(to_text({{"all", "h100-sxm", 1, 82, 0.26}, "h100-sxm", 82, false}),
            "9 of 10 steps of any framework on up to 8 h100-sxm were simulated within 26.0 % of their "
            "published time (82 steps)");
  EXPECT_EQ(to_text({{"boxcar", "h100-sxm", 1, 75, 0.665}, "h100-sxm", 75, false}),
            "9 of 10 steps of any framework on up to 8 h100-sxm were simulated within 66.5 % of their "
            "published time (75 steps; simulated as boxcar's, --stack names your framework)");
  EXPECT_EQ(to_text({{"all", "gh200-96g in fp32", 9, 10, 0.361}, "b200-sxm", 0, true}),
            "no published step on more than 8 b200-sxm was compared: as wide as for the worst device, 36.1 % "
            "(10 steps on more than 8 gh200-96g in fp32)");
  EXPECT_EQ(
      to_text({{"all", "b200-sxm in fp8", 1, 1, 0.571}, "h100-sxm in fp8", 3, true}),
      "only 3 published steps on up to 8 h100-sxm in fp8 were compared: as wide as for the worst device, "
      "57.1 % (1 step on up to 8 b200-sxm in fp8)");
  EXPECT_EQ(
      to_text({{"boxcar", "h100-sxm", 9, 9, 0.454}, "h100-sxm", 9, true}),
      "only 9 steps on more than 8 h100-sxm were compared, and simulated within 45.4 % of their published "
      "time; simulated as boxcar's, --stack names your framework");
}

}  // namespace
}  // namespace boxcar::campaign

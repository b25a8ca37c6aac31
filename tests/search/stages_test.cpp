// Stages compared with every possible cut.
#include "planner/solve/stages.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <tuple>

#include "sbp/at.h"
#include "support/error_of.h"

namespace boxcar::search {
namespace {

constexpr double none = std::numeric_limits<double>::infinity();

StageProblem four_blocks() {
  StageProblem problem;
  problem.blocks = 4, problem.devices = 2, problem.meshes = {1}, problem.micro_batches = 3,
  problem.memory = 8;
  problem.options = [](int first, int last, int) {
    return std::vector<StageOption>{
        {static_cast<double>(last - first), 0, 0, static_cast<double>(last - first)}};
  };
  return problem;
}

std::vector<int> cuts_of(const StagePlan& plan) {
  std::vector<int> cuts;
  for (const auto& stage : plan.stages) cuts.push_back(stage.last);
  return cuts;
}

TEST(Stages, ExampleOfTheHeader) {
  StagePlan plan = cut_into_stages(four_blocks());
  EXPECT_EQ(plan.seconds, 8);
  EXPECT_EQ(cuts_of(plan), (std::vector{2, 4}));
}

TEST(Stages, MemoryCountsWhatIsInFlight) {
  StageProblem problem = four_blocks();
  problem.memory = 3;  // the first stage holds two micro-batches
  EXPECT_EQ(cuts_of(cut_into_stages(problem)), (std::vector{1, 4}));
  EXPECT_EQ(cut_into_stages(problem).seconds, 10);
  problem.memory = 2;
  EXPECT_TRUE(cut_into_stages(problem).stages.empty());
  problem.in_flight = [](int) { return 1; };
  EXPECT_EQ(cuts_of(cut_into_stages(problem)), (std::vector{2, 4}));
}

TEST(Stages, MostStagesAndAnotherStep) {
  StageProblem problem = four_blocks();
  problem.most_stages = 1;
  EXPECT_EQ(cut_into_stages(problem).seconds, 12);
  problem.most_stages = 0;
  problem.step = [](double slowest, double sum) { return slowest + 10 * sum; };
  EXPECT_EQ(cut_into_stages(problem).seconds, 42);
}

struct Drawn {
  StageProblem problem;
  std::map<std::tuple<int, int, int>, std::vector<StageOption>> options;
};

// Whole numbers, so that sums are exact in any order.
void draw(unsigned seed, Drawn& drawn) {
  std::mt19937 random(seed);
  auto pick = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  StageProblem& problem = drawn.problem;
  problem.blocks = pick(1, 7), problem.devices = pick(1, 6), problem.micro_batches = pick(1, 6);
  problem.memory = pick(10, 60);
  for (int m = pick(1, 3); m > 0; --m) problem.meshes.push_back(pick(1, 3) * (seed % 3 == 0 ? 2 : 1));
  if (pick(0, 3) == 0) problem.most_stages = pick(1, 4);
  for (int first = 0; first < problem.blocks; ++first) {
    for (int last = first + 1; last <= problem.blocks; ++last) {
      for (int mesh = 0; mesh < static_cast<int>(problem.meshes.size()); ++mesh) {
        auto& options = drawn.options[{first, last, mesh}];
        for (int o = pick(0, 2); o > 0; --o) {
          double work = 6.0 * (last - first);
          options.push_back({work + pick(0, 9), 1.0 * pick(0, 9), 1.0 * pick(0, 9), 1.0 * pick(0, 6)});
        }
      }
    }
  }
  problem.options = [&drawn](int first, int last, int mesh) { return drawn.options.at({first, last, mesh}); };
}

// Cuts the first `before` blocks into stages, with `after` stages behind.
double brute_force(const StageProblem& problem, int before, int after, int devices, double slowest,
                   double sum) {
  if (before == 0) return (problem.micro_batches - 1) * slowest + sum;
  if (problem.most_stages > 0 && after == problem.most_stages) return none;
  double best = none;
  for (int first = 0; first < before; ++first) {
    for (int mesh = 0; mesh < static_cast<int>(problem.meshes.size()); ++mesh) {
      int used = devices + at(problem.meshes, mesh);
      if (used > problem.devices) continue;
      for (const StageOption& option : problem.options(first, before, mesh)) {
        int in_flight = std::min(after + 1, problem.micro_batches);
        if (option.bytes + in_flight * option.bytes_in_flight > problem.memory) continue;
        best = std::min(best, brute_force(problem, first, after + 1, used, std::max(slowest, option.seconds),
                                          sum + option.seconds + option.once));
      }
    }
  }
  return best;
}

// The plan's own time, if it is one.
double time_of(const StageProblem& problem, const StagePlan& plan) {
  double slowest = 0, sum = 0;
  int block = 0, devices = 0, after = static_cast<int>(plan.stages.size());
  for (const auto& stage : plan.stages) {
    EXPECT_EQ(stage.first, block);
    block = stage.last;
    devices += at(problem.meshes, stage.mesh);
    double in_flight = std::min(after--, problem.micro_batches);
    EXPECT_LE(stage.option.bytes + in_flight * stage.option.bytes_in_flight, problem.memory);
    slowest = std::max(slowest, stage.option.seconds);
    sum += stage.option.seconds + stage.option.once;
  }
  EXPECT_EQ(block, problem.blocks);
  EXPECT_LE(devices, problem.devices);
  return (problem.micro_batches - 1) * slowest + sum;
}

TEST(Stages, AreOptimal) {
  int found = 0, several = 0, impossible = 0;
  for (unsigned seed = 1; seed <= 600; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Drawn drawn;
    draw(seed, drawn);
    double best = brute_force(drawn.problem, drawn.problem.blocks, 0, 0, 0, 0);
    StagePlan plan = cut_into_stages(drawn.problem);
    ASSERT_EQ(plan.stages.empty(), best == none);
    impossible += best == none;
    if (best == none) continue;
    ASSERT_EQ(plan.seconds, best);
    ASSERT_EQ(time_of(drawn.problem, plan), best);
    ++found;
    several += plan.stages.size() > 1;
  }
  EXPECT_GT(several, 150);
  EXPECT_GT(found - several, 20);
  EXPECT_GT(impossible, 20);
}

TEST(Stages, RefusesWhatIsNoProblem) {
  StageProblem problem = four_blocks();
  problem.meshes = {1, 0};
  EXPECT_EQ(support::error_of([&] { cut_into_stages(problem); }), "search: mesh 1 has no devices");
  problem.blocks = 0;
  EXPECT_EQ(support::error_of([&] { cut_into_stages(problem); }),
            "search: 0 blocks, 2 devices, 3 micro-batches: from 1 on each");
}

}  // namespace
}  // namespace boxcar::search

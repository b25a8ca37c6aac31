// Register counts against brute force, and against the simulator (law 3).
#include "planner/search/registers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <string>

#include "planner/verify.h"
#include "sbp/at.h"
#include "search/plans.h"
#include "support/error_of.h"
#include "support/random_plan.h"

namespace boxcar::search {
namespace {

CountProblem producer_and_consumer() {
  CountProblem problem;
  problem.graph = {{3, 5}, {{0, 0, 1}, {1, 1, 1}, {0, 1, 0}}};
  problem.registers = {{1, 1, {{{0}, {1}, 0}}}};
  return problem;
}

TEST(Registers, ExampleOfTheHeader) {
  CountProblem problem = producer_and_consumer();
  EXPECT_EQ(least_period(problem), 5);
  EXPECT_EQ(period_of(problem, {1}), 8);
  EXPECT_EQ(least_counts(problem, 5).counts, std::vector{2});
  EXPECT_EQ(least_counts(problem, 8).counts, std::vector{1});
  EXPECT_FALSE(least_counts(problem, 4.9).found);
}

// Actors in a row of places, each with some acts per step, one after the other. Registers go forward, or
// backward with an initial slot.
CountProblem random_problem(std::mt19937& random) {
  auto pick = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  CountProblem problem;
  planner::MarkedGraph& graph = problem.graph;
  struct Actor {
    int first, acts;
  };
  std::vector<Actor> actors;
  int rate = pick(1, 3);
  for (int a = pick(2, 5); a > 0; --a) {
    Actor actor{static_cast<int>(graph.seconds.size()), pick(0, 2) == 0 ? 1 : rate};
    for (int i = 0; i < actor.acts; ++i) {
      graph.seconds.push_back(pick(1, 6));
      bool last = i + 1 == actor.acts;
      graph.edges.push_back({actor.first + i, last ? actor.first : actor.first + i + 1, last ? 1 : 0});
    }
    actors.push_back(actor);
  }
  for (int r = pick(1, 9); r > 0; --r) {
    int from = pick(0, static_cast<int>(actors.size()) - 1),
        to = pick(0, static_cast<int>(actors.size()) - 1);
    if (from == to) continue;
    const Actor &writer = at(actors, from), &reader = at(actors, to);
    int versions = std::min(writer.acts, reader.acts), every = writer.acts / versions,
        repeat = reader.acts / versions;
    int initial = from < to ? 0 : versions;
    CountedRegister reg{1.0 * pick(1, 4), std::max(1, initial), {{{}, {}, initial}}};
    for (int v = 0; v < versions; ++v) {
      int written = v - initial;  // the writer's turn that makes the version read in the reader's turn v
      int steps = written < 0 ? 1 : 0;
      graph.edges.push_back(
          {writer.first + (written + steps * versions + 1) * every - 1, reader.first + v * repeat, steps});
      reg.uses[0].acquire.push_back(writer.first + v * every);
      reg.uses[0].release.push_back(reader.first + (v + 1) * repeat - 1);
    }
    problem.registers.push_back(reg);
  }
  return problem;
}

// The least weight of counts that keep the period, if below `best`.
double brute_force(const CountProblem& problem, double period, double best, int64_t& tried) {
  std::vector<int> counts;
  double least = 0;
  for (const auto& reg : problem.registers) {
    counts.push_back(reg.least);
    least += reg.weight * reg.least;
  }
  auto descend = [&](auto& self, size_t r, double weight) -> void {
    if (weight >= best) return;
    if (r == counts.size()) {
      ++tried;
      if (period_of(problem, counts) <= period * (1 + 1e-9)) best = weight;
      return;
    }
    for (int more = 0; weight + more * problem.registers[r].weight < best; ++more) {
      counts[r] = problem.registers[r].least + more;
      self(self, r + 1, weight + more * problem.registers[r].weight);
    }
    counts[r] = problem.registers[r].least;
  };
  descend(descend, 0, least);
  return best;
}

void check_counts(unsigned first, unsigned rounds) {
  int64_t tried = 0;
  int more = 0, bounded = 0;
  for (unsigned seed = first; seed < first + rounds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    CountProblem problem = random_problem(random);
    double period = least_period(problem) * (seed % 2 == 0 ? 1 : 1.2);
    Counts counts = least_counts(problem, period);
    ASSERT_TRUE(counts.optimal());
    ASSERT_LE(period_of(problem, counts.counts), period * (1 + 1e-9));
    ASSERT_EQ(brute_force(problem, period, counts.weight, tried), counts.weight);
    for (size_t r = 0; r < counts.counts.size(); ++r) more += counts.counts[r] > problem.registers[r].least;
    Counts hasty = least_counts(problem, period, 1);
    ASSERT_LE(period_of(problem, hasty.counts), period * (1 + 1e-9));
    ASSERT_LE(hasty.lower, counts.weight);
    ASSERT_GE(hasty.weight, counts.weight);
    bounded += !hasty.optimal();
  }
  EXPECT_GT(tried, rounds);
  EXPECT_GT(more, static_cast<int>(rounds));
  EXPECT_GT(bounded, 0);
}

TEST(Registers, CountsAreTheCheapest) { check_counts(1, 300); }
TEST(Registers, LongCountsAreTheCheapest) { check_counts(1001, 4000); }

void set_counts(ir::Plan& plan, const PlanCounts& of, const std::vector<int>& counts) {
  for (size_t i = 0; i < counts.size(); ++i) {
    auto [p, r] = of.registers[i];
    at(at(plan.programs, p).registers, r).count = counts[i];
  }
  place_registers(plan);
}

// Random plans run in their counts' period; with one slot less somewhere they are slower or hang.
void check_plans(unsigned first, unsigned rounds) {
  int periodic = 0, slower = 0, hung = 0;
  for (unsigned seed = first; seed < first + rounds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    ir::Plan plan = support::random_plan({.seed = seed});
    planner::StepView view = planner::view_of_devices(plan, false);
    std::vector<double> seconds = seconds_of(plan);
    PlanCounts of = counts_of_plan(planner::view_of_devices(plan), seconds);
    std::vector<int> given;
    for (auto [p, r] : of.registers) {
      given.push_back(at(at(plan.programs, p).registers, r).count);
    }
    ASSERT_EQ(period_of(of.problem, given), planner::period_bound(view, seconds));

    double period = least_period(of.problem) * (seed % 2 == 0 ? 1 : 1.1);
    Counts counts = least_counts(of.problem, period, 300);
    ASSERT_TRUE(counts.found);
    ASSERT_LE(counts.lower, counts.weight);
    set_counts(plan, of, counts.counts);
    ASSERT_NO_THROW(planner::verify(plan));
    double mean = simulated_period(plan, 40);
    periodic += mean >= 0;
    ASSERT_LE(mean, period * (1 + 1e-6));
    for (size_t r = 0; r < counts.counts.size(); ++r) {
      if (counts.counts[r] == of.problem.registers[r].least) continue;
      std::vector<int> fewer = counts.counts;
      --fewer[r];
      set_counts(plan, of, fewer);
      double longer = period_of(of.problem, fewer);
      ASSERT_GT(longer, period * (1 + 1e-9));
      if (longer == std::numeric_limits<double>::infinity()) {
        ASSERT_THROW(planner::verify(plan), Error);
        ++hung;
      } else {
        double simulated = simulated_period(plan, 40);
        ASSERT_TRUE(simulated < 0 || simulated > period * (1 + 1e-9));
        ++slower;
      }
      break;
    }
  }
  EXPECT_GT(periodic * 10, static_cast<int>(rounds) * 9);
  EXPECT_GT(slower, static_cast<int>(rounds) / 20);
  EXPECT_GT(hung, static_cast<int>(rounds) / 20);
}

TEST(Registers, PlansRunInThePeriodThatCountsAreFor) { check_plans(1, 60); }
TEST(Registers, LongPlansRunInThePeriodThatCountsAreFor) { check_plans(1001, 1000); }

TEST(Registers, RefusesWhatIsNoRegister) {
  CountProblem problem = producer_and_consumer();
  problem.registers[0].uses[0].initial = 2;
  EXPECT_EQ(support::error_of([&] { least_counts(problem, 5); }),
            "search: register 0 is none: its weight is above 0, its count from 1 and from its initial slots "
            "on, its "
            "uses have as many releases as acquires");
}

}  // namespace
}  // namespace boxcar::search

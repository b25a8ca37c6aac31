// Law 3: plans that verify accepts end under every interleaving, those that it refuses hang or overflow. The
// simulated period of a plan in a fixed order is the largest cycle ratio of its marked graph; in an open
// order it is never below that.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "backends/machines/cluster.h"
#include "planner/marked_graph.h"
#include "planner/verify.h"
#include "sbp/error.h"
#include "sim/simulate.h"
#include "support/chaos.h"
#include "support/mean_step.h"
#include "support/random_plan.h"

namespace boxcar::planner {
namespace {

bool accepted(const ir::Plan& plan) {
  try {
    verify(plan);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Exit::cannot_run);
    return false;
  }
  return true;
}

// Random plans under random interleavings: `rounds` plans, three orders each.
void check_interleavings(unsigned first, unsigned rounds) {
  int refused = 0;
  for (unsigned seed = first; seed < first + rounds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    ir::Plan plan = support::random_plan({.seed = seed, .live = seed % 3 == 0, .ordered = seed % 2 == 0});
    bool fine = accepted(plan);
    refused += !fine;
    for (unsigned order = 0; order < 3; ++order) {
      support::Chaos chaos(plan, 1000 * seed + order);
      ASSERT_EQ(chaos.steps(2), fine);
      ASSERT_EQ(chaos.overlap(), "");
    }
  }
  EXPECT_GT(refused, static_cast<int>(rounds) / 20);
}

TEST(Law3, VerifyTellsWhichPlansEnd) { check_interleavings(1, 120); }
TEST(Law3, LongVerifyTellsWhichPlansEnd) { check_interleavings(10001, 2500); }

// Puts two registers of a random plan onto the same bytes. An accepted plan never writes memory in use; a
// refused one does so in some order.
void check_overlaps(unsigned first, unsigned rounds) {
  int safe = 0;
  for (unsigned seed = first; seed < first + rounds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    ir::Plan plan = support::random_plan({.seed = seed, .max_programs = 2});
    auto& registers = plan.programs[0].registers;
    if (registers.size() < 2) continue;
    std::mt19937 random(seed);
    std::uniform_int_distribution<size_t> any(0, registers.size() - 1);
    ir::Register &a = registers[any(random)], &b = registers[any(random)];
    if (&a == &b) continue;
    (a.offset < b.offset ? b.offset : a.offset) = std::min(a.offset, b.offset);
    const bool fine = accepted(plan);
    safe += fine;
    std::string overlap;
    for (unsigned order = 0; order < (fine ? 10 : 2000) && overlap.empty(); ++order) {
      support::Chaos chaos(plan, 10000 * seed + order);
      ASSERT_TRUE(chaos.steps(6));
      overlap = chaos.overlap();
    }
    ASSERT_EQ(overlap.empty(), fine) << overlap;
  }
  EXPECT_GT(safe, static_cast<int>(rounds) / 50);
}

TEST(Law3, NoRunWritesWhatIsStillRead) { check_overlaps(1, 400); }
TEST(Law3, LongNoRunWritesWhatIsStillRead) { check_overlaps(20001, 6000); }

backends::Cluster cluster_of(int devices) {
  backends::Cluster cluster;
  cluster.name = "test";
  cluster.nodes = 1;
  cluster.node.gpus = devices;
  return cluster;
}

std::vector<double> seconds_of(const StepView& view) {
  std::vector<double> seconds;
  for (size_t n = 0; n < view.nodes.size(); ++n) {
    seconds.push_back(ir::attr_float(view.actor_of(static_cast<int>(n)).attrs, "seconds"));
  }
  return seconds;
}

void check_periods(unsigned first, unsigned rounds, int steps) {
  int periodic = 0, all = 0;
  for (unsigned seed = first; seed < first + rounds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    bool ordered = seed % 4 != 0;
    ir::Plan plan = support::random_plan({.seed = seed, .ordered = ordered});
    StepView view = view_of_devices(plan, false);
    double bound = period_bound(view, seconds_of(view));
    sim::Options options;
    options.fold = seed % 2 == 0;
    options.steps = steps;
    sim::Result result = sim::simulate(plan, cluster_of(plan.devices), options);
    double mean = support::mean_step(result.step_ends);
    ++all;
    periodic += mean >= 0;
    if (mean < 0) continue;
    if (ordered) {
      ASSERT_NEAR(mean, bound, 1e-6 * bound);
    } else {
      ASSERT_GE(mean, bound * (1 - 1e-6));
    }
  }
  EXPECT_GT(periodic * 10, all * 9);
}

TEST(Law3, PeriodIsTheLargestCycleRatio) { check_periods(1, 60, 40); }
TEST(Law3, LongPeriodIsTheLargestCycleRatio) { check_periods(30001, 1500, 80); }

}  // namespace
}  // namespace boxcar::planner

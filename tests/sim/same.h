// Compares two results that must be equal.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <tuple>

#include "backends/machines/device_profile.h"
#include "sim/plans.h"
#include "sim/simulate.h"
#include "support/random_plan.h"

namespace boxcar::sim::test {

inline void expect_same_timeline(const Result& one, const Result& other, const std::string& what,
                                 double tolerance) {
  ASSERT_EQ(one.timeline.size(), other.timeline.size()) << what;
  std::map<std::tuple<int, int, int>, Act> acts;
  for (const Act& act : other.timeline) acts[{act.cls, act.actor, act.index}] = act;
  for (const Act& act : one.timeline) {
    std::string name = what + " act " + std::to_string(act.index) + " of " + std::to_string(act.actor) +
                       " in " + std::to_string(act.cls);
    auto found = acts.find({act.cls, act.actor, act.index});
    ASSERT_NE(found, acts.end()) << name;
    ASSERT_NEAR(act.start, found->second.start, tolerance) << name;
    ASSERT_NEAR(act.end, found->second.end, tolerance) << name;
  }
}

// Compares everything except the simulation's own cost.
inline void expect_same(const Result& one, const Result& other, const std::string& what, double tolerance) {
  ASSERT_EQ(one.step_ends.size(), other.step_ends.size()) << what;
  for (size_t s = 0; s < other.step_ends.size(); ++s) {
    EXPECT_NEAR(one.step_ends[s], other.step_ends[s], tolerance) << what << " step " << s;
  }
  EXPECT_NEAR(one.step_seconds, other.step_seconds, tolerance) << what;
  ASSERT_EQ(one.classes.size(), other.classes.size()) << what;
  for (size_t c = 0; c < one.classes.size(); ++c) {
    const ClassResult &a = one.classes[c], &b = other.classes[c];
    EXPECT_NEAR(a.busy, b.busy, tolerance) << what << " class " << c;
    EXPECT_NEAR(a.span, b.span, tolerance) << what << " class " << c;
    EXPECT_NEAR(a.exposed_comm, b.exposed_comm, tolerance) << what << " class " << c;
    for (size_t q = 0; q < a.queue_busy.size(); ++q) {
      EXPECT_NEAR(a.queue_busy[q], b.queue_busy[q], tolerance) << what << " class " << c;
    }
    // With rounding, a release and an allocation at one instant may be a tick apart.
    if (tolerance == 0) {
      EXPECT_EQ(a.peak_bytes, b.peak_bytes) << what << " class " << c;
    }
  }
  expect_same_timeline(one, other, what, tolerance);
}

// The result is the same with and without a shortcut.
inline void expect_same_without(bool Options::*shortcut, const ir::Plan& plan,
                                const backends::Cluster& cluster, const Options& options,
                                const std::string& what, double tolerance = 0) {
  Options plain = options;
  plain.*shortcut = false;
  expect_same(simulate(plan, cluster, options), simulate(plan, cluster, plain), what, tolerance);
}

// The same on plans drawn from these seeds: some with open queues, some with compute slowed by communication.
inline void expect_same_without(bool Options::*shortcut, unsigned first, unsigned last,
                                support::RandomPlanOptions drawn, const Options& options) {
  for (unsigned seed = first; seed <= last; ++seed) {
    drawn.seed = seed;
    drawn.ordered = drawn.collectives = drawn.turns = seed % 5 != 0;
    const ir::Plan plan = support::random_plan(drawn);
    backends::Cluster cluster = make_cluster(plan.devices, 1, 1);
    const bool slowed = seed % 3 == 0;  // rounds a tick here or there
    if (slowed) cluster.device->overlap_slowdown = 0.3;
    Options with = options;
    with.timeline = seed % 2 == 0;
    if (shortcut != &Options::merge) with.merge = seed % 7 != 0;
    expect_same_without(shortcut, plan, cluster, with, "seed " + std::to_string(seed), slowed ? 1e-9 : 0);
    if (::testing::Test::HasFailure()) return;
  }
}

}  // namespace boxcar::sim::test

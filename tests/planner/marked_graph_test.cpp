#include "planner/marked_graph.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>

#include "planner/dry_run.h"
#include "sbp/at.h"
#include "support/random_plan.h"

namespace boxcar::planner {
namespace {

using Edge = MarkedGraph::Edge;

// The largest ratio over all simple cycles, by walking every one of them.
double brute_force(const MarkedGraph& graph) {
  double best = 0;
  int n = static_cast<int>(graph.seconds.size());
  for (int root = 0; root < n; ++root) {
    std::vector<bool> on(static_cast<size_t>(n));
    std::function<void(int, double, int)> walk = [&](int u, double seconds, int tokens) {
      at(on, u) = true;
      seconds += at(graph.seconds, u);
      for (const Edge& e : graph.edges) {
        if (e.from != u || e.to < root) continue;
        if (e.to == root) best = std::max(best, seconds / (tokens + e.tokens));
        if (!at(on, e.to)) walk(e.to, seconds, tokens + e.tokens);
      }
      at(on, u) = false;
    };
    walk(root, 0, 0);
  }
  return best;
}

TEST(CycleRatio, ProducerAndConsumer) {
  MarkedGraph graph{{3, 5}, {{0, 1, 0}, {1, 0, 2}, {0, 0, 1}, {1, 1, 1}}};
  EXPECT_DOUBLE_EQ(max_cycle_ratio(graph).seconds, 5);
  EXPECT_EQ(max_cycle_ratio(graph).cycle, std::vector<int>{1});
  graph.edges[1].tokens = 1;  // one slot: they take turns
  EXPECT_DOUBLE_EQ(max_cycle_ratio(graph).seconds, 8);
}

TEST(CycleRatio, NoCycleTakesNoTime) {
  EXPECT_EQ(max_cycle_ratio({{3, 5}, {{0, 1, 0}}}).seconds, 0);
  EXPECT_EQ(max_cycle_ratio({{}, {}}).seconds, 0);
  EXPECT_EQ(max_cycle_ratio({{0}, {{0, 0, 1}}}).seconds, 0);
}

TEST(CycleRatio, IsThatOfTheWorstOfAllCycles) {
  const unsigned seed = 11;
  std::mt19937 random(seed);
  auto pick = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  for (int round = 0; round < 600; ++round) {
    SCOPED_TRACE("seed " + std::to_string(seed) + ", round " + std::to_string(round));
    MarkedGraph graph;
    int n = pick(1, 7);
    for (int i = 0; i < n; ++i) graph.seconds.push_back(pick(0, 9));
    for (int e = pick(0, 2 * n); e > 0; --e) {
      int from = pick(0, n - 1), to = pick(0, n - 1);
      graph.edges.push_back({from, to, from < to ? pick(0, 2) : pick(1, 3)});
    }
    CycleRatio ratio = max_cycle_ratio(graph);
    ASSERT_NEAR(ratio.seconds, brute_force(graph), 1e-9);
  }
}

// Graphs too large for brute force: the cycle attains the ratio, and no cycle exceeds it (Bellman-Ford
// settles).
TEST(CycleRatio, OfLargerGraphsHasAProof) {
  const unsigned seed = 12;
  std::mt19937 random(seed);
  auto pick = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  for (int round = 0; round < 200; ++round) {
    SCOPED_TRACE("seed " + std::to_string(seed) + ", round " + std::to_string(round));
    MarkedGraph graph;
    int n = pick(2, 60);
    for (int i = 0; i < n; ++i) graph.seconds.push_back(pick(0, 9));
    for (int i = 0; i < n; ++i) graph.edges.push_back({i, (i + 1) % n, i + 1 == n ? 1 : pick(0, 1)});
    for (int e = pick(0, 3 * n); e > 0; --e) {
      int from = pick(0, n - 1), to = pick(0, n - 1);
      graph.edges.push_back({from, to, from < to ? pick(0, 2) : pick(1, 4)});
    }
    CycleRatio ratio = max_cycle_ratio(graph);
    double seconds = 0, tokens = 0;
    for (size_t i = 0; i < ratio.cycle.size(); ++i) {
      int from = ratio.cycle[i], to = ratio.cycle[(i + 1) % ratio.cycle.size()], least = 99;
      for (const Edge& e : graph.edges) {
        if (e.from == from && e.to == to) least = std::min(least, e.tokens);
      }
      ASSERT_LT(least, 99);
      seconds += at(graph.seconds, from);
      tokens += least;
    }
    ASSERT_NEAR(seconds / tokens, ratio.seconds, 1e-9);
    std::vector<double> value(static_cast<size_t>(n));
    bool settled = false;
    for (int i = 0; i <= n && !settled; ++i) {
      settled = true;
      for (const Edge& e : graph.edges) {
        double more = at(value, e.from) + at(graph.seconds, e.from) - (ratio.seconds + 1e-9) * e.tokens;
        settled &= more <= at(value, e.to);
        at(value, e.to) = std::max(at(value, e.to), more);
      }
    }
    ASSERT_TRUE(settled);
  }
}

TEST(CycleWithoutToken, IsFound) {
  EXPECT_TRUE(cycle_without_token({{0, 0}, {{0, 1, 0}, {1, 0, 1}}}).empty());
  std::vector<int> cycle =
      cycle_without_token({{0, 0, 0, 0}, {{0, 1, 0}, {1, 2, 0}, {2, 3, 0}, {3, 1, 0}, {1, 0, 1}}});
  std::sort(cycle.begin(), cycle.end());
  EXPECT_EQ(cycle, (std::vector<int>{1, 2, 3}));
  EXPECT_EQ(cycle_without_token({{0}, {{0, 0, 0}}}), std::vector<int>{0});
}

// The dry run of a step ends exactly if the unfolded graph has no cycle without a token. A view of classes is
// never more lenient than one of devices, and equally strict where it claims to be exact.
TEST(MarkedGraph, DryRunAgreesWithTheUnfoldedGraph) {
  int dead = 0;
  for (unsigned seed = 1; seed <= 1500; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    bool live = seed % 3 == 0;
    ir::Plan plan = support::random_plan({.seed = seed, .live = live, .ordered = seed % 2 == 0});
    ir::check(plan);
    bool issue = seed % 4 < 2;
    StepView devices = view_of_devices(plan, issue), classes = view_of_classes(plan, issue);
    bool ends = dry_run(devices).ended;
    ASSERT_EQ(ends, cycle_without_token(step_graph(devices).graph).empty());
    bool class_ends = dry_run(classes).ended;
    ASSERT_EQ(class_ends, cycle_without_token(step_graph(classes).graph).empty());
    ASSERT_TRUE(ends || !class_ends);
    ASSERT_FALSE(ends && !class_ends && classes.exact);
    ASSERT_TRUE(ends || !live);
    dead += !ends;
  }
  EXPECT_GT(dead, 100);
}

TEST(MarkedGraph, CycleOfTheDryRunIsOne) {
  for (unsigned seed = 1; seed <= 600; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    ir::Plan plan = support::random_plan({.seed = seed, .live = false});
    StepView view = view_of_devices(plan);
    DryRun run = dry_run(view);
    if (run.ended) continue;
    ASSERT_FALSE(run.cycle.empty());
    // Each wait's unit is reachable from the next one's without a token.
    StepGraph step = step_graph(view);
    std::vector<std::vector<int>> next(step.graph.seconds.size());
    for (const Edge& e : step.graph.edges) {
      if (e.tokens == 0) at(next, e.from).push_back(e.to);
    }
    auto id = [&](const Wait& w) { return at(step.first_act, at(view.nodes, w.node).unit) + w.act; };
    for (size_t i = 0; i < run.cycle.size(); ++i) {
      int to = id(run.cycle[i]), from = id(run.cycle[(i + 1) % run.cycle.size()]);
      std::vector<bool> seen(next.size());
      std::vector<int> todo = at(next, from);
      bool found = false;
      while (!todo.empty() && !found) {
        int u = todo.back();
        todo.pop_back();
        found = u == to;
        if (at(seen, u)) continue;
        at(seen, u) = true;
        for (int v : at(next, u)) todo.push_back(v);
      }
      ASSERT_TRUE(found) << to_text(view, run.cycle);
    }
  }
}

}  // namespace
}  // namespace boxcar::planner

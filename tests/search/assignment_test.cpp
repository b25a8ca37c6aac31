// The solver against brute force on small random graphs, in all of its modes.
#include "planner/solve/assignment.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "planner/solve/order.h"
#include "planner/solve/reduce.h"
#include "planner/solve/tables.h"
#include "sbp/at.h"
#include "sbp/error.h"
#include "search/problems.h"
#include "support/error_of.h"

namespace boxcar::search {
namespace {

Assignment pair_of_nodes() { return {{1, 0}, {{{0}, {5}}, {{0}, {1}}}, {{0, 1, {{9}, {2}, {0}, {1}}}}}; }

TEST(Assignment, ExampleOfTheHeader) {
  Answer answer = solve(pair_of_nodes());
  EXPECT_TRUE(answer.optimal());
  EXPECT_EQ(answer.choice, (std::vector{0, 1}));
  EXPECT_EQ(answer.value, 3);
}

TEST(Assignment, NothingToChoose) {
  Answer answer = solve({});
  EXPECT_TRUE(answer.optimal());
  EXPECT_EQ(answer.value, 0);
  Assignment none;
  none.nodes = {{}, {{1}}};
  EXPECT_FALSE(solve(none).found);
  EXPECT_EQ(solve(none).lower, infinity);
}

double weigh(const Objective& objective, const Cost& cost) {
  double value = 0;
  for (size_t k = 0; k < cost.size(); ++k) value += objective.weights[k] * cost[k];
  return value;
}

double brute_force(const Assignment& problem, const Objective& objective) {
  double best = infinity;
  for_every_choice(problem, [&](const std::vector<int>& choice) {
    Cost cost = cost_of(problem, choice);
    bool allowed = !is_forbidden(problem.space, cost) && problem.space.covers(cost, objective.limits);
    if (allowed) best = std::min(best, weigh(objective, cost));
  });
  return best;
}

// Checks an answer's promises against the optimum.
void expect_kept(const Assignment& problem, const Objective& objective, const Answer& answer, double best) {
  double near = 1e-9 * (best == infinity ? 1 : best);
  ASSERT_LE(answer.lower, best + near);
  if (answer.found) {
    ASSERT_GE(answer.value, best - near);
    ASSERT_NEAR(weigh(objective, answer.cost), answer.value, near);
    ASSERT_EQ(cost_of(problem, answer.choice), answer.cost);
    for (int k = 0; k < problem.space.size(); ++k) {
      ASSERT_LE(at(answer.cost, k), at(objective.limits, k) * (1 + 1e-12));
    }
  }
  ASSERT_TRUE(!answer.optimal() || std::abs(answer.value - best) <= near);
}

struct Agreements {
  int optimal = 0, bounded = 0, none = 0;
};

// Random graphs of up to seven nodes; coordinates, weights and limits drawn too.
Agreements check_random(unsigned first, unsigned rounds, bool limited, const Effort& effort) {
  Agreements counts;
  for (unsigned seed = first; seed < first + rounds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    auto pick = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
    Drawn drawn;
    drawn.space = {pick(1, 3), pick(0, 1)};
    drawn.whole = pick(0, 1) == 1;
    int nodes = pick(1, 7);
    Assignment problem = draw(random, random_shape(random, nodes, pick(0, 2 * nodes)), drawn);
    Objective objective;
    for (int k = 0; k < drawn.space.sums; ++k) at(objective.weights, k) = pick(k == 0, 3);
    for (int k = 0; limited && k < drawn.space.size(); ++k) {
      int typical = k < drawn.space.sums ? (nodes + static_cast<int>(problem.edges.size())) : 3;
      if (pick(0, 1) == 1) at(objective.limits, k) = pick(2, 5) * typical;
    }
    Answer answer = solve(problem, objective, effort);
    double best = brute_force(problem, objective);
    expect_kept(problem, objective, answer, best);
    if (testing::Test::HasFatalFailure()) return counts;
    counts.optimal += answer.optimal();
    counts.none += answer.lower == infinity;
    counts.bounded += !answer.optimal() && answer.lower < infinity;
  }
  return counts;
}

TEST(Assignment, IsOptimalByTables) {
  Agreements counts = check_random(1, 400, false, {});
  EXPECT_EQ(counts.bounded, 0);
  EXPECT_GT(counts.optimal, 300);
}

TEST(Assignment, IsOptimalWithLimits) {
  Agreements counts = check_random(7001, 400, true, {});
  EXPECT_EQ(counts.bounded, 0);
  EXPECT_GT(counts.optimal, 100);
  EXPECT_GT(counts.none, 20);
}

// Branch and bound descends only once, so fronts close the gaps.
TEST(Assignment, IsOptimalByFronts) {
  Agreements counts = check_random(1001, 400, true, {.branches = 8});
  EXPECT_EQ(counts.bounded, 0);
  EXPECT_GT(counts.optimal, 100);
  EXPECT_GT(counts.none, 20);
}

// Tables of 4 entries cut nearly every bucket, so branch and bound does the work.
TEST(Assignment, IsOptimalByBranchAndBound) {
  Agreements counts = check_random(2001, 400, false, {.table = 4});
  EXPECT_EQ(counts.bounded, 0);
  EXPECT_GT(counts.optimal, 300);
}

TEST(Assignment, IsOptimalByMultiplierAndBranchAndBound) {
  Agreements counts = check_random(3001, 400, true, {.table = 4, .sums = 0});
  EXPECT_EQ(counts.bounded, 0);
  EXPECT_GT(counts.optimal, 100);
  EXPECT_GT(counts.none, 20);
}

// Small tables first; large ones where these prove nothing.
TEST(Assignment, IsOptimalWithSmallTablesFirst) {
  for (const bool limited : {false, true}) {
    const Agreements counts = check_random(limited ? 8001 : 9001, 400, limited, {.small = 4, .branches = 64});
    EXPECT_EQ(counts.bounded, 0);
    EXPECT_GT(counts.optimal, 100);
  }
}

TEST(Assignment, MayBeAsFarFromTheOptimumAsIsEnough) {
  int optimal = 0;
  for (unsigned seed = 1; seed <= 200; ++seed) {
    std::mt19937 random(seed);
    const Assignment problem = draw(random, random_shape(random, 7, 12), {});
    const Answer answer = solve(problem, {}, {.small = 2, .enough = 0.3});
    const double best = brute_force(problem, {});
    optimal += answer.optimal();
    ASSERT_TRUE(answer.found == (best < infinity));
    if (!answer.found) continue;
    ASSERT_GE(answer.lower, 0.7 * answer.value - 1e-9);
    ASSERT_LE(answer.lower, best + 1e-9);
  }
  EXPECT_LT(optimal, 190);
}

TEST(Assignment, BoundHoldsWhereEffortEnds) {
  Agreements free = check_random(4001, 400, false, {.table = 1, .points = 2, .branches = 1});
  Agreements limited = check_random(5001, 400, true, {.table = 1, .points = 2, .branches = 1});
  Agreements thinned = check_random(6001, 400, true, {.points = 2, .branches = 0});
  EXPECT_GT(free.bounded, 2);
  EXPECT_GT(limited.bounded, 2);
  EXPECT_GT(thinned.bounded, 10);
}

TEST(Assignment, LongManyGraphs) {
  for (Effort effort : {Effort{}, Effort{.branches = 8}, Effort{.table = 4}, Effort{.small = 4},
                        Effort{.table = 1, .branches = 1}}) {
    check_random(100'001, 20'000, false, effort);
    check_random(200'001, 20'000, true, effort);
  }
}

TEST(Assignment, FrontIsWholeOrWithinItsSlack) {
  int thinned = 0;
  for (unsigned seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    Drawn drawn;
    drawn.space = {2 + static_cast<int>(seed % 2), static_cast<int>(seed / 2 % 2)};
    drawn.whole = seed % 3 == 0;
    drawn.most_choices = 3;
    Assignment problem = draw(random, random_shape(random, 6, 7), drawn);
    Front expected;
    for_every_choice(problem, [&](const std::vector<int>& choice) {
      Cost cost = cost_of(problem, choice);
      if (!is_forbidden(problem.space, cost)) expected.push_back(cost);
    });
    prune(problem.space, expected);
    bool few = seed % 4 == 0;
    ChoiceFront found = front(problem, unlimited(), {.points = few ? 3 : 100'000});
    thinned += found.slack > 0;
    if (!few) {
      ASSERT_EQ(found.slack, 0);
      ASSERT_EQ(found.points.size(), expected.size());
    }
    for (const auto& point : found.points) {
      Cost cost = cost_of(problem, point.choice);
      for (size_t k = 0; k < cost.size(); ++k) ASSERT_NEAR(point.cost[k], cost[k], 1e-9);
    }
    for (const Cost& cost : expected) {
      Cost reach = cost;
      for (double& c : reach) c += 1e-9;
      reach[0] += found.slack;
      bool reached = std::any_of(found.points.begin(), found.points.end(),
                                 [&](const auto& point) { return problem.space.covers(point.cost, reach); });
      ASSERT_TRUE(reached);
    }
  }
  EXPECT_GT(thinned, 10);
}

TEST(Assignment, ReducedProblemHasTheSameFront) {
  size_t dropped = 0;
  for (unsigned seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    Drawn drawn{.space = {1 + static_cast<int>(seed % 2), static_cast<int>(seed / 2 % 2)}, .whole = true};
    drawn.forbidden = 25;
    Assignment problem = draw(random, random_shape(random, 5, 6), drawn);
    Reduced reduced = reduce(problem, {0});
    ASSERT_EQ(reduced.original[0].size(), problem.nodes[0].size());
    auto front_of = [](const Assignment& p, auto restore) {
      Front front;
      for_every_choice(p, [&](const std::vector<int>& choice) {
        Cost cost = restore(choice);
        if (!is_forbidden(p.space, cost)) front.push_back(cost);
      });
      prune(p.space, front);
      return front;
    };
    Front all = front_of(problem, [&](const auto& choice) { return cost_of(problem, choice); });
    Front left = front_of(reduced.problem,
                          [&](const auto& choice) { return cost_of(problem, reduced.restore(choice)); });
    ASSERT_EQ(all, left);
    for (size_t n = 0; n < problem.nodes.size(); ++n) {
      dropped += problem.nodes[n].size() - reduced.original[n].size();
    }
  }
  EXPECT_GT(dropped, 300u);
}

// x is 0 for a and 1 for b; disagreeing costs 1 s. A cut bucket whose parts did not agree on x would give 0
// s.
TEST(Assignment, PartsOfACutBucketAgree) {
  std::vector<Cost> none(2);
  Assignment problem{
      {1, 0}, {none, none, none}, {{0, 1, {{0}, {0}, {1}, {1}}}, {0, 2, {{1}, {1}, {0}, {0}}}}};
  Order order{{0, 1, 2}, {0, 1, 2}, {{1, 2}, {2}, {}}, 4};
  Tables whole(problem, order, {1}, {.table = 4}), cut(problem, order, {1}, {.table = 2});
  EXPECT_FALSE(whole.cut());
  EXPECT_EQ(whole.root(), 1);
  EXPECT_TRUE(cut.cut());
  EXPECT_EQ(cut.root(), 1);
}

TEST(Assignment, SameInputSameAnswer) {
  std::mt19937 random(7);
  Assignment problem = draw(random, skip_shape(8), {.space = {2, 0}, .forbidden = 0, .whole = true});
  Objective objective;
  objective.limits[1] = 250;
  Answer once = solve(problem, objective), again = solve(problem, objective);
  EXPECT_TRUE(once.found);
  EXPECT_EQ(once.choice, again.choice);
  EXPECT_EQ(once.lower, again.lower);
}

// The elimination order of a transformer's training step has the same width at any depth.
TEST(Assignment, WidthDoesNotGrowWithDepth) {
  auto largest = [](int layers) {
    std::mt19937 random(1);
    return order_of(draw(random, transformer_shape(layers), {.least_choices = 4, .most_choices = 4})).largest;
  };
  EXPECT_EQ(largest(4), largest(32));
}

TEST(Assignment, RefusesWhatIsNoProblem) {
  auto message = [](auto change) {
    Assignment problem = pair_of_nodes();
    Objective objective;
    change(problem, objective);
    return support::error_of([&] { solve(problem, objective); });
  };
  EXPECT_EQ(message([](Assignment& p, Objective&) {
              p.space = {0, 1};
            }),
            "search: 0 sums and 1 maxima: from 1 sum on, 6 coordinates at most");
  EXPECT_EQ(message([](Assignment& p, Objective&) { p.nodes[1][0][0] = -2; }),
            "search: node 1: cost -2 in coordinate 0 is not from 0 on");
  EXPECT_EQ(message([](Assignment& p, Objective&) { p.edges[0].costs[3][0] = std::nan(""); }),
            "search: edge 0-1: cost nan in coordinate 0 is not from 0 on");
  EXPECT_EQ(message([](Assignment& p, Objective&) { p.edges[0].costs.pop_back(); }),
            "search: edge 0-1: 3 costs for 2 x 2 choices");
  EXPECT_EQ(message([](Assignment& p, Objective&) { p.edges[0].b = 2; }),
            "search: edge 0-2: not two of 2 nodes");
  EXPECT_EQ(message([](Assignment&, Objective& o) { o.weights[1] = 1; }),
            "search: coordinate 1 has a weight but does not add up");
  EXPECT_EQ(message([](Assignment&, Objective& o) { o.weights[0] = -1; }),
            "search: weight -1 of coordinate 0 is not a number from 0 on");
  std::mt19937 random(1);
  Assignment wide =
      draw(random, random_shape(random, 8, 60), {.least_choices = 3, .most_choices = 3, .forbidden = 0});
  EXPECT_EQ(support::error_of([&] { front(wide, unlimited(), {.table = 8}); }, Exit::cannot_run),
            "search: a front needs a table of 729 entries, 8 are allowed");
}

// A callback that throws ends the search with its exception.
TEST(Assignment, WorkCanBeEnded) {
  Assignment problem;
  problem.nodes.assign(4, std::vector<Cost>(3));
  for (int a = 0; a < 4; ++a)
    for (int b = a + 1; b < 4; ++b) {
      Assignment::Edge edge{a, b, {}};
      for (int i = 0; i < 9; ++i) edge.costs.push_back({static_cast<double>((i * 7 + a * 5 + b * 3) % 11)});
      problem.edges.push_back(std::move(edge));
    }
  int looks = 0;
  const Answer whole = solve(problem, {}, {.look = [&] { ++looks; }});
  EXPECT_TRUE(whole.optimal());
  ASSERT_GT(looks, 1);
  const int last = std::exchange(looks, 0);
  const auto throws = [&] {
    if (++looks == last) throw looks;
  };
  EXPECT_THROW(solve(problem, {}, {.look = throws}), int);
}

}  // namespace
}  // namespace boxcar::search

// Chains of blocks compared with the same graph written out.
#include "planner/solve/blocks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "sbp/at.h"
#include "search/problems.h"
#include "support/error_of.h"

namespace boxcar::search {
namespace {

Block pair_block() { return {{{1, 0}, {{{0}, {0}}, {{0}, {0}}}, {{0, 1, {{1}, {3}, {5}, {2}}}}}, {0}, {1}}; }

TEST(Blocks, ExampleOfTheHeader) {
  Chains chains({1, 0});
  const BoundaryTable& two = chains.table(chains.power(chains.add(pair_block()), 2));
  std::vector<Front> expected{{{2}}, {{4}}, {{6}}, {{4}}};
  EXPECT_EQ(two.fronts, expected);
}

// A block of random nodes and edges between boundaries with these numbers of choices.
Block random_block(std::mt19937& random, const Space& space, const std::vector<int>& in,
                   const std::vector<int>& out) {
  int boundary = static_cast<int>(in.size() + out.size());
  int nodes = boundary + std::uniform_int_distribution<int>(0, 3)(random);
  Block block;
  std::vector<int> choices = in;
  choices.insert(choices.end(), out.begin(), out.end());
  while (static_cast<int>(choices.size()) < nodes) choices.push_back(1 + static_cast<int>(random() % 3));
  block.problem =
      draw(random, random_shape(random, nodes, 2 * nodes), {.space = space, .whole = true}, choices);
  for (int i = 0; i < static_cast<int>(in.size()); ++i) block.in.push_back(i);
  for (int i = static_cast<int>(in.size()); i < boundary; ++i) block.out.push_back(i);
  // An edge between two of `in` would belong to the previous block.
  std::erase_if(block.problem.edges,
                [&](const auto& edge) { return std::max(edge.a, edge.b) < static_cast<int>(in.size()); });
  return block;
}

// All blocks as one problem; node i of block b is where[b][i]. The first block's `in` cost nothing.
Assignment write_out(const std::vector<Block>& blocks, const Space& space,
                     std::vector<std::vector<int>>& where) {
  Assignment all;
  all.space = space;
  for (const Block& block : blocks) {
    std::vector<int> place(block.problem.nodes.size(), -1);
    for (size_t i = 0; i < block.in.size() && !where.empty(); ++i) {
      const Block& before = blocks[where.size() - 1];
      at(place, block.in[i]) = at(where.back(), before.out[i]);
    }
    for (size_t n = 0; n < place.size(); ++n) {
      if (place[n] >= 0) continue;
      place[n] = static_cast<int>(all.nodes.size());
      all.nodes.push_back(block.problem.nodes[n]);
    }
    for (const auto& edge : block.problem.edges) {
      all.edges.push_back({at(place, edge.a), at(place, edge.b), edge.costs});
    }
    where.push_back(std::move(place));
  }
  for (int node : blocks[0].in) {
    for (Cost& cost : at(all.nodes, at(where[0], node))) cost = {};
  }
  return all;
}

void check_chain(Chains& chains, int number, const std::vector<Block>& blocks, const Space& space) {
  std::vector<std::vector<int>> where;
  Assignment all = write_out(blocks, space, where);
  const BoundaryTable& table = chains.table(number);
  Front found, expected;
  for (int row = 0; row < table.rows; ++row) {
    for (int column = 0; column < table.columns; ++column) {
      const Front& points = table.at(row, column);
      found.insert(found.end(), points.begin(), points.end());
      if (points.empty()) continue;
      auto copies = chains.trace(number, row, column, points.back());
      ASSERT_EQ(copies.size(), blocks.size());
      std::vector<int> choice(all.nodes.size(), -1);
      for (size_t b = 0; b < copies.size(); ++b) {
        for (size_t n = 0; n < copies[b].choice.size(); ++n) {
          int& chosen = at(choice, where[b][n]);
          ASSERT_TRUE(chosen < 0 || chosen == copies[b].choice[n]);
          chosen = copies[b].choice[n];
        }
      }
      ASSERT_EQ(cost_of(all, choice), points.back());
    }
  }
  prune(space, found);
  for (const auto& point : front(all, unlimited(), {.points = 100'000}).points)
    expected.push_back(point.cost);
  ASSERT_EQ(found, expected);
}

TEST(Blocks, ChainsAreTheGraphWrittenOut) {
  for (unsigned seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    Space space{1 + static_cast<int>(seed % 2), static_cast<int>(seed / 2 % 2)};
    std::vector<int> boundary{2}, other{3};
    if (seed % 3 == 0) boundary = {2, 2};
    Block head = random_block(random, space, other, boundary),
          body = random_block(random, space, boundary, boundary);
    Chains chains(space, unlimited(), {.points = 100'000});
    int first = chains.add(head), second = chains.add(body);
    int n = 1 + static_cast<int>(seed % 5);
    std::vector<Block> blocks(static_cast<size_t>(n), body);
    check_chain(chains, chains.power(second, n), blocks, space);
    blocks.insert(blocks.begin(), head);
    check_chain(chains, chains.then(first, chains.power(second, n)), blocks, space);
    if (HasFatalFailure()) return;
  }
}

TEST(Blocks, ThinnedFrontsAreWithinTheirSlack) {
  int thinned = 0;
  for (unsigned seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    Space space{2, 0};
    Block block = random_block(random, space, {2}, {2});
    Chains whole(space, unlimited(), {.points = 100'000}), thin(space, unlimited(), {.points = 2});
    const BoundaryTable& expected = whole.table(whole.power(whole.add(block), 6));
    const BoundaryTable& found = thin.table(thin.power(thin.add(block), 6));
    thinned += found.slack > 0;
    for (size_t i = 0; i < expected.fronts.size(); ++i) {
      ASSERT_LE(found.fronts[i].size(), 2u);
      for (const Cost& cost : expected.fronts[i]) {
        Cost reach = cost;
        reach[0] += found.slack + 1e-9;
        bool reached = false;
        for (const Cost& point : found.fronts[i]) reached |= space.covers(point, reach);
        ASSERT_TRUE(reached);
      }
    }
  }
  EXPECT_GT(thinned, 20);
}

// A multiplier's bound holds for every point of every entry, and some point attains it.
TEST(Blocks, WeighedChainsBound) {
  int attained = 0;
  for (unsigned seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    Block block = random_block(random, {2, 1}, {2}, {2});
    Chains both({2, 1}, unlimited(), {.points = 100'000}), one({1, 0});
    const BoundaryTable& points = both.table(both.power(both.add(block), 5));
    const BoundaryTable& bound = one.table(one.power(one.add(weighed(block, {1, 2})), 5));
    for (size_t i = 0; i < points.fronts.size(); ++i) {
      ASSERT_EQ(points.fronts[i].empty(), bound.fronts[i].empty());
      double least = infinity;
      for (const Cost& point : points.fronts[i]) least = std::min(least, point[0] + 2 * point[1]);
      if (least == infinity) continue;
      ASSERT_EQ(bound.fronts[i], Front{{least}});
      ++attained;
    }
  }
  EXPECT_GT(attained, 100);
}

TEST(Blocks, WorkGrowsWithTheLogarithm) {
  Chains chains({1, 0});
  int block = chains.add(pair_block());
  int many = chains.power(block, 1'000'000);
  EXPECT_LE(chains.tables(), 40);
  EXPECT_EQ(chains.table(many).at(0, 0), Front{{1'000'000}});
  EXPECT_EQ(chains.table(many).at(1, 0), Front{{1'000'004}});
  EXPECT_EQ(chains.trace(chains.power(block, 1000), 1, 1, {1000 + 4 + 2}).size(), 1000u);
}

TEST(Blocks, LimitsLeaveOut) {
  Chains chains({1, 0}, {5});
  const BoundaryTable& two = chains.table(chains.power(chains.add(pair_block()), 2));
  std::vector<Front> expected{{{2}}, {{4}}, {}, {{4}}};
  EXPECT_EQ(two.fronts, expected);
}

TEST(Blocks, RefusesWhatDoesNotFit) {
  Chains chains({1, 0}, unlimited(), {.table = 6});
  Block block = pair_block();
  int number = chains.add(block);
  EXPECT_EQ(support::error_of([&] { chains.power(number, 0); }), "search: 0 copies of a block");
  block.in = {1};
  EXPECT_EQ(support::error_of([&] { chains.add(block); }), "search: boundary node 1 is named twice");
  block.in = {2};
  EXPECT_EQ(support::error_of([&] { chains.add(block); }), "search: boundary node 2 is none of 2");
  block.in = {};
  EXPECT_EQ(support::error_of([&, end = chains.add(block)] { chains.then(number, end); }),
            "search: a boundary of 2 choices does not fit one of 1");
  block = {{{1, 0}, {{{0}, {0}}, {{0}, {0}, {0}, {0}}}, {}}, {0}, {1}};
  EXPECT_EQ(support::error_of([&] { chains.add(block); }, Exit::cannot_run),
            "search: a block needs a table of 8 entries, 6 are allowed");
}

}  // namespace
}  // namespace boxcar::search

#include "sim/models/expert_exchange.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <set>
#include <vector>

#include "backends/machines/cluster.h"
#include "backends/machines/collective_model.h"

namespace boxcar::sim {
namespace {

constexpr ExpertChoice deepseek{256, 8, 8, 4};

// Places that hold the experts of one token, drawn.
size_t draw_places(const ExpertChoice& choice, int64_t places, std::mt19937& random) {
  std::vector<int64_t> groups(static_cast<size_t>(choice.groups)), experts;
  std::iota(groups.begin(), groups.end(), 0);
  std::shuffle(groups.begin(), groups.end(), random);
  const int64_t group = choice.experts / choice.groups;
  for (int64_t g = 0; g < choice.top_groups; ++g)
    for (int64_t e = 0; e < group; ++e) experts.push_back(groups[static_cast<size_t>(g)] * group + e);
  std::shuffle(experts.begin(), experts.end(), random);
  std::set<int64_t> held;
  for (int64_t k = 0; k < choice.top_k; ++k) {
    int64_t place = 0;
    while ((place + 1) * choice.experts / places <= experts[static_cast<size_t>(k)]) ++place;
    held.insert(place);
  }
  return held.size();
}

TEST(ExpertExchange, PlacesByHand) {
  EXPECT_NEAR(expected_places(deepseek, 8), 3.629, 5e-4);
  EXPECT_NEAR(expected_places(deepseek, 64), 7.359, 5e-4);
  EXPECT_DOUBLE_EQ(expected_places(deepseek, 1), 1);
  EXPECT_DOUBLE_EQ(expected_places({4, 1, 1, 1}, 4), 1);
  EXPECT_DOUBLE_EQ(expected_places({4, 4, 1, 1}, 4), 4);
  // Two of four experts, two on each of two places: both on one in 2 of 6 cases.
  EXPECT_DOUBLE_EQ(expected_places({4, 2, 1, 1}, 2), 2 - 2.0 / 6);
  // One group of two, and both its experts: one place, or both places if each has a half of each group.
  EXPECT_DOUBLE_EQ(expected_places({4, 2, 2, 1}, 2), 1);
  EXPECT_DOUBLE_EQ(expected_places({4, 2, 2, 1}, 4), 2);
}

// Groups that lie on several places, in one, and across their bounds.
TEST(ExpertExchange, PlacesAreThoseOfDrawnTokens) {
  std::mt19937 random(7);
  for (const ExpertChoice& choice :
       {deepseek, ExpertChoice{64, 6, 8, 3}, ExpertChoice{24, 4, 6, 2}, ExpertChoice{60, 4, 1, 1}})
    for (const int64_t places : {1, 2, 4, 5, 8, 16}) {
      constexpr int tokens = 4000;
      double sum = 0, squares = 0;
      for (int t = 0; t < tokens; ++t) {
        const auto held = static_cast<double>(draw_places(choice, places, random));
        sum += held, squares += held * held;
      }
      const double mean = sum / tokens, error = std::sqrt((squares / tokens - mean * mean) / tokens);
      EXPECT_NEAR(expected_places(choice, places), mean, 4 * error + 1e-9)
          << fmt::format("{} experts, {} groups, {} places", choice.experts, choice.groups, places);
    }
}

TEST(ExpertExchange, SendsATokenToEachNodeAndGpuOnce) {
  const ExchangedBytes sent = bytes_by_node(deepseek, 8e6, {64, 8, 8, 1});
  EXPECT_NEAR(sent.between_nodes, 1e6 * 3.629 * 7 / 8, 500);
  EXPECT_NEAR(sent.in_node, 1e6 * 7.359 * 7 / 8, 500);
  // One of two parts has half of the slots, and half of the GPUs that hold any: 2 x 64 of them.
  ExpertChoice half = deepseek;
  half.parts = 2;
  EXPECT_DOUBLE_EQ(bytes_by_node(half, 8e6, {64, 8, 8, 1}).in_node,
                   1e6 * expected_places(deepseek, 128) * 7 / 8);
  // 8 of 12 GPUs on one node: from its tokens, as from those of the other, a third of the copies leave.
  EXPECT_DOUBLE_EQ(bytes_by_node(deepseek, 8e6, {12, 2, 8, 1}).between_nodes,
                   1e6 * expected_places(deepseek, 2) * 4 / 12);
  // On each node one GPU: nothing moves inside nodes. On one node: nothing leaves it.
  EXPECT_EQ(bytes_by_node(deepseek, 8e6, {64, 64, 1, 1}).in_node, 0);
  EXPECT_EQ(bytes_by_node(deepseek, 8e6, {8, 1, 8, 1}).between_nodes, 0);
}

// Over NICs of 10 GB/s and links of 100 GB/s: whichever takes longer.
TEST(ExpertExchange, TakesTheTimeOfItsSlowerLinks) {
  backends::Cluster cluster;
  cluster.nodes = 2, cluster.node.gpus = cluster.node.nics = 4;
  cluster.node.link_bandwidth = 100e9, cluster.node.nic_bandwidth = 10e9;
  backends::CollectiveModel& model = cluster.collective;
  model.exchange[0] = model.exchange[1] = {0, 0, 0.5}, model.exchange_loss = 0;
  model.net_exchange = {1e-3, 0, 0, 0.8}, model.nic_share = 1;
  const Span span{8, 2, 4, 1};
  const CommTime by_nic = exchange_time(cluster, {80e6, 40e6}, span);
  EXPECT_TRUE(by_nic.between_nodes);
  EXPECT_DOUBLE_EQ(by_nic.seconds(), 1e-3 + 80e6 / 8e9);
  EXPECT_DOUBLE_EQ(exchange_time(cluster, {80e6, 1000e6}, span).seconds(), 1e-3 + 1000e6 / 50e9);
  const CommTime inside = exchange_time(cluster, {0, 100e6}, {4, 1, 4, 1});
  EXPECT_FALSE(inside.between_nodes);
  EXPECT_DOUBLE_EQ(inside.seconds(), 100e6 / 50e9);
}

// DeepEP's own kernels on H800s, 4,096 tokens of 7,168 numbers: the bandwidth that it reports counts all
// copies, also those to a rank's own node, or its own GPU: github.com/deepseek-ai/DeepEP docs/legacy.md and
// tests/.
TEST(ExpertExchange, IsNearMeasuredExchanges) {
  struct Row {
    int ranks;
    double to_experts, back;  // GB/s
  };
  for (const Row& row : {Row{8, 153, 158}, Row{16, 43, 43}, Row{32, 58, 57}, Row{64, 51, 50}}) {
    const backends::Cluster cluster = backends::load_cluster("hgx-h800", row.ranks);
    const int nodes = row.ranks / 8;
    const ExpertChoice choice{256, 8, nodes, std::min(nodes, 4)};
    for (const bool to_experts : {true, false}) {
      const double token = 7168 * (to_experts ? 1 + 4.0 / 128 : 2), tokens = 4096;
      const Span span{row.ranks, nodes, 8, 1};
      const double seconds =
          exchange_time(cluster, bytes_by_node(choice, 8 * token * tokens, span), span).seconds();
      const double copies = expected_places(choice, nodes == 1 ? row.ranks : nodes);
      const double published = to_experts ? row.to_experts : row.back;
      EXPECT_NEAR(copies * token * tokens / seconds / 1e9 / published, 1, 0.12) << row.ranks << to_experts;
    }
  }
}

}  // namespace
}  // namespace boxcar::sim

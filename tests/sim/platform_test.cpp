#include "sim/platform.h"

#include <gtest/gtest.h>

#include "sbp/error.h"
#include "sim/plans.h"
#include "sim/simulate.h"

namespace boxcar::sim {
namespace {

using sbp::Collective;
using test::make_cluster;
using Links = std::vector<int>;
using Loads = std::map<int, double>;

backends::Cluster with_fabric(int nodes, backends::FabricKind kind, std::vector<int> dims) {
  backends::Cluster cluster = make_cluster(nodes, 2, 2);
  cluster.fabric.kind = kind;
  cluster.fabric.dims = std::move(dims);
  return cluster;
}

// 2 nodes of 4 GPUs with 2 NICs: ports are links 0 to 15, NICs 16 to 23.
TEST(Platform, TransfersCrossPortsInsideAndNicsBetweenNodes) {
  backends::Cluster cluster = make_cluster(2, 4, 2);
  Platform platform(cluster);
  EXPECT_EQ(platform.links(), 24);
  EXPECT_EQ(platform.transfer(0, 3), (Links{0, 7}));
  EXPECT_EQ(platform.transfer(0, 4), (Links{16, 21}));
  EXPECT_EQ(platform.transfer(3, 4), (Links{18, 21}));  // GPUs 2 and 3 share the second NIC
  EXPECT_EQ(platform.capacity(0), 100e9);
  EXPECT_EQ(platform.capacity(16), 10e9);
}

TEST(Platform, AGpuOwnsSeveralNicsWhereThereAreMore) {
  backends::Cluster cluster = make_cluster(2, 2, 8);
  Platform platform(cluster);
  EXPECT_EQ(platform.transfer(0, 2), (Links{8, 13}));
  EXPECT_EQ(platform.capacity(8), 40e9);
}

TEST(Platform, CollectivesLoadEveryMembersLinkBothWays) {
  backends::Cluster cluster = make_cluster(2, 4, 2);
  Platform platform(cluster);
  EXPECT_EQ(platform.collective(Collective::all_reduce, {0, 1}, false),
            (Loads{{0, 1}, {1, 1}, {2, 1}, {3, 1}}));
  EXPECT_EQ(platform.collective(Collective::all_reduce, {0, 1, 2, 3, 4, 5, 6, 7}, true),
            (Loads{{16, 2}, {17, 2}, {18, 2}, {19, 2}, {20, 2}, {21, 2}, {22, 2}, {23, 2}}));
}

TEST(Platform, OversubscribedLeavesHaveUplinks) {
  backends::Cluster cluster = make_cluster(4, 1, 1);
  cluster.fabric.kind = backends::FabricKind::leaf_spine;
  cluster.fabric.nodes_per_leaf = 2;
  cluster.fabric.oversubscription = 2;
  Platform platform(cluster);
  EXPECT_EQ(platform.links(), 20);
  EXPECT_EQ(platform.capacity(16), 10e9);  // 2 nodes x 10 GB/s over 2
  EXPECT_EQ(platform.transfer(0, 1), (Links{8, 11}));
  EXPECT_EQ(platform.transfer(0, 2), (Links{8, 13, 16, 19}));
  EXPECT_EQ(platform.collective(Collective::all_reduce, {0, 1}, true).size(), 4u);
  EXPECT_EQ(platform.collective(Collective::all_reduce, {0, 2}, true),
            (Loads{{8, 1}, {9, 1}, {12, 1}, {13, 1}, {16, 1}, {17, 1}, {18, 1}, {19, 1}}));
  cluster.fabric.oversubscription = 1;
  EXPECT_EQ(Platform(cluster).links(), 16);
}

// 2 of a node's 4 GPUs have the first NIC. A group of both uses both NICs, as one of all four does.
TEST(Platform, MembersOfOneNicUseAllOfTheirNode) {
  backends::Cluster cluster = make_cluster(2, 4, 2);
  Platform platform(cluster);
  const Loads even{{16, 1}, {17, 1}, {18, 1}, {19, 1}, {20, 1}, {21, 1}, {22, 1}, {23, 1}};
  EXPECT_EQ(platform.collective(Collective::all_reduce, {0, 1, 4, 5}, true), even);
  EXPECT_EQ(platform.collective(Collective::all_reduce, {0, 2, 4, 6}, true), even);
}

// Two members on one node and one on the other, which takes in as many bytes by one NIC. In an exchange the
// one sends two thirds of its bytes to the other node, each of the two one third.
TEST(Platform, NodesWithFewerMembersLoadTheirNicsMore) {
  backends::Cluster cluster = make_cluster(2, 2, 2);
  Platform platform(cluster);
  const Loads ring = platform.collective(Collective::all_gather, {0, 1, 2}, true);
  EXPECT_EQ(ring, (Loads{{8, 0.5}, {9, 0.5}, {10, 0.5}, {11, 0.5}, {12, 1}, {13, 1}}));
  EXPECT_EQ(platform.collective(Collective::all_to_all, {0, 1, 2}, true), ring);
}

// Both nodes of a leaf send two thirds of their bytes to the other one; a ring leaves it once.
TEST(Platform, ExchangesLeaveLeavesMoreThanRings) {
  backends::Cluster cluster = make_cluster(4, 1, 1);
  cluster.fabric.kind = backends::FabricKind::leaf_spine;
  cluster.fabric.nodes_per_leaf = 2;
  cluster.fabric.oversubscription = 2;
  Platform platform(cluster);
  for (int uplink : {16, 17, 18, 19}) {
    EXPECT_EQ(platform.collective(Collective::all_gather, {0, 1, 2, 3}, true).at(uplink), 1);
    EXPECT_DOUBLE_EQ(platform.collective(Collective::all_to_all, {0, 1, 2, 3}, true).at(uplink), 4.0 / 3);
  }
}

double between_switches(const Platform& platform, Collective collective, const std::vector<int>& devices) {
  double all = 0;
  for (const auto& [link, flows] : platform.collective(collective, devices, true))
    if (platform.is_in_fabric(link)) all += flows;
  return all;
}

// A ring of 4 nodes with 2 members each: two rings of 4 hops. Each member sends a sixth of its bytes to each
// of the 6 on other nodes, which are 1, 2 and 1 hops away.
TEST(Platform, ExchangesCrossATorusFromEachNodeToEach) {
  const backends::Cluster cluster = with_fabric(4, backends::FabricKind::torus, {4});
  const Platform platform(cluster);
  const std::vector<int> all{0, 1, 2, 3, 4, 5, 6, 7};
  EXPECT_DOUBLE_EQ(between_switches(platform, Collective::all_reduce, all), 2 * 4);
  EXPECT_DOUBLE_EQ(between_switches(platform, Collective::all_to_all, all), 8 * 2 * (1 + 2 + 1) / 6.0);
}

// Neighbours on a ring of 4 nodes are one hop apart, opposite ones two.
TEST(Fabric, TorusRoutesGoAlongTheDimensions) {
  backends::Cluster cluster = with_fabric(4, backends::FabricKind::torus, {4});
  Fabric fabric(cluster);
  EXPECT_EQ(fabric.capacities(), std::vector<double>(8, 20e9));
  EXPECT_EQ(fabric.route(0, 1).size(), 1u);
  EXPECT_EQ(fabric.route(0, 2).size(), 2u);
  EXPECT_EQ(fabric.route(0, 3).size(), 1u);
  EXPECT_NE(fabric.route(0, 1), fabric.route(1, 0));
}

TEST(Fabric, FatTreesAndDragonfliesHaveSimgridsRoutes) {
  backends::Cluster tree = with_fabric(16, backends::FabricKind::fat_tree, {2, 4, 4, 1, 2, 1, 2});
  EXPECT_EQ(Fabric(tree).route(0, 1).size(), 2u);
  EXPECT_EQ(Fabric(tree).route(0, 5).size(), 4u);
  backends::Cluster dragonfly = with_fabric(72, backends::FabricKind::dragonfly, {3, 4, 4, 2, 3, 1, 2});
  EXPECT_EQ(Fabric(dragonfly).route(0, 1).size(), 2u);
  EXPECT_EQ(Fabric(dragonfly).route(71, 0).size(), 6u);
}

std::string error_of(const backends::Cluster& cluster) {
  try {
    Fabric fabric(cluster);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Fabric, DimsThatDescribeNoNetworkAreRefused) {
  EXPECT_EQ(error_of(with_fabric(8, backends::FabricKind::torus, {3, 2})),
            "fabric.dims: torus 3, 2 has 6 nodes, the cluster 8");
  EXPECT_EQ(error_of(with_fabric(8, backends::FabricKind::fat_tree, {2, 4})),
            "fabric.dims: fat-tree 2, 4 is no such network (torus: sizes; fat-tree: levels, then nodes down, "
            "switches "
            "up and links of each; dragonfly: groups, links, chassis, links, routers, links, nodes)");
  EXPECT_NE(error_of(with_fabric(8, backends::FabricKind::torus, {})), "");
}

// Nodes 2 and 3 of a ring of 8 pull at once from nodes `a` and `b`.
double two_pulls(int a, int b) {
  test::ProgramBuilder from("from"), to("to");
  from.output(from.actor("work", 0.0));
  to.pull("pull", 0, 0, 0, 200000000, to.queue("net", ir::QueueKind::network));
  ir::Plan plan;
  plan.name = "torus";
  plan.devices = 8;
  plan.programs = {from.program, to.program};
  plan.classes = {{0, {0, 1, 4, 5, 6, 7}}, {1, {2, 3}}};
  plan.peers = {{"peer", {-1, -1, a, b, -1, -1, -1, -1}}};
  backends::Cluster cluster = make_cluster(8, 1, 1);
  cluster.fabric.kind = backends::FabricKind::torus;
  cluster.fabric.dims = {8};
  return simulate(plan, cluster, {.steps = 1}).step_seconds;
}

// From 0 to 2 and from 1 to 3 both go over the link from 1 to 2; from 1 to 2 and from 4 to 3 do not meet.
TEST(Fabric, FlowsShareItsLinks) { EXPECT_NEAR(two_pulls(0, 1) / two_pulls(1, 4), 2, 0.01); }

}  // namespace
}  // namespace boxcar::sim

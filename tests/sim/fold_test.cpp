#include "sim/fold.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "sbp/at.h"
#include "sim/plans.h"
#include "sim/simulate.h"

namespace boxcar::sim {
namespace {

using test::make_cluster;
using test::make_plan;
using test::ProgramBuilder;

std::vector<std::vector<int>> classes_of(const std::vector<ir::RankClass>& all) {
  std::vector<std::vector<int>> classes;
  for (const ir::RankClass& cls : all) classes.push_back(cls.devices);
  return classes;
}

using Classes = std::vector<std::vector<int>>;

// One program with a collective over all devices.
ir::Plan data_parallel(int devices, sbp::Collective collective = sbp::Collective::all_reduce) {
  ProgramBuilder p("p");
  int net = p.queue("net", ir::QueueKind::network);
  p.link(p.actor("work", 1.0), p.collective("reduce", 0, 50000000, net));
  p.act(1).collective = collective;
  std::vector<int> all;
  for (int device = 0; device < devices; ++device) all.push_back(device);
  ir::Plan plan = make_plan({{p, all}});
  plan.comms.push_back({"dp", {all}});
  return plan;
}

// `stages` programs over dp x tp devices each; stage s has devices s * dp * tp ..., tp innermost. Forward
// with a tp all-reduce, pulls to the next stage, backward and pulls back, dp all-reduce at the end.
ir::Plan pipeline(int stages, int dp, int tp, int micro_batches, bool source_queues = true) {
  std::vector<std::pair<ProgramBuilder, std::vector<int>>> parts;
  int per_stage = dp * tp;
  for (int s = 0; s < stages; ++s) {
    ProgramBuilder p("stage" + std::to_string(s), {"F", "B", "U"});
    p.program.schedule.clear();
    for (int m = 0; m < micro_batches; ++m) p.program.schedule.push_back({0, m});
    for (int m = 0; m < micro_batches; ++m) p.program.schedule.push_back({1, m});
    p.program.schedule.push_back({2, 0});
    int net_tp = p.queue("net.tp", ir::QueueKind::network),
        net_dp = p.queue("net.dp", ir::QueueKind::network);
    int net_f = p.queue("net.pp.forward", ir::QueueKind::network),
        net_b = p.queue("net.pp.backward", ir::QueueKind::network);
    int f_in = s > 0 ? p.pull("pull_f", s - 1, 0, 0, 3000000, net_f, 0, source_queues ? net_f : -1) : -1;
    int f1 = p.actor("f1", 1e-3 * (s + 1)), f2 = p.actor("f2", 5e-4);
    int reduce = p.collective("f.reduce", 0, 4000000, net_tp);
    p.output(f2, micro_batches, 3000000);  // register 0: activations
    int b_in =
        s + 1 < stages ? p.pull("pull_b", s + 1, 1, 1, 2000000, net_b, 1, source_queues ? net_b : -1) : -1;
    int b = p.actor("b", 3e-3, 0, 1);
    p.output(b, 2, 2000000);  // register 1: gradient of the input
    p.link(f1, reduce, 1, 4000000);
    p.link(reduce, f2, 1, 4000000);
    if (f_in >= 0) p.link(f_in, f1, 2, 3000000);
    if (b_in >= 0) p.link(b_in, b, 2, 2000000);
    p.read(b, 0);
    int g = p.collective("g.reduce", 1, 20000000, net_dp, 2);
    p.reg(p.link(b, g, 1, 8)).every = micro_batches;
    int update = p.actor("update", 1e-3, 0, 2);
    p.link(g, update, 1, 8);
    std::vector<int> devices;
    for (int d = 0; d < per_stage; ++d) devices.push_back(s * per_stage + d);
    parts.emplace_back(std::move(p), devices);
  }
  ir::Plan plan = make_plan(std::move(parts));
  plan.comms = {{"tp", {}}, {"dp", {}}};
  plan.peers = {{"previous", {}}, {"next", {}}};
  for (int device = 0; device < stages * per_stage; ++device) {
    plan.peers[0].source.push_back(device >= per_stage ? device - per_stage : -1);
    plan.peers[1].source.push_back(device + per_stage < stages * per_stage ? device + per_stage : -1);
  }
  for (int s = 0; s < stages; ++s) {
    for (int d = 0; d < dp; ++d) {
      plan.comms[0].groups.emplace_back();
      for (int t = 0; t < tp; ++t) plan.comms[0].groups.back().push_back(s * per_stage + d * tp + t);
    }
    for (int t = 0; t < tp; ++t) {
      plan.comms[1].groups.emplace_back();
      for (int d = 0; d < dp; ++d) plan.comms[1].groups.back().push_back(s * per_stage + d * tp + t);
    }
  }
  return plan;
}

// Compares both runs' figures, class by class.
void expect_agreement(const ir::Plan& plan, const backends::Cluster& cluster, size_t folded_classes) {
  Result folded = simulate(plan, cluster, {.steps = 3});
  Result all = simulate(plan, cluster, {.fold = false, .steps = 3});
  EXPECT_EQ(folded.classes.size(), folded_classes);
  ASSERT_EQ(all.classes.size(), static_cast<size_t>(plan.devices));
  EXPECT_FALSE(all.folded);
  EXPECT_NEAR(folded.step_seconds, all.step_seconds, 1e-8 * all.step_seconds + 1e-9);
  EXPECT_NEAR(folded.first_step_seconds, all.first_step_seconds, 1e-8 * all.first_step_seconds + 1e-9);
  for (const ClassResult& cls : folded.classes) {
    for (int device : cls.devices) {
      const ClassResult& one = at(all.classes, device);
      EXPECT_NEAR(cls.busy, one.busy, 1e-9) << device;
      EXPECT_NEAR(cls.span, one.span, 1e-8) << device;
      EXPECT_NEAR(cls.exposed_comm, one.exposed_comm, 1e-8) << device;
      EXPECT_EQ(cls.peak_bytes, one.peak_bytes) << device;
    }
  }
}

TEST(Fold, SymmetricDevicesStayOneClass) {
  EXPECT_EQ(classes_of(refine(data_parallel(8), make_cluster(1, 8, 8))), (Classes{{0, 1, 2, 3, 4, 5, 6, 7}}));
  EXPECT_EQ(refine(pipeline(4, 4, 8, 2), make_cluster(16, 8, 8)).size(), 4u);
  EXPECT_EQ(refine(pipeline(4, 4, 8, 2), make_cluster(16, 8, 2)).size(), 4u);
}

// One slow device in a group that includes all: the others still look alike.
TEST(Fold, AStragglerIsAClassOfItsOwn) {
  backends::Cluster cluster = make_cluster(1, 8, 8);
  cluster.slowdown[3] = 1.5;
  EXPECT_EQ(classes_of(refine(data_parallel(8), cluster)), (Classes{{0, 1, 2, 4, 5, 6, 7}, {3}}));
}

// In a pipeline of dp 2, tp 2 a straggler splits its stage by group, and the previous and next stages.
TEST(Fold, AStragglerUnfoldsWhatItTouches) {
  backends::Cluster cluster = make_cluster(2, 4, 4);
  cluster.slowdown[1] = 1.2;
  EXPECT_EQ(classes_of(refine(pipeline(2, 2, 2, 2), cluster)),
            (Classes{{0}, {1}, {2}, {3}, {4}, {5}, {6}, {7}}));
  backends::Cluster even = make_cluster(2, 4, 4);
  EXPECT_EQ(classes_of(refine(pipeline(2, 2, 2, 2), even)), (Classes{{0, 1, 2, 3}, {4, 5, 6, 7}}));
}

// Three devices on nodes of two: the group {0, 1, 2} has all members in one span, but 0 and 1 share a node's
// NIC.
TEST(Fold, SharedLinksSplitClasses) {
  EXPECT_EQ(classes_of(refine(data_parallel(3), make_cluster(2, 2, 1))), (Classes{{0, 1}, {2}}));
}

// Stage 1 starts in the middle of a node: half of its pulls stay inside.
TEST(Fold, KindsOfPathsSplitClasses) {
  auto classes = classes_of(refine(pipeline(2, 6, 1, 2), make_cluster(2, 8, 8)));
  EXPECT_EQ(classes, (Classes{{0, 1}, {2, 3, 4, 5}, {6, 7}, {8, 9, 10, 11}}));
}

// Two stages of two devices in a node: 0 sends to 2 over two links, and 1 to 3 over PCIe.
TEST(Fold, LinksOfAMeshSplitClasses) {
  backends::Cluster cluster = make_cluster(1, 4, 4);
  cluster.node.link = backends::LinkKind::nvlink_mesh;
  cluster.node.mesh_links = {{0, 1, 2, 0}, {1, 0, 1, 0}, {2, 1, 0, 1}, {0, 0, 1, 0}};
  cluster.node.pcie_bandwidth = cluster.node.link_bandwidth / 16;
  const ir::Plan plan = pipeline(2, 2, 1, 4);
  EXPECT_EQ(classes_of(refine(plan, cluster)), (Classes{{0}, {1}, {2}, {3}}));
  expect_agreement(plan, cluster, 4);
}

TEST(Fold, UnfoldingGivesEveryDeviceAClass) {
  const std::vector<ir::RankClass> classes = unfold(pipeline(2, 2, 2, 2));
  ASSERT_EQ(classes.size(), 8u);
  EXPECT_EQ(classes[5], (ir::RankClass{1, {5}}));
}

TEST(Fold, FoldedAndUnfoldedRunsAgree) {
  expect_agreement(data_parallel(8), make_cluster(1, 8, 8), 1);
  expect_agreement(data_parallel(16), make_cluster(4, 4, 2), 1);
  expect_agreement(pipeline(2, 2, 2, 4), make_cluster(2, 4, 4), 2);
  expect_agreement(pipeline(4, 4, 4, 4), make_cluster(16, 4, 4), 4);
  expect_agreement(pipeline(4, 4, 4, 4), make_cluster(16, 4, 2), 4);  // two GPUs to a NIC
  expect_agreement(pipeline(4, 4, 2, 4), make_cluster(4, 8, 1), 4);   // stages inside a node share one NIC
  expect_agreement(pipeline(4, 4, 2, 4, false), make_cluster(4, 8, 1), 4);
}

TEST(Fold, ALargeTimelineIsOfOneClassOfEachProgram) {
  const ir::Plan plan = test::gpt_like({.stages = 2, .dp = 2, .tp = 2});
  const auto classes = [&](int64_t acts) {
    std::set<int> seen;
    for (const Act& act : simulate(plan, make_cluster(4, 2, 2),
                                   {.fold = false, .steps = 2, .timeline = true, .timeline_acts = acts})
                              .timeline)
      seen.insert(act.cls);
    return seen;
  };
  EXPECT_EQ(classes(1'000'000).size(), 8u);
  EXPECT_EQ(classes(10), (std::set<int>{0, 4}));
}

TEST(Fold, OversubscribedLeavesAgree) {
  backends::Cluster cluster = make_cluster(8, 4, 4);
  cluster.fabric.kind = backends::FabricKind::leaf_spine;
  cluster.fabric.nodes_per_leaf = 2;
  cluster.fabric.oversubscription = 4;
  expect_agreement(pipeline(4, 2, 4, 4), cluster, 4);
  expect_agreement(pipeline(2, 4, 4, 4), cluster, 2);
}

// The uplink of a leaf has less bandwidth than a NIC under it.
TEST(Fold, LeavesWithLessBandwidthThanANicAgree) {
  for (const int nics : {1, 2})
    for (const double oversubscription : {1.5, 4.0}) {
      backends::Cluster cluster = make_cluster(4, 8, nics);
      cluster.fabric.kind = backends::FabricKind::leaf_spine;
      cluster.fabric.nodes_per_leaf = 1;
      cluster.fabric.hop_latency = 1e-6;
      cluster.fabric.oversubscription = oversubscription;
      expect_agreement(pipeline(2, 8, 1, 4), cluster, 2);
      expect_agreement(pipeline(4, 4, 2, 4), cluster, 4);
      expect_agreement(pipeline(2, 2, 8, 4), cluster, 2);
    }
}

// Rings pass a leaf once for each member on a node, and a torus from neighbour to neighbour. In an exchange
// each member sends to each.
TEST(Fold, EveryFlowThroughTheNetworkTakesAsLong) {
  const auto leaves = [](int nodes, double oversubscription) {
    return backends::Fabric{backends::FabricKind::leaf_spine, nodes, oversubscription, 1e-6, {}};
  };
  const auto other = [](backends::FabricKind kind, std::vector<int> dims) {
    return backends::Fabric{kind, 0, 1, 1e-6, std::move(dims)};
  };
  for (const backends::Fabric& fabric :
       {leaves(1, 4), leaves(2, 2), leaves(4, 8), leaves(3, 3), other(backends::FabricKind::torus, {8}),
        other(backends::FabricKind::torus, {2, 4}),
        other(backends::FabricKind::fat_tree, {2, 4, 4, 1, 1, 1, 1})})
    for (const sbp::Collective collective : {sbp::Collective::all_reduce, sbp::Collective::all_to_all}) {
      backends::Cluster cluster = make_cluster(8, 2, 1);
      cluster.fabric = fabric;
      const ir::Plan plan = data_parallel(16, collective);
      const double folded = simulate(plan, cluster, {.steps = 3}).step_seconds - 1;
      EXPECT_NEAR(simulate(plan, cluster, {.fold = false, .steps = 3}).step_seconds - 1, folded,
                  1e-6 * folded);
      const Options flows{.fold = false, .every_flow = true, .steps = 3};
      EXPECT_NEAR(simulate(plan, cluster, flows).step_seconds - 1, folded, 0.02 * folded)
          << backends::to_text(fabric.kind) << " " << fabric.nodes_per_leaf << " "
          << sbp::to_text(collective);
    }
}

// Stages of two nodes under leaves of three: no link separates transfers that cross leaves.
TEST(Fold, LeavesThatFillUnevenlySplitOnlyWhatSharesTheirUplinks) {
  backends::Cluster cluster = make_cluster(8, 4, 4);
  cluster.fabric.kind = backends::FabricKind::leaf_spine;
  cluster.fabric.nodes_per_leaf = 3;
  cluster.fabric.hop_latency = 1e-6;
  const ir::Plan plan = pipeline(4, 2, 4, 4);
  expect_agreement(plan, cluster, 4);
  cluster.fabric.oversubscription = 4;
  EXPECT_GT(refine(plan, cluster).size(), 4u);
}

TEST(Fold, StragglersAgree) {
  backends::Cluster cluster = make_cluster(4, 4, 4);
  cluster.slowdown[5] = 1.3;
  ir::Plan plan = pipeline(4, 2, 2, 3);
  expect_agreement(plan, cluster, refine(plan, cluster).size());
}

}  // namespace
}  // namespace boxcar::sim

#include "sim/models/collective_time.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "backends/machines/cluster.h"
#include "backends/machines/collective_model.h"
#include "support/samples.h"

namespace boxcar::sim {
namespace {

using sbp::Collective;

constexpr int64_t MiB = 1 << 20;

const backends::Cluster& dgx(int gpus) {
  static std::map<int, backends::Cluster> clusters;
  auto found = clusters.find(gpus);
  if (found == clusters.end())
    found = clusters.emplace(gpus, backends::load_cluster("dgx-a100-80g", gpus)).first;
  return found->second;
}

// One GPU's links have 100 GB/s, one NIC per GPU 10 GB/s, with no latencies except those that a test sets.
backends::Cluster round_cluster(int nodes, int gpus) {
  backends::Cluster cluster;
  cluster.nodes = nodes;
  cluster.node.gpus = gpus;
  cluster.node.link_bandwidth = 100e9;
  cluster.node.nics = gpus;
  cluster.node.nic_bandwidth = 10e9;
  backends::CollectiveModel& model = cluster.collective;
  for (int i = 0; i < 3; ++i) {
    model.node[i] = {0, 0, i == 2 ? 1.0 : 0.1};
    model.ring[i] = {0, 0, 0, i == 2 ? 1.0 : 0.1};
    model.tree[i] = {1, 0, 0, 1};
  }
  model.exchange[0] = model.exchange[1] = model.transfer[0] = model.transfer[1] = {0, 0, 1};
  model.net_exchange = {0, 0, 0, 1};
  model.all_reduce_loss = model.gather_loss = model.exchange_loss = 0;
  model.nic_share = 1;
  return cluster;
}

std::string errors_text(const std::vector<double>& errors) {
  double sum = 0, worst = 0;
  for (double error : errors) {
    sum += error;
    worst = std::max(worst, error);
  }
  return fmt::format("{} rows, mean {:.1f} %, worst {:.0f} %", errors.size(), sum / errors.size() * 100,
                     worst * 100);
}

std::string node_errors(const std::string& preset, const std::string& table) {
  backends::Cluster cluster = backends::load_cluster(preset, 8);
  const std::map<std::string, Collective> ops = {{"all_reduce", Collective::all_reduce},
                                                 {"all_gather", Collective::all_gather},
                                                 {"reduce_scatter", Collective::reduce_scatter},
                                                 {"alltoall", Collective::all_to_all},
                                                 {"all_to_all", Collective::all_to_all}};
  std::vector<double> errors;
  for (const auto& row : support::samples(table)) {
    int ranks = std::stoi(row[1]);
    double got = collective_time(cluster, ops.at(row[0]), std::stoll(row[2]), {ranks, 1, ranks, 1}).seconds();
    errors.push_back(std::fabs(got / (std::stod(row[3]) * 1e-6) - 1));
  }
  return errors_text(errors);
}

// Up to exchange_small_bytes per rank the first line holds, though the second would be faster; past it the
// second.
TEST(Collectives, SmallExchangesHaveALineOfTheirOwn) {
  backends::Cluster cluster = round_cluster(1, 4);
  backends::CollectiveModel& model = cluster.collective;
  model.exchange[0] = model.transfer[0] = {4e-6, 1e-6, 0.1};
  model.exchange[1] = model.transfer[1] = {9e-6, 2e-6, 1};
  const Span span{4, 1, 4, 1};
  const auto seconds = [&](int64_t bytes) {
    return collective_time(cluster, Collective::all_to_all, bytes, span).seconds();
  };
  // 3 steps, and three quarters of the bytes leave a rank.
  const double small = 7e-6 + 0.75 * 4000000 / 10e9, large = 15e-6 + 0.75 * 4000000 / 100e9;
  EXPECT_NEAR(seconds(4000000), large, 1e-12);
  EXPECT_NEAR(seconds(4000), 7e-6 + 0.75 * 4000 / 10e9, 1e-12);
  model.exchange_small_bytes = 1000000;
  EXPECT_NEAR(seconds(4000000), small, 1e-12);
  EXPECT_NEAR(seconds(4000004), large, 1e-10);
  EXPECT_NEAR(transfer_time(cluster, 1000000, 0, 1).seconds(), 4e-6 + 1000000 / 10e9, 1e-12);
  EXPECT_NEAR(transfer_time(cluster, 1000001, 0, 1).seconds(), 9e-6 + 1000001 / 100e9, 1e-12);
}

// Accuracy of the constants, on rows of the tables that they were fitted to.
TEST(CollectiveProfiles, InANode) {
  EXPECT_EQ(node_errors("dgx-a100-80g", "nccl_a100.csv"), "28 rows, mean 6.4 %, worst 34 %");
  EXPECT_EQ(node_errors("dgx-h100", "nccl_h100.csv"), "28 rows, mean 6.3 %, worst 26 %");
  EXPECT_EQ(node_errors("hgx-h200", "nccl_h200.csv"), "28 rows, mean 6.4 %, worst 24 %");
  EXPECT_EQ(node_errors("dgx-1-v100-32g", "nccl_v100.csv"), "28 rows, mean 4.0 %, worst 20 %");
  // Lists of tensors, which PyTorch copies; for two devices the model takes one link (docs/collectives.md).
  EXPECT_EQ(node_errors("dgx-1-v100-32g", "nccl_v100_lists.csv"), "28 rows, mean 126.8 %, worst 303 %");
}

// The measured clusters' networks are not described: their bus bandwidth, 115 and 45 GB/s, comes from the
// largest sizes.
TEST(CollectiveProfiles, BetweenNodes) {
  std::vector<double> errors;
  for (const auto& row : support::samples("nccl_nodes_a100.csv")) {
    int nodes = std::stoi(row[0]);
    backends::Cluster cluster = dgx(nodes * 8);
    cluster.node.nic_bandwidth = (nodes == 4 ? 115e9 : 45e9) / 8 / cluster.collective->nic_share;
    double got =
        collective_time(cluster, Collective::all_reduce, std::stoll(row[2]), {nodes * 8, nodes, 8, 1})
            .seconds();
    errors.push_back(std::fabs(got / (std::stod(row[3]) * 1e-6) - 1));
  }
  EXPECT_EQ(errors_text(errors), "28 rows, mean 4.5 %, worst 16 %");
}

// Published bus bandwidth of large messages, GB/s.
TEST(CollectiveProfiles, LargeMessages) {
  auto bus = [](const char* preset, int ranks, int nodes, int64_t bytes) {
    backends::Cluster cluster = backends::load_cluster(preset, std::max(8, ranks));
    double seconds =
        collective_time(cluster, Collective::all_reduce, bytes, {ranks, nodes, ranks / nodes, 1}).seconds();
    return 2.0 * (ranks - 1) / ranks * static_cast<double>(bytes) / seconds / 1e9;
  };
  EXPECT_NEAR(bus("dgx-a100-80g", 32, 4, 16384 * MiB), 192, 4);  // GTC 2025 S72583
  EXPECT_NEAR(bus("dgx-h100", 32, 4, 16384 * MiB), 370, 15);     // the same
  EXPECT_NEAR(bus("dgx-h100", 16, 2, 1024 * MiB), 437,
              25);  // github.com/aws-samples/awsome-distributed-training
  EXPECT_NEAR(bus("hgx-h200", 8, 1, 8192 * MiB), 477, 15);      // github.com/stas00/ml-engineering
  EXPECT_NEAR(bus("hgx-b200", 8, 1, 8192 * MiB), 839, 30);      // the same
  EXPECT_NEAR(bus("dgx-1-v100-16g", 4, 1, 1024 * MiB), 85, 6);  // github.com/VIA-Research/vTrain
  EXPECT_NEAR(bus("dgx-1-v100-32g", 16, 4, 4'000'000'000), 10.59,
              0.1);  // github.com/bigscience-workshop/bigscience
}

// github.com/microsoft/SuperScaler profiler/profiled-time-eurosys/p2p_inter_node.csv
TEST(CollectiveProfiles, BetweenTwoV100s) {
  const backends::Cluster cluster = backends::load_cluster("dgx-1-v100-32g", 16);
  EXPECT_NEAR(transfer_time(cluster, MiB, 0, 8).seconds(), 0.2517e-3, 0.01e-3);
  EXPECT_NEAR(transfer_time(cluster, 64 * MiB, 0, 8).seconds(), 11.5741e-3, 0.1e-3);
  EXPECT_NEAR(transfer_time(cluster, 1024 * MiB, 0, 8).seconds(), 183.8235e-3, 0.5e-3);
}

TEST(Span, CountsNodesAndLeaves) {
  const backends::Cluster& cluster = dgx(1024);  // 20 nodes per leaf
  EXPECT_EQ(span_of(cluster, {3}), (Span{1, 1, 1, 1}));
  EXPECT_EQ(span_of(cluster, {0, 1, 2, 3, 4, 5, 6, 7}), (Span{8, 1, 8, 1}));
  EXPECT_EQ(span_of(cluster, {5, 13, 21}), (Span{3, 3, 1, 1}));
  EXPECT_EQ(span_of(cluster, {0, 1, 160, 8}), (Span{4, 3, 2, 2, 1}));
  EXPECT_EQ(span_of(cluster, {160, 0, 1, 8}), (Span{4, 3, 2, 2, 1}));  // in any order
}

TEST(CollectiveTime, RingsByHand) {
  backends::Cluster cluster = round_cluster(2, 4);
  Span node{4, 1, 4, 1}, both{8, 2, 4, 1};
  EXPECT_NEAR(collective_time(cluster, Collective::all_reduce, 400'000'000, node).seconds(), 6e-3, 1e-12);
  EXPECT_NEAR(collective_time(cluster, Collective::all_gather, 400'000'000, node).seconds(), 3e-3, 1e-12);
  EXPECT_NEAR(collective_time(cluster, Collective::reduce_scatter, 400'000'000, node).seconds(), 3e-3, 1e-12);
  EXPECT_NEAR(collective_time(cluster, Collective::all_to_all, 400'000'000, node).seconds(), 3e-3, 1e-12);
  EXPECT_NEAR(collective_time(cluster, Collective::broadcast, 400'000'000, node).seconds(), 4e-3, 1e-12);
  // Two nodes: 2 x 7/8 x 400 MB through four NICs of 10 GB/s; all_to_all: half of it leaves, one NIC each.
  CommTime ring = collective_time(cluster, Collective::all_reduce, 400'000'000, both);
  EXPECT_TRUE(ring.between_nodes);
  EXPECT_STREQ(ring.algorithm, "ring/simple");
  EXPECT_NEAR(ring.bytes_on_link, 175e6, 1);
  EXPECT_NEAR(ring.seconds(), 17.5e-3, 1e-12);
  EXPECT_NEAR(collective_time(cluster, Collective::all_to_all, 400'000'000, both).seconds(), 20e-3, 1e-12);
}

TEST(CollectiveTime, TreesByHand) {
  backends::Cluster cluster = round_cluster(8, 2);
  cluster.node.nic_latency = 1e-6;
  for (auto& ring : cluster.collective->ring) ring.base = 1;
  for (auto& tree : cluster.collective->tree) tree = {2e-6, 3e-6, 4e-6, 1};
  // Up and down: one hop inside, log2(8) between; a node inside the tree sends twice, over two NICs.
  CommTime tree = collective_time(cluster, Collective::all_reduce, 100'000'000, {16, 8, 2, 1});
  EXPECT_STREQ(tree.algorithm, "tree/ll");
  EXPECT_NEAR(tree.latency, 2e-6 + 2 * (3e-6 + 3 * 5e-6), 1e-15);
  EXPECT_NEAR(tree.bytes_on_link, 100e6, 1);
}

// Traffic that enters and leaves by one device: transfers and trees, not rings.
TEST(CollectiveTime, OneFlowMayNotFillANic) {
  backends::Cluster cluster = round_cluster(2, 4);
  cluster.node.nics = 1;
  cluster.collective->tree[2].base = 0;
  const Span both{8, 2, 4, 1};
  const auto reduced = [&] { return collective_time(cluster, Collective::all_reduce, 80'000'000, both); };
  EXPECT_STREQ(reduced().algorithm, "tree/simple");
  EXPECT_NEAR(reduced().seconds(), 8e-3, 1e-12);
  EXPECT_NEAR(transfer_time(cluster, 80'000'000, 0, 4).seconds(), 8e-3, 1e-12);
  cluster.collective->flow_share = 0.8;
  EXPECT_NEAR(reduced().seconds(), 10e-3, 1e-12);
  EXPECT_NEAR(transfer_time(cluster, 80'000'000, 0, 4).seconds(), 10e-3, 1e-12);
  EXPECT_NEAR(transfer_time(cluster, 80'000'000, 0, 4).bytes_on_link, 80e6, 1);  // two fill it
  cluster.collective->flow_share = 0.5;
  EXPECT_STREQ(reduced().algorithm, "ring/simple");
  EXPECT_NEAR(reduced().seconds(), 14e-3, 1e-12);
}

TEST(CollectiveTime, SlowLinksInsideHoldTheNicsUp) {
  backends::Cluster cluster = round_cluster(4, 4);
  cluster.node.link_bandwidth = 5e9;  // 4 NICs of 10 GB/s bring eight times as much
  EXPECT_NEAR(collective_time(cluster, Collective::all_gather, 160'000'000, {16, 4, 4, 1}).seconds(),
              150e6 / 5e9, 1e-9);
}

TEST(CollectiveTime, SharedNics) {
  backends::Cluster cluster = round_cluster(4, 4);
  cluster.node.nics = 1;
  CommTime alone = collective_time(cluster, Collective::all_gather, 160'000'000, {4, 4, 1, 1});
  EXPECT_DOUBLE_EQ(alone.link_bandwidth, 10e9);
  EXPECT_NEAR(alone.seconds(), 12e-3, 1e-12);
  CommTime all = collective_time(cluster, Collective::all_gather, 160'000'000, {16, 4, 4, 1});
  EXPECT_DOUBLE_EQ(all.link_bandwidth, 2.5e9);  // a quarter of the node's NIC
  EXPECT_NEAR(all.seconds(), 15e-3, 1e-12);
}

TEST(CollectiveTime, BesideOthersOfItsNode) {
  backends::Cluster cluster = round_cluster(4, 4);
  cluster.node.nics = 2;
  // One group crosses by one of two NICs; three of four groups need a NIC and a half.
  const CommTime one = collective_time(cluster, Collective::all_gather, 160'000'000, {4, 4, 1, 1});
  EXPECT_DOUBLE_EQ(seconds_beside(cluster, one, 1), one.seconds());
  EXPECT_DOUBLE_EQ(seconds_beside(cluster, one, 2), one.seconds());
  EXPECT_DOUBLE_EQ(seconds_beside(cluster, one, 3), 1.5 * one.seconds());
  EXPECT_DOUBLE_EQ(seconds_beside(cluster, one, 100), 2 * one.seconds());
  // A group of all of a node's devices, and one inside a node, have no neighbours.
  const CommTime all = collective_time(cluster, Collective::all_gather, 160'000'000, {16, 4, 4, 1});
  EXPECT_DOUBLE_EQ(seconds_beside(cluster, all, 4), all.seconds());
  const CommTime inside = collective_time(cluster, Collective::all_gather, 160'000'000, {4, 1, 4, 1});
  EXPECT_DOUBLE_EQ(seconds_beside(cluster, inside, 4), inside.seconds());
}

// 4 nodes of one GPU, 2 under each leaf, whose uplinks have a quarter of the NICs' bandwidth.
TEST(CollectiveTime, LeavesThatAreOversubscribed) {
  backends::Cluster cluster = round_cluster(4, 1);
  cluster.fabric.kind = backends::FabricKind::leaf_spine;
  cluster.fabric.nodes_per_leaf = 2;
  cluster.fabric.oversubscription = 4;
  const Span all{4, 4, 1, 2}, one_leaf{2, 2, 1, 1};
  const CommTime inside = collective_time(cluster, Collective::all_gather, 160'000'000, one_leaf);
  EXPECT_DOUBLE_EQ(seconds_beside(cluster, inside, Beside{}), inside.seconds());
  // One of the two nodes under a leaf sends the ring's bytes on: half of the bytes at a quarter of the rate.
  const CommTime ring = collective_time(cluster, Collective::all_gather, 160'000'000, all);
  EXPECT_DOUBLE_EQ(seconds_beside(cluster, ring, Beside{}), 2 * ring.seconds());
  EXPECT_DOUBLE_EQ(seconds_beside(cluster, ring, 1), 2 * ring.seconds());
  // Two thirds of an exchange's bytes leave.
  const CommTime exchange = collective_time(cluster, Collective::all_to_all, 160'000'000, all);
  EXPECT_NEAR(seconds_beside(cluster, exchange, Beside{}) / exchange.seconds(), 4 * 2.0 / 3, 1e-9);
  // All bytes of a transfer leave, if its ends are under different leaves. If only one of a leaf's nodes
  // sends, it has twice the bandwidth.
  EXPECT_EQ(transfer_time(cluster, 1'000'000, 0, 1).leaving, 0);
  const CommTime transfer = transfer_time(cluster, 1'000'000, 1, 2);
  EXPECT_NEAR(seconds_beside(cluster, transfer, Beside{}) / transfer.seconds(), 4, 1e-9);
  EXPECT_NEAR(seconds_beside(cluster, transfer, Beside{1, 0.5}) / transfer.seconds(), 2, 1e-9);
  EXPECT_NEAR(seconds_beside(cluster, transfer, Beside{3, 0}) / transfer.seconds(), 3, 1e-9);
}

// Slower links inside a node limit the rate, and the NICs carry no more bytes for it.
TEST(CollectiveTime, LinksInsideNodesLimitTheRateOnNics) {
  backends::Cluster cluster = round_cluster(2, 4);
  const Span span{8, 2, 4, 1};
  const CommTime fast = collective_time(cluster, Collective::all_gather, 160'000'000, span);
  cluster.node.link_bandwidth /= 100;
  const CommTime slow = collective_time(cluster, Collective::all_gather, 160'000'000, span);
  EXPECT_EQ(slow.bytes_on_link, fast.bytes_on_link);
  EXPECT_GT(slow.seconds(), 2 * fast.seconds());
  EXPECT_LT(slow.link_bandwidth, fast.link_bandwidth);
}

// The node with one member takes in four fifths of the bytes by one NIC.
TEST(CollectiveTime, TheNodeWithTheFewestMembersDecides) {
  const backends::Cluster cluster = round_cluster(2, 4);
  const Span uneven = span_of(cluster, {0, 1, 2, 3, 4});
  EXPECT_EQ(uneven.fewest(), 1);
  const CommTime time = collective_time(cluster, Collective::all_gather, 160'000'000, uneven);
  EXPECT_GE(time.bytes_on_link, 4.0 / 5 * 160e6);
  // The four send a fifth of their bytes to it, by as many NICs; it sends four fifths.
  const CommTime exchange = collective_time(cluster, Collective::all_to_all, 160'000'000, uneven);
  EXPECT_GE(exchange.bytes_on_link, 4.0 / 5 * 160e6);
}

TEST(CollectiveTime, GpusWithoutLinksReachNicsByPcie) {
  backends::Cluster cluster = round_cluster(2, 4);
  cluster.node.link = backends::LinkKind::none;
  for (const double pcie : {1e9, 1000e9}) {
    cluster.node.pcie_bandwidth = pcie;
    const double most = std::min(pcie, cluster.node.nic_bandwidth);
    EXPECT_LE(collective_time(cluster, Collective::all_gather, 160'000'000, {2, 2, 1, 1}).link_bandwidth,
              most);
    EXPECT_LE(transfer_time(cluster, 1'000'000, 0, 4).link_bandwidth, most);
    // Not from memory of hosts.
    EXPECT_EQ(host_transfer_time(cluster, 1'000'000, 0, 4).nic_part, cluster.node.nic_bandwidth);
  }
}

// 3 of a member's 8 parts go to others of its node.
TEST(CollectiveTime, ExchangesBetweenNodesAlsoCrossTheLinksInside) {
  backends::Cluster cluster = round_cluster(2, 4);
  const double usual = collective_time(cluster, Collective::all_to_all, 160'000'000, {8, 2, 4, 1}).seconds();
  cluster.node.link_bandwidth = 1e9;
  EXPECT_GE(collective_time(cluster, Collective::all_to_all, 160'000'000, {8, 2, 4, 1}).seconds(), 0.0599);
  EXPECT_LT(usual, 0.06);
}

TEST(CollectiveTime, FartherLeavesAddHops) {
  backends::Cluster cluster = round_cluster(4, 1);
  cluster.fabric.hop_latency = 1e-6;
  Span near{4, 4, 1, 1}, far{4, 4, 1, 2};
  EXPECT_NEAR(collective_time(cluster, Collective::all_gather, 1000, far).latency -
                  collective_time(cluster, Collective::all_gather, 1000, near).latency,
              3 * 2e-6, 1e-15);
}

TEST(CollectiveTime, TransfersCountTheHopsBetweenLeavesWhereThereAreSeveral) {
  backends::Cluster cluster = round_cluster(4, 1);
  cluster.fabric.kind = backends::FabricKind::leaf_spine;
  cluster.fabric.hop_latency = 1e-6;
  const auto latency = [&](int nodes_per_leaf) {
    cluster.fabric.nodes_per_leaf = nodes_per_leaf;
    return transfer_time(cluster, 1000, 0, 1).latency;
  };
  EXPECT_NEAR(latency(2) - latency(4), 2e-6, 1e-15);
}

TEST(CollectiveTime, ProtocolsFollowTheSize) {
  Span node{8, 1, 8, 1};
  auto algorithm = [&](int64_t bytes) {
    return collective_time(dgx(8), Collective::all_reduce, bytes, node).algorithm;
  };
  EXPECT_STREQ(algorithm(1024), "ring/ll");
  EXPECT_STREQ(algorithm(MiB), "ring/ll128");
  EXPECT_STREQ(algorithm(256 * MiB), "ring/simple");
  EXPECT_STREQ(collective_time(backends::load_cluster("dgx-h100", 8), Collective::all_reduce, 256 * MiB, node)
                   .algorithm,
               "nvls");
}

// More bytes, more ranks or more nodes never take less time, up to the step from one node to two.
TEST(CollectiveTime, Grows) {
  for (Collective collective : {Collective::all_reduce, Collective::all_gather, Collective::reduce_scatter,
                                Collective::all_to_all, Collective::broadcast, Collective::reduce}) {
    double last = 0;
    for (int64_t bytes = 1; bytes < int64_t{1} << 34; bytes *= 3) {
      double now = collective_time(dgx(64), collective, bytes, {64, 8, 8, 1}).seconds();
      EXPECT_GE(now, last) << to_text(collective) << " " << bytes;
      last = now;
    }
    last = 0;
    for (int nodes = 3; nodes < 128; nodes *= 2) {
      double now = collective_time(dgx(1024), collective, 64 * MiB, {nodes * 8, nodes, 8, 1}).seconds();
      EXPECT_GE(now, last) << to_text(collective) << " " << nodes;
      last = now;
    }
  }
}

TEST(CollectiveTime, NothingToDo) {
  EXPECT_EQ(collective_time(dgx(8), Collective::all_reduce, 100, {1, 1, 1, 1}).seconds(), 0);
  EXPECT_EQ(collective_time(dgx(8), Collective::all_reduce, 0, {8, 1, 8, 1}).seconds(), 0);
  EXPECT_EQ(collective_time(dgx(8), Collective::none, 100, {8, 1, 8, 1}).seconds(), 0);
  EXPECT_EQ(transfer_time(dgx(8), 100, 3, 3).seconds(), 0);
}

TEST(TransferTime, ByHand) {
  backends::Cluster cluster = round_cluster(2, 4);
  EXPECT_NEAR(transfer_time(cluster, 100'000'000, 0, 3).seconds(), 1e-3, 1e-12);
  CommTime far = transfer_time(cluster, 100'000'000, 0, 4);
  EXPECT_TRUE(far.between_nodes);
  EXPECT_NEAR(far.seconds(), 10e-3, 1e-12);
}

// In the cube mesh of a DGX-1, GPUs 0 and 3 have two links, 0 and 1 one, 0 and 5 none.
TEST(TransferTime, Mesh) {
  backends::Cluster cluster = backends::load_cluster("dgx-1-v100-16g", 8);
  EXPECT_DOUBLE_EQ(transfer_time(cluster, 1, 0, 3).link_bandwidth, 50e9);
  EXPECT_DOUBLE_EQ(transfer_time(cluster, 1, 0, 1).link_bandwidth, 25e9);
  EXPECT_DOUBLE_EQ(transfer_time(cluster, 1, 0, 5).link_bandwidth, 12e9);
}

}  // namespace
}  // namespace boxcar::sim

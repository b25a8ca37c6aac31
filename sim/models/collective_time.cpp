#include "sim/models/collective_time.h"

#include <algorithm>
#include <set>

namespace boxcar::sim {

Span span_of(const backends::Cluster& cluster, const std::vector<int>& devices) {
  Span span;
  span.ranks = static_cast<int>(devices.size());
  std::vector<int> nodes;
  nodes.reserve(devices.size());
  for (int device : devices) nodes.push_back(cluster.node_of(device));
  std::sort(nodes.begin(), nodes.end());
  std::set<int> leaves;
  span.nodes = 0;
  span.ranks_per_node = 0;
  bool leaf = cluster.fabric.kind == backends::FabricKind::leaf_spine && cluster.fabric.nodes_per_leaf > 0;
  for (size_t i = 0, j = 0; i < nodes.size(); i = j) {
    while (j < nodes.size() && nodes[j] == nodes[i]) ++j;
    ++span.nodes;
    span.ranks_per_node = std::max(span.ranks_per_node, static_cast<int>(j - i));
    leaves.insert(leaf ? nodes[i] / cluster.fabric.nodes_per_leaf : 0);
  }
  span.leaves = static_cast<int>(leaves.size());
  return span;
}

namespace {

constexpr double link_share = 0.77, nic_share = 0.94;
constexpr double base_latency = 8.4e-6, link_hop = 1.5e-6, nic_hop = 6e-6;

// Of nccl-tests: what crosses the slowest link of a ring, per byte of the collective.
double bus_factor(sbp::Collective collective, double n) {
  switch (collective) {
    case sbp::Collective::all_reduce:
      return 2 * (n - 1) / n;
    case sbp::Collective::all_gather:
    case sbp::Collective::reduce_scatter:
    case sbp::Collective::all_to_all:
      return (n - 1) / n;
    default:
      return 1;
  }
}

double nic_per_rank(const backends::Node& node, int ranks_per_node) {
  double nics = node.nics >= node.gpus
                    ? static_cast<double>(node.nics) / node.gpus
                    : static_cast<double>(std::min(node.nics, ranks_per_node)) / ranks_per_node;
  return node.nic_bandwidth * nics;
}

}  // namespace

CommTime collective_time(const backends::Cluster& cluster, sbp::Collective collective, int64_t bytes,
                         const Span& span) {
  CommTime time;
  if (span.ranks <= 1 || bytes <= 0 || collective == sbp::Collective::none) return time;
  const backends::Node& node = cluster.node;
  double moved = bus_factor(collective, span.ranks) * static_cast<double>(bytes);
  int rounds = collective == sbp::Collective::all_reduce ? 2 : 1;
  time.algorithm = "ring/simple";
  time.latency = base_latency + rounds * (span.ranks - span.nodes) * link_hop;
  if (span.nodes == 1) {
    time.link_bandwidth = node.link_bandwidth;
    time.bytes_on_link = moved / link_share;
    return time;
  }
  time.between_nodes = true;
  time.latency += rounds * (span.nodes - 1) * nic_hop;
  time.link_bandwidth = nic_per_rank(node, span.ranks_per_node);
  time.bytes_on_link = moved / span.ranks_per_node / nic_share;
  return time;
}

CommTime transfer_time(const backends::Cluster& cluster, int64_t bytes, int from, int to) {
  CommTime time;
  if (from == to || bytes <= 0) return time;
  const backends::Node& node = cluster.node;
  time.algorithm = "p2p";
  time.between_nodes = cluster.node_of(from) != cluster.node_of(to);
  time.latency = base_latency + (time.between_nodes ? node.nic_latency : node.link_latency);
  time.link_bandwidth = time.between_nodes ? nic_per_rank(node, 1) : node.link_bandwidth;
  time.bytes_on_link = static_cast<double>(bytes) / (time.between_nodes ? nic_share : link_share);
  return time;
}

}  // namespace boxcar::sim

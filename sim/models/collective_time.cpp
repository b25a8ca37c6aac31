#include "sim/models/collective_time.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "backends/machines/cluster.h"
#include "backends/machines/collective_model.h"
#include "sbp/error.h"

namespace boxcar::sim {
namespace {

using backends::Cluster;
using backends::CollectiveModel;
using backends::LinkKind;
using backends::Node;
using sbp::Collective;

constexpr const char* ring_names[] = {"ring/ll", "ring/ll128", "ring/simple"};
constexpr const char* tree_names[] = {"tree/ll", "tree/ll128", "tree/simple"};

double times_around(Collective collective) { return collective == Collective::all_reduce ? 2 : 1; }

// Bytes through the busiest link of a ring or chain; for a chain, all of them.
double bus_bytes(Collective collective, double bytes, int ranks) {
  const bool chain = collective == Collective::broadcast || collective == Collective::reduce;
  return chain ? bytes : sbp::sent_bytes(collective, bytes, ranks);
}

// `slowest`: seconds that other links than the one of the bytes take at least.
void keep_faster(CommTime* best, double link_bandwidth, double latency, double bytes_on_link, double slowest,
                 const char* algorithm) {
  CommTime other = *best;
  other.latency = latency;
  other.bytes_on_link = bytes_on_link;
  other.nic_part = link_bandwidth;
  other.link_bandwidth = slowest > 0 ? std::min(link_bandwidth, bytes_on_link / slowest) : link_bandwidth;
  other.algorithm = algorithm;
  const double more = other.seconds() - best->seconds();
  if (best->algorithm[0] == '\0' || more < 0 || (more == 0 && bytes_on_link < best->bytes_on_link))
    *best = other;
}

// The bandwidth of a GPU's links inside its node for a group of `ranks`. In a mesh, links to GPUs outside the
// group are idle.
double node_bandwidth(const Node& node, int ranks) {
  if (node.link != LinkKind::nvlink_mesh || ranks >= node.gpus) return device_bandwidth(node);
  int most = 1, fewest = 1 << 20;
  for (const auto& row : node.mesh_links) most = std::max(most, std::accumulate(row.begin(), row.end(), 0));
  for (int i = 0; i < ranks; ++i) {
    const auto& row = node.mesh_links[i];
    fewest = std::min(fewest, std::accumulate(row.begin(), row.begin() + ranks, 0));
  }
  return fewest == 0 ? node.pcie_bandwidth : node.link_bandwidth * fewest / most;
}

// A member's part of the NICs of its node, with `members` of the group there.
double part_of_nics(const Node& node, int members) {
  double nics = node.nics >= node.gpus ? static_cast<double>(node.nics) / node.gpus
                                       : static_cast<double>(std::min(node.nics, members)) / members;
  return node.nic_bandwidth * nics;
}

// The same for GPUs, which reach NICs through PCIe if they have it alone.
double nic_bandwidth(const Node& node, int members) {
  const double part = part_of_nics(node, members);
  const bool by_pcie =
      node.link == LinkKind::pcie || (node.link == LinkKind::none && node.pcie_bandwidth > 0);
  return by_pcie ? std::min(part, device_bandwidth(node)) : part;
}

// By one of two lines: the first for messages of at most exchange_small_bytes, otherwise the faster of both.
// `on_link` bytes pass a link in `steps`, at `kept` of the line's share of its bandwidth.
void keep_exchange(const CollectiveModel& model, const CollectiveModel::Line (&lines)[2], double message,
                   int steps, double on_link, double kept, const char* algorithm, CommTime* best) {
  const auto most = static_cast<double>(model.exchange_small_bytes);
  for (int i = 0; i < 2; ++i) {
    if (most > 0 && (message <= most) != (i == 0)) continue;
    keep_faster(best, best->link_bandwidth, lines[i].base + steps * lines[i].hop,
                on_link / (lines[i].share * kept), 0, algorithm);
  }
}

CommTime exchange_in_node(const Cluster& cluster, double sent, int ranks) {
  const CollectiveModel& model = cluster.collective;
  CommTime best;
  best.link_bandwidth = node_bandwidth(cluster.node, ranks);
  double kept = 1 - model.exchange_loss / ranks;
  keep_exchange(model, model.exchange, sent / (ranks - 1), ranks - 1, sent, kept, "exchange", &best);
  return best;
}

CommTime in_node(const Cluster& cluster, Collective collective, double bytes, int ranks) {
  double bus = bus_bytes(collective, bytes, ranks);
  if (collective == Collective::all_to_all) return exchange_in_node(cluster, bus, ranks);
  const CollectiveModel& model = cluster.collective;
  CommTime best;
  best.link_bandwidth = node_bandwidth(cluster.node, ranks);
  double kept =
      1 - (collective == Collective::all_reduce ? model.all_reduce_loss : model.gather_loss) / ranks;
  double steps = times_around(collective) * (ranks - 1);
  for (int i = 0; i < 3; ++i) {
    const auto& line = model.node[i];
    keep_faster(&best, best.link_bandwidth, line.base + steps * line.hop, bus / (line.share * kept), 0,
                ring_names[i]);
  }
  bool nvls = collective == Collective::all_reduce && model.nvls.share > 0 && ranks >= model.nvls_ranks;
  if (nvls) keep_faster(&best, best.link_bandwidth, model.nvls.base, bus / model.nvls.share, 0, "nvls");
  return best;
}

double part_leaving(Collective collective, const Span& span) {
  if (span.leaves < 2) return 0;
  const double in_leaf = static_cast<double>(span.ranks) / span.leaves;
  return flows_from_leaf(collective, span.ranks, span.fewest(), in_leaf) / in_leaf;
}

// The part of a node's NICs that `devices` of it want.
double wanted(const Node& node, const CommTime& alone, int devices) {
  return std::min(devices, node.gpus) * alone.link_bandwidth / (node.nics * node.nic_bandwidth);
}

// `share`: of the NICs' bandwidth that is wanted, of which `of_leaf` by the nodes under a leaf switch.
double seconds_beside(const Cluster& cluster, const CommTime& alone, double share, double of_leaf) {
  const double narrow = std::max(1.0, alone.leaving * of_leaf * cluster.fabric.oversubscription);
  return alone.latency + std::max(1.0, share * narrow) * alone.bytes_on_link / alone.link_bandwidth;
}

// Seconds that one step between nodes adds beside the protocol's own.
double net_latency(const Cluster& cluster, const Span& span) {
  return cluster.node.nic_latency + (span.leaves > 1 ? 2 * cluster.fabric.hop_latency : 0);
}

CommTime exchange_between(const Cluster& cluster, const ExchangedBytes& sent, const Span& span) {
  const CollectiveModel& model = cluster.collective;
  CommTime time;
  time.between_nodes = true;
  time.leaving = part_leaving(Collective::all_to_all, span);
  time.algorithm = "exchange";
  time.latency = model.net_exchange.base + net_latency(cluster, span);
  time.bytes_on_link = sent.between_nodes / (model.net_exchange.share * model.nic_share);
  // Members of the fullest node send less, but more of them share its NICs.
  const int most = span.ranks_per_node, fewest = span.fewest();
  const double of_most = time.bytes_on_link * (span.ranks - most) / (span.ranks - fewest);
  double seconds = std::max(time.bytes_on_link / nic_bandwidth(cluster.node, fewest),
                            of_most / nic_bandwidth(cluster.node, most));
  if (sent.in_node > 0) {
    const CommTime inside = exchange_in_node(cluster, sent.in_node, most);
    seconds = std::max(seconds, inside.bytes_on_link / inside.link_bandwidth);
  }
  time.nic_part = nic_bandwidth(cluster.node, fewest);
  time.link_bandwidth = time.bytes_on_link / seconds;
  return time;
}

// A ring and a tree also cross the links inside their nodes, where all-reduce may use the switch; if those
// are slower, the NICs wait. Returns seconds per bus byte there.
double seconds_per_node_byte(const Cluster& cluster, const Span& span, double switch_share) {
  if (span.ranks_per_node == 1) return 0;
  const CollectiveModel& model = cluster.collective;
  double kept = 1 - model.all_reduce_loss / span.ranks;
  double share = std::max(model.node[2].share * kept, switch_share);
  return 1 / (node_bandwidth(cluster.node, span.ranks_per_node) * share);
}

void try_rings(const Cluster& cluster, Collective collective, double bytes, const Span& span,
               CommTime* best) {
  const CollectiveModel& model = cluster.collective;
  double bus = bus_bytes(collective, bytes, span.ranks);
  double on_nic = bus / (span.fewest() * model.nic_share);
  double nic = nic_bandwidth(cluster.node, span.fewest());
  double inside_seconds = bus * seconds_per_node_byte(cluster, span, 0);
  double rounds = times_around(collective), net = net_latency(cluster, span);
  for (int i = 0; i < 3; ++i) {
    const auto& ring = model.ring[i];
    double inside = (span.ranks - span.nodes) * ring.hop, outside = (span.nodes - 1) * (ring.net_hop + net);
    keep_faster(best, nic, ring.base + rounds * (inside + outside), on_nic / ring.share, inside_seconds,
                ring_names[i]);
  }
}

void try_trees(const Cluster& cluster, double bytes, const Span& span, CommTime* best) {
  const CollectiveModel& model = cluster.collective;
  double copies = span.nodes == 2 ? 1 : 2;
  double on_nic = copies * bytes / (span.fewest() * model.nic_share);
  double nic = nic_bandwidth(cluster.node, span.fewest());
  double inside = 2 * bytes * seconds_per_node_byte(cluster, span, model.nvls.share);
  double flows = copies * bytes / (span.fewest() * model.flow_share) / nic;
  double depth = std::log2(static_cast<double>(span.nodes)), net = net_latency(cluster, span);
  for (int i = 0; i < 3; ++i) {
    const auto& tree = model.tree[i];
    double latency = tree.base + 2 * ((span.ranks_per_node - 1) * tree.hop + depth * (tree.net_hop + net));
    keep_faster(best, nic, latency, on_nic / tree.share, std::max(inside, flows), tree_names[i]);
  }
}

CommTime between_nodes(const Cluster& cluster, Collective collective, double bytes, const Span& span) {
  CommTime best;
  best.between_nodes = true;
  best.leaving = part_leaving(collective, span);
  try_rings(cluster, collective, bytes, span, &best);
  if (collective == Collective::all_reduce) try_trees(cluster, bytes, span, &best);
  return best;
}

}  // namespace

int nodes_per_leaf(const Cluster& cluster) {
  const backends::Fabric& fabric = cluster.fabric;
  return fabric.kind == backends::FabricKind::leaf_spine ? fabric.nodes_per_leaf : 0;
}

double flows_from_leaf(Collective collective, int ranks, int on_node, double in_leaf) {
  if (collective != Collective::all_to_all) return on_node;
  return in_leaf * (ranks - in_leaf) / (ranks - on_node);
}

int leaves_of(const Cluster& cluster) {
  const int per_leaf = nodes_per_leaf(cluster);
  return per_leaf > 0 ? (cluster.nodes + per_leaf - 1) / per_leaf : 1;
}

Span span_of(const Cluster& cluster, const std::vector<int>& devices) {
  Span span;
  span.ranks = static_cast<int>(devices.size());
  std::vector<int> nodes;
  nodes.reserve(devices.size());
  for (int device : devices) nodes.push_back(cluster.node_of(device));
  if (!std::is_sorted(nodes.begin(), nodes.end())) std::sort(nodes.begin(), nodes.end());
  const int per_leaf = nodes_per_leaf(cluster);
  span.nodes = span.ranks_per_node = span.leaves = 0;
  span.fewest_on_node = span.ranks;
  int last_leaf = -1;
  for (size_t i = 0, j = 0; i < nodes.size(); i = j) {
    while (j < nodes.size() && nodes[j] == nodes[i]) ++j;
    ++span.nodes;
    span.ranks_per_node = std::max(span.ranks_per_node, static_cast<int>(j - i));
    span.fewest_on_node = std::min(span.fewest_on_node, static_cast<int>(j - i));
    int leaf = per_leaf > 0 ? nodes[i] / per_leaf : 0;
    if (leaf != last_leaf) ++span.leaves;
    last_leaf = leaf;
  }
  if (span.fewest_on_node == span.ranks_per_node) span.fewest_on_node = 0;
  return span;
}

CommTime collective_time(const Cluster& cluster, Collective collective, int64_t bytes, const Span& span) {
  if (span.ranks <= 1 || bytes <= 0 || collective == Collective::none) return {};
  double size = static_cast<double>(bytes);
  if (span.nodes == 1) return in_node(cluster, collective, size, span.ranks);
  if (collective == Collective::all_to_all) {
    const double part = size / span.ranks;
    return exchange_between(cluster, {part * (span.ranks - span.fewest()), part * (span.ranks_per_node - 1)},
                            span);
  }
  return between_nodes(cluster, collective, size, span);
}

CommTime exchange_time(const Cluster& cluster, const ExchangedBytes& sent, const Span& span) {
  if (span.ranks <= 1 || sent.between_nodes + sent.in_node <= 0) return {};
  if (span.nodes == 1) return exchange_in_node(cluster, sent.in_node, span.ranks);
  if (sent.between_nodes <= 0) return exchange_in_node(cluster, sent.in_node, span.ranks_per_node);
  return exchange_between(cluster, sent, span);
}

double device_bandwidth(const Node& node) {
  return node.link == LinkKind::none ? node.pcie_bandwidth : node.link_bandwidth;
}

double host_bandwidth(const Cluster& cluster) {
  if (cluster.node.host_bandwidth <= 0)
    throw Error::input("node.host_bandwidth",
                       fmt::format("it is not known how fast the memory of {}'s hosts is, which "
                                   "offload_optimizer and servers use (give it)",
                                   cluster.name));
  return cluster.node.host_bandwidth / cluster.node.gpus;
}

CommTime transfer_time(const Cluster& cluster, int64_t bytes, int from, int to) {
  CommTime time;
  if (from == to || bytes <= 0) return time;
  const Node& node = cluster.node;
  const CollectiveModel& model = cluster.collective;
  double size = static_cast<double>(bytes);
  if (cluster.node_of(from) != cluster.node_of(to)) {
    const int per_leaf = nodes_per_leaf(cluster);
    time.between_nodes = true;
    time.leaving = per_leaf > 0 && cluster.node_of(from) / per_leaf != cluster.node_of(to) / per_leaf ? 1 : 0;
    time.algorithm = "p2p";
    time.nic_part = nic_bandwidth(node, 1);
    time.link_bandwidth =
        time.nic_part * std::min(1.0, model.flow_share / (model.net_exchange.share * model.nic_share));
    Span span;
    span.leaves = leaves_of(cluster);
    time.latency = model.net_exchange.base + net_latency(cluster, span);
    time.bytes_on_link = size / (model.net_exchange.share * model.nic_share);
    return time;
  }
  time.link_bandwidth = device_bandwidth(node);
  if (node.link == LinkKind::nvlink_mesh) {
    const auto& row = node.mesh_links[from % node.gpus];
    int links = row[to % node.gpus], all = std::accumulate(row.begin(), row.end(), 0);
    time.link_bandwidth = links > 0 ? node.link_bandwidth * links / all : node.pcie_bandwidth;
  }
  keep_exchange(model, model.transfer, size, 0, size, 1, "p2p", &time);
  return time;
}

CommTime host_transfer_time(const Cluster& cluster, int64_t bytes, int from, int to) {
  const Node& node = cluster.node;
  CommTime time = transfer_time(cluster, bytes, from, to);
  if (time.bytes_on_link <= 0 || node.cores > 0) return time;  // devices that are cores have no other memory
  if (time.between_nodes) {
    const CollectiveModel& model = cluster.collective;
    time.latency -= model.net_exchange.base;
    const double part = part_of_nics(node, 1);
    time.link_bandwidth *= part / time.nic_part, time.nic_part = part;
    return time;
  }
  CommTime copy;
  copy.algorithm = "host";
  copy.latency = 2 * static_cast<double>(bytes) / host_bandwidth(cluster);
  return copy;
}

CommTime one_by_one(CommTime all, double tensors, int ranks, double piece_seconds) {
  all.latency = tensors * (all.latency + ranks * piece_seconds);
  return all;
}

double seconds_beside(const Cluster& cluster, const CommTime& alone, const Beside& others) {
  if (!alone.between_nodes || alone.bytes_on_link <= 0) return alone.seconds();
  const double all = alone.nic_part * cluster.node.gpus / (cluster.node.nics * cluster.node.nic_bandwidth);
  const double share = others.on_nic * alone.link_bandwidth / alone.nic_part * std::min(1.0, all);
  return seconds_beside(cluster, alone, share, others.of_leaf);
}

double seconds_beside(const Cluster& cluster, const CommTime& alone, int devices, double of_leaf) {
  if (!alone.between_nodes || alone.bytes_on_link <= 0) return alone.seconds();
  return seconds_beside(cluster, alone, wanted(cluster.node, alone, devices), of_leaf);
}

}  // namespace boxcar::sim

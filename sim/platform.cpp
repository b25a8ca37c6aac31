#include "sim/platform.h"

#include <algorithm>
#include <map>

#include "sim/models/collective_time.h"

namespace boxcar::sim {

Platform::Platform(const backends::Cluster& cluster) : cluster_(cluster), fabric_(cluster) {
  const backends::Node& node = cluster.node;
  for (int device = 0; device < cluster.devices(); ++device) add_pair(device_bandwidth(node));
  first_nic_ = links();
  nics_ = std::min(node.nics, node.gpus);
  double per_link =
      nics_ > 0 ? node.nic_bandwidth * std::max(1.0, static_cast<double>(node.nics) / node.gpus) : 0;
  for (int nic = 0; nic < nics_ * cluster.nodes; ++nic) add_pair(per_link);
  first_fabric_ = links();
  capacity_.insert(capacity_.end(), fabric_.capacities().begin(), fabric_.capacities().end());
  const backends::Fabric& fabric = cluster.fabric;
  const int per_leaf = nodes_per_leaf(cluster);
  if (per_leaf == 0 || fabric.oversubscription <= 1) return;
  first_uplink_ = links();
  double leaf = per_link * nics_ * per_leaf / fabric.oversubscription;
  for (int i = 0; i < leaves_of(cluster); ++i) add_pair(leaf);
}

void Platform::add_pair(double capacity) { capacity_.insert(capacity_.end(), 2, capacity); }

int Platform::port_of(int device) const { return 2 * device; }

int Platform::nic_of(int device) const {
  int gpus = cluster_.node.gpus;
  int nic = (device / gpus) * nics_ + (device % gpus) * nics_ / gpus;
  return first_nic_ + 2 * nic;
}

int Platform::leaf_of(int device) const {
  const int per_leaf = nodes_per_leaf(cluster_);
  return per_leaf == 0 ? 0 : cluster_.node_of(device) / per_leaf;
}

int Platform::uplink_of(int leaf) const { return first_uplink_ < 0 ? -1 : first_uplink_ + 2 * leaf; }

bool Platform::folds_between_nodes() const {
  auto kind = cluster_.fabric.kind;
  return kind == backends::FabricKind::single_switch || kind == backends::FabricKind::leaf_spine;
}

std::vector<int> Platform::transfer(int from, int to) const {
  if (cluster_.node_of(from) == cluster_.node_of(to)) return {port_of(from), port_of(to) + 1};
  if (nics_ == 0) return {};
  std::vector<int> links{nic_of(from), nic_of(to) + 1};
  int source = leaf_of(from), target = leaf_of(to);
  if (first_uplink_ >= 0 && source != target)
    links.insert(links.end(), {uplink_of(source), uplink_of(target) + 1});
  for (int link : fabric_links(cluster_.node_of(from), cluster_.node_of(to))) links.push_back(link);
  return links;
}

std::vector<int> Platform::fabric_links(int from, int to) const {
  if (fabric_.capacities().empty() || from == to) return {};
  std::vector<int> links = fabric_.route(from, to);
  for (int& link : links) link += first_fabric_;
  return links;
}

std::map<int, double> Platform::collective(sbp::Collective collective, const std::vector<int>& devices,
                                           bool between_nodes) const {
  std::map<int, double> loads;
  if (between_nodes && nics_ == 0) return loads;
  std::map<int, int> on_node;  // members
  std::vector<int> nodes;      // in the order of ranks: the ring
  for (int device : devices) {
    const int link = between_nodes ? nic_of(device) : port_of(device), node = cluster_.node_of(device);
    ++loads[link], ++loads[link + 1];
    if (++on_node[node] == 1) nodes.push_back(node);
  }
  if (!between_nodes) return loads;
  const auto ranks = static_cast<int>(devices.size());
  int most = 0;  // members of a node: rings
  std::map<int, int> in_leaf;
  for (const auto& [node, members] : on_node) {
    most = std::max(most, members);
    in_leaf[leaf_of(node * cluster_.node.gpus)] += members;
  }
  if (first_uplink_ >= 0 && in_leaf.size() > 1) {
    for (const auto& [leaf, members] : in_leaf) {
      const double flows = flows_from_leaf(collective, ranks, most, members);
      loads[uplink_of(leaf)] += flows, loads[uplink_of(leaf) + 1] += flows;
    }
  }
  const auto add = [&](int from, int to, double flows) {
    for (int link : fabric_links(from, to)) loads[link] += flows;
  };
  if (collective != sbp::Collective::all_to_all) {
    for (size_t i = 0; i < nodes.size(); ++i) add(nodes[i], nodes[(i + 1) % nodes.size()], most);
    return loads;
  }
  for (const auto& [from, senders] : on_node)
    for (const auto& [to, receivers] : on_node)
      add(from, to, static_cast<double>(senders * receivers) / (ranks - most));
  return loads;
}

std::vector<int> Platform::links_of(int device) const {
  std::vector<int> links{port_of(device), port_of(device) + 1};
  if (nics_ > 0) links.insert(links.end(), {nic_of(device), nic_of(device) + 1});
  int uplink = uplink_of(leaf_of(device));
  if (uplink >= 0) links.insert(links.end(), {uplink, uplink + 1});
  return links;
}

}  // namespace boxcar::sim

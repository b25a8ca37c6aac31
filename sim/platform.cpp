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

std::map<int, double> Platform::nics_of(const std::vector<int>& members) const {
  std::map<int, double> own;
  for (int device : members) ++own[nic_of(device)];
  const double even = static_cast<double>(members.size()) / nics_;
  const bool crowded =
      std::any_of(own.begin(), own.end(), [&](const auto& nic) { return nic.second > std::max(1.0, even); });
  if (!crowded) return own;
  std::map<int, double> all;
  const int first = first_nic_ + 2 * nics_ * cluster_.node_of(members.front());
  for (int nic = 0; nic < nics_; ++nic) all[first + 2 * nic] = even;
  return all;
}

std::map<int, double> Platform::collective(sbp::Collective collective, const std::vector<int>& devices,
                                           bool between_nodes) const {
  std::map<int, double> loads;
  if (between_nodes && nics_ == 0) return loads;
  if (!between_nodes) {
    for (int device : devices) ++loads[port_of(device)], ++loads[port_of(device) + 1];
    return loads;
  }
  std::map<int, std::vector<int>> on_node;  // members
  std::vector<int> nodes;                   // in the order of ranks: the ring
  for (int device : devices) {
    const int node = cluster_.node_of(device);
    on_node[node].push_back(device);
    if (on_node[node].size() == 1) nodes.push_back(node);
  }
  const auto ranks = static_cast<int>(devices.size());
  int fewest = ranks;  // members of a node: rings
  for (const auto& [node, members] : on_node) fewest = std::min(fewest, static_cast<int>(members.size()));
  const bool exchanges = collective == sbp::Collective::all_to_all;
  std::map<int, int> in_leaf;
  for (const auto& [node, members] : on_node) {
    const auto count = static_cast<int>(members.size());
    const double sent = exchanges ? static_cast<double>(ranks - count) / (ranks - fewest)
                                  : static_cast<double>(fewest) / count;
    for (const auto& [nic, flows] : nics_of(members))
      loads[nic] += sent * flows, loads[nic + 1] += sent * flows;
    in_leaf[leaf_of(node * cluster_.node.gpus)] += count;
  }
  if (first_uplink_ >= 0 && in_leaf.size() > 1) {
    for (const auto& [leaf, members] : in_leaf) {
      const double flows = flows_from_leaf(collective, ranks, fewest, members);
      loads[uplink_of(leaf)] += flows, loads[uplink_of(leaf) + 1] += flows;
    }
  }
  const auto add = [&](int from, int to, double flows) {
    for (int link : fabric_links(from, to)) loads[link] += flows;
  };
  if (!exchanges) {
    for (size_t i = 0; i < nodes.size(); ++i) add(nodes[i], nodes[(i + 1) % nodes.size()], fewest);
    return loads;
  }
  for (const auto& [from, senders] : on_node)
    for (const auto& [to, receivers] : on_node)
      add(from, to, static_cast<double>(senders.size() * receivers.size()) / (ranks - fewest));
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

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
  add_fabric(cluster_.node_of(from), cluster_.node_of(to), 1, links);
  return links;
}

void Platform::add_fabric(int from, int to, int times, std::vector<int>& links) const {
  if (fabric_.capacities().empty() || from == to) return;
  std::vector<int> route = fabric_.route(from, to);
  for (int& link : route) link += first_fabric_;
  for (int i = 0; i < times; ++i) links.insert(links.end(), route.begin(), route.end());
}

std::vector<int> Platform::collective(const std::vector<int>& devices, bool between_nodes) const {
  std::vector<int> links;
  if (between_nodes && nics_ == 0) return links;
  std::map<int, int> ranks;  // by node
  std::vector<int> nodes;    // in the order of ranks: the ring
  for (int device : devices) {
    int link = between_nodes ? nic_of(device) : port_of(device), node = cluster_.node_of(device);
    links.insert(links.end(), {link, link + 1});
    if (++ranks[node] == 1) nodes.push_back(node);
  }
  if (!between_nodes) return links;
  std::map<int, int> leaf_rings;  // rings that pass through a leaf: the most ranks on one of its nodes
  int rings = 0;
  for (const auto& [node, count] : ranks) {
    int& most = leaf_rings[leaf_of(node * cluster_.node.gpus)];
    most = std::max(most, count);
    rings = std::max(rings, count);
  }
  for (size_t i = 0; i < nodes.size(); ++i) add_fabric(nodes[i], nodes[(i + 1) % nodes.size()], rings, links);
  if (first_uplink_ < 0 || leaf_rings.size() < 2) return links;
  for (const auto& [leaf, count] : leaf_rings) {
    for (int ring = 0; ring < count; ++ring)
      links.insert(links.end(), {uplink_of(leaf), uplink_of(leaf) + 1});
  }
  return links;
}

std::vector<int> Platform::links_of(int device) const {
  std::vector<int> links{port_of(device), port_of(device) + 1};
  if (nics_ > 0) links.insert(links.end(), {nic_of(device), nic_of(device) + 1});
  int uplink = uplink_of(leaf_of(device));
  if (uplink >= 0) links.insert(links.end(), {uplink, uplink + 1});
  return links;
}

}  // namespace boxcar::sim

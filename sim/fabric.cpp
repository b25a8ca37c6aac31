#include "sim/fabric.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "backends/machines/cluster.h"
#include "sbp/at.h"
#include "sbp/error.h"
#include "sim/simgrid_engine.h"

namespace boxcar::sim {
namespace {

using backends::FabricKind;
using Dims = std::vector<int>;

unsigned number(int value) { return static_cast<unsigned>(value); }

int product(const Dims& dims) { return std::accumulate(dims.begin(), dims.end(), 1, std::multiplies<>()); }

// Levels of a fat tree: nodes down, switches up and parallel links of each.
struct Tree {
  std::vector<unsigned> down, up, links;
};

Tree tree_of(const Dims& dims) {
  Tree tree;
  auto levels = static_cast<size_t>(dims[0]);
  for (size_t i = 0; i < levels; ++i) {
    tree.down.push_back(number(dims[1 + i]));
    tree.up.push_back(number(dims[1 + levels + i]));
    tree.links.push_back(number(dims[1 + 2 * levels + i]));
  }
  return tree;
}

// Nodes that the dims hold; 0 if they do not describe such a network.
int nodes_in(FabricKind kind, const Dims& dims) {
  if (dims.empty() || *std::min_element(dims.begin(), dims.end()) < 1) return 0;
  if (kind == FabricKind::torus) return product(dims);
  if (kind == FabricKind::dragonfly) return dims.size() == 7 ? dims[0] * dims[2] * dims[4] * dims[6] : 0;
  if (dims.size() != 1 + 3 * static_cast<size_t>(dims[0])) return 0;
  return product({dims.begin() + 1, dims.begin() + 1 + dims[0]});
}

void check(const backends::Cluster& cluster) {
  const backends::Fabric& fabric = cluster.fabric;
  int nodes = nodes_in(fabric.kind, fabric.dims);
  if (nodes >= cluster.nodes) return;
  std::string dims = fmt::format("{} {}", backends::to_text(fabric.kind), fmt::join(fabric.dims, ", "));
  if (nodes > 0) {
    throw Error::input("fabric.dims",
                       fmt::format("{} has {} nodes, the cluster {}", dims, nodes, cluster.nodes));
  }
  throw Error::input(
      "fabric.dims",
      fmt::format("{} is no such network (torus: sizes; fat-tree: levels, then nodes down, switches up "
                  "and links of each; dragonfly: groups, links, chassis, links, routers, links, nodes)",
                  dims));
}

using HostMaker = std::function<s4u::Host*(s4u::NetZone*, const std::vector<unsigned long>&, unsigned long)>;

// The fabric's own type of zone inside `parent`, whose hosts `host_of` makes.
s4u::NetZone* create_zone(const backends::Fabric& fabric, const std::string& name, s4u::NetZone* parent,
                          const HostMaker& host_of, double bandwidth) {
  const Dims& dims = fabric.dims;
  const auto policy = s4u::Link::SharingPolicy::SPLITDUPLEX;
  const std::vector<unsigned long> sizes(dims.begin(), dims.end());
  const Tree tree = fabric.kind == FabricKind::fat_tree ? tree_of(dims) : Tree{};
  const auto pair = [&](size_t first) { return std::pair(number(dims[first]), number(dims[first + 1])); };
#if SIMGRID_VERSION >= 40000
  s4u::NetZone* zone = fabric.kind == FabricKind::torus
                           ? parent->add_netzone_torus(name, sizes, bandwidth, 0, policy)
                       : fabric.kind == FabricKind::fat_tree
                           ? parent->add_netzone_fatTree(name, number(dims[0]), tree.down, tree.up,
                                                         tree.links, bandwidth, 0, policy)
                           : parent->add_netzone_dragonfly(name, pair(0), pair(2), pair(4), number(dims[6]),
                                                           bandwidth, 0, policy);
  zone->set_host_cb(host_of);
  return zone;
#else
#if SIMGRID_VERSION >= 33500
  const s4u::ClusterCallbacks callbacks(host_of);
#else
  const s4u::ClusterCallbacks callbacks(
      [host_of](s4u::NetZone* zone, const std::vector<unsigned long>& coordinates, unsigned long id) {
        s4u::Host* host = host_of(zone, coordinates, id);
        return std::pair<routing::NetPoint*, routing::NetPoint*>(host->get_netpoint(), nullptr);
      });
#endif
  if (fabric.kind == FabricKind::torus)
    return s4u::create_torus_zone(name, parent, sizes, callbacks, bandwidth, 0, policy);
  if (fabric.kind == FabricKind::fat_tree)
    return s4u::create_fatTree_zone(name, parent, {number(dims[0]), tree.down, tree.up, tree.links},
                                    callbacks, bandwidth, 0, policy);
  return s4u::create_dragonfly_zone(name, parent, {pair(0), pair(2), pair(4), number(dims[6])}, callbacks,
                                    bandwidth, 0, policy);
#endif
}

// Built once in a process: SimGrid's zones are permanent.
const std::vector<s4u::Host*>& hosts_of(const backends::Fabric& fabric, double bandwidth) {
  Engine& sg = engine();
  std::string name =
      fmt::format("{} {} {}", backends::to_text(fabric.kind), fmt::join(fabric.dims, "."), bandwidth);
  const auto [place, made] = sg.fabrics.try_emplace(name);
  std::vector<s4u::Host*>& hosts = place->second;
  if (!made) return hosts;
  const HostMaker host_of = [&](s4u::NetZone* zone, const std::vector<unsigned long>&, unsigned long id) {
    s4u::Host* host = add_host(zone, fmt::format("{} node {}", name, id))->seal();
    if (hosts.size() <= id) hosts.resize(id + 1);
    hosts[id] = host;
    return host;
  };
  AnyRouteZone* root = sg.free_zone(name);
  create_zone(fabric, name + " fabric", root->get_iface(), host_of, bandwidth)->seal();
  return hosts;
}

}  // namespace

Fabric::Fabric(const backends::Cluster& cluster) {
  FabricKind kind = cluster.fabric.kind;
  if (kind == FabricKind::single_switch || kind == FabricKind::leaf_spine) return;
  check(cluster);
  const auto& hosts = hosts_of(cluster.fabric, cluster.node.nic_bandwidth * cluster.node.nics);
  hosts_.assign(hosts.begin(), hosts.end());
  for (s4u::Link* link : hosts.front()->get_englobing_zone()->get_impl()->get_all_links()) {
    links_[link] = static_cast<int>(capacities_.size());
    capacities_.push_back(link->get_bandwidth());
  }
}

std::vector<int> Fabric::route(int from, int to) const {
  std::vector<s4u::Link*> crossed;
  double latency = 0;
  auto host = [&](int node) { return static_cast<s4u::Host*>(at(hosts_, node)); };
  host(from)->route_to(host(to), crossed, &latency);
  std::vector<int> links;
  for (s4u::Link* link : crossed) links.push_back(links_.at(link));
  return links;
}

}  // namespace boxcar::sim

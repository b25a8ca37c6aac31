// The links of a cluster and which of them a transfer or a collective loads.
//
//   dgx-a100, 2 nodes of 8: every GPU has a port (NVSwitch side) and a NIC, up and down: 2 x 16 of each
//   transfer 0 -> 8: NIC of 0 up, NIC of 8 down;  transfer 0 -> 1: port of 0 up, port of 1 down
//
// Links are numbered from 0; those of ports, NICs and uplinks come in pairs: an even one carries bytes that
// leave (up), the next one bytes that arrive (down), so that full-duplex hardware never contends with itself.
// If a node has fewer NICs than GPUs, neighbours share one; if it has more, a GPU owns several, taken as one
// link. Leaf-spine: one pair of uplinks per leaf, with all its capacity, if it is oversubscribed (otherwise
// it cannot be a bottleneck). Fat trees, tori and dragonflies have SimGrid's links and routes (fabric.h).
// Bandwidths are bytes/s one way.
#pragma once

#include <map>
#include <vector>

#include "backends/machines/cluster.h"
#include "sbp/at.h"
#include "sbp/boxing.h"
#include "sim/fabric.h"

namespace boxcar::sim {

class Platform {
 public:
  explicit Platform(const backends::Cluster& cluster);

  // Node::cores; above 0: acts inside a node run on the node's cores.
  double cores() const { return cluster_.node.cores; }
  int nodes() const { return cluster_.nodes; }
  int links() const { return static_cast<int>(capacity_.size()); }
  double capacity(int link) const { return at(capacity_, link); }

  // Links that a point-to-point transfer crosses; from != to.
  std::vector<int> transfer(int from, int to) const;
  // Bytes over each link that a collective of `devices` loads, for each byte on a member's link
  // (CommTime::bytes_on_link), where nodes have the fewest: every member's link up and down, and between
  // switches what leaves them. Rings go from node to node, once for each of the fewest members of a node; in
  // an exchange each node sends to each.
  std::map<int, double> collective(sbp::Collective collective, const std::vector<int>& devices,
                                   bool between_nodes) const;

  // Links of one device, for folding: its ports, its NICs, its leaf's uplinks.
  std::vector<int> links_of(int device) const;
  int node_of(int device) const { return cluster_.node_of(device); }
  // The leaf switch of a device; 0 if the fabric has one switch.
  int leaf_of(int device) const;
  // Whether the link is one between switches, not of a device or a node.
  bool is_in_fabric(int link) const { return link >= first_fabric_; }
  // True if bandwidth between leaves can be short.
  bool shares_uplinks() const { return first_uplink_ >= 0; }
  // True if links between nodes are alike for all pairs under the same leaves, so that devices can be folded.
  bool folds_between_nodes() const;

 private:
  int nic_of(int device) const;   // even link number
  int port_of(int device) const;  // even link number
  int uplink_of(int leaf) const;  // even link number, -1: none
  void add_pair(double capacity);
  // The members of a group on one node by NIC (even link number): each at its own, or, if that is the NIC of
  // more than an even share of them, evenly at all of the node.
  std::map<int, double> nics_of(const std::vector<int>& members) const;
  // The links of the fabric between two nodes.
  std::vector<int> fabric_links(int from, int to) const;

  const backends::Cluster& cluster_;
  Fabric fabric_;
  std::vector<double> capacity_;
  int nics_ = 0;  // link pairs per node
  int first_nic_ = 0;
  int first_uplink_ = -1;
  int first_fabric_ = 0;
};

}  // namespace boxcar::sim

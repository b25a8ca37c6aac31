// A node of a cluster, and the fabric that connects nodes.
#pragma once

#include <cstdint>
#include <vector>

namespace boxcar::backends {

enum class LinkKind : uint8_t { nvswitch, nvlink_mesh, pcie, none };
enum class FabricKind : uint8_t { single_switch, leaf_spine, fat_tree, torus, dragonfly };

struct Node {
  int gpus = 8;
  LinkKind link = LinkKind::nvswitch;
  double link_bandwidth = 0;                 // per GPU, one way, all its links together
  double link_latency = 0;                   // s, one hop
  std::vector<std::vector<int>> mesh_links;  // for nvlink_mesh: number of links between pairs
  double pcie_bandwidth = 0;                 // per GPU one way, host <-> device
  // Of the host's memory, shared evenly by the devices that a plan uses. 0: not known.
  double host_bandwidth = 0;
  int nics = 0;
  double nic_bandwidth = 0;  // per NIC, one way
  double nic_latency = 0;    // s, end to end between two nodes under one switch
  // Devices are threads on this many cores of the node, shared fairly by acts of all kinds: n threads at once
  // run at min(1, cores / n) of their speed. Measured, so it need not be whole. 0: every device is hardware
  // of its own.
  double cores = 0;
  // s in which an eager framework's host of speed 1 launches one op: passes of shorter kernels wait for it.
  // 0: graphs, or a runtime without such cost.
  double host_per_op = 0;
  double host_speed = 1;  // of one core, relative to a DGX A100's (EPYC 7742)
  // Samples a second that a node prepares (reads, decodes), shared evenly by its devices. 0: no limit.
  double load_rate = 0;
  // Bytes of each device's memory outside tensors on such nodes: CUDA's context, loaded kernels. Plans may
  // take neither these nor a framework's.
  double outside_bytes = 0;
  friend bool operator==(const Node&, const Node&) = default;
};

struct Fabric {
  FabricKind kind = FabricKind::single_switch;
  int nodes_per_leaf = 0;       // leaf_spine
  double oversubscription = 1;  // leaf_spine: down over up
  double hop_latency = 0;       // s added per further switch hop
  std::vector<int> dims;        // torus, fat_tree, dragonfly: SimGrid's own parameters
  friend bool operator==(const Fabric&, const Fabric&) = default;
};

const char* to_text(LinkKind kind);    // "nvlink-mesh"
const char* to_text(FabricKind kind);  // "leaf-spine"

}  // namespace boxcar::backends

// Descriptions of clusters and devices, for a simulated platform, a cost model and a memory check.
//
// YAML, in the project under backends/presets/, every number with its source in a comment:
//
//   name: dgx-a100-80g
//   device: a100-sxm-80g            # backends/presets/devices/a100-sxm-80g.yaml
//   nodes: 1
//   node: {gpus: 8, link: nvswitch, link_bandwidth: 300e9, nics: 8, nic_bandwidth: 25e9, ...}
//   fabric: {kind: leaf-spine, nodes_per_leaf: 20, oversubscription: 1, hop_latency: 0.6e-6}
//   slowdown: {12: 1.1}             # device 12 is a straggler
//
// The fields of a cluster's device, collectives and framework are visible only with their own headers:
// device_profile.h, collective_model.h, framework.h.
//
// Units are SI: bytes, bytes per second one way, seconds, flop per second. Every key and its bounds:
// docs/clusters.md.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "backends/machines/forward.h"
#include "backends/machines/held.h"
#include "backends/machines/node.h"

namespace boxcar::backends {

struct Cluster {
  std::string name;
  Held<DeviceProfile> device;
  Node node;
  Fabric fabric;
  int nodes = 1;
  std::map<int, double> slowdown;  // device -> factor >= 1 on its kernel times (stragglers)
  Held<CollectiveModel> collective;
  Held<Framework> framework;      // put_framework
  double price_per_gpu_hour = 0;  // 0: not known

  Cluster();
  Cluster(const Cluster&);
  Cluster(Cluster&&) noexcept;
  Cluster& operator=(const Cluster&);
  Cluster& operator=(Cluster&&) noexcept;
  ~Cluster();

  int devices() const { return nodes * node.gpus; }
  int node_of(int device) const { return device / node.gpus; }
  friend bool operator==(const Cluster&, const Cluster&);
};

// A preset by name, or a YAML file by path, sized to `gpus` devices (0: the file's own number of nodes). If
// gpus is less than a node holds, the node shrinks. Throws Error naming file, line and column, or the nearest
// preset.
Cluster load_cluster(const std::string& preset_or_path, int gpus = 0);
// Resizes an existing cluster; 0 leaves it as it is.
void resize(Cluster& cluster, int gpus);
// The same from YAML text; messages name `file`. A device that is named by path is looked for beside `file`.
Cluster parse_cluster(const std::string& yaml, const std::string& file, int gpus = 0);
// YAML that parse_cluster reads back, without the framework. `device`: the device's name in it, a preset or a
// file in the same folder.
std::string to_yaml(const Cluster& cluster, const std::string& device);
std::vector<std::string> cluster_presets();  // names, sorted

// Puts the cluster under a framework: takes outside_bytes() off the device's memory, sets the framework's
// host time and padding, and divides the device's op_share by its op_bytes.
void put_framework(Cluster& cluster, const Framework& framework);
// Bytes of a device's memory outside tensors: the node's and the framework's.
double outside_bytes(const Cluster& cluster);
// Whether operands of products, or results of experts' products, are kept in 8 bits: the framework does so,
// and the device runs such products.
bool keeps_float8(const Cluster& cluster);
bool keeps_float8_of_experts(const Cluster& cluster);
// Bytes of all library workspaces from the framework's allocator; 0 if it has none.
double library_workspaces(const Cluster& cluster);

// Puts another device into the cluster's nodes, with its own host profile.
void put_device(Cluster& cluster, DeviceProfile device);

// Leaves `gpus` in each node, with the NICs beside them. Throws Error (bad input, place "gpus_per_node") if a
// node has fewer.
void take_of_each_node(Cluster& cluster, int gpus);

// A table for people: devices, memory, peaks, links, network.
std::string describe(const Cluster& cluster);

}  // namespace boxcar::backends

// The numbers of a cluster's description by name: its path in the YAML ("node.nic_bandwidth",
// "matmul.wave_overlap"), or a short one ("bandwidth.network", docs/clusters.md).
//
//   scale(cluster, "bandwidth.network", 2)    every NIC twice as fast
//   for (NamedConstant& c : find_constants(cluster, "flops")) ...   all below "peak_flops"
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "backends/machines/forward.h"

namespace boxcar::backends {

struct NamedConstant {
  std::string name;
  double least, most;  // both ends allowed
  std::variant<double*, int*, int64_t*> at;

  double value() const {
    return std::visit([](auto* number) { return static_cast<double>(*number); }, at);
  }
  void set(double value) const {
    std::visit([value](auto* number) { *number = static_cast<std::decay_t<decltype(*number)>>(value); }, at);
  }
};

// Constants that `name` stands for, pointing into `cluster`: one, or all below that name; none if it is
// unknown.
std::vector<NamedConstant> find_constants(Cluster& cluster, const std::string& name);

// Multiplies all nonzero constants that `name` stands for by `factor`. False if one would leave its bounds,
// or there is none; the cluster must then be discarded.
bool scale(Cluster& cluster, const std::string& name, double factor);

std::vector<std::string> constant_names(const Cluster& cluster);  // sorted, only paths
std::vector<std::string> short_constant_names();

}  // namespace boxcar::backends

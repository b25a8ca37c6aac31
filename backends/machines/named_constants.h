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

// Those of `cluster`, into which they point, that `name` stands for: one, or all below it; none where nothing
// is called so.
std::vector<NamedConstant> find_constants(Cluster& cluster, const std::string& name);

// All that `name` stands for and that are not 0, times `factor`. False where one would leave its bounds, or
// where there is none: the cluster is then of no use.
bool scale(Cluster& cluster, const std::string& name, double factor);

std::vector<std::string> constant_names(const Cluster& cluster);  // sorted, paths alone
std::vector<std::string> short_constant_names();

}  // namespace boxcar::backends

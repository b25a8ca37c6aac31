// How a plan's step changes with each constant of its cluster.
//
//   for (const Sensitivity& s : sensitivity(plan, cluster))
//     s.constant.name, s.half_seconds, s.double_seconds;   // "bandwidth.network", 33.2, 29.8
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "backends/machines/forward.h"
#include "ir/plan.h"

namespace boxcar::explain {

// A constant by its short name (backends/machines/named_constants.h), and its meaning in words.
struct Constant {
  const char* name;
  const char* what;
};

// Those that the plan's step may depend on and that the cluster has: bandwidths, latencies, rates. The
// bandwidth of the host's memory is one only if kernels of the plan run there.
std::vector<Constant> constants_of(const ir::Plan& plan, const backends::Cluster& cluster);

// The plan's step in seconds with that constant times `factor`; nothing if the constant would leave its
// bounds.
std::optional<double> step_with(const ir::Plan& plan, const backends::Cluster& cluster,
                                const Constant& constant, double factor);

struct Sensitivity {
  Constant constant;
  std::optional<double> half_seconds, double_seconds;
};

// Simulates the plan twice for each constant. `look` is called before each constant; its exceptions pass
// through.
std::vector<Sensitivity> sensitivity(const ir::Plan& plan, const backends::Cluster& cluster,
                                     const std::function<void(const Constant&)>& look = {});

}  // namespace boxcar::explain

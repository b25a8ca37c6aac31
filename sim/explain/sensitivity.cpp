#include "sim/explain/sensitivity.h"

#include <algorithm>

#include "backends/machines/cluster.h"
#include "backends/machines/named_constants.h"
#include "sim/simulate.h"

namespace boxcar::explain {
namespace {

constexpr const char* bandwidth_of_host = "bandwidth.host";
constexpr Constant sensitive_to[] = {
    {"flops", "rate of matrix products"},
    {"bandwidth.memory", "bandwidth of the device's memory"},
    {"bandwidth.link", "bandwidth of the links inside a node"},
    {"bandwidth.network", "bandwidth of the network between nodes"},
    {"bandwidth.pcie", "bandwidth between host and device"},
    {bandwidth_of_host, "bandwidth of the host's memory"},
    {"latency.link", "latency of the links inside a node"},
    {"latency.network", "latency of the network between nodes"},
    {"latency.launch", "time from one kernel to the next"},
    {"host_per_op", "time in which the host launches an op"},
};

bool computes_on_host(const ir::Plan& plan) {
  return std::ranges::any_of(plan.programs, [](const ir::Program& program) {
    return std::ranges::any_of(program.actors,
                               [&](const ir::Actor& actor) { return runs_on_host(program, actor); });
  });
}

}  // namespace

std::vector<Constant> constants_of(const ir::Plan& plan, const backends::Cluster& cluster) {
  const bool host_computes = computes_on_host(plan);
  backends::Cluster copy = cluster;
  std::vector<Constant> all;
  for (const Constant& constant : sensitive_to) {
    if (constant.name == bandwidth_of_host && !host_computes) continue;
    const auto found = backends::find_constants(copy, constant.name);
    if (std::any_of(found.begin(), found.end(), [](const auto& c) { return c.value() != 0; }))
      all.push_back(constant);
  }
  return all;
}

std::optional<double> step_with(const ir::Plan& plan, const backends::Cluster& cluster,
                                const Constant& constant, double factor) {
  backends::Cluster changed = cluster;
  if (!backends::scale(changed, constant.name, factor)) return std::nullopt;
  return sim::simulate(plan, changed).step_seconds;
}

std::vector<Sensitivity> sensitivity(const ir::Plan& plan, const backends::Cluster& cluster,
                                     const std::function<void(const Constant&)>& look) {
  std::vector<Sensitivity> rows;
  for (const Constant& constant : constants_of(plan, cluster)) {
    if (look) look(constant);
    rows.push_back(
        {constant, step_with(plan, cluster, constant, 0.5), step_with(plan, cluster, constant, 2)});
  }
  return rows;
}

}  // namespace boxcar::explain

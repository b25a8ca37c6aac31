#include "planner/estimate/slow_stages.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "planner/mesh.h"
#include "sbp/at.h"

namespace boxcar::search {

using planner::Hints;

std::vector<double> slowness_by_stage(const Hints& hints, const backends::Cluster& cluster) {
  std::vector<double> factors(static_cast<size_t>(hints.pp), 1);
  if (cluster.slowdown.empty()) return factors;
  const planner::Mesh mesh = planner::mesh_of(hints);
  for (const auto& [device, factor] : cluster.slowdown) {
    if (device >= mesh.devices() * hints.pp) continue;
    double& most = at(factors, mesh.stage_of(device, hints.pp));
    most = std::max(most, factor);
  }
  return factors;
}

// The least factors occur if the slowest devices share a stage, the next ones share the next, and so on.
std::vector<double> least_slowness(const Hints& hints, const backends::Cluster& cluster) {
  std::vector<double> factors(static_cast<size_t>(hints.pp), 1);
  if (cluster.slowdown.empty()) return factors;
  const int devices = planner::mesh_of(hints).devices();
  std::vector<double> slow;
  for (const auto& [device, factor] : cluster.slowdown)
    if (device < devices * hints.pp) slow.push_back(factor);
  std::sort(slow.begin(), slow.end(), std::greater<>());
  auto stage = factors.rbegin();
  for (size_t d = 0; d < slow.size(); d += static_cast<size_t>(devices)) *stage++ = slow[d];
  return factors;
}

std::vector<std::vector<int>> slow_orders(const Hints& hints, const backends::Cluster& cluster) {
  if (cluster.slowdown.empty()) return {};
  Hints usual = hints;
  usual.stage_order.clear();
  const std::vector<double> slowness = slowness_by_stage(usual, cluster);
  std::vector<int> own(slowness.size());
  std::iota(own.begin(), own.end(), 0);
  if (!hints.stage_order.empty()) own = hints.stage_order;
  std::vector<std::vector<int>> orders;
  for (const bool first : {true, false}) {
    std::vector<int> order = own;
    std::stable_sort(order.begin(), order.end(),
                     [&](int a, int b) { return at(slowness, first ? b : a) < at(slowness, first ? a : b); });
    if (order != own) orders.push_back(std::move(order));
  }
  return orders;
}

double slowest_device(const planner::Job& job) {
  double slowest = 1;
  for (const auto& [device, factor] : job.cluster.slowdown)
    if (device < job.gpus) slowest = std::max(slowest, factor);
  return slowest;
}

}  // namespace boxcar::search

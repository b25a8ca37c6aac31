#include "planner/search/slow_stages.h"

#include <algorithm>
#include <map>

#include "planner/mesh.h"

namespace boxcar::search {
namespace {

using planner::Hints;
using Factors = std::vector<double>;  // by stage

Factors ones(const Hints& hints) { return Factors(static_cast<size_t>(hints.pp), 1); }

// Calls `visit` with the stage, the device of the first stage in its line, and the factor of each that is
// slow.
template <typename Visit>
void each_slow(const Hints& hints, const backends::Cluster& cluster, const Visit& visit) {
  if (cluster.slowdown.empty()) return;
  const planner::Mesh mesh = planner::mesh_of(hints);
  for (const auto& [device, factor] : cluster.slowdown) {
    if (device >= mesh.devices() * hints.pp) continue;
    const int stage = device / mesh.stage_stride % hints.pp;
    visit(static_cast<size_t>(stage), device - stage * mesh.stage_stride, factor);
  }
}

}  // namespace

Factors slowness_by_stage(const Hints& hints, const backends::Cluster& cluster) {
  Factors factors = ones(hints);
  each_slow(hints, cluster,
            [&](size_t stage, int, double factor) { factors[stage] = std::max(factors[stage], factor); });
  return factors;
}

std::set<Factors> slowness_in_line(const Hints& hints, const backends::Cluster& cluster) {
  std::map<int, Factors> lines;
  each_slow(hints, cluster, [&](size_t stage, int line, double factor) {
    lines.try_emplace(line, ones(hints)).first->second[stage] = factor;
  });
  std::set<Factors> all;
  if (lines.empty() || std::ssize(lines) < planner::mesh_of(hints).devices()) all.insert(ones(hints));
  for (const auto& line : lines) all.insert(line.second);
  return all;
}

double slowest_device(const planner::Job& job) {
  double slowest = 1;
  for (const auto& [device, factor] : job.cluster.slowdown)
    if (device < job.gpus) slowest = std::max(slowest, factor);
  return slowest;
}

}  // namespace boxcar::search

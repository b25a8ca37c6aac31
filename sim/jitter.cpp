#include "sim/jitter.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <random>
#include <vector>

#include "backends/machines/cluster.h"

namespace boxcar::sim {
namespace {

// A draw from a normal distribution, the same with every standard library (Box and Muller).
double normal(std::mt19937_64& random) {
  const auto uniform = [&] { return (static_cast<double>(random() >> 11) + 0.5) * 0x1p-53; };
  const double radius = std::sqrt(-2 * std::log(uniform()));
  return radius * std::cos(2 * std::numbers::pi * uniform());
}

}  // namespace

Spread spread(const ir::Plan& plan, const backends::Cluster& cluster, const Options& options,
              const Jitter& jitter, const std::function<void(int run)>& begins) {
  std::mt19937_64 random(static_cast<uint64_t>(jitter.seed));
  Options quiet = options;
  quiet.timeline = false;
  std::vector<double> seconds;
  for (int run = 0; run < jitter.runs; ++run) {
    if (begins) begins(run);
    backends::Cluster noisy = cluster;
    for (int device = 0; device < plan.devices; ++device) {
      double& factor = noisy.slowdown.try_emplace(device, 1).first->second;
      factor *= std::max(0.5, 1 + jitter.deviation * normal(random));
    }
    seconds.push_back(simulate(plan, noisy, quiet).step_seconds);
  }
  std::sort(seconds.begin(), seconds.end());
  Spread result;
  for (double s : seconds) result.mean_seconds += s / static_cast<double>(seconds.size());
  const auto rank = static_cast<size_t>(std::ceil(0.95 * static_cast<double>(seconds.size())));
  result.p95_seconds = seconds[std::max<size_t>(rank, 1) - 1];
  return result;
}

}  // namespace boxcar::sim

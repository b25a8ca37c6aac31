#include "planner/estimate/level_layers.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "planner/resolve.h"
#include "planner/solve/cost.h"

namespace boxcar::search {
namespace {

double pass_seconds(const StageCost& cost) { return cost.forward + cost.backward; }

// For layers that differ: a cut whose slowest stage is fastest, by dynamic programming over the first layers
// and their number of stages.
std::vector<int> level_cut(const std::vector<StageCost>& layers, const std::vector<double>& slowness) {
  const size_t n = layers.size();
  std::vector<double> until{0}, until_kernels{0};
  for (const StageCost& layer : layers) {
    until.push_back(until.back() + pass_seconds(layer));
    until_kernels.push_back(until_kernels.back() + layer.forward_kernels + layer.backward_kernels);
  }
  const auto seconds = [&](size_t stage, size_t from, size_t end) {
    return until[end] - until[from] + (slowness[stage] - 1) * (until_kernels[end] - until_kernels[from]);
  };
  std::vector<double> best;                                            // by layers, on one stage
  std::vector<std::vector<size_t>> begin{std::vector<size_t>(n + 1)};  // by stages - 1: of the last stage
  for (size_t end = 0; end <= n; ++end) best.push_back(seconds(0, 0, end));
  for (size_t s = 1; s < slowness.size(); ++s) {
    std::vector<double> next(n + 1, infinity);
    begin.emplace_back(n + 1);
    for (size_t end = s + 1; end <= n; ++end)
      for (size_t from = s; from < end; ++from) {
        const double slowest = std::max(best[from], seconds(s, from, end));
        if (slowest < next[end]) next[end] = slowest, begin.back()[end] = from;
      }
    best = std::move(next);
  }
  std::vector<int> result;
  for (size_t s = slowness.size(), end = n; s > 0; --s) {
    result.insert(result.begin(), static_cast<int>(end - begin[s - 1][end]));
    end = begin[s - 1][end];
  }
  return result;
}

// Stages of equal layers and their times.
struct LevelStages {
  std::vector<double> with_one, layer;  // s, by stage
  std::vector<int> least;               // layers

  double seconds(size_t stage, int layers) const { return with_one[stage] + (layers - 1) * layer[stage]; }
  double slowest(const std::vector<int>& cut) const {
    double most = 0;
    for (size_t s = 0; s < cut.size(); ++s) most = std::max(most, seconds(s, cut[s]));
    return most;
  }
  double sum(const std::vector<int>& cut) const {
    double all = 0;
    for (size_t s = 0; s < cut.size(); ++s) all += seconds(s, cut[s]);
    return all;
  }

  // Gives every layer to the stage where it costs least by `price`; empty if that is infinite.
  template <typename Price>
  std::vector<int> cut(int64_t layers, const Price& price) const {
    std::vector<int> result = least;
    std::vector<std::pair<double, double>> next;
    for (size_t s = 0; s < result.size(); ++s) next.push_back(price(s, least[s] + 1));
    for (int64_t left = layers - std::accumulate(least.begin(), least.end(), int64_t{0}); left > 0; --left) {
      // Ties go to the last stage, because the first stages hold the most micro-batches.
      const auto cheapest = std::min_element(next.rbegin(), next.rend());
      if (cheapest->first == infinity) return {};
      const auto at = static_cast<size_t>(next.rend() - cheapest - 1);
      next[at] = price(at, ++result[at] + 1);
    }
    return result;
  }
  std::vector<int> level(int64_t layers) const {
    return cut(layers, [&](size_t s, int l) { return std::pair(seconds(s, l), 0.0); });
  }
  // A cut of the least sum among those whose slowest stage takes at most `most`.
  std::vector<int> within(int64_t layers, double most) const {
    return cut(layers, [&](size_t s, int l) {
      const double all = seconds(s, l);
      return all > most ? std::pair(infinity, 0.0) : std::pair(layer[s], all);
    });
  }
  // Possible times of a slowest stage, from `from` to below `most`.
  std::set<double> limits(int64_t layers, double from, double most) const {
    std::set<double> all;
    for (size_t s = 0; s < layer.size(); ++s)
      for (int l = least[s]; l <= layers; ++l)
        if (const double limit = seconds(s, l); from <= limit && limit < most) all.insert(limit);
    return all;
  }
};

}  // namespace

std::vector<int> level_layers(const ir::models::Model& model, const ModelCost& cost,
                              const std::vector<double>& slowness, int micro_batches) {
  if (!cost.layers.empty()) return level_cut(cost.layers, slowness);
  const int64_t layers = model.layers();
  LevelStages stages;
  for (int64_t s = 0; s < std::ssize(slowness); ++s)
    stages.least.push_back(planner::least_layers(model, s, std::ssize(slowness)));
  for (const double slow : slowness) {
    // Costs once per stage matter if stages differ in them.
    const double once = pass_seconds(cost.joint.slowed(slow)) - pass_seconds(cost.joint);
    stages.layer.push_back(pass_seconds(cost.layer.slowed(slow)));
    stages.with_one.push_back(stages.layer.back() + once);
  }
  stages.with_one.front() += pass_seconds(cost.first.slowed(slowness.front()));
  stages.with_one.back() += pass_seconds(cost.last.slowed(slowness.back()));
  std::vector<int> best = stages.level(layers);
  const auto step = [&](const std::vector<int>& cut) {
    return (micro_batches - 1) * stages.slowest(cut) + stages.sum(cut);
  };
  // The slowest stage may be slower at most by the time that could be saved with all layers on the fastest
  // devices.
  const double cheapest = *std::min_element(stages.layer.begin(), stages.layer.end());
  double saves = 0;
  for (size_t s = 0; s < best.size(); ++s)
    saves += (best[s] - stages.least[s]) * (stages.layer[s] - cheapest);
  if (saves <= 0) return best;
  const double slowest = stages.slowest(best);
  const double most = micro_batches > 1 ? slowest + saves / (micro_batches - 1) : infinity;
  for (const double limit : stages.limits(layers, slowest, most)) {
    std::vector<int> cut = stages.within(layers, limit);
    if (step(cut) < step(best)) best = std::move(cut);
  }
  return best;
}

}  // namespace boxcar::search

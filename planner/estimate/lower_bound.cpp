#include "planner/estimate/lower_bound.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "planner/estimate/slow_stages.h"
#include "planner/schedule.h"

namespace boxcar::search {

namespace {

// Total computing of stages, each of which takes `times` as long as the one before, on devices of this
// slowness.
double shares(const std::vector<double>& slowness, double times) {
  double sum = 0, seconds = 1;
  for (const double slow : slowness) sum += seconds / slow, seconds *= times;
  return sum;
}

// Seconds of all kernels of a micro-batch.
double computing(const planner::Job& job, const KindCosts& costs) {
  const auto ends = [](const ModelCost& cost) {
    return cost.first.computing + cost.last.computing + cost.joint.computing;
  };
  const auto layer = [](const ModelCost& cost, size_t l) {
    return (cost.layers.empty() ? cost.layer : cost.layers[l]).computing;
  };
  double all = std::min(ends(costs.recomputed), ends(costs.others));
  size_t l = 0;
  for (size_t stage = 0; stage < job.parallel.stage_layers.size(); ++stage) {
    const int layers = job.parallel.stage_layers[stage],
              recomputed = recomputed_layers(job.train, stage, layers);
    for (int of_stage = 0; of_stage < layers; ++of_stage, ++l)
      all += layer(of_stage < recomputed ? costs.recomputed : costs.others, l);
  }
  return all;
}

// Virtual stages that differ, as they are cut: before a stage's first run come forward passes of the first
// chunks of the stages before it, and behind its last run their backward passes, but for what is behind the
// gradient that the next one waits for.
double least_as_cut(const planner::Job& job, const KindCosts& costs, double behind) {
  const planner::Hints& h = job.parallel;
  const auto least = [&](StageCost ModelCost::*part) {
    return std::min((costs.recomputed.*part).computing, (costs.others.*part).computing);
  };
  std::vector<double> all(static_cast<size_t>(h.pp)), first = all;
  for (size_t v = 0; v < h.stage_layers.size(); ++v) {
    const int layers = h.stage_layers[v], recomputed = recomputed_layers(job.train, v, layers);
    double chunk = recomputed * costs.recomputed.layer.computing +
                   (layers - recomputed) * costs.others.layer.computing +
                   std::min(0.0, least(&ModelCost::joint));
    if (v == 0) chunk += least(&ModelCost::first);
    if (v + 1 == h.stage_layers.size()) chunk += least(&ModelCost::last);
    all[v % all.size()] += chunk;
    if (v < first.size()) first[v] = chunk;
  }
  double most = 0, before = 0;
  for (size_t s = 0; s < all.size(); ++s) {
    most = std::max(most, job.train.micro_batches * all[s] + before);
    before += std::max(0.0, first[s] - behind);
  }
  return most;
}

// Backward passes in two parts: of the kernels `all` of a micro-batch.
double least_split(const planner::Job& job, const KindCosts& costs, double all) {
  const double m = job.train.micro_batches;
  double forward = 1, ends = 0;  // a share of a layer's kernels; seconds
  for (const ModelCost* cost : {&costs.recomputed, &costs.others}) {
    if (cost->layer.computing > 0)
      forward = std::min(forward, cost->layer.forward_computing / cost->layer.computing);
    ends =
        std::max(ends, cost->first.computing + cost->last.computing + std::max(0.0, cost->joint.computing));
  }
  if (forward <= 0) return 0;
  return forward * (all / (1 - std::pow(1 - forward / m, job.parallel.pp)) - ends);
}

}  // namespace

double least_seconds(const planner::Job& job, const KindCosts& costs) {
  const planner::Hints& h = job.parallel;
  const double all = computing(job, costs), m = job.train.micro_batches, v = h.virtual_stages;
  const std::vector<double> slowness = least_slowness(h, job.cluster);
  const double alone = m * all / shares(slowness, 1);  // where every stage takes as long
  const bool split = planner::splits_backward(planner::pipeline_of(h, job.train.micro_batches).kind);
  if (!costs.recomputed.layers.empty() || h.pp == 1) return alone;
  if (split)
    return ir::models::expert_every(job.model) == 1 ? std::max(alone, least_split(job, costs, all)) : alone;
  // With virtual stages, only the first chunk, a v-th, of a stage is before the next one. Kernels of a
  // backward pass after the gradient that the stage before waits for run beside that stage.
  const double boundary = std::max(costs.recomputed.behind_boundary, costs.others.behind_boundary);
  const auto [fewest, most] = std::minmax_element(h.stage_layers.begin(), h.stage_layers.end());
  if (h.virtual_stages > 1 && *fewest != *most)
    return ir::models::expert_every(job.model) == 1 ? std::max(alone, least_as_cut(job, costs, boundary))
                                                    : alone;
  double least = alone;
  for (const double slow : {1.0, slowness.back()}) {  // of the slowest device's line, with any others
    std::vector<double> line(slowness.size(), 1);
    line.back() = slow;
    const double behind = slow * boundary;
    const double left = shares(line, 1 - 1 / (v * m)) / (v * m);
    least = std::max(least, (all / v - shares(line, 1) * behind) / left + v * m * behind);
  }
  return least;
}

}  // namespace boxcar::search

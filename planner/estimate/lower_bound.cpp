#include "planner/estimate/lower_bound.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "planner/estimate/slow_stages.h"
#include "planner/estimate/step_estimate.h"
#include "planner/schedule.h"
#include "planner/sharding.h"

namespace boxcar::search {

namespace {

// Total computing of stages, each of which takes `times` as long as the previous one, on devices of this
// slowness.
double shares(const std::vector<double>& slowness, double times) {
  double sum = 0, seconds = 1;
  for (const double slow : slowness) sum += seconds / slow, seconds *= times;
  return sum;
}

// The part of a stage's cost that counts, in s of a micro-batch.
struct Counting {
  Counted counted;
  bool waits() const { return counted == Counted::waits; }
  double all(const StageCost& cost) const { return cost.computing + (waits() ? cost.waiting : 0); }
  double forward(const StageCost& cost) const {
    return cost.forward_computing + (waits() ? cost.forward_waiting : 0);
  }
  double behind(const ModelCost& cost) const {
    return cost.behind_boundary + (waits() ? cost.waiting_behind_boundary : 0);
  }
};

// Seconds of a micro-batch on all stages.
double of_all_stages(const planner::Job& job, const KindCosts& costs, const Counting& count) {
  const auto ends = [&](const ModelCost& cost) {
    return count.all(cost.first) + count.all(cost.last) + count.all(cost.joint);
  };
  const auto layer = [&](const ModelCost& cost, size_t l) {
    return count.all(cost.layers.empty() ? cost.layer : cost.layers[l]);
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

// Seconds of the update's kernels on all stages, without a table that several ops read.
double updating(const planner::Job& job, const ModelCost& cost) {
  const planner::Hints& h = job.parallel;
  const bool sharded = planner::sharding_of(h).states;
  const auto seconds = [&](const StageCost& part) {
    return sharded ? part.updating.sharded(sharded_part(h, part)) : part.updating.whole;
  };
  double sum = seconds(cost.first) + seconds(cost.last) + seconds(cost.joint);
  for (const StageCost& layer : cost.layers) sum += seconds(layer);
  if (cost.layers.empty())
    sum += std::accumulate(h.stage_layers.begin(), h.stage_layers.end(), 0) * seconds(cost.layer);
  return std::max(0.0, sum);
}

// For unequal virtual stages with their given cut. Before a stage's first run come forward passes of the
// first chunks of the stages before it. After its last run come their backward passes, except the part after
// the gradient for which the previous stage waits.
double least_as_cut(const planner::Job& job, const KindCosts& costs, const Counting& count, double behind) {
  const planner::Hints& h = job.parallel;
  const auto least = [&](StageCost ModelCost::*part) {
    return std::min(count.all(costs.recomputed.*part), count.all(costs.others.*part));
  };
  std::vector<double> all(static_cast<size_t>(h.pp)), first = all;
  for (size_t v = 0; v < h.stage_layers.size(); ++v) {
    const int layers = h.stage_layers[v], recomputed = recomputed_layers(job.train, v, layers);
    double chunk = recomputed * count.all(costs.recomputed.layer) +
                   (layers - recomputed) * count.all(costs.others.layer) +
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

// For backward passes in two parts: from the seconds `all` of a micro-batch.
double least_split(const planner::Job& job, const KindCosts& costs, const Counting& count, double all) {
  const double m = job.train.micro_batches;
  double forward = 1, ends = 0;  // a share of a layer's; seconds
  for (const ModelCost* cost : {&costs.recomputed, &costs.others}) {
    if (count.all(cost->layer) > 0)
      forward = std::min(forward, count.forward(cost->layer) / count.all(cost->layer));
    ends = std::max(ends,
                    count.all(cost->first) + count.all(cost->last) + std::max(0.0, count.all(cost->joint)));
  }
  if (forward <= 0) return 0;
  return forward * (all / (1 - std::pow(1 - forward / m, job.parallel.pp)) - ends);
}

// For equal, whole layers on any stages. The passes of a stage, except `behind`, count before those of the
// next one; if backward passes are split, only its forward pass does.
double least_of_layers(const planner::Job& job, const KindCosts& costs, const Counting& count, bool split,
                       double behind) {
  const planner::Hints& h = job.parallel;
  const double m = job.train.micro_batches;
  int layers = 0, recomputed = 0;
  for (size_t stage = 0; stage < h.stage_layers.size(); ++stage) {
    layers += h.stage_layers[stage];
    recomputed += recomputed_layers(job.train, stage, h.stage_layers[stage]);
  }
  struct Seconds {
    double all = 0, before = 0;
  };
  const auto of = [&](const StageCost& cost) -> Seconds {
    return {count.all(cost), split ? count.forward(cost) : count.all(cost)};
  };
  const auto least = [&](StageCost ModelCost::*part) -> Seconds {
    const Seconds a = of(costs.recomputed.*part), b = of(costs.others.*part);
    return {std::min(a.all, b.all), std::min(a.before, b.before)};
  };
  const Seconds layer = recomputed == 0        ? of(costs.others.layer)
                        : recomputed == layers ? of(costs.recomputed.layer)
                                               : least(&ModelCost::layer);
  if (layer.all <= 0 || layer.before > layer.all) return 0;
  const Seconds first = least(&ModelCost::first), last = least(&ModelCost::last),
                joint = least(&ModelCost::joint);
  // The most layers that stages have time for. One more layer on a stage takes at most one from later stages,
  // so each stage takes as many as it can. A stage without time for its ends takes a negative number.
  const auto layers_in = [&](double seconds) {
    double taken = 0, before = 0;
    for (int stage = 0; stage < h.pp; ++stage) {
      Seconds ends = joint;
      if (stage == 0) ends = {ends.all + first.all, ends.before + first.before};
      if (stage + 1 == h.pp) ends = {ends.all + last.all, ends.before + last.before};
      const double room = std::floor(((seconds - before) / m - ends.all) / layer.all + 1e-9);
      const double more = std::min(room, layers - taken);
      taken += more;
      before += more * layer.before + ends.before - behind;
    }
    return taken;
  };
  double low = 0, high = m * (layers * layer.all + std::max(0.0, first.all) + std::max(0.0, last.all) +
                              h.pp * std::max(0.0, joint.all));
  for (int halves = 0; halves < 30; ++halves) {
    const double middle = (low + high) / 2;
    (layers_in(middle) >= layers ? high : low) = middle;
  }
  return low;
}

double least_on(const std::vector<double>& slowness, const planner::Job& job, const KindCosts& costs,
                const Counting& count) {
  const planner::Hints& h = job.parallel;
  const double all = of_all_stages(job, costs, count), m = job.train.micro_batches, v = h.virtual_stages;
  const double update =
      count.waits() ? std::min(updating(job, costs.recomputed), updating(job, costs.others)) : 0;
  const double alone = (m * all + update) / shares(slowness, 1);  // if every stage takes equally long
  const bool split = planner::splits_backward(planner::pipeline_of(h, job.train.micro_batches).kind);
  if (!costs.recomputed.layers.empty() || h.pp == 1) return alone;
  const bool equal = ir::models::expert_every(job.model) == 1;
  if (split) {
    // In a V the loss is on the first stage, so the others need not wait for a whole pass.
    if (!equal || h.virtual_stages > 1) return alone;
    const double least = std::max(alone, least_split(job, costs, count, all));
    return count.waits() ? std::max(least, least_of_layers(job, costs, count, split, 0)) : least;
  }
  // With virtual stages, only the first chunk of a stage, a v-th of it, comes before the next stage. Kernels
  // of a backward pass after the gradient for which the previous stage waits run beside that stage.
  const double boundary = std::max(count.behind(costs.recomputed), count.behind(costs.others));
  const auto [fewest, most] = std::minmax_element(h.stage_layers.begin(), h.stage_layers.end());
  double least = alone;
  if (equal && h.virtual_stages > 1 && (count.waits() || *fewest != *most))
    least = std::max(least, least_as_cut(job, costs, count, boundary));
  if (equal && h.virtual_stages == 1 && count.waits())
    least = std::max(least, least_of_layers(job, costs, count, split, boundary));
  if (h.virtual_stages > 1 && *fewest != *most) return least;
  for (const double slow : {1.0, slowness.back()}) {  // on the line of the slowest device, with any others
    std::vector<double> line(slowness.size(), 1);
    line.back() = slow;
    const double behind = slow * boundary;
    const double left = shares(line, 1 - 1 / (v * m)) / (v * m);
    least = std::max(least, (all / v - shares(line, 1) * behind) / left + v * m * behind);
  }
  return least;
}

}  // namespace

double least_seconds(const planner::Job& job, const KindCosts& costs, Counted counted) {
  const std::vector<double> slowness = least_slowness(job.parallel, job.cluster), alike(slowness.size(), 1);
  const double least = least_on(slowness, job, costs, {Counted::kernels});
  if (counted == Counted::kernels) return least;
  // Collectives are no slower on slow devices.
  return std::max(least, least_on(alike, job, costs, {Counted::waits}));
}

}  // namespace boxcar::search

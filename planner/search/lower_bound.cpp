#include "planner/search/lower_bound.h"

#include <algorithm>
#include <vector>

#include "planner/schedule.h"
#include "planner/search/slow_stages.h"

namespace boxcar::search {

namespace {

// Of stages of which each takes `times` as long as the one before, on such devices: what all compute.
double shares(const std::vector<double>& slowness, double times) {
  double sum = 0, seconds = 1;
  for (const double slow : slowness) sum += seconds / slow, seconds *= times;
  return sum;
}

}  // namespace

double least_seconds(const planner::Job& job, const ModelCost& cost) {
  const planner::Hints& h = job.parallel;
  double all = cost.first.computing + cost.last.computing + cost.joint.computing +
               static_cast<double>(job.model.layers) * cost.layer.computing;
  for (const StageCost& layer : cost.layers) all += layer.computing;
  const double m = job.train.micro_batches, v = h.virtual_stages;
  const std::vector<double> slowness = slowness_by_stage(h, job.cluster);
  const double alone = m * all / shares(slowness, 1);  // where every stage takes as long
  const bool split = planner::splits_backward(planner::pipeline_of(h, job.train.micro_batches).kind);
  if (!cost.layers.empty() || split || h.pp == 1) return alone;
  // With virtual stages what is before a stage is its first chunk, a v-th. What a backward pass leaves for
  // after the gradient that the stage before waits for runs beside that one.
  double least = alone;
  for (const std::vector<double>& line : slowness_in_line(h, job.cluster)) {
    const double behind = *std::max_element(line.begin(), line.end()) * cost.behind_boundary;
    const double left = shares(line, 1 - 1 / (v * m)) / (v * m);
    least = std::max(least, (all / v - shares(line, 1) * behind) / left + v * m * behind);
  }
  return least;
}

}  // namespace boxcar::search

#include "planner/search/lower_bound.h"

#include <algorithm>
#include <cmath>

#include "planner/schedule.h"

namespace boxcar::search {

double least_seconds(const planner::Job& job, const ModelCost& cost) {
  const planner::Hints& h = job.parallel;
  double all = cost.first.computing + cost.last.computing + cost.joint.computing +
               static_cast<double>(job.model.layers) * cost.layer.computing;
  for (const StageCost& layer : cost.layers) all += layer.computing;
  const double m = job.train.micro_batches, p = h.pp, v = h.virtual_stages;
  const double alone = m * all / p;  // the mean of all stages
  const bool split = planner::splits_backward(planner::pipeline_of(h, job.train.micro_batches).kind);
  if (!cost.layers.empty() || split || h.pp == 1) return alone;
  // With virtual stages what is before a stage is its first chunk, a v-th. What a backward pass leaves for
  // after the gradient that the stage before waits for runs beside that one.
  const double behind = cost.behind_boundary, left = 1 - std::pow(1 - 1 / (v * m), p);
  return std::max(alone, (all / v - p * behind) / left + v * m * behind);
}

}  // namespace boxcar::search

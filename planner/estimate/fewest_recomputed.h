// The fewest recomputed layers of each stage with which it fits in memory.
//
//   4 stages of 6 layers under 1F1B: 4, 3, 2 and 1 micro-batches in flight. Where a layer keeps 1 GB of each
//   and nothing if it computes again, 12 GB are 3, 2 and 0 layers again on the first three stages: 4 x 3, 3 x
//   4, 2 x 6
//
// Estimates say how many bytes a stage needs. The job says what a recomputed layer recomputes, and what the
// others do.
#pragma once

#include <optional>
#include <vector>

#include "planner/estimate/step_estimate.h"

namespace boxcar::search {

// The job with its stages as they are and recompute_layers chosen: in each stage, the fewest with which it
// needs no more than its `bytes`. Among virtual stages, the first recompute, since they have most in flight.
// Nothing where recomputing all layers is not enough.
std::optional<planner::Job> with_fewest_recomputed(planner::Job job, const KindCosts& costs,
                                                   const InFlight& in_flight,
                                                   const std::vector<double>& bytes);

// Layers of each stage so that the slowest stage is fastest, with as many recomputed as memory asks for. For
// equal layers and several stages, none virtual. Empty: no cut fits.
std::vector<int> level_layers(const planner::Job& job, const KindCosts& costs, const InFlight& in_flight,
                              const std::vector<double>& bytes);

}  // namespace boxcar::search

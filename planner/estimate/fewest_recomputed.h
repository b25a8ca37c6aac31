// The fewest recomputed layers of each stage with which it fits in memory.
//
//   4 stages of 6 layers under 1F1B: 4, 3, 2 and 1 micro-batches in flight. If a layer keeps 1 GB of each and
//   nothing when recomputed, 12 GB need 3, 2 and 0 recomputed layers on the first three stages: 4 x 3, 3 x
//   4, 2 x 6
//
// Estimates give the bytes that a stage needs. The job gives the kinds of recomputation of recomputed layers
// and of the others.
#pragma once

#include <optional>
#include <vector>

#include "planner/estimate/step_estimate.h"

namespace boxcar::search {

// The job with the same stages and with recompute_layers chosen: in each stage, the fewest with which it
// needs no more than its `bytes`. Among virtual stages, the first recompute, since they have most in flight.
// Nothing if recomputing all layers is not enough.
std::optional<planner::Job> with_fewest_recomputed(planner::Job job, const KindCosts& costs,
                                                   const InFlight& in_flight,
                                                   const std::vector<double>& bytes);

// Layers of each stage so that the slowest stage is fastest, with as many recomputed as memory requires. For
// equal layers and several stages, none virtual. Empty if no cut fits.
std::vector<int> level_layers(const planner::Job& job, const KindCosts& costs, const InFlight& in_flight,
                              const std::vector<double>& bytes);

}  // namespace boxcar::search

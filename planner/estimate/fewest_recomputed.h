// Only as many layers of each stage compute again as its memory asks for.
//
//   4 stages of 6 layers under 1F1B: 4, 3, 2 and 1 micro-batches in flight. Where a layer keeps 1 GB of each
//   and nothing if it computes again, 12 GB are 3, 2 and 0 layers again on the first three stages: 4 x 3, 3 x
//   4, 2 x 6
//
// Estimates say what a stage needs. What computes again and what the others do is up to the job.
#pragma once

#include <optional>
#include <vector>

#include "planner/estimate/step_estimate.h"

namespace boxcar::search {

// The job with its recompute_layers chosen, its stages as they are: the fewest of each stage with which it
// needs no more than its `bytes`. Of virtual stages those in front compute again, which have most in flight.
// Nothing where all layers are too few.
std::optional<planner::Job> with_fewest_recomputed(planner::Job job, const KindCosts& costs,
                                                   const InFlight& in_flight,
                                                   const std::vector<double>& bytes);

// Layers of each stage so that the slowest is fastest, as many of which compute again as that takes. Where
// layers are equal, for several stages, none virtual. Empty: no cut of them fits.
std::vector<int> level_layers(const planner::Job& job, const KindCosts& costs, const InFlight& in_flight,
                              const std::vector<double>& bytes);

}  // namespace boxcar::search

// A cut of a model's layers into stages that take equal time.
//
//   10 layers of 1 s, a first end of 0.5 s and a last of 2 s on 3 stages -> 4, 4, 2
//   4 layers of 1 s, a last end of 5 s on 3 stages                       -> 2, 2, 0
#pragma once

#include <cstdint>
#include <vector>

#include "planner/estimate/estimate.h"

namespace boxcar::search {

// Layers of each (virtual) stage so that the slowest stage is fastest. The ends of the model have fewer or
// none (planner::least_layers), and so have stages on slow devices. `slowness` is by stage (slow_stages.h).
// For equal layers on unequal stages, minimises the sum of the slowest stage `micro_batches` - 1 times and
// all stages once.
std::vector<int> level_layers(const ir::models::Model& model, const ModelCost& cost,
                              const std::vector<double>& slowness, int micro_batches);

}  // namespace boxcar::search

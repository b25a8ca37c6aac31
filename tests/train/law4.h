// Law 4: training under any plan is training on one device.
#pragma once

#include <functional>
#include <vector>

#include "trainer.h"

namespace boxcar::tests {

// 20 steps under `plan` equal those of `alone`, for each optimizer, with clipping:
// - in float64 every loss, weight and moment within 1e-9 of the largest number of its tensor;
// - in float32 losses (of those that divide by a root of squares, as Adam) or weights and losses (others)
//   within the effect of rounding: eight times what rounding alone changes on one device, and 1e-5 of the
//   largest number. The former's weights are left out, since rounding noise changes those whose gradient is
//   mathematically zero.
// Both functions lay out a training graph with these options; the plan's may change them further.
using Laying = std::function<planner::LaidOut(const ir::TrainOptions& options)>;
using Optimizers = std::vector<ir::Optimizer>;
void expect_law_4(const Laying& plan, const Laying& alone, const Start& start,
                  const Optimizers& optimizers = {ir::Optimizer::sgd, ir::Optimizer::adam});

// The same for 16-bit activations and gradients with float32 master weights, under Adam. Losses differ from
// those in float64 by at most eight times one device's difference, and 1e-3 of the largest.
void expect_law_4_in_16_bits(ir::Precision precision, const Laying& plan, const Laying& alone,
                             const Start& start);

}  // namespace boxcar::tests

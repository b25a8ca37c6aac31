// The smallest job that still fails.
#pragma once

#include <functional>

#include "random_job.h"

namespace boxcar::tests {

// Resets one value after the other to its dimension's first, or to an earlier one, while the job still
// `fails`, until no reset is left. Never calls `fails` on illegal jobs.
RandomJob shrink(RandomJob job, const std::function<bool(const RandomJob&)>& fails);

}  // namespace boxcar::tests

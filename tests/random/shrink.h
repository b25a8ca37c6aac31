// The smallest job that still fails.
#pragma once

#include <functional>

#include "random_job.h"

namespace boxcar::tests {

// Takes one value after the other back to the first of its dimension, or to one before it, while `fails` says
// that the job still does, until none can be. `fails` is not asked about illegal jobs.
RandomJob shrink(RandomJob job, const std::function<bool(const RandomJob&)>& fails);

}  // namespace boxcar::tests

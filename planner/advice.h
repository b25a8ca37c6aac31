// What would make a job that does not fit fit: the same job with one setting changed, compiled and measured.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/planner.h"

namespace boxcar::planner {

struct FittingJob {
  Job job;            // not resolved: what it was, but for what has changed
  int64_t bytes = 0;  // the most that a device needs
};

// Up to two with one setting changed, or else one with several; none where more GPUs are needed. `job` is
// resolved and does not fit. Changes that cost nothing come first.
std::vector<FittingJob> fitting_jobs(const Job& job);

}  // namespace boxcar::planner

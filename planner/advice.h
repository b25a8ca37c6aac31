// Changes that make a job fit in memory: the same job with one setting changed, compiled and measured.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/planner.h"

namespace boxcar::planner {

struct FittingJob {
  Job job;            // not resolved: the job as given, but for the changes
  int64_t bytes = 0;  // the most that a device needs
};

// Up to two jobs with one setting changed, or else one with several; none where more GPUs are needed. `job`
// is resolved and does not fit. Changes that cost nothing come first.
std::vector<FittingJob> fitting_jobs(const Job& job);

}  // namespace boxcar::planner

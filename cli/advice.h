// What would make a job that does not fit fit: the same job with one setting changed, compiled and measured.
#pragma once

#include <string>

#include "planner/planner.h"

namespace boxcar::cli {

// "; --recompute full would do (61.2 GB)", naming up to two settings that help alone, or else two together,
// or else that more GPUs are needed. `job` is resolved and does not fit.
std::string advise(const planner::Job& job);

}  // namespace boxcar::cli

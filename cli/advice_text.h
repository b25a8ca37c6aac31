// How a job that does not fit would: "; it would fit with --recompute full (61.2 GB)".
#pragma once

#include <string>

#include "planner/planner.h"

namespace boxcar::cli {

// `job` is resolved. It follows the reason why the job does not fit.
std::string advice_text(const planner::Job& job);

}  // namespace boxcar::cli

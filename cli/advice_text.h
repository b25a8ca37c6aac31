// Changes with which a job that does not fit would: "; it would fit with --recompute full (61.2 GB) or with
// --gpus 16 --dp 4 (70 GB)".
#pragma once

#include <string>

#include "planner/planner.h"

namespace boxcar::cli {

// It follows the reason why the job does not fit. `described`: the cluster that provides more GPUs.
std::string advice_text(const planner::ResolvedJob& job, const backends::Cluster& described);

}  // namespace boxcar::cli

// A saved plan with its cluster, and the job that it was compiled from.
#pragma once

#include <string>

#include "backends/cluster.h"
#include "cli/job.h"
#include "ir/plan.h"

namespace boxcar::cli {

struct SavedPlan {
  ir::Plan plan;
  backends::Cluster cluster;
};

// `given`: at most cluster.preset and cluster.device, which put the plan on others of the same size; its
// labels say so. Throws Error (bad input) naming the file, with line and column where it does not read back.
SavedPlan load_plan(const std::string& path, const GivenKeys& given);

// The job that a plan's labels describe. Throws Error (bad input) where they are not those of a whole job.
Resolved job_of(const ir::Plan& plan, const std::string& path);

}  // namespace boxcar::cli

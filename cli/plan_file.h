// A saved plan with its cluster, and the job that it was compiled from.
#pragma once

#include <string>

#include "backends/machines/cluster.h"
#include "cli/job.h"
#include "ir/plan.h"
#include "planner/laid_out.h"

namespace boxcar::cli {

struct SavedPlan {
  ir::Plan plan;
  backends::Cluster cluster;
};

// `given`: at most cluster.preset and cluster.device, which put the plan on others of the same size, and
// train.routing_skew, which no act of it depends on; its labels say so. Throws Error (bad input) naming the
// file, with line and column where it does not read back.
SavedPlan load_plan(const std::string& path, const GivenKeys& given);

// The job that a plan's labels describe. Throws Error (bad input) where they are not those of a whole job.
Resolved job_of(const ir::Plan& plan, const std::string& path);

// A saved plan to be trained: the plan as the file has it, and the keys that it is trained by.
struct PlanToTrain {
  ir::Plan plan;
  GivenKeys given;  // its labels, and what the user gave beside
};

// `given`: keys of section run, train.learning_rate, and any that say what the plan's labels say. Throws
// Error (bad input) where the plan has no job, or one key says otherwise.
PlanToTrain plan_to_train(const std::string& path, GivenKeys given);

// Throws Error (bad input), quoting the first line that differs, where `plan` is not what is compiled from
// `laid`, however many slots its registers have: nobody would know then where its tensors lie. The same where
// a fact is missing or is not the job's.
void expect_plan_of(const planner::LaidOut& laid, const planner::Job& job, const ir::Plan& plan,
                    const std::string& path);

}  // namespace boxcar::cli

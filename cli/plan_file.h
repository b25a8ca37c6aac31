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

// `given`: at most cluster.preset and cluster.device, which move the plan to a cluster of the same size, and
// train.routing_skew, on which no act depends; the plan's labels then have them. Throws Error (bad input)
// naming the file, with line and column if it does not read back.
SavedPlan load_plan(const std::string& path, const GivenKeys& given);

// Throws Error (bad input) with line and column if the file is no plan.
ir::Plan read_plan(const std::string& file);
// The keys in a plan's labels, without those that have their default. Throws Error (bad input) if a label of
// a job's sections names no key.
GivenKeys keys_of(const ir::Plan& plan, const std::string& path);

// Why the plan does not fit on its cluster: "does not fit: stage0 needs 90 GB of 85.1 GB, 4.9 GB too much".
// Empty: it fits.
std::string why_not(const SavedPlan& saved);
// Throws Error (cannot run) if it does not.
void check_fits(const SavedPlan& saved, const std::string& path);

// The job that a plan's labels describe. Throws Error (bad input) if they do not describe a whole job.
Resolved job_of(const ir::Plan& plan, const std::string& path);

// A saved plan to be trained: the plan as the file has it, and the keys with which it is trained.
struct PlanToTrain {
  ir::Plan plan;
  GivenKeys given;  // its labels, and the user's other keys
};

// `given`: keys of section run, train.learning_rate, and any that agree with the plan's labels. Throws Error
// (bad input) if the plan has no job, or a key disagrees.
PlanToTrain plan_to_train(const std::string& path, GivenKeys given);

// Throws Error (bad input), quoting the first line that differs, if `plan` differs from the plan compiled
// from `laid` in more than its registers' numbers of slots: the places of its tensors would be unknown. Also
// throws if a fact is missing or is not the job's.
void expect_plan_of(const planner::LaidOut& laid, const planner::Job& job, const ir::Plan& plan,
                    const std::string& path);

}  // namespace boxcar::cli

// Jobs, and walks over their points, shared by the search's tests.
#pragma once

#include <functional>
#include <set>
#include <string>

#include "planner/estimate/step_estimate.h"
#include "planner/search/points.h"

namespace boxcar::search {

// 4 layers of 1,024, 16 sequences of 512, on A100s.
planner::Job small_gpt(int gpus);

// The job's estimate; layers may differ in recomputation.
Estimate estimated(const planner::Job& job);

// The estimate of a job's step over the simulated one.
double estimate_over_step(planner::Job job);

// Peak memory of the fullest device.
int64_t peak_of(const ir::Plan& plan);

// Visits every legal point, resolved, with its plan.
void each_plan(const planner::Job& job, const std::set<std::string>& pinned,
               const std::function<void(const planner::Job&, const ir::Plan&)>& visit);

}  // namespace boxcar::search

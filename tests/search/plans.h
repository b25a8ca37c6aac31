// Plans whose register counts are changed, and their simulated times.
#pragma once

#include <vector>

#include "ir/plan.h"
#include "planner/solve/pipeline.h"

namespace boxcar::search {

// A pipeline of one device per stage: forward and backward acts, transfers on their own queues, and an update
// from the gradients of all micro-batches. A stage runs `in_flight` forward acts, then a backward and a
// forward act in turn. Every register has `slots` slots, a weight one; "saved" holds a forward act's output
// for its backward act.
struct PipelineShape {
  std::vector<PipelineStage> stages;
  std::vector<int> in_flight;  // by stage
  int micro_batches = 1;
  int slots = 1;
  int64_t saved_bytes = 100, sent_bytes = 10;
};
ir::Plan pipeline_plan(const PipelineShape& shape);

// Places registers one after the other, for their current counts.
void place_registers(ir::Plan& plan);

// By node of the plan's view: the attribute "seconds" of its actor.
std::vector<double> seconds_of(const ir::Plan& plan);

// The mean step over the longest run of whole periods at the end of `steps` steps; negative if there is none.
double simulated_period(const ir::Plan& plan, int steps);

}  // namespace boxcar::search

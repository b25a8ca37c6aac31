// Plans whose register counts are changed, and the time that they take on the simulator.
#pragma once

#include <vector>

#include "ir/plan.h"
#include "planner/solve/pipeline.h"

namespace boxcar::search {

// A pipeline of one device a stage: forward and backward acts, transfers on queues of their own, an update
// that gradients of all micro-batches go into. A stage runs `in_flight` forward acts, then a backward and a
// forward act in turn. Every register has `slots` slots, a weight one; what forward acts leave for backward
// ones is "saved".
struct PipelineShape {
  std::vector<PipelineStage> stages;
  std::vector<int> in_flight;  // by stage
  int micro_batches = 1;
  int slots = 1;
  int64_t saved_bytes = 100, sent_bytes = 10;
};
ir::Plan pipeline_plan(const PipelineShape& shape);

// Places registers one after the other, for the counts that they have now.
void place_registers(ir::Plan& plan);

// By node of the plan's view: the attribute "seconds" of its actor.
std::vector<double> seconds_of(const ir::Plan& plan);

// The mean step over the longest run of whole periods at the end of `steps` steps; negative where none shows.
double simulated_period(const ir::Plan& plan, int steps);

}  // namespace boxcar::search

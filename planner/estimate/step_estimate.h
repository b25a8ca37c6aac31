// A point's time and memory, from its layers' costs. Candidates are ranked by them.
//
//   micro-batches x the period of the pipeline, + the stages other than the slowest once, + the exposed part
//   of the states' communication, + the update
//
// The period is the slowest stage's time, or longer if transfers take so long that the micro-batches in
// flight do not hide them (pipeline.h).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/estimate/estimate.h"
#include "planner/estimate/in_flight.h"
#include "planner/solve/pipeline.h"

namespace boxcar::search {

struct Estimate {
  double seconds = 0;  // of a step
  double bytes = 0;    // on a device of the fullest stage
  int fullest_stage = 0;
  // The most by which backward passes in two parts (zb-h2, zb-v) could shorten a pipeline's step. Its fill
  // and drain: two passes' gradients of weights for each stage except one, each about as long as a forward
  // pass. And the exchange of a tied table's gradients.
  double split_saves = 0;
};
// The part of a stage's sharded states that one device has: experts have fewer replicas.
double sharded_part(const planner::Hints& hints, const StageCost& stage);

// REQUIRES: `job` has dp, stage_layers and micro_batches filled in; `in_flight` is in_flight_of(job), which
// jobs of the same schedule, stages and micro-batches share.
Estimate estimate(const planner::Job& job, const KindCosts& costs, const InFlight& in_flight);
Estimate estimate(const planner::Job& job, const KindCosts& costs);

// By stage, on a device.
std::vector<double> bytes_by_stage(const planner::Job& job, const KindCosts& costs,
                                   const InFlight& in_flight);

// A stage of `layers` layers, the first `recomputed` of which recompute, on devices that take `slowness`
// times as long. For equal layers, without virtual stages.
struct StageNeeds {
  double seconds = 0;  // of a micro-batch
  double bytes = 0;    // on a device
};
StageNeeds needs_of(const planner::Job& job, const KindCosts& costs, const InFlight& in_flight, int stage,
                    int layers, int recomputed, double slowness);

// A schedule such as "7,5,3,1" that keeps the pipeline within `slack` of its least period. Nothing if 1F1B
// has as many in flight, or if there are virtual stages.
std::optional<planner::PipelineSchedule> schedule_for(const planner::Job& job, const KindCosts& costs,
                                                      double slack);

}  // namespace boxcar::search

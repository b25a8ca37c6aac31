// The ends of the runs in a pipeline's step. Each stage runs them in the schedule's order, and each run waits
// for its inputs.
//
//   2 stages, 1f1b, 2 micro-batches, forward 1 s, backward 2 s, no transfers: 9 s
//
//   stage 0:  F.0 F.1 ... ... B.0 B.0 B.1 B.1      F.0 at 0, B.0 from 4 to 6, B.1 from 7 to 9: it waits
//   stage 1:  ... F.0 B.0 B.0 F.1 B.1 B.1          for B.1 of stage 1, which ends at 7
//
// Transfers out of a stage, to the next one and to the previous one, share its links and so follow each
// other. Slots of transfers are not limited here: a schedule has as many as it needs.
#pragma once

#include <vector>

#include "planner/schedule.h"

namespace boxcar::search {

// Seconds of the runs of a (virtual) stage for a micro-batch.
struct RunTimes {
  double forward = 0, backward = 0;
  double weight = 0;  // of the second part of the backward pass, if that is split
  double send = 0;    // its results, to the next (virtual) stage; the gradient back takes as long
  // The part of `forward` at its start that needs no input (of parameters that are gathered). The part of
  // `backward` at its start that needs no gradient of the next stage (the last layer's recomputation), and
  // the part after the gradient for which the previous stage waits.
  double before_input = 0, before_gradient = 0, behind_gradient = 0;
};

// `times` are by (virtual) stage in the model's order. If there are many micro-batches, only some groups are
// followed, and each later group takes as long as the last of these. Ends are by stage, in s from the step's
// start.
std::vector<double> runs_ends(const planner::Pipeline& pipeline, const std::vector<RunTimes>& times);
// The latest of these ends.
double runs_seconds(const planner::Pipeline& pipeline, const std::vector<RunTimes>& times);

}  // namespace boxcar::search

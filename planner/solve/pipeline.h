// The number of micro-batches that each pipeline stage must have in flight so that the pipeline keeps a
// period.
//
//   3 stages, forward 1 s, backward 2 s, period 3: {3, 2, 1}, as in 1F1B; each transfer taking 1 s: {5, 3, 1}
//
// In the steady state a stage with k in flight alternates: backward of micro-batch i, forward of i + k. Let a
// be the start of a micro-batch's forward act and b that of its backward act. Then b - a is at most k x
// period - backward and at least (k - 1) x period + forward. It is at least b - a of the next stage plus the
// time between: forward, transfer, backward of the next stage, transfer. The smallest such b - a, computed
// from the last stage on, is smallest for every stage at once. So these k are the least in this order, for
// each stage. This ignores a step's ends, where the pipeline fills and empties: see the plan's period
// (registers.h) or simulate.
#pragma once

#include <vector>

namespace boxcar::search {

// Seconds of one micro-batch.
struct PipelineStage {
  double forward = 0, backward = 0;
  double send = 0;       // its results, to the next stage
  double send_back = 0;  // gradients, to the previous stage
};

// The least period of these stages, with any number in flight. Each transfer has its own queue.
double least_period(const std::vector<PipelineStage>& stages);

// By stage; errors: input (a period below the least).
std::vector<int> in_flight(const std::vector<PipelineStage>& stages, double period);

}  // namespace boxcar::search

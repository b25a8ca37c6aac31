// The least time of a point's step: its kernels, collectives between the kernels of a pass, and in a pipeline
// the waiting that no order avoids.
//
//   one stage, 4 micro-batches of 10 ms of kernels: 40 ms
//   two equal stages of 5 ms each, the same:        at least 4 x 5 ms, and the first or last 5 ms beside them
//
// A stage that takes c_i for a micro-batch runs all m of them, after forward passes of the stages before it
// and before their backward passes: T >= m c_i + sum of c_j before it. For any cut of the layers, some stage
// then gives T >= C / (1 - (1 - 1/m)^p), with C the kernels of a micro-batch on all p stages. If layers are
// equal, T is also at least the time in which the stages can run all layers as whole layers. If a device is
// slow, this holds for the line of devices, one of each stage, that waits for it: its c_i is f times its
// computing, and the bound is least on the last stage. In any order of stages, the slowest devices are at
// best on as few stages as have room for them, which gives at least m C / (sum of 1 / f_i). The time of all
// stages together must also contain the update's kernels. Other collectives, transfers and launches that wait
// only add to it. If only some layers recompute, the bound assumes the same number on any stages. Virtual
// stages keep their cut.
//
// If backward passes are in two parts, the second ones may fill the end of a step, so that a stage waits only
// for forward passes: T >= m c_i + sum of f c_j before it, with f the forward share of a layer. For any cut
// of the layers, T >= f C / (1 - (1 - f/m)^p), minus f times the kernels outside layers.
#pragma once

#include "planner/estimate/estimate.h"

namespace boxcar::search {

// Times that count. kernels: only those of kernels, with cuts also inside layers. waits: also the waiting of
// the compute queue inside passes (StageCost::waiting), with whole layers, and the update's kernels.
enum class Counted : uint8_t { kernels, waits };

// In s, for the layouts from the hints, any cut of the layers into stages, any order of the stages and of the
// mesh, and any order of backward passes, whole or in two parts as in the job. REQUIRES: `job` has dp,
// stage_layers and micro_batches filled in.
double least_seconds(const planner::Job& job, const KindCosts& costs, Counted counted = Counted::waits);

}  // namespace boxcar::search

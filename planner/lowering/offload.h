// Pass offload (Hints::offload_activations): activations that a backward pass reads lie in memory of the host
// in between.
//
// A *group* is the tasks of a pass that belong to one layer and follow one another. All values that a group
// of a forward pass leaves to a backward pass are copied to the host together, while the next group runs; the
// last kernel of the next group waits for the copy. They are copied back together for the first group that
// reads them, from the first kernel of the group before it on. So a device holds the values of two groups.
//
//   forward    compute:  h0 | h1             | h2
//              offload:       h0 to the host   h1 to the host
//   backward   compute:  h2             | h1             | h0
//              fetch:      h1 to the device  h0 to the device
//
// The values that the first group of a backward pass reads stay on the device, and so do those of the last
// group of a forward pass. Inputs, parameters and gradients stay too.
#pragma once

#include "planner/lowering/stage.h"
#include "planner/lowering/tasks.h"

namespace boxcar::planner {

void offload(const Stage& stage, StageTasks& tasks);
// Only copies read and make values on the host, and none is read before it is there.
void check_offload(const Stage& stage, const StageTasks& tasks);

}  // namespace boxcar::planner

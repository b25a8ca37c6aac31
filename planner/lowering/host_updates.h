// Pass update_on_host (Hints::offload_optimizer, or servers that update): master weights and moments lie in
// memory of the host, which also updates them.
//
//   on the device                       copies                  on the host
//   w.grad.sum                          offload: w.grad.sum
//                                                               adam(w, w.grad.sum, w.m, w.v)
//                                                               w.half = cast(w)
//   w.half, which the next step reads   fetch: w.half
//
// A state whose value the device reads itself stays there with the whole update: a master weight that passes
// read or that is gathered in its own type (fp32), and states whose norms steer their update, or whose
// update reads a direction (adafactor). Scalars that
// updates read are copied once. Servers also hold what other hosts pull from them, and gradients arrive there
// (servers.h).
#pragma once

#include "planner/lowering/stage.h"
#include "planner/lowering/tasks.h"

namespace boxcar::planner {

void update_on_host(const Stage& stage, StageTasks& tasks);
// A task reads and makes values on the host alone, or none there; copies do both.
void check_host_updates(const Stage& stage, const StageTasks& tasks);

}  // namespace boxcar::planner

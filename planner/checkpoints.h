// The actors of a plan that write checkpoints beside training: on every device one for each register of
// state, which copies it to the host, and one that writes: on device 0 what all devices have, nothing on
// others that run the same program.
//
//   h0.ln1.weight.save copy save(%h0.ln1.weight) {behind=0} -> ... on copy_out in U
//   checkpoint host write(%checkpoint.copied) on disk in U
//
// They act once a step, and do something where the step is due (actors::Checkpoints). An update waits until
// what it would overwrite is copied; `slots` steps may begin while a checkpoint is being written.
//
// A register that forward ops read before its update gives, in step s, the state after s steps; one that is
// read after its update gives that after s + 1: `behind`, an attribute of the act, is 0 or 1.
#pragma once

#include "ir/plan.h"
#include "planner/places.h"

namespace boxcar::planner {

// Of a plan that planner::compile made, where each class has a program of its own; `slots` is at least 1.
void add_checkpoints(ir::Plan& plan, const Places& places, int slots);

}  // namespace boxcar::planner

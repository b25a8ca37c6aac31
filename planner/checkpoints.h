// The actors of a plan that write checkpoints beside training. On every device, one actor for each register
// of state copies it to the host. On device 0, one actor writes the state of all devices; on other devices
// with the same program it writes nothing.
//
//   h0.ln1.weight.save copy save(%h0.ln1.weight) {behind=0} -> ... on copy_out in U
//   checkpoint host write(%checkpoint.copied) on disk in U
//
// They act once per step and do work if a checkpoint is due (actors::Checkpoints). An update waits until the
// state that it overwrites is copied; `slots` steps may begin while a checkpoint is being written.
//
// In step s, a register that forward ops read before its update holds the state after s steps. One that is
// read after its update holds the state after s + 1 steps. `behind`, an attribute of the act, is 0 or 1.
#pragma once

#include "ir/plan.h"
#include "planner/places.h"

namespace boxcar::planner {

// REQUIRES: `plan` comes from planner::compile, each of its classes has its own program, and `slots` is at
// least 1.
void add_checkpoints(ir::Plan& plan, const Places& places, int slots);

}  // namespace boxcar::planner

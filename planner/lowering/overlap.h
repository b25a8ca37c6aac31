// Pass overlap: chooses tasks that wait for kernels whose outputs they do not read. A transfer that runs
// beside compute begins late enough that it does not take memory too early, and early enough that nothing
// waits for it.
//
// - A gather begins after the first kernel that reads the previous gather's results: one layer ahead. Without
//   overlap_param it begins after the kernel before it.
// - A box of a forward value that a backward pass reads again begins after the kernel before it. Otherwise
//   all of these could begin with the phase, and all layers would be moved at once.
//
//   compute:  first of h0 | others of h0      | first of h1 | others of h1
//   net.dp:                 gather of h1                      gather of h2
//
// Afterwards tasks wait only for earlier tasks, and only boxes and gathers are held back.
#pragma once

#include "planner/lowering/stage.h"
#include "planner/lowering/tasks.h"

namespace boxcar::planner {

void overlap(const Stage& stage, StageTasks& tasks);
void check_overlap(const Stage& stage, const StageTasks& tasks);

// Without overlap_grad: on each queue, the first actor from `first_actor` on waits for the last backward
// pass.
void order_reduction_after_backward(ProgramBuilder& builder, size_t first_actor, int micro_batches);
// Without overlap_param: the first kernel of the next step waits for the last gather on each queue, among the
// actors from `first_actor` on.
void order_forward_after_gathers(ProgramBuilder& builder, size_t first_actor);

}  // namespace boxcar::planner

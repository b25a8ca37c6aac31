// Pass overlap: which tasks wait for kernels whose outputs they do not read. A transfer behind compute begins
// late enough that its memory is not taken too early, and early enough that nothing waits for it.
//
// - A gather begins when the first kernel that reads what was gathered before has ended: one layer ahead.
//   Without overlap_param, when the kernel in front of it has ended.
// - A box of what a backward pass reads again of its forward pass begins when the kernel in front of it has
//   ended. All of these could begin with the phase, and all layers would be moved at once.
//
//   compute:  first of h0 | others of h0      | first of h1 | others of h1
//   net.dp:                 gather of h1                      gather of h2
//
// Afterwards tasks wait for tasks in front of them alone, and those that are held back are boxes and gathers.
#pragma once

#include "planner/lowering/stage.h"
#include "planner/lowering/tasks.h"

namespace boxcar::planner {

void overlap(const Stage& stage, StageTasks& tasks);
void check_overlap(const Stage& stage, const StageTasks& tasks);

// Without overlap_grad: the first actor of each queue from `first_actor` on waits for the last backward pass.
void order_reduction_after_backward(ProgramBuilder& builder, size_t first_actor, int micro_batches);
// Without overlap_param: the first kernel of the next step waits for the last gather on each queue, of the
// actors from `first_actor` on.
void order_forward_after_gathers(ProgramBuilder& builder, size_t first_actor);

}  // namespace boxcar::planner

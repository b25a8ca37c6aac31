// Pass order_ops: puts the ops of a stage in program order, as tasks that name no values yet.
//
//   graph     ln1 qkv ... qkv.grad ln1.grad grad_norm2 cast(w) adam(w)
//   passes    kernels ln1 qkv ... qkv.grad ln1.grad, each in the phase of its run
//   updates   joint grad_norm2, kernel adam(w), kernel cast(w)
//             with fused_optimizer: joint grad_norm2, update_all {adam(w), adam(b), ...} with their casts
//             with norms of weights: kernel lamb_norms(w), update_all {lamb(w)} with its cast
//
// If a backward pass is split, ops of its second part come after those of the first. With overlap_tp, an
// `ahead` task requests values of the forward pass that the next kernel reads again. It comes one kernel
// earlier:
//
//   compute:  gelu.grad | fc1.grad_x         | fc1.grad_w          | ln2.grad
//   net.tp:               ln2.all_gather.2     ln2.grad.reduce_scatter
//
// Afterwards every op of the stage is in one task, after the tasks that make its operands.
#pragma once

#include "planner/lowering/stage.h"
#include "planner/lowering/tasks.h"

namespace boxcar::planner {

void order_ops(const Stage& stage, StageTasks& tasks);
void check_order(const Stage& stage, const StageTasks& tasks);

}  // namespace boxcar::planner

// Pass insert_boxing: chooses the value that every reader reads, and adds the boxes, loads and pulls that
// make these values.
//
// A tensor is kept in its *stored* layout: the one in which it is made, or to which it is pinned. A reader
// that needs another layout gets a box, which is made once and shared:
// - of partial results of the update (norms): for all that exist together, when one is needed;
// - of any partial value, or if the result is no larger than its source (context parallelism exchanges heads
//   for sequence): for all readers of the step;
// - of state: once per step after the update (shard_states), or in each pass for all states of a layer
//   (`gather`);
// - else: once in the forward pass of a chunk and again in its backward pass, so that nothing gathered is
//   kept (as in Megatron's sequence parallelism and in ZeRO-3).
//
//   ln2 is S(1) on tp; fc1 and fc1.grad_w read it as B:
//     box F0 {ln2: S(1) -> B}   kernel F0 fc1   ...   box B0 {ln2: S(1) -> B}   kernel B0 fc1.grad_w
//
// Afterwards every task reads values that exist, in the layout that its op needs and in a phase that may read
// them. Each value is made by one task or declared. No `ahead` is left.
#pragma once

#include "planner/lowering/stage.h"
#include "planner/lowering/tasks.h"

namespace boxcar::planner {

void insert_boxing(const Stage& stage, StageTasks& tasks);
void check_boxing(const Stage& stage, const StageTasks& tasks);

}  // namespace boxcar::planner

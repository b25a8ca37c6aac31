// Pass insert_boxing: which value every reader reads, and the boxes, loads and pulls that make those values.
//
// A tensor is kept in its *stored* layout: the one it is made in, or pinned to. A reader that wants another
// layout gets a box, made once and shared:
// - out of partial results of the update (norms): all that are there together, when one is wanted;
// - out of any partial value, or as small as what it is made of (as context parallelism exchanges heads for
//   sequence): for all readers of the step;
// - of state: once per step, after the update (shard_states), or in each pass for all of a layer (`gather`);
// - else: once in the forward pass of a chunk and again in its backward pass, so that nothing gathered is
//   kept (as Megatron's sequence parallelism and ZeRO-3 do it).
//
//   ln2 is S(1) on tp; fc1 and fc1.grad_w read it as B:
//     box F0 {ln2: S(1) -> B}   kernel F0 fc1   ...   box B0 {ln2: S(1) -> B}   kernel B0 fc1.grad_w
//
// Afterwards every task reads values that are there, in the layout that its op wants and in a phase that may
// read them; each value is made by one task or declared. No `ahead` is left.
#pragma once

#include "planner/lowering/stage.h"
#include "planner/lowering/tasks.h"

namespace boxcar::planner {

void insert_boxing(const Stage& stage, StageTasks& tasks);
void check_boxing(const Stage& stage, const StageTasks& tasks);

}  // namespace boxcar::planner

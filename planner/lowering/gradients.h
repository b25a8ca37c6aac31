// Pass reduce_gradients: when a gradient goes from the layout in which it is made to the one in which it is
// kept, and which others go with it.
//
// - once: sums over micro-batches, and gradients that nothing adds up. In buckets, when the last backward
//   pass is through; then gradients of tied parameters are summed between their stages.
// - with_layer: where each micro-batch's gradients are reduced (Sharding). When the layer's backward pass is
//   through; they are added up a layer later, so that compute does not wait. Where one micro-batch leaves
//   nothing to add up, the first kernel a layer later waits for the reduction, so that the memory of whole
//   gradients is free. Without overlap_grad all that happens at once.
// - now: all else. Partial activations, and gradients that a backward pass reads.
//
//   compute:  B of h1 | B of h0             | sums of h1 | B of the embedding  | sums of h0
//   net.dp:             gradients of h1                    gradients of h0
//
// Afterwards a gradient that is reduced once or with its layer is in exactly one bucket. Its box stands
// behind the op that makes the gradient and before the sums that add it up.
#pragma once

#include "planner/lowering/stage.h"
#include "planner/lowering/tasks.h"

namespace boxcar::planner {

// Nothing: output `t` of op `o` is made as it is kept, or is a state.
enum class Reduced : uint8_t { nothing, now, with_layer, once };
Reduced when_reduced(const Stage& stage, ir::OpId o, ir::TensorId t);

void reduce_gradients(const Stage& stage, StageTasks& tasks);
void check_gradients(const Stage& stage, const StageTasks& tasks);

}  // namespace boxcar::planner

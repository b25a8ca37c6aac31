// Pass reduce_gradients: chooses when a gradient changes from the layout in which it is made to the stored
// one, and which gradients do so together.
//
// - once: sums over micro-batches, and gradients that nothing accumulates. They are reduced in buckets after
//   the last backward pass; then gradients of tied parameters are summed between their stages.
// - with_layer: if each micro-batch's gradients are reduced (Sharding). They are reduced after the layer's
//   backward pass, and accumulated a layer later so that compute does not wait. If there is only one
//   micro-batch, so nothing to accumulate, the first kernel a layer later waits for the reduction, so that
//   the memory of whole gradients is freed. Without overlap_grad all this happens immediately.
// - now: everything else: partial activations, and gradients that a backward pass reads.
//
//   compute:  B of h1 | B of h0             | sums of h1 | B of the embedding  | sums of h0
//   net.dp:             gradients of h1                    gradients of h0
//
// Afterwards a gradient that is reduced once or with its layer is in exactly one bucket. Its box comes after
// the op that makes the gradient and before the sums that accumulate it.
#pragma once

#include "planner/lowering/stage.h"
#include "planner/lowering/tasks.h"

namespace boxcar::planner {

// `nothing`: output `t` of op `o` is made in its stored layout, or is a state.
enum class Reduced : uint8_t { nothing, now, with_layer, once };
Reduced when_reduced(const Stage& stage, ir::OpId o, ir::TensorId t);

void reduce_gradients(const Stage& stage, StageTasks& tasks);
void check_gradients(const Stage& stage, const StageTasks& tasks);

}  // namespace boxcar::planner

// The order of a backward pass in which the collectives of tensor parallelism are exposed.
//
//   as differentiated:   proj.grad_x  proj.grad_w  qkv.grad_x  qkv.grad_w  norm.grad
//                                                   all_reduce -------->|           grad_w runs beside it
//   gradients first:     proj.grad_w  proj.grad_x  qkv.grad_w  qkv.grad_x           norm.grad
//                                                               all_reduce -------->|   the device waits
#pragma once

#include <vector>

#include "ir/graph.h"

namespace boxcar::planner {

// By op: whether it is in the backward pass and its outputs leave its layer only for the update. Examples are
// the product that gives the gradient of a linear layer's weight, and sums of the gradients of a weight's
// uses.
std::vector<char> for_gradients_alone(const ir::Graph& graph);

// By op: whether it is one of these ops and is for the gradient of the head's weight: the first product or
// convolution of the backward pass, and the sums that add its result.
std::vector<char> for_gradient_of_head(const ir::Graph& graph);

// Moves ops of the backward pass that serve only parameter gradients to where their operands are ready,
// within their layer. `graph` is a training graph. Ops stay in topological order. Returns each op's former
// position.
std::vector<int> gradients_first(ir::Graph& graph);

}  // namespace boxcar::planner

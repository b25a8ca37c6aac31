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

// By op: in the backward pass, and what it gives leaves its layer for the update alone: of a linear layer the
// product that gives the gradient of its weight, of what the gradients of all its uses are summed with.
std::vector<char> for_gradients_alone(const ir::Graph& graph);

// Of these the gradient of the head's weight, the first product or convolution that a backward pass comes to,
// and what it is summed with.
std::vector<char> for_gradient_of_head(const ir::Graph& graph);

// Moves ops of the backward pass whose results only gradients of parameters need to where their operands are
// there, within their layer. `graph` is a training graph; ops stay in topological order. Returns, by op,
// where it was before.
std::vector<int> gradients_first(ir::Graph& graph);

}  // namespace boxcar::planner

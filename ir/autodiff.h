// The backward graph of a logical graph. Gradients are built from a table of rules, one row per op.
#pragma once

#include <string_view>
#include <vector>

#include "ir/graph.h"

namespace boxcar::ir {

// Adds the backward ops of d(loss)/d(parameter) for every parameter that loss depends on. Gradient tensors
// are named "<tensor>.grad", with role gradient for parameters; ops are Phase::backward, named
// "<op>.grad...", in the placement and layer of their forward op. Throws Error (bad input) naming an op that
// has no gradient.
struct Gradient {
  TensorId parameter = -1, gradient = -1;
  TensorId indices = -1;  // after the pass sparse_tables: the rows of a table that `gradient` has; -1: all
};
std::vector<Gradient> differentiate(Graph& graph, TensorId loss);
bool has_gradient(std::string_view op);  // whether `op` has a gradient rule

}  // namespace boxcar::ir

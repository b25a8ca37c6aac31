// Checks the order of definitions in a graph in one walk. It is cheap enough to run after every pass in every
// build. `verify` is the full check.
//
//   %z = neg(%y), %y = mul(%x, %w)   graph g: op z: operand %y is not defined before it
#pragma once

#include <vector>

#include "ir/graph.h"

namespace boxcar::ir {

// Checks that every op reads tensors that exist and are defined before it. Throws Error (fault) naming the
// first op at fault.
void verify_order(const Graph& graph);
// The same for one operand of `op`, given the tensors defined before it.
void verify_operand(const Graph& graph, const Op& op, TensorId input, const std::vector<bool>& defined);

}  // namespace boxcar::ir

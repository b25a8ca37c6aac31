// The order of definitions in a graph, of which `verify` is the full check: one walk, cheap enough to follow
// every pass in every build.
//
//   %z = neg(%y), %y = mul(%x, %w)   graph g: op z: operand %y is not defined before it
#pragma once

#include <vector>

#include "ir/graph.h"

namespace boxcar::ir {

// That what every op reads is a tensor, and defined before. Throws Error (fault) naming the first op of which
// it is not so.
void verify_order(const Graph& graph);
// The same of one operand of `op`, given which tensors are defined before it.
void verify_operand(const Graph& graph, const Op& op, TensorId input, const std::vector<bool>& defined);

}  // namespace boxcar::ir

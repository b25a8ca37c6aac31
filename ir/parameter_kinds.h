// Kinds of parameters, by the ops of a graph that read them.
//
//   h0.mlp.fc1.weight[8, 64, 256]   read between moe_dispatch and moe_combine: experts, of axis 0
//   h0.conv1.weight[64, 3, 7, 7]    read by conv2d: convolution, [out, in, rows, columns]
//   h0.conv1.bias[64, 1, 1]         read by add, one axis longer than 1: a vector
#pragma once

#include <cstdint>
#include <vector>

#include "ir/graph.h"

namespace boxcar::ir {

enum class ParameterKind : uint8_t { plain, convolution, experts };

// By tensor: the kind of a parameter or of its cast, by the forward ops that read it. All other tensors are
// plain.
std::vector<ParameterKind> parameter_kinds(const Graph& graph);

// By tensor: whether it is a parameter that is a bias, or a factor per channel as in norms. No product or
// convolution multiplies by them, and they have at most one axis longer than 1, not counting that of experts.
std::vector<bool> vector_parameters(const Graph& graph);

}  // namespace boxcar::ir

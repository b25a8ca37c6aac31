// Runs a logical graph on the reference kernels, op by op, as one device would. Plans are compared with it.
//
//   Values values = evaluate(graph, {{"x", ...}, {"w", ...}});
//   values.at("loss").data[0]
//
// One micro-batch: accumulate sums over this one alone. Elements are not rounded to the graph's types.
#pragma once

#include <map>
#include <string>

#include "backends/cpu/reference.h"
#include "ir/graph.h"

namespace boxcar::backends::cpu {

using Values = std::map<std::string, HostTensor, std::less<>>;

// Returns every tensor of the graph by name. `given` holds inputs and parameters. Throws Error (bad input)
// naming one that is missing or of another type, Error (fault) for an op without a kernel.
Values evaluate(const ir::Graph& graph, const Values& given);

// Inputs and parameters for a graph, drawn from `seed`: floats normal with deviation 0.5, integers below
// `below`. Moments are zero.
Values draw(const ir::Graph& graph, uint64_t seed, int64_t below);

}  // namespace boxcar::backends::cpu

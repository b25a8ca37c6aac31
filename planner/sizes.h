// Sizes that nothing could hold are refused before they are added up:
//
//   does not fit: %h0.attn.core.scores has 1.28 EB, more than any cluster has
//
// Beyond these checks 64 bits count every byte.
#pragma once

#include "ir/graph.h"
#include "ir/plan.h"

namespace boxcar::planner {

// Both throw Error (cannot run): a tensor, or the registers of a program together, of more than
// ir::most_bytes.
void check_sizes(const ir::Graph& graph);
void check_sizes(const ir::Plan& plan);

}  // namespace boxcar::planner

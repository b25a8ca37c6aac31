// Lowering of a graph whose placements and layouts the user gave (Table 4 of the paper): one program per
// device, then one per set of devices whose programs are equal.
//
//   y0 on devices 0-1, S(0)  --to_global-->  devices 2-3, B
//   program "devices2-3": two pulls, one from each device of the first placement, and a concat
//
// Placements may be disjoint, overlapping or the same. Only forward passes run, once per micro-batch.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "planner/deduce.h"
#include "planner/program_builder.h"
#include "sbp/boxing.h"

namespace boxcar::planner {

// The placement of every op: its own, or that of its first placed input. Throws Error (bad input) naming an
// op that has no placement or reads a tensor of another placement.
std::vector<const sbp::Placement*> op_placements(const ir::Graph& graph);

ir::Plan lower_placed(const ir::Graph& graph, int micro_batches);

}  // namespace boxcar::planner

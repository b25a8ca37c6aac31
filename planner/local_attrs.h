// An op's attributes on one rank: global counts and offsets become its own.
//
// One program stands for a class of ranks: its attributes are those of the first; ir/rank_attrs.h says how
// the others' are written beside them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "planner/deduce.h"
#include "planner/mesh.h"

namespace boxcar::planner {

// For a class of ranks at these row-major places of `mesh`, ascending.
ir::Attrs local_attrs(const ir::Graph& graph, const ir::Op& op, const OpLayout& layout, const Mesh& mesh,
                      const std::vector<int>& places);

// The attributes of the first place and how those of the others differ, given those of any place: along mesh
// dimensions where all ranks are in the class, else by the place in it ("rank"). `even`: they grow by the
// same step from one device of the mesh to the next, so that two places tell of all that are evenly spaced.
// Throws Error (fault) naming an attribute of which this cannot be said.
ir::Attrs class_attrs(const Mesh& mesh, const std::vector<int>& places,
                      const std::function<ir::Attrs(int64_t place)>& at, bool even = false);

}  // namespace boxcar::planner

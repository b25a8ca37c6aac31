// An op's attributes on one rank: global counts and offsets become its own.
//
// One program stands for many ranks, so an attribute that differs between them comes with how it differs
// along each mesh dimension, counted from coordinate 0:
//   pick(offset) of a vocabulary split 4 ways on "tp":   offset=0, offset_step_tp=16      coordinate k has 0
//   + 16 k where parts are uneven, one value per coordinate:    offset=0, offset_by_tp=[0, 4, 7, 10]
#pragma once

#include "ir/graph.h"
#include "planner/deduce.h"
#include "planner/mesh.h"

namespace boxcar::planner {

// For the rank at row-major `place` of `mesh`.
ir::Attrs local_attrs(const ir::Graph& graph, const ir::Op& op, const OpLayout& layout, const Mesh& mesh,
                      int64_t place);

}  // namespace boxcar::planner

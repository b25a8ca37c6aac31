// SBP deduction: a layout for every tensor and every operand, given the pins.
//
// In graph order, each op takes on every mesh dimension, outermost first, the legal signature that moves the
// fewest bytes, including the boxing of its inputs from their layouts and of its outputs to their pins. Ties
// go to fewer boxed inputs, then to fewer partial inputs, then to more split outputs, then to the registry's
// order. (Paper, section 3.1; Table 2 gives the bytes.) If these choices together are not legal
// (op_layout.h), the legal combination that moves the fewest bytes in total replaces them. An update of a
// table's rows overwrites the table, so it takes the table's layout however small the table is.
//
//   matmul(x: B, w: S(1) pinned)  -> B, S(1) -> S(1)      nothing moves
//   matmul(y: S(2), v: S(0) pinned) -> S(2), S(0) -> P    the output is pinned to B: an all-reduce follows
//
// Equal calls in equal layouts are decided once: 96 layers cost little more than one.
#pragma once

#include <vector>

#include "ir/graph.h"
#include "planner/mesh.h"
#include "planner/op_layout.h"
#include "planner/pins.h"

namespace boxcar::planner {

struct Deduction {
  std::vector<OpLayout> ops;       // by op
  std::vector<sbp::NdSbp> stored;  // by tensor: its stored layout, after boxing to its pin
};

// Bytes that a tensor of `bytes` moves, over the whole group of `parts`, to change its layout; infinite if
// that is impossible.
double transition_bytes(sbp::Sbp from, sbp::Sbp to, double bytes, int64_t parts);

// Chosen layouts; all others are deduced.
struct Layouts {
  std::vector<OpLayout> ops;  // by op; those without signatures are open
  Chosen tensors;
};

// Throws Error (fault) naming an op for which no signature fits, or whose chosen layout is not legal. Types
// are global. All ops are on one mesh.
Deduction deduce(const ir::Graph& graph, const Pins& pins, const Mesh& mesh);
// `pins` are made from layouts.tensors.
Deduction deduce(const ir::Graph& graph, const Pins& pins, const Mesh& mesh, const Layouts& layouts);
// The same with a mesh per op. An op reads tensors of its own mesh, except to_global, whose output has the
// SBP given in the op.
Deduction deduce(const ir::Graph& graph, const Pins& pins, const std::vector<const Mesh*>& meshes);

}  // namespace boxcar::planner

// Casts before a reduction whose type (Hints::grad_reduction) differs from that of its gradients.
//
//   zero 2 and 3, reduced in every micro-batch in float32:
//     %w.half.grad        made in 16 bits, partial
//     %w.half.grad.float  = cast(%w.half.grad), which is reduced
//     %w.grad.sum         = accumulate(%w.half.grad.float)
//   zero 0 and 1, reduced once per step in 16 bits:
//     %w.grad.sum         = accumulate(%w.half.grad) in float32, partial
//     %w.grad.sum.half    = cast(%w.grad.sum), which is reduced and which the update reads
#pragma once

#include "ir/graph.h"
#include "planner/planner.h"

namespace boxcar::planner {

// Inserts the casts into a training graph; none if nothing is reduced, or no gradient is made in 16 bits.
void cast_for_reduction(ir::Graph& graph, const Hints& hints);

// Whether an op of a training graph is such a cast of gradients in every micro-batch.
bool is_cast_for_reduction(const ir::Graph& graph, const ir::Op& op);

// The gradient before such a cast, of either kind; `gradient` itself if there is none.
ir::TensorId before_reduction(const ir::Graph& graph, ir::TensorId gradient);

// The gradient that an update of a weight reads, of the weight's shape; -1 of an update of moments, and of
// one that reads only rows (ir/passes/sparse_tables.cpp).
ir::TensorId gradient_of(const ir::Graph& graph, const ir::Update& update);

}  // namespace boxcar::planner

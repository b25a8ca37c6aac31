// Parameters with several uses: replicas where the uses are on several stages, one gradient where they are on
// one.
#pragma once

#include <vector>

#include "ir/graph.h"
#include "planner/stages.h"

namespace boxcar::planner {

// Gives every stage but the first that reads a parameter a replica of its own, "<name>.replica<virtual
// stage>", whose op says what it is a replica of. So a tied embedding lies on the first and on the last
// stage. For graphs before differentiation.
void replicate_shared_parameters(ir::Graph& graph, const std::vector<int>& stage_layers, int stages);

// A training graph adds up the gradient of every use over the micro-batches, and the sums once per step.
// Where nothing lies between, the uses are added first and one sum is kept, which takes half the memory.
//   add(accumulate(a), accumulate(b)) -> accumulate(add(a, b))
void merge_uses(ir::Graph& graph);

// The gradient norm counts a parameter once, however many replicas it has.
void drop_replica_norms(ir::Graph& graph);

// Gradients of a parameter's replicas, the parameter's own first: summed between their stages.
struct TiedGradient {
  std::vector<ir::TensorId> gradients = {};
  std::vector<int> stages = {};
};
// By parameter.
std::vector<TiedGradient> tied_gradients(const ir::Graph& graph, const std::vector<OpSite>& sites);

}  // namespace boxcar::planner

// Parameters with several uses: replicas if the uses are on several stages, one gradient if they are on one.
#pragma once

#include <vector>

#include "ir/graph.h"
#include "planner/stages.h"

namespace boxcar::planner {

// Gives every stage that reads a parameter, except the first, its own replica, "<name>.replica<virtual
// stage>", whose op names the parameter. So a tied embedding lies on the first and on the last stage. For
// graphs before differentiation.
void replicate_shared_parameters(ir::Graph& graph, const std::vector<int>& stage_layers,
                                 const PartPlaces& places);

// A training graph sums the gradient of every use over the micro-batches, and adds these sums once per step.
// If nothing lies between and both uses are in one part of the model, they are added first and one sum is
// kept, which takes half the memory. Other parts' gradients are made too far apart.
//   add(accumulate(a), accumulate(b)) -> accumulate(add(a, b))
void merge_uses(ir::Graph& graph, const std::vector<int>& stage_layers);

// Makes the gradient norm count a parameter once, however many replicas it has.
void drop_replica_norms(ir::Graph& graph);

// Gradients of a parameter's replicas, the parameter's own first. They are summed between their stages.
struct TiedGradient {
  std::vector<ir::TensorId> gradients = {};
  std::vector<int> stages = {};
};
// By parameter.
std::vector<TiedGradient> tied_gradients(const ir::Graph& graph, const std::vector<OpSite>& sites);

}  // namespace boxcar::planner

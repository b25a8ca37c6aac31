// The training graph of a job: the model for all data-parallel ranks, its backward pass and update, with
// parameters replicated where several stages use them.
#pragma once

#include <vector>

#include "ir/graph.h"
#include "planner/planner.h"
#include "planner/tied.h"

namespace boxcar::planner {

// `job` is resolved; `replicas` gets the pairs of replicated parameters.
ir::Graph training_graph(const Job& job, std::vector<Replica>& replicas);

}  // namespace boxcar::planner

// The training graph of a job: the model for all data-parallel ranks, its backward pass and update, with
// parameters replicated where several stages use them.
#pragma once

#include <vector>

#include "ir/graph.h"
#include "planner/planner.h"
#include "planner/tied.h"

namespace boxcar::planner {

// The model as a plan of the job has it: its vocabulary padded for the tensor parallelism of the hints.
ir::models::Transformer padded_model(const Job& job);

// `job` is resolved; `replicas` gets the pairs of replicated parameters.
ir::Graph training_graph(const Job& job, std::vector<Replica>& replicas);

}  // namespace boxcar::planner

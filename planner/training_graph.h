// The training graph of a job: the model for all data-parallel ranks, its backward pass and update, with
// parameters replicated if several stages use them.
//
//   const GraphInputs inputs = graph_inputs(resolve(job));
//   ir::Graph training = training_graph(inputs);
//
// Jobs with tp 1 and tp 8 have equal inputs if nothing in the graph depends on which rank has which part. A
// graph depends only on its inputs, so a cache of graphs keyed by their inputs cannot mix them up.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/graph.h"
#include "planner/planner.h"
#include "planner/schedule.h"

namespace boxcar::planner {

// The model in a plan of the job, with its vocabulary padded for the tensor parallelism of the hints.
ir::models::Model padded_model(const Job& job);

// All inputs of a training graph.
struct GraphInputs {
  ir::models::Model model;  // padded
  int64_t batch = 0;        // sequences of a micro-batch, of all data-parallel ranks
  ir::TrainOptions options;
  std::vector<int> stage_layers;
  PartPlaces places;
  friend bool operator==(const GraphInputs&, const GraphInputs&) = default;
};
GraphInputs graph_inputs(const ResolvedJob& job);

ir::Graph training_graph(const GraphInputs& inputs);
ir::Graph training_graph(const ResolvedJob& job);

}  // namespace boxcar::planner

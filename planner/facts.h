// Work of one optimizer step of a training graph, for reports.
#pragma once

#include <map>
#include <string>

#include "ir/graph.h"
#include "planner/planner.h"

namespace boxcar::planner {

// Flops of matrix products, attention and convolutions in the forward and backward ops of one micro-batch,
// over all devices: those that the model needs, and those with recomputation. As in publications, attention
// counts the whole square, masked or not.
struct Flops {
  double model = 0, hardware = 0;
};
Flops count_flops(const ir::Graph& graph);

// samples, tokens, model_flops, hardware_flops, micro_batches, parameters, for one step of the whole job.
std::map<std::string, double> facts_of(const ir::Graph& graph, const Job& job);

}  // namespace boxcar::planner

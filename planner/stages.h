// The place of each op of a training graph: its stage, the chunk of that stage, and the part of the step.
//
//   pp 2, virtual_stages 2, stage_layers {3, 3, 3, 3}: layer 7 is virtual stage 2, so stage 0, chunk 1
//
// Ops before the first layer belong to virtual stage 0, those after the last layer to the last one. An op
// that combines numbers of several stages (the gradient norm), and ops that depend only on it, run on every
// stage.
#pragma once

#include <string>
#include <vector>

#include "ir/graph.h"
#include "planner/planner.h"

namespace boxcar::planner {

// weight: the part of a split backward pass that serves only gradients of parameters; reduce: sums of
// gradients, before the update.
enum class Run : uint8_t { forward, backward, weight, reduce, update };

struct OpSite {
  int stage = 0;  // -1: on every stage
  int chunk = 0;
  Run run = Run::forward;
  bool joint = false;  // sums its inputs over all stages
  bool is_on(int its_stage) const { return stage == its_stage || stage < 0; }
  friend auto operator<=>(const OpSite&, const OpSite&) = default;
};

// virtual_stage: that of a layer, including -1 and `layers`; stage_starts: the first layer of each.
int virtual_stage(const std::vector<int>& stage_layers, int layer);
std::vector<int> stage_starts(const std::vector<int>& stage_layers);

// The sites by op. `later`, by op: whether it is in the second part of a backward pass;
// empty: no op is.
std::vector<OpSite> assign_stages(const ir::Graph& graph, const std::vector<int>& stage_layers,
                                  const PartPlaces& places, const std::vector<char>& later = {});

}  // namespace boxcar::planner

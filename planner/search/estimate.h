// What a stage of a transformer costs, from plans of two small models under the same degrees.
//
//   the probes: one layer and two layers on each of two stages, dp 1, two micro-batches
//   layer  = what the second layer adds
//   first  = the first stage less a layer: embeddings;   last = the last stage less a layer: norm, head and
//   loss a stage of l layers is l x layer, and the end that it has
//
// Times come from the plans' own acts on the time models that the simulator asks, each phase laid out with
// its queues in order and everything else at rest. They rank candidates; whoever is chosen is simulated.
#pragma once

#include <array>
#include <functional>
#include <vector>

#include "ir/plan.h"
#include "planner/planner.h"

namespace boxcar::search {

// How long every act of a class's program takes on a cluster when nothing contends, in s: sim::act_seconds.
using ActSeconds =
    std::function<std::vector<double>(const ir::Plan& plan, const backends::Cluster& cluster, int cls)>;

struct StageCost {
  double forward = 0, backward = 0;  // s, of a micro-batch, the collectives inside of the stage included
  double update = 0;                 // s, of a step, with nothing sharded
  double elements = 0;               // of parameters, on one device
  int layers = 0;                    // of a stage
  // Bytes on a device with nothing sharded; activations: of one micro-batch in flight.
  std::array<double, ir::memory_kinds> bytes{};
};

struct ModelCost {
  StageCost layer, first, last;
  double boundary_bytes = 0;  // what a stage gives the next one, of a micro-batch, on one device
};

// `job` is resolved; its dp, zero, pp, virtual_stages, stage_layers and global_batch do not matter. Throws
// Error (bad input) where no plan of two stages can be made.
ModelCost measure(const planner::Job& job, const ActSeconds& seconds);

// When the last act of a phase ends that begins with all that it needs from elsewhere, in s. Pulls take
// nothing: in a pipeline they run behind other work.
double phase_seconds(const ir::Program& program, int phase, const std::vector<double>& seconds);

}  // namespace boxcar::search

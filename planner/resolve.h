// Filling in a job's defaults and refusing invalid jobs; `resolve` itself is declared in planner.h.
//
//   8 gpus, tp 2, 12 layers, pp 2, nothing else given -> dp 2, global_batch 2, stage_layers {6, 6}
//   13 layers on pp 4                                -> stage_layers {4, 3, 3, 3}
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "planner/planner.h"

namespace boxcar::planner {

// The layers of each of `stages` stages, as even as possible, the longer ones first. If there are layers + 2
// stages, the first and the last have none.
std::vector<int> balanced_layers(int64_t layers, int stages);

// The minimum number of layers of (virtual) stage `stage` of `stages`. The first and the last of several may
// have none if the model has something else for them: a transformer's embedding, and its head and loss. The
// ends of a decoder and its encoder stay with layers. So do all stages if only adapters are trained, since a
// stage has to train something.
//
//   126 layers on 16 stages x 8 virtual ones: 0,1x126,0
int least_layers(const ir::models::Model& model, int64_t stage, int64_t stages);
// The maximum number of (virtual) stages with these minimums.
int64_t most_stages(const ir::models::Model& model);

// Whether stage_order is empty or has each of the pp stages once.
bool is_stage_order(const Hints& hints);

// "1, 2, 4 or 8": the divisors of `number`, at most the first ten, for error messages.
std::string divisors_text(int64_t number);

// Micro-batches of one optimizer step. REQUIRES: the job's batch and degrees are filled in.
int micro_batches(const Job& job);

}  // namespace boxcar::planner

// The order in which a pipeline stage runs its micro-batches, and how many of them are under way at once.
//
//   1F1B, stage 1 of 3, 4 micro-batches:  F.0 F.1 B.0 F.2 B.1 F.3 B.2 B.3   2 = 3 - 1 under way
//   GPipe, the same:                      F.0 F.1 F.2 F.3 B.0 B.1 B.2 B.3   4 under way
//   "5,3,1", the same:                    F.0 F.1 F.2 B.0 F.3 B.1 B.2 B.3   3 under way
//
// With v virtual stages a stage holds v chunks of the model; chunk c of stage s is the model's part c *
// stages + s, and the order is Megatron's interleaved one (Narayanan et al. 2021, section 2.2). Phase c is
// the forward pass of chunk c, phase v + c its backward pass.
#pragma once

#include <vector>

#include "ir/plan.h"
#include "planner/planner.h"

namespace boxcar::planner {

struct Pipeline {
  Schedule kind = Schedule::one_f_one_b;
  int stages = 1;
  int chunks = 1;
  int micro_batches = 1;
  std::vector<int> under_way = {};  // by stage, of 1F1B alone; empty: stages - stage
};

// The numbers of "7,5,3,1"; empty where `schedule` is no list of whole numbers from 1 on.
std::vector<int> under_way_of(const std::string& schedule);

// `hints` are resolved.
Pipeline pipeline_of(const Hints& hints, int micro_batches);

inline int forward_phase(int chunk) { return chunk; }
inline int backward_phase(const Pipeline& pipeline, int chunk) { return pipeline.chunks + chunk; }

// The forward and backward runs of one step on `stage`.
std::vector<ir::PhaseRun> stage_order(const Pipeline& pipeline, int stage);

// By chunk: the most micro-batches whose forward pass has run and whose backward pass has not ended.
std::vector<int> in_flight(const Pipeline& pipeline, const std::vector<ir::PhaseRun>& order);

}  // namespace boxcar::planner

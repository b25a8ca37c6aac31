// The order in which a pipeline stage runs its micro-batches, and how many of them are in flight at once.
//
//   1F1B, stage 1 of 3, 4 micro-batches:  F.0 F.1 B.0 F.2 B.1 F.3 B.2 B.3   2 = 3 - 1 in flight
//   GPipe, the same:                      F.0 F.1 F.2 F.3 B.0 B.1 B.2 B.3   4 in flight
//   "5,3,1", the same:                    F.0 F.1 F.2 B.0 F.3 B.1 B.2 B.3   3 in flight
//
// Zero-bubble schedules (Qi et al. 2023, arXiv:2401.10241, the hand-made ones) split the backward pass: B is
// what the stage before waits for, W the gradients of parameters. On stage s of p, W follows its B by s
// micro-batches (zb-h2: 2s) as long as there is a forward pass to run, so that no stage has more than p
// (zb-h2: 2p - 1) micro-batches between F and W:
//
//   zb-h1, stage 1 of 3:  F.0 F.1 B.0 F.2 B.1 W.0 F.3 B.2 W.1 B.3 W.2 W.3
//   zb-h2, stage 1 of 3:  F.0 F.1 F.2 B.0 F.3 B.1 W.0 B.2 W.1 B.3 W.2 W.3
//
// With head_behind n the second part is the gradient of the head's weight alone, on the last stage alone, and
// n micro-batches wait for it until their last backward pass:
//
//   1f1b, head_behind 2, stage 2 of 3:  F.0 B.0 F.1 B.1 F.2 B.2 W.0 F.3 B.3 W.1 W.2 W.3
//
// With v virtual stages a stage holds v chunks of the model; chunk c of stage s is the model's part c *
// stages + s, and the order is Megatron's interleaved one (Narayanan et al. 2021, section 2.2). Phase c is
// the forward pass of chunk c, phase v + c its backward pass, where that is split phase 2v + c its second
// part.
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
  std::vector<int> in_flight = {};  // by stage, of 1F1B alone; empty: stages - stage
  int head_behind = 0;  // micro-batches whose gradient of the head's weight waits, on the last stage
};

// The numbers of "7,5,3,1"; empty where `schedule` is no list of whole numbers from 1 on.
std::vector<int> in_flight_of(const std::string& schedule);

// `hints` are resolved.
Pipeline pipeline_of(const Hints& hints, int micro_batches);

// Whether all gradients of parameters have a phase of their own.
inline bool splits_backward(Schedule kind) { return kind == Schedule::zb_h1 || kind == Schedule::zb_h2; }
// Whether any have on `stage`.
inline bool splits_backward(const Pipeline& pipeline, int stage) {
  return splits_backward(pipeline.kind) || (pipeline.head_behind > 0 && stage == pipeline.stages - 1);
}

inline int forward_phase(int chunk) { return chunk; }
inline int backward_phase(const Pipeline& pipeline, int chunk) { return pipeline.chunks + chunk; }
inline int weight_phase(const Pipeline& pipeline, int chunk) { return 2 * pipeline.chunks + chunk; }

// The forward and backward runs of one step on `stage`.
std::vector<ir::PhaseRun> stage_order(const Pipeline& pipeline, int stage);

// The most micro-batches whose run of phase `from` has begun and whose run of phase `to` has not ended.
int in_flight(const std::vector<ir::PhaseRun>& order, int from, int to);

// The same by chunk, from its forward pass to the backward pass that reads what it left.
std::vector<int> chunks_in_flight(const Pipeline& pipeline, int stage);

}  // namespace boxcar::planner

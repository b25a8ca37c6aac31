// The order in which a pipeline stage runs its micro-batches, and how many of them are in flight at once.
//
//   1F1B, stage 1 of 3, 4 micro-batches:  F.0 F.1 B.0 F.2 B.1 F.3 B.2 B.3   2 = 3 - 1 in flight
//   GPipe, the same:                      F.0 F.1 F.2 F.3 B.0 B.1 B.2 B.3   4 in flight
//   "5,3,1", the same:                    F.0 F.1 F.2 B.0 F.3 B.1 B.2 B.3   3 in flight
//
// Zero-bubble schedules (Qi et al. 2023, arXiv:2401.10241, the handcrafted ones) split the backward pass. The
// previous stage waits for B; W is the gradients of parameters. On stage s of p, W follows its B by s
// micro-batches (zb-h2: 2s) while there is a forward pass to run. So no stage has more than p (zb-h2: 2p - 1)
// micro-batches between F and W:
//
//   zb-h1, stage 1 of 3:  F.0 F.1 B.0 F.2 B.1 W.0 F.3 B.2 W.1 B.3 W.2 W.3
//   zb-h2, stage 1 of 3:  F.0 F.1 F.2 B.0 F.3 B.1 W.0 B.2 W.1 B.3 W.2 W.3
//
// With head_behind n the second part is only the gradient of the head's weight, only on the last stage, and n
// micro-batches wait for it until their last backward pass:
//
//   1f1b, head_behind 2, stage 2 of 3:  F.0 B.0 F.1 B.1 F.2 B.2 W.0 F.3 B.3 W.1 W.2 W.3
//
// With v virtual stages a stage holds v chunks of the model; chunk c of stage s is the model's part c *
// stages + s, and the order is Megatron's interleaved one (Narayanan et al. 2021, section 2.2). Phase c is
// the forward pass of chunk c, and phase v + c its backward pass. If that is split, phase 2v + c is its
// second part. Groups of p micro-batches go through all chunks in turn. If p does not divide the
// micro-batches, groups are larger, as in PyTorch's interleaved schedule, and as equal as possible. Only a
// step's single group may have fewer than p; otherwise stages would wait for each other forever.
//
//   interleaved, 2 stages of 2 chunks, 5 micro-batches: groups of 3 and 2
//   stage 1:  F0.0 F0.1 F0.2 F1.0 B1.0 F1.1 B1.1 F1.2 B1.2 F0.3 B0.0 F0.4 B0.1 F1.3 B0.2 ...
//
// Folded schedules split the backward pass and fold the model into a V: stage s holds parts s and 2p - 1 - s.
// So the loss is on the first stage, whose gradient begins to flow back at once. zb-v (Qi et al. 2023,
// section 6) keeps at most 2p halves of a stage between F and W. dualpipe-v (github.com/deepseek-ai/
// DualPipe) places the forward pass of one micro-batch beside the backward pass of another. DualPipe over 2p
// devices (DeepSeek-AI 2024, arXiv:2412.19437) is dualpipe-v over p with twice the data parallelism: devices
// s and 2p - 1 - s hold the same two parts, and the micro-batches that enter at either end are two ranks' of
// them.
//
//   zb-v, 2 stages, 3 micro-batches
//   stage 0:  F0.0 F0.1 F0.2 F1.0 B1.0 W1.0 F1.1 B1.1 W1.1 B0.0 W0.0 F1.2 B1.2 W1.2 B0.1 W0.1 B0.2 W0.2
//   stage 1:  F0.0 F1.0 F0.1 F1.1 B1.0 W1.0 F0.2 B0.0 W0.0 F1.2 B1.1 W1.1 B0.1 B1.2 B0.2 W0.1 W1.2 W0.2
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "ir/plan.h"

namespace boxcar::planner {

struct Hints;

// Each is a row of schedule.cpp.
enum class Schedule : uint8_t { one_f_one_b, gpipe, zb_h1, zb_h2, zb_v, dualpipe_v };
inline std::vector<std::string> words_of(Schedule) {
  return {"1f1b", "gpipe", "zb-h1", "zb-h2", "zb-v", "dualpipe-v"};
}

// The schedule that a job asks for: "gpipe", or 1f1b with the micro-batches in flight on each stage, "5,3,1".
struct PipelineSchedule {
  PipelineSchedule(Schedule schedule = Schedule::one_f_one_b) : kind(schedule) {}  // NOLINT: a value of it
  explicit PipelineSchedule(std::vector<int> counts) : in_flight(std::move(counts)) {}

  Schedule kind = Schedule::one_f_one_b;
  std::vector<int> in_flight = {};  // by stage, only for 1f1b; empty: stages - stage
  friend auto operator<=>(const PipelineSchedule&, const PipelineSchedule&) = default;
};
// Throws Error (bad input) at `where` unless the text is a schedule's word or whole numbers of at least 1.
PipelineSchedule parse_schedule(const std::string& text, const std::string& where = "parallel.schedule");
std::string to_text(const PipelineSchedule& schedule);

struct Pipeline {
  Schedule kind = Schedule::one_f_one_b;
  int stages = 1;
  int chunks = 1;  // more than one only for 1F1B; two in a V
  int micro_batches = 1;
  std::vector<int> in_flight = {};  // by stage, only for 1F1B; empty: stages - stage
  int head_behind = 0;  // micro-batches whose gradient of the head's weight waits, on the last stage
};

// REQUIRES: `hints` are resolved.
Pipeline pipeline_of(const Hints& hints, int micro_batches);

// Whether a stage holds two chunks, placed in a V.
bool is_v_shaped(Schedule kind);

// The places of a model's parts, which are numbered in the model's order.
//
//   2 stages of 2 chunks      stage 0 holds parts 0 and 2, stage 1 holds 1 and 3
//   2 stages, in a V          stage 0 holds parts 0 and 3, stage 1 holds 1 and 2
struct PartPlaces {
  int stages = 1;
  bool v_shaped = false;
  friend bool operator==(const PartPlaces&, const PartPlaces&) = default;
  int stage(int part) const {
    const int s = part % stages;
    return v_shaped && chunk(part) % 2 == 1 ? stages - 1 - s : s;
  }
  int chunk(int part) const { return part / stages; }
  int part(int its_stage, int its_chunk) const {
    return its_chunk * stages + stage(its_chunk * stages + its_stage);
  }
};
PartPlaces part_places(const Hints& hints);
inline PartPlaces part_places(const Pipeline& p) { return {p.stages, is_v_shaped(p.kind)}; }

// Layers of each of the pp stages.
std::vector<int> layers_by_stage(const Hints& hints);

// Whether all gradients of parameters have their own phase.
bool splits_backward(Schedule kind);
// Whether any have their own phase on `stage`.
inline bool splits_backward(const Pipeline& pipeline, int stage) {
  return splits_backward(pipeline.kind) || (pipeline.head_behind > 0 && stage == pipeline.stages - 1);
}

// Micro-batches that go through all chunks together, group by group.
//
//   2 stages of 2 chunks: 4 micro-batches are 2 and 2, 5 are 3 and 2, 3 are 3, 1 is 1
struct Groups {
  int count = 1;      // of groups
  int micro_batches;  // in all of them
  explicit Groups(const Pipeline& pipeline);
  int begin(int group) const;  // the first micro-batch of a group; for `count`: the number of micro-batches
  int largest() const { return begin(1); }
};

inline int forward_phase(int chunk) { return chunk; }
inline int backward_phase(const Pipeline& pipeline, int chunk) { return pipeline.chunks + chunk; }
inline int weight_phase(const Pipeline& pipeline, int chunk) { return 2 * pipeline.chunks + chunk; }
// The inverses of these: forward, backward or weight, and the chunk.
inline ir::PhaseKind kind_of_phase(const Pipeline& pipeline, int phase) {
  if (phase < backward_phase(pipeline, 0)) return ir::PhaseKind::forward;
  return phase < weight_phase(pipeline, 0) ? ir::PhaseKind::backward : ir::PhaseKind::weight;
}
inline int chunk_of_phase(const Pipeline& pipeline, int phase) { return phase % pipeline.chunks; }

// The runs of one step on `stage`: of forward and backward passes and, where these are split, of their second
// parts.
std::vector<ir::PhaseRun> stage_order(const Pipeline& pipeline, int stage);

// The maximum number of micro-batches whose run of phase `from` has begun and whose run of phase `to` has not
// ended.
int in_flight(const std::vector<ir::PhaseRun>& order, int from, int to);

// On a stage of one chunk, by its formula: the maximum number of micro-batches whose forward pass has begun
// and whose backward pass has not ended, limited by those of the step.
int most_in_flight(const PipelineSchedule& schedule, int stages, int stage, int micro_batches);

// On a stage of one chunk: the maximum number of micro-batches between the start of their forward pass and
// the end of the first part of their backward pass, and between the start of that part and the end of the
// second; 0 if there is no second part.
struct MostOfParts {
  int first = 0, second = 0;
};
MostOfParts most_of_parts(const Pipeline& pipeline, int stage);

// By chunk, micro-batches whose forward pass has begun and whose backward pass, which reads its results, has
// not ended: the maximum for each chunk, and the numbers when the stage has the most over all chunks. If the
// backward pass is split, these last until the end of its second part; `first` and `second` are as in
// MostOfParts.
struct ChunksInFlight {
  std::vector<int> most, at_once;
  std::vector<int> first = {}, second = {};
};
ChunksInFlight chunks_in_flight(const Pipeline& pipeline, int stage);

}  // namespace boxcar::planner

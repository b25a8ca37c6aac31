// Pass shard_states: finds the values that live from step to step on a stage, and how shards are gathered.
//
//   a weight w on dp 2    values declared                  gathered
//     zero 1 in fp16      w S(0), w.half S(0), w.half B    w.half S(0) -> B, after the update
//     zero 3 in fp16      w S(0), w.half S(0)              w.half S(0) -> B, in each pass
//     zero 1 in fp32      w S(0), w B                      w S(0) -> B, after the update
//
// Afterwards every parameter of the stage, and every tensor made only from parameters, has a value in its
// stored layout. A gather once per step goes from one declared value to another.
#pragma once

#include <optional>
#include <vector>

#include "planner/lowering/stage.h"
#include "planner/lowering/tasks.h"

namespace boxcar::planner {

void shard_states(const Stage& stage, StageTasks& tasks);
void check_states(const Stage& stage, const StageTasks& tasks);

// By tensor: whether it is a state, or made in the update from such tensors alone.
std::vector<char> made_of_states(const ir::Graph& graph, const std::vector<OpSite>& sites);

// Whether a state that passes read is kept whole beside its shards, so that it is gathered once per step.
bool is_kept_whole(const ir::Graph& graph, const std::vector<ir::OpId>& readers, const sbp::NdSbp& stored,
                   const std::optional<sbp::NdSbp>& used, Sharding sharding);

}  // namespace boxcar::planner

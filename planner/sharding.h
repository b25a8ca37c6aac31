// ZeRO: the tensors of training that are sharded, and when they are reduced and gathered. Shards are those of
// all ranks with the same parameters: replicas, or a group of them (Hints::fsdp_group), and the ranks that
// share a sequence. Megatron-LM's distributed optimizer and torchtitan's FSDP shard over both too. Only this
// file defines what a level (Hints::zero) means: code that lays out, lowers or estimates asks these
// questions. Only the search goes from level to level.
//
//   level  states   gradients  parameters
//   0      whole    whole      whole       gradients are all-reduced once a step
//   1      sharded  whole      whole       they are reduce-scattered, parameters gathered once a step
//   2      sharded  sharded    whole       gradients are reduce-scattered in each micro-batch, by layer
//   3      sharded  sharded    sharded     parameters are gathered in each pass, by layer, and not kept
//
//   sharding_of({.dp = 8, .zero = 2}).reduces_each_micro_batch()  // true
//   shards_of({.dp = 8, .cp = 4})                                 // 32
#pragma once

#include "planner/planner.h"

namespace boxcar::planner {

struct Sharding {
  bool states = false;      // master weights and moments, and the gradients as their update reads them
  bool gradients = false;   // also as they are summed over micro-batches
  bool parameters = false;  // also as they are kept for forward and backward passes

  // Each micro-batch's gradients are reduced, a layer at a time; else their sums are, once a step.
  bool reduces_each_micro_batch() const { return gradients; }
  // Parameters are gathered for a layer and a pass; else, where states are sharded, once after the update.
  bool gathers_in_each_pass() const { return parameters; }
};

inline Sharding sharding_of(const Hints& hints) {
  return {.states = hints.zero >= 1, .gradients = hints.zero >= 2, .parameters = hints.zero >= 3};
}

// Replicas that share one copy of sharded states.
inline int sharing_replicas(const Hints& hints) {
  return hints.fsdp_group > 0 && sharding_of(hints).states ? hints.fsdp_group : hints.dp;
}
// Ranks that share it; those of experts' states are `ep` times fewer.
inline int shards_of(const Hints& hints) { return sharing_replicas(hints) * hints.cp; }

}  // namespace boxcar::planner

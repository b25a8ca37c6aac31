// ZeRO: the tensors of training that are sharded, and when they are reduced and gathered. The shards are over
// all ranks with the same parameters: replicas, or a group of them (Hints::fsdp_group), and the ranks that
// share a sequence. Megatron-LM's distributed optimizer and torchtitan's FSDP also shard over both. Only this
// file defines the meaning of a level (Hints::zero). Code for layouts, lowering or estimates calls these
// functions; only the search compares levels.
//
//   level  states   gradients  parameters
//   0      whole    whole      whole       gradients are all-reduced once per step
//   1      sharded  whole      whole       they are reduce-scattered, parameters gathered once per step
//   2      sharded  sharded    whole       gradients are reduce-scattered in each micro-batch, by layer
//   3      sharded  sharded    sharded     parameters are gathered in each pass, by layer, and not kept
//
//   sharding_of({.dp = 8, .zero = 2}).reduces_each_micro_batch()  // true
//   shards_of({.dp = 8, .cp = 4})                                 // 32
#pragma once

#include "planner/planner.h"

namespace boxcar::planner {

struct Sharding {
  bool states = false;      // master weights and moments, and the gradients that their update reads
  bool gradients = false;   // also the sums over micro-batches
  bool parameters = false;  // also the copies for forward and backward passes

  // Whether each micro-batch's gradients are reduced, a layer at a time; else their sums are, once per step.
  bool reduces_each_micro_batch() const { return gradients; }
  // Whether parameters are gathered for a layer and a pass; else, if states are sharded, once after the
  // update.
  bool gathers_in_each_pass() const { return parameters; }
};

// Parameter servers that update hold shards of the states too (pins.h, served).
inline Sharding sharding_of(const Hints& hints) {
  return {.states = hints.zero >= 1 || (hints.servers > 0 && hints.servers_update),
          .gradients = hints.zero >= 2,
          .parameters = hints.zero >= 3};
}

// Replicas that share one copy of sharded states.
inline int sharing_replicas(const Hints& hints) {
  return hints.fsdp_group > 0 && sharding_of(hints).states ? hints.fsdp_group : hints.dp;
}
// Replicas on the inner dimension of a mesh (mesh.h): those that share such a copy, or the host of a server.
inline int inner_replicas(const Hints& hints) {
  return hints.servers > 0 ? hints.dp / hints.servers : sharing_replicas(hints);
}
// Ranks that share a copy. Experts' states have ep_in_dp (mesh.h) times fewer.
inline int shards_of(const Hints& hints) { return sharing_replicas(hints) * hints.cp; }

}  // namespace boxcar::planner

// Exchanges of experts in which a token goes to each node once, and there to each GPU once, however many of
// its experts these have (DeepEP, github.com/deepseek-ai/DeepEP; DeepSeek-AI 2024, arXiv:2412.19437, section
// 3.2.2).
//
//   to its experts   by NIC to the GPU at the same place of each node that holds one of them, from there by
//                    NVLink to each GPU that holds one
//   back             results are added up on each GPU, then on each node, and go the same ways
//
//   256 experts in 8 groups, of which a token chooses 4 and 8 experts in these; 8 nodes of 8 GPUs:
//   expected_places(choice, 8) = 4 (1 - C(96, 8) / C(128, 8)) = 3.63 nodes, so 7/8 x 3.63 = 3.18 copies
//   leave the node; expected_places(choice, 64) = 32 (1 - C(124, 8) / C(128, 8)) = 7.36 GPUs, so 7/8 x 7.36 =
//   6.44 copies pass between GPUs of a node. Slot by slot, 7 copies leave the node.
#pragma once

#include <compare>
#include <cstdint>

#include "sim/models/collective_time.h"

namespace boxcar::sim {

// How a token chooses its experts: `top_groups` of equal `groups` first, then `top_k` experts in these. An
// exchange carries slots of one of equal `parts` of the experts, if ranks of tensor parallelism share them.
struct ExpertChoice {
  int64_t experts = 1, top_k = 1, groups = 1, top_groups = 1, parts = 1;
  friend auto operator<=>(const ExpertChoice&, const ExpertChoice&) = default;
};

// The expected number of places that hold an expert of a token, if all choices are equally likely. `places`
// hold consecutive experts, equally many as far as that is possible. REQUIRES places <= experts.
double expected_places(const ExpertChoice& choice, int64_t places);

// What a rank sends of its tokens' slots, which have `bytes`, in such an exchange over a group. If nodes have
// unequally many ranks, as many copies stay on a node as on the fullest one, as in other exchanges.
ExchangedBytes bytes_by_node(const ExpertChoice& choice, double bytes, const Span& span);

}  // namespace boxcar::sim

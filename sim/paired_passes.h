// Passes that run beside a pass of another micro-batch, so that the exchanges of experts of each run beside
// the kernels of the other (DualPipe: DeepSeek-AI 2024, arXiv:2412.19437, section 3.2.1; Megatron-LM's
// --overlap-moe-expert-parallel-comm).
//
//   1F1B, stage 1 of 3:  F.0 [F.1 B.0] [F.2 B.1] [F.3 B.2] B.3   3 of 4 forward and of 4 backward passes
//
// A pair takes the time of all its kernels, and what is exposed of its exchanges: the time by which those of
// the forward pass take longer than the kernels of the backward pass, and the reverse. If the exchanges'
// kernels occupy m of a device's M multiprocessors, the kernels beside them have M - m meanwhile.
#pragma once

#include <vector>

#include "ir/plan.h"

namespace boxcar::sim {

struct PassPair {
  int phase = 0, other = 0;
  double share = 0, other_share = 0;  // of the runs of `phase`, and of `other`, those in such a pair
};

// Each pair twice, once from either side. A forward pass is paired with the next backward pass before or
// after it in the schedule; second parts of backward passes may lie between.
std::vector<PassPair> pass_pairs(const ir::Program& program);

// Seconds by phase of one run: of kernels that run, and of the exchanges of experts.
struct PassSeconds {
  double kernels = 0, exchanges = 0;
};

// By phase, with the same index as `seconds`.
struct BesidePass {
  double shown = 1;     // share of its exchanges' seconds that is exposed, mean of all runs
  double slowdown = 1;  // of its kernels
};
// `occupied`: the share of the device's multiprocessors that exchanges occupy.
std::vector<BesidePass> beside_passes(const ir::Program& program, const std::vector<PassSeconds>& seconds,
                                      double occupied);

}  // namespace boxcar::sim

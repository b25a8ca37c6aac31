// Walks over the acts of a phase of a program, each queue in order and nothing else running. `seconds` are
// those of the program's acts.
//
//   a kernel of 2 s, its collective of 6 s, a kernel of 4 s beside it, then one of 1 s that needs the former
//   phase_seconds(program, 0, {2, 6, 4, 1})     // 9
//   waiting_seconds(program, 0, {2, 6, 4, 1})   // 2: the last kernel waits from 6 s to 8 s
#pragma once

#include <vector>

#include "ir/plan.h"

namespace boxcar::search {

// Whether this is a kernel of the compute queue that every plan of the job runs in full, whatever is sharded:
// all but those that add up gradients. For acts of passes.
bool computes(const ir::Program& program, const ir::Actor& actor);

// End of the last act of a phase, in s, if all inputs from elsewhere are ready at its start. Pulls take no
// time, because in a pipeline they run beside other work.
double phase_seconds(const ir::Program& program, int phase, const std::vector<double>& seconds);

// Time, in s, for which the compute queue waits in a phase after actor `after`; see StageCost. An act that
// needs no kernel of the phase counts as ended before the phase begins.
double waiting_seconds(const ir::Program& program, int phase, const std::vector<double>& seconds,
                       int after = -1);

// Time, in s, after the gradient for which the previous stage waits; see ModelCost.
struct BehindBoundary {
  double kernels = 0, waiting = 0;
};
// `own` is a program of the plan.
BehindBoundary behind_boundary(const ir::Plan& plan, int own, const std::vector<double>& seconds);

// Time of the compute queue, in s, until its first kernel of the backward pass that needs data of another
// program; see ModelCost.
double before_gradient(const ir::Program& program, const std::vector<double>& seconds);

}  // namespace boxcar::search

// Law 4 on the reference kernels: after one step of a plan, states are those of the single-device step.
#pragma once

#include "planner/laid_out.h"

namespace boxcar::planner {

// `choose`: the layouts; null: those that follow from the hints.
void expect_law_4(const Job& job, const Choose& choose = nullptr);
// The same for the job's training graph with another layout.
void expect_law_4(const Job& job, LaidOut laid);

}  // namespace boxcar::planner

// How many steps a whole training run takes.
//
//   const double per_step = amount_per_step(plan, "best.txt", "tokens");  // 4'194'304
//   steps_for(15e12, per_step, "tokens")                                  // 3'576'279
#pragma once

#include <cstdint>
#include <string>

#include "ir/plan.h"

namespace boxcar::cli {

// Tokens or samples (`unit`) of a step of the plan. Throws Error (bad input) if the plan, called `name`, has
// none.
double amount_per_step(const ir::Plan& plan, const std::string& name, const std::string& unit);

// At least one and at most 1e12; throws Error (bad input) otherwise.
int64_t steps_for(double amount, double per_step, const std::string& unit);

}  // namespace boxcar::cli

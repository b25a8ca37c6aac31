// The reason why there is no point: the fewest given keys that rule out all points, and the rules that cannot
// be kept with them.
#pragma once

#include <string>

#include "planner/search/rules.h"

namespace boxcar::search {

// A message for a job and keys that leave no point:
//   "tp 8 contradicts heads 25: tp has to divide heads (use 1 or 5)"
//   "pp 2 contradicts tp 8 with gpus 8: dp x tp x pp x context_parallel has to be gpus"
std::string contradiction(const planner::Job& job, const Fixed& fixed);

}  // namespace boxcar::search

// Differences between candidates with the same flags: slots, and layouts of weights.
#pragma once

#include <string>
#include <vector>

#include "planner/search/search.h"

namespace boxcar::cli {

// By candidate; empty if its flags, or the fact that its layouts were found, already distinguish it:
//
//   {"", "h*.mlp.fc1.weight.half S(0), ...", "h*.mlp.fc1.weight.half S(1), ...",
//    "12 registers with fewer slots"}
std::vector<std::string> differences(const std::vector<search::Candidate>& candidates);

}  // namespace boxcar::cli

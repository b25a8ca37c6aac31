// Differences between candidates with the same flags: slots, and layouts of weights.
#pragma once

#include <string>
#include <vector>

#include "planner/search/search.h"

namespace boxcar::cli {

// By candidate; empty where its flags, or the fact that its layouts were found, tell it apart already:
//
//   {"", "h*.mlp.fc1.weight.half S(0), ...", "h*.mlp.fc1.weight.half S(1), ...",
//    "12 registers with fewer slots"}
std::vector<std::string> differences(const std::vector<search::Candidate>& candidates);

}  // namespace boxcar::cli

// Keys that ask for something which the other keys rule out are refused, so that nobody reads a result as
// what it is not:
//
//   --fsdp-group: has no effect unless zero is 1, 2 or 3
//
// A key at its default asks for nothing. One that asks for what is so anyway (sequence_parallel with tp 1) is
// told of and let be.
#pragma once

#include "cli/job.h"

namespace boxcar::cli {

// Throws Error (bad input) at the first key that has no effect on `request`'s job. Where a search decides
// `open` keys ("parallel.zero"), what has no effect with some of their values is let be.
void check_effects(const GivenKeys& given, const Request& request, const std::vector<std::string>& open = {});

// Those that are let be and have none: "--sequence-parallel: has no effect unless tp is 2 or more".
std::vector<std::string> without_effect(const GivenKeys& given, const planner::Job& job);

}  // namespace boxcar::cli

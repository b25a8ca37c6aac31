// Keys that ask for something which the other keys rule out are refused, so that nobody reads a result as
// what it is not:
//
//   --fsdp-group: has no effect unless zero is 1, 2 or 3
//
// A key at its default asks for nothing, and one that asks for what is so anyway (sequence_parallel with tp
// 1) is let be.
#pragma once

#include "cli/job.h"

namespace boxcar::cli {

// `request` is resolved from `given`. Throws Error (bad input) at the first key that has no effect.
void check_effects(const GivenKeys& given, const Request& request);

}  // namespace boxcar::cli

// Refuses keys that ask for something which the other keys rule out, so that no result is misread:
//
//   --fsdp-group: has no effect unless zero is 1, 2 or 3
//
// A key at its default asks for nothing. A key that asks for something that is true anyway (sequence_parallel
// with tp 1) is reported and allowed.
#pragma once

#include "cli/job.h"

namespace boxcar::cli {

// Throws Error (bad input) at the first key that has no effect on `request`'s job. If a search decides `open`
// keys ("parallel.zero"), keys without effect for some of their values are allowed.
void check_effects(const GivenKeys& given, const Request& request, const std::vector<std::string>& open = {});

// Whether the backward pass recomputes anything: selective recomputation finds nothing in fused attention,
// and recompute_layers may be 0 in every stage.
bool recomputes_anything(const planner::Job& job);

// Allowed keys without effect: "--sequence-parallel: has no effect unless tp is 2 or more"; and tp if no hint
// splits the model and its layouts were not `found`.
std::vector<std::string> without_effect(const GivenKeys& given, const planner::Job& job, bool found = false);

}  // namespace boxcar::cli

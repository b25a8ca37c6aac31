// A plan's job with other keys: what its step would be, and its memory, or why it cannot be.
//
//   const Variation v = vary(with_flags(keys_of(plan, path), {{"parallel.tp", {"4", "--tp"}}}), layouts);
//   v.why_not                  "" or "does not fit: stage0 needs 90.1 GB of 85.1 GB, 5 GB too much"
//   v.report.step_seconds      1.35
#pragma once

#include <optional>
#include <string>

#include "cli/job.h"
#include "planner/estimate/layout_request.h"
#include "sim/explain/report.h"

namespace boxcar::cli {

struct Variation {
  std::string why_not;     // empty: it fits
  explain::Report report;  // simulated where it fits; with memory alone, or nothing, where it does not
};

// The keys of a plan with others over them. Keys that follow from those are derived anew unless given too:
// replicas from the other degrees; where stages change, lists with a number for each stage; and all values
// that another model, preset or framework stands for. Keys of the plan may be without effect then.
GivenKeys with_flags(GivenKeys keys, const GivenKeys& others);

// Compiles and simulates; where `layouts` are given, looks for them as the plan's own were found. A job that
// is illegal or does not fit says so; throws Error (fault) alone.
Variation vary(const GivenKeys& keys, const std::optional<search::LayoutRequest>& layouts);

}  // namespace boxcar::cli

// A plan's job with other keys: what its step would be, and its memory, or why it cannot be.
//
//   const Variation v = place(keys_of(plan, path), {{"parallel.pp", {"4", "--pp"}}}, layouts);
//   v.why_not                  "" or "does not fit: stage0 needs 90.1 GB of 85.1 GB, 5 GB too much"
//   v.report.step_seconds      1.35
//   v.chosen                   "--recompute-layers 3,2,0,0": the plan's were of its own two stages
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
  // Layers to recompute in place of the plan's, as flags, by place(). Empty: the plan's stay.
  std::string chosen = {};
};

// The keys of a plan with others over them. Keys that follow from those are derived anew unless given too:
// replicas from the other degrees; where stages change, lists with a number for each stage; and all values
// that another model, preset or framework stands for. Keys of the plan may be without effect then.
GivenKeys with_flags(GivenKeys keys, const GivenKeys& others);

// Compiles and simulates; where `layouts` are given, looks for them as the plan's own were found. A job that
// is illegal or does not fit says so; throws Error (fault) alone.
Variation vary(const GivenKeys& keys, const std::optional<search::LayoutRequest>& layouts);

// The plan's keys with others over them. Layers that recompute stay where they can: where the stages stay and
// the job fits. Elsewhere, unless `others` say what recomputes, they are the fewest of each stage that fit
// (planner/search/fitting.h), or all of them where nothing does. Else as vary().
Variation place(const GivenKeys& plan, const GivenKeys& others,
                const std::optional<search::LayoutRequest>& layouts);

}  // namespace boxcar::cli

// A plan's job with other keys: its step and memory, or why it cannot be.
//
//   const Variation v = place(keys_of(plan, path), {{"parallel.pp", {"4", "--pp"}}}, layouts);
//   v.why_not                  "" or "does not fit: stage0 needs 90.1 GB of 85.1 GB, 5 GB too much"
//   v.report.step_seconds      1.35
//   v.chosen                   "--recompute-layers 3,2,0,0": the plan's were for its own two stages
#pragma once

#include <optional>
#include <string>

#include "cli/job.h"
#include "planner/estimate/layout_request.h"
#include "sim/explain/report.h"

namespace boxcar::cli {

struct Variation {
  std::string why_not;     // empty: it fits
  explain::Report report;  // simulated if it fits; otherwise only memory, or nothing
  std::string plan = {};   // the keys that a search would decide, as flags; empty: the job is illegal
  // Layers to recompute in place of the plan's, as flags, by place(). Empty: the plan's stay.
  std::string chosen = {};
};

// The keys of a plan, overridden by others. Keys that follow from those are derived anew unless given too:
// replicas from the other degrees; if stages change, lists with a number for each stage; and all values that
// another model, preset or framework stands for. Keys of the plan may be without effect then.
GivenKeys with_flags(GivenKeys keys, const GivenKeys& others);

// Compiles and simulates; if `layouts` are given, looks for them as the plan's own were found. A job that is
// illegal or does not fit says so; throws only Error (fault).
Variation vary(const GivenKeys& keys, const std::optional<search::LayoutRequest>& layouts);

// The plan's keys, overridden by others. Recomputed layers stay if the stages stay and the job fits.
// Otherwise, unless `others` set recomputation, they are the fewest of each stage that fit
// (planner/search/fitting.h), or all of them if nothing fits. Apart from that as vary().
Variation place(const GivenKeys& plan, const GivenKeys& others,
                const std::optional<search::LayoutRequest>& layouts);

}  // namespace boxcar::cli

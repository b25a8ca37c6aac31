// The timeline of a report: the acts of a step in columns (cli/report_document.h), and the memory held
// meanwhile.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>

#include "ir/plan.h"
#include "sim/simulate.h"
#include "sim/step_timeline.h"

namespace boxcar::cli {

// Both of a `result` with a timeline, to which `timeline` refers. `recomputed`: names of recomputed ops.
nlohmann::ordered_json timeline_json(const ir::Plan& plan, const sim::Result& result,
                                     const sim::StepTimeline& timeline,
                                     const std::set<std::string>& recomputed);
nlohmann::ordered_json memory_json(const sim::Result& result, const sim::StepTimeline& timeline);

}  // namespace boxcar::cli

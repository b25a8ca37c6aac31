// Everything that the page of `boxcar report` shows, as one JSON document (docs/report.md lists its keys).
//
// Times are in s, sizes in bytes. Tables with many rows are columns of one length. The timeline is in whole
// ticks of `tick_s`, from the step's begin:
//
//   acts of one queue in one run of a phase are a "run"; it begins at `begin` and has a "shape": for each
//   actor of that queue and phase, in program order, its start after `begin` and its duration. Equal runs
//   share their shape, across micro-batches and stages.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "cli/campaign_conditions.h"
#include "cli/plan_file.h"
#include "planner/laid_out.h"

namespace boxcar::cli {

struct ReportRequest {
  std::string name;         // of the plan, as the page calls it
  bool sensitivity = true;  // also simulate with other constants
  CampaignFlags run;        // conditions of the whole training run; without an amount there is no such run
  std::function<void(const std::string& what)> tell = {};  // told each part of the work as it begins
};

// Simulates the plan on its cluster. `laid` may be null: the plan was not compiled from a job, and the page
// has no layouts. Throws Error (cannot run) if the plan hangs.
nlohmann::ordered_json report_document(const SavedPlan& saved, const planner::LaidOut* laid,
                                       const ReportRequest& request);

}  // namespace boxcar::cli

// Flags of `boxcar campaign` for nodes that fail and come back, and the weeks that are drawn with them.
//
//   FleetFlags fleet;
//   fleet.add_to(command);                  // --repair 12h --spares 2 --replan --async-checkpoints
//   fleet.conditions(conditions, report);
//   for (const int nodes : fewer_nodes(report, row)) row.step_seconds_on[nodes] = ...;  // with --replan
//   add_weeks(report, row);
//   row.weeks->goodput                      // 0.93
#pragma once

#include <CLI/CLI.hpp>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/campaign_conditions.h"
#include "cli/campaign_report.h"

namespace boxcar::cli {

struct FleetFlags {
  std::string repair;         // as given; empty: not given
  std::optional<int> spares;  // nodes
  bool replan = false, async_checkpoints = false;

  void add_to(CLI::App& command);
  // Into `report`, of `given`. Throws Error (bad input) if one has no effect without another.
  void conditions(const CampaignFlags& given, CampaignReport& report) const;
};

// Numbers of nodes, below the row's, with which the run is left at times, the largest first, 16 at most.
// Empty without --replan.
std::vector<int> fewer_nodes(const CampaignReport& report, const CampaignRow& row);

// Leaves out plans whose steps take at least as long as one for fewer nodes: {{8, 3}, {16, 2}, {24, 2.5}}
// becomes {{8, 3}, {16, 2}}. By nodes, s of a step.
void leave_out_slower(std::map<int, double>& step_seconds_on);

// Fills in `row`'s weeks, if the report draws any. REQUIRES its cost.
void add_weeks(const CampaignReport& report, CampaignRow& row);

}  // namespace boxcar::cli

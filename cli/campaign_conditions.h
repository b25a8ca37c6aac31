// The conditions of a whole training run, as flags, and the cost of a plan's step under them: for `boxcar
// campaign` and `boxcar report` alike.
//
//   CampaignFlags flags;
//   flags.add_to(command);                        // --tokens 15T --price 2.50 --mtbf 3h/1024 ...
//   CampaignReport report = flags.conditions();
//   CampaignRow& row = report.rows.emplace_back();
//   row.name = "best.txt", row.gpus = plan.devices, row.run.step_seconds = 8.87;
//   add_cost(flags, report, {plan, cluster}, row);
//   row.cost.estimate.seconds                     // 33e6
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "backends/machines/cluster.h"
#include "cli/campaign_report.h"
#include "ir/plan.h"
#include "planner/planner.h"

namespace boxcar::cli {

struct CampaignFlags {
  std::string tokens, samples, mtbf, bandwidth, restart;  // as given; empty: not given
  std::optional<double> price, watts, pue;

  // `amount`: the default of --tokens in words, "needed, or --samples".
  void add_to(CLI::App& command, const std::string& amount);
  bool has_amount() const { return !tokens.empty() || !samples.empty(); }
  std::vector<std::string> given() const;  // {"--tokens", "--price"}
  // Without rows. Throws Error (bad input) if the flags contradict each other or are not quantities.
  CampaignReport conditions() const;
};

// A plan whose step was simulated.
struct CostedPlan {
  const ir::Plan& plan;
  const backends::Cluster& cluster;
  const planner::ResolvedJob* job = nullptr;  // the plan's job; null: read from its labels when needed
};

// Fills in the cost of the run by `row`'s name, GPUs and step_seconds. Throws Error (bad input) if a step has
// none of the report's unit, and (cannot run) if failures leave no time for steps.
void add_cost(const CampaignFlags& flags, const CampaignReport& report, const CostedPlan& costed,
              CampaignRow& row);

}  // namespace boxcar::cli

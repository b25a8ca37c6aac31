#include "cli/campaign_fleet.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "cli/arguments.h"
#include "cli/quantities.h"
#include "sbp/error.h"

namespace boxcar::cli {
namespace {

constexpr int most_replans = 16;

campaign::Fleet fleet_of(const CampaignReport& report, const CampaignRow& row) {
  return {row.run,
          row.nodes,
          report.fleet->spares,
          report.fleet->repair_seconds,
          report.fleet->beside,
          row.step_seconds_on};
}

}  // namespace

void FleetFlags::add_to(CLI::App& command) {
  command
      .add_option("--repair", repair,
                  "time until a node that failed may be used again; goodput is drawn at random too [at once]")
      ->type_name("12h")
      ->check(not_empty());
  command.add_option("--spares", spares, "nodes that stand by for those that fail [0]")
      ->type_name("0..10000")
      ->check(whole_number(0, 10000));
  command.add_flag("--replan", replan,
                   "go on with a plan for the nodes that are left, as scripts/elastic does");
  command.add_flag("--async-checkpoints", async_checkpoints,
                   "checkpoints are written beside the steps, so that none waits for them");
}

void FleetFlags::conditions(const CampaignFlags& given, CampaignReport& report) const {
  const auto needs = [](bool is_given, const char* flag, bool other, const char* name) {
    if (is_given && !other) throw Error::input(flag, std::string("has no effect without ") + name);
  };
  needs(!repair.empty(), "--repair", !given.mtbf.empty(), "--mtbf");
  needs(async_checkpoints, "--async-checkpoints", !given.mtbf.empty(), "--mtbf");
  needs(spares.has_value(), "--spares", !repair.empty(), "--repair");
  needs(replan, "--replan", !repair.empty(), "--repair");
  if (repair.empty() && !async_checkpoints) return;
  report.fleet.emplace();
  if (!repair.empty()) report.fleet->repair_seconds = read_seconds("--repair", repair, "12h or 2d", true);
  report.fleet->spares = spares.value_or(0);
  report.fleet->replan = replan;
  report.fleet->beside = async_checkpoints;
}

std::vector<int> fewer_nodes(const CampaignReport& report, const CampaignRow& row) {
  std::vector<int> all;
  if (!report.fleet || !report.fleet->replan) return all;
  const int least = row.nodes + report.fleet->spares - campaign::most_away(fleet_of(report, row));
  for (int nodes = row.nodes - 1; nodes >= std::max(1, least) && std::ssize(all) < most_replans; --nodes)
    all.push_back(nodes);
  return all;
}

void leave_out_slower(std::map<int, double>& step_seconds_on) {
  double fastest = std::numeric_limits<double>::infinity();  // on fewer nodes
  std::erase_if(step_seconds_on, [&](const auto& plan) {
    return std::exchange(fastest, std::min(fastest, plan.second)) <= plan.second;
  });
}

void add_weeks(const CampaignReport& report, CampaignRow& row) {
  if (!report.fleet) return;
  const campaign::Fleet fleet = fleet_of(report, row);
  row.weeks_interval = campaign::interval_of(fleet);
  row.weeks = campaign::drawn_weeks(fleet, row.weeks_interval);
  if (row.weeks->goodput < least_goodput)
    throw Error::cannot_run(
        "--repair",
        fmt::format("goodput is below {:g} %: {} on {}, a node fails "
                    "every {} and is back after {} (use --spares or --replan)",
                    100 * least_goodput, counted(row.gpus, "GPU"), counted(row.nodes, "node"),
                    duration_text(row.run.mtbf_seconds), duration_text(report.fleet->repair_seconds)));
}

}  // namespace boxcar::cli

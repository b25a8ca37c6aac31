// The output of `boxcar campaign`: whole training runs side by side, as a table or a document.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sim/campaign/campaign.h"
#include "sim/campaign/step_error.h"
#include "sim/campaign/weeks.h"

namespace boxcar::cli {

struct CampaignRow {
  std::string name;  // the job file, the saved plan or the model
  int gpus = 0;      // 0: not known, in a row that does not fit
  std::map<std::string, std::string> configuration;
  std::string plan_flags;  // of a plan that was searched: "--dp 16 --tp 8"
  std::string why_not;     // "does not fit: ..."; then there are no numbers
  campaign::Campaign run;
  campaign::CostRange cost;
  campaign::ErrorBar error;
  std::string price_from;      // "--price" or the cluster; empty: no price
  double amount_per_step = 0;  // tokens or samples
  double checkpoint_bytes = 0;
  bool has_moments = true;  // the optimizer, and so the checkpoint
  int nodes = 0;            // of its GPUs
  // With CampaignReport::fleet: s of a step of the plans for fewer nodes that were found; weeks, drawn with a
  // checkpoint after a fixed number of steps.
  std::map<int, double> step_seconds_on = {};
  std::optional<campaign::Weeks> weeks = {};
  int64_t weeks_interval = 0;
};

// How nodes fail and come back, and how the run handles it.
struct FleetConditions {
  double repair_seconds = 0;
  int spares = 0;       // nodes
  bool replan = false;  // continue with fewer nodes
  bool beside = false;  // checkpoints are written while steps run
};

struct CampaignReport {
  double amount = 0;                // of the whole run
  std::string unit = "tokens";      // or "samples"
  double checkpoint_bandwidth = 0;  // bytes/s; 0: not given
  double mtbf_seconds = 0;          // of mtbf_gpus; 0: not given
  int64_t mtbf_gpus = 0;
  double restart_seconds = 0;  // besides reading the checkpoint
  bool default_restart = false;
  std::optional<FleetConditions> fleet = {};  // none: no weeks are drawn
  std::optional<double> watts;
  double pue = 1;
  bool default_pue = false;
  std::vector<CampaignRow> rows;
};

// Runs that keep less of their time are refused.
constexpr double least_goodput = 0.001;

// The rows that are over first, and those that cost least, of two or more that fit: within 1 % of the least.
// None is the cheapest unless all that fit have a price.
bool is_fastest(const CampaignReport& report, const CampaignRow& row);
bool is_cheapest(const CampaignReport& report, const CampaignRow& row);

std::string to_table(const CampaignReport& report);
std::string to_json(const CampaignReport& report);  // one document, schema_version 1, units in key names

}  // namespace boxcar::cli

// Why a plan is as it is: its stages, their memory, and the traffic between devices with its reasons.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "backends/machines/forward.h"
#include "planner/laid_out.h"
#include "sim/explain/report.h"
#include "sim/explain/sensitivity.h"

namespace boxcar::explain {

// The layouts of a stage's tensors, each with its share of a device's bytes.
using LayoutShares = std::vector<std::pair<std::string, double>>;  // most first

// One program: a stage, or a part of one that differs ("stage0.1").
struct StageExplanation {
  StageReport report;
  std::string layers;  // "0-3, 8-11"; empty if the plan has no job
  std::string mesh;    // "dp 2 x tp 4"
  int in_flight = 0;   // micro-batches that there is room for
  LayoutShares parameters, activations;
};

// Communication of one device in a step. Layers are taken together, and so are similar buckets of gradients
// ("reduce_scatter.*").
struct Communication {
  std::string name, stage, over, why;
  double seconds = 0, bytes = 0;
  int64_t acts = 0;
};

struct PlanExplanation {
  Report report;
  std::vector<StageExplanation> stages;
  std::vector<std::string> runners_up;
  std::vector<Communication> communications;  // the ten that take most time
  std::vector<Sensitivity> sensitivity = {};  // left empty by explain_plan
};

// Labels of a plan that a search found: "20.18 s, 2.2 % slower: --dp 16 ...".
inline constexpr const char* runner_up = "search.runner_up.";

// `laid` may be null if the plan was not compiled from a job.
PlanExplanation explain_plan(const ir::Plan& plan, const backends::Cluster& cluster, const Report& report,
                             const planner::LaidOut* laid);

}  // namespace boxcar::explain

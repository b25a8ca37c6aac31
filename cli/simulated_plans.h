// The plans that a search simulated, as labels of the plan that it saves, so that a report shows the compared
// plans.
//
//   search.simulated.00 "8.87 s, 66200000000 bytes, 512 GPUs, layouts by hints: --dp 32 --tp 8 --pp 2"
//   search.simulated.01 "8.93 s, 51000000000 bytes, 512 GPUs, layouts found: --dp 64 --tp 4 --pp 2"
//
// The first is the plan itself.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace boxcar::cli {

struct SimulatedPlan {
  double step_seconds = 0;
  int64_t peak_bytes = 0;  // of its fullest device
  int gpus = 0;
  bool layouts_found = false;  // for every op; otherwise the hints decide
  std::string flags;           // flags that make it
  friend bool operator==(const SimulatedPlan&, const SimulatedPlan&) = default;
};

constexpr size_t most_simulated_plans = 40;  // in a plan; the first ones

void add_labels(const std::vector<SimulatedPlan>& plans, std::map<std::string, std::string>& labels);
// Empty if no search saved the plan. Throws Error (bad input) on a label that is not as above.
std::vector<SimulatedPlan> simulated_plans(const std::map<std::string, std::string>& labels);

}  // namespace boxcar::cli

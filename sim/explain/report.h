// Results of one simulated job, as numbers.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "backends/machines/forward.h"
#include "ir/passes/passes.h"
#include "ir/plan.h"
#include "planner/sizes.h"
#include "planner/verify.h"
#include "sim/campaign/step_error.h"
#include "sim/simulate.h"

namespace boxcar::explain {

struct StageReport {
  std::string name;  // of the program
  int devices = 0;
  int64_t peak_bytes = 0;
  std::array<int64_t, ir::memory_kinds> by_kind{};
  double busy_seconds = 0, bubble_fraction = 0, exposed_comm_seconds = 0;
  int64_t held_bytes = 0;  // most bytes that registers held at once when it was simulated
  int64_t kept_bytes = 0;  // the most activations that forward passes leave to backward passes
  int64_t host_bytes = 0;  // memory of the host for a device's registers there
  // Times of its slowest device, which bind the step if stragglers make devices differ.
  double most_busy_seconds = 0, most_busy_exposed_seconds = 0;
  int stage = -1;  // of the pipeline; -1: the program of no stage
};

struct Report {
  std::map<std::string, std::string> configuration;  // resolved, by key path
  bool simulated = false;                            // false: it does not fit, and only memory is known
  double step_seconds = 0, first_step_seconds = 0;
  campaign::ErrorBar error;  // of the step: errors of simulated steps against published ones
  double samples_per_second = 0, tokens_per_second = 0;
  double model_tflops = 0, hardware_tflops = 0;  // per GPU
  double mfu = 0;
  double bubble_fraction = 0;                // mean over stages
  double exposed_comm_seconds = 0;           // worst stage
  std::map<std::string, double> comm_bytes;  // per step, by collective, over all devices
  std::vector<StageReport> stages;
  int64_t memory_limit_bytes = 0;
  int64_t outside_bytes = 0;       // of a device's memory, beside the plan's: context, libraries
  bool allocates = false;          // an allocator of the framework gives memory while it is held
  int64_t library_workspaces = 0;  // bytes that it gives libraries
  // If the devices of a node share its memory, which is then the limit: the most that the devices of one node
  // need together. 0: every device has its own.
  int64_t node_peak_bytes = 0;
  bool fits = true;
  ir::PlanSize plan;
  int programs = 0, classes = 0;
  // The simulator itself:
  int64_t events = 0;
  double wall_seconds = 0;  // of the whole command so far
  int64_t peak_rss_bytes = 0;
  bool folded = false;
  // Changes asked for to the cluster as described, and the step time without them; 0: not known.
  std::vector<std::string> changes;
  double described_step_seconds = 0;
  // For devices that do not all run alike.
  int jitter_runs = 0;  // 0: not asked for
  double jitter_mean_seconds = 0, jitter_p95_seconds = 0;
};

const StageReport& fullest(const Report& report);  // the stage with the largest peak

// The stage whose kernels take most of a step, and the shares of its step, which sum to 1.
struct Binding {
  std::string stage;
  double kernels = 0, communication = 0;  // the latter exposed: kernels wait for it
  double waiting = 0;                     // for other stages, for the host
};
Binding binding(const Report& report);  // of a simulated report

// The precision in a plan's labels; none if they have none.
std::optional<ir::Precision> precision_of(const std::map<std::string, std::string>& labels);

// The error bar of a job's step: by framework, device and the type of its products.
campaign::ErrorBar error_of(const std::map<std::string, std::string>& labels,
                            const backends::Cluster& cluster, int gpus);

// Bytes that one step moves between devices, by collective, as Table 2 of the paper counts them.
std::map<std::string, double> comm_bytes(const ir::Plan& plan, const backends::Cluster& cluster);

// Memory only, for a plan that does not fit.
Report memory_report(const ir::Plan& plan, const backends::Cluster& cluster,
                     const std::vector<planner::MemoryUse>& memory);
Report report(const ir::Plan& plan, const backends::Cluster& cluster,
              const std::vector<planner::MemoryUse>& memory, const sim::Result& result);

}  // namespace boxcar::explain

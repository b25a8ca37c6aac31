// The few constants of a cluster that a user's own measurements determine.
//
// Two fits, one after the other. Collectives give the bandwidth of links and NICs and factors on latencies,
// by the closed forms of sim/models/collective_time.h. Training steps, each compiled once and simulated as
// often as needed, give the rest: the share of their rate that products sustain (under_load), the share of
// the memory's bandwidth, the host's speed, and bandwidths that no collective has given.
//
//   calibrate(load_cluster("dgx-a100-80g"), measured)
//       ->  node.nic_bandwidth 25 GB/s described, 21.3 GB/s fitted
//
// Errors are |log(simulated / measured)|, squares below 10 % and linear beyond, so that single bad rows have
// little weight. A constant is fitted only if some measurement depends on it (changes by 5 % of its change)
// and its effect on the measurements differs from those of the other fitted constants. It stays near its
// described value unless the measurements say otherwise.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "backends/machines/cluster.h"
#include "planner/planner.h"
#include "sim/fit/nccl_tests.h"

namespace boxcar::fit {

struct MeasuredStep {
  std::string where;  // "steps.csv:3"
  double seconds = 0;
  std::function<planner::ResolvedJob()> job;  // on the cluster as described
};

struct Measurements {
  std::vector<CollectiveTest> tests;
  std::vector<MeasuredStep> steps;
};

struct FittedConstant {
  std::string name;  // its path in the description, or the constants that it is a factor on
  double described = 0, fitted = 0;
  bool is_factor = false;  // on several constants: described as 1
  double error_without =
      0;  // the mean error of its measurements with this one as described, the others as fitted
  bool at_bound = false;
  std::string why_not;  // reason that it is left as described; empty: fitted
};

// Measurements of one kind: the mean of |simulated / measured - 1| with the constants as described and as
// fitted.
struct FittedGroup {
  std::string name;
  size_t rows = 0;
  double before = 0, after = 0;
};

struct Calibration {
  backends::Cluster cluster;
  std::vector<FittedConstant> constants;
  std::vector<FittedGroup> groups;
  bool device_changed = false;
};

// `step` is told the work in progress. Throws Error (bad input), at the measurement's line, if a measurement
// does not fit on the cluster or its job is impossible.
Calibration calibrate(const backends::Cluster& described, const Measurements& measured,
                      const std::function<void(const std::string&)>& step);

}  // namespace boxcar::fit

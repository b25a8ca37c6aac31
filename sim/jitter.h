// Steps of a machine whose devices do not all run alike.
//
//   jitter 0.02: each device's kernels take 1 + 0.02 x as long, x drawn from a normal distribution for every
//   device and every run; a factor below 0.5 counts as 0.5
//
// Every device differs, so nothing is folded: a run of thousands of devices takes its time.
#pragma once

#include <cstdint>
#include <functional>

#include "sim/simulate.h"

namespace boxcar::sim {

struct Jitter {
  double deviation = 0;  // 0: none
  int64_t seed = 1;
  int runs = 20;
};

struct Spread {
  double mean_seconds = 0;
  double p95_seconds = 0;  // the step time that 95 % of the runs do not exceed
};

// Step times over the runs; the same seed gives the same. `begins` is told of each run, from 0. REQUIRES runs
// of at least 1.
Spread spread(const ir::Plan& plan, const backends::Cluster& cluster, const Options& options,
              const Jitter& jitter, const std::function<void(int run)>& begins = {});

}  // namespace boxcar::sim

// The cost of a whole training run: time with failures and checkpoints, GPU hours, money, energy.
//
//   Campaign run;
//   run.steps = 100'000, run.step_seconds = 6, run.gpus = 1024;
//   run.checkpoint_seconds = 12;
//   run.mtbf_seconds = mtbf_of(3 * 3600, 1024, run.gpus);  // 10,800 s
//   run.restart_seconds = 600, run.price_per_gpu_hour = 2.5, run.watts_per_gpu = 700;
//   const Cost cost = cost_of(run);
//   // a checkpoint every 84 steps (504 s); 665,141 s, 7.70 days; goodput 0.9021; 61.6 failures;
//   // 189,196 GPU hours, 472,989 dollars, 132.4 MWh
//
// The expected time is the complete model of J. T. Daly, "A higher order estimate of the optimum checkpoint
// interval for restart dumps", Future Generation Computer Systems 22 (2006), its equation for the total wall
// clock time:
//
//   T = M exp(R / M) (exp((tau + delta) / M) - 1) W / tau
//
// W is the time of all steps, tau the time of the steps between two checkpoints, delta that of writing one, R
// that of a restart, M the mean time between failures, all in seconds. It assumes that
// - times between failures are exponentially distributed, and all GPUs work for one job: a failure anywhere
//   stops all of it, and M is inversely proportional to the number of GPUs (mtbf_of);
// - a failure may come at any time, also while a checkpoint is written and during a restart. The steps since
//   the last whole checkpoint are lost; a restart that fails begins anew;
// - a checkpoint is written synchronously: all GPUs wait for it, and it takes as long every time. A framework
//   that writes while steps run loses less;
// - W / tau, the number of checkpoints, is not rounded.
//
// T is least if tau / M = 1 - exp(-(tau + delta) / M). best_interval() solves this and takes the better of
// the two whole numbers of steps beside the solution. Young 1974 ("A first order approximation to the optimum
// checkpoint interval") is its first term, sqrt(2 delta M). Daly's higher-order estimate of tau differs from
// the solution by less than 0.1 % if delta is below M / 10. tests/sim/campaign_test.cpp compares with this
// estimate, with the intervals that he published, and with runs whose failures are drawn.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>

namespace boxcar::campaign {

struct Campaign {
  int64_t steps = 1;        // optimizer steps that are kept in the end
  double step_seconds = 0;  // s, above 0
  int gpus = 1;
  double checkpoint_seconds = 0;  // s in which all GPUs wait for a checkpoint
  // s between failures of any of the run's GPUs. Infinity: no failures, and no checkpoints against them.
  double mtbf_seconds = std::numeric_limits<double>::infinity();
  double restart_seconds = 0;  // s from a failure to the next step: detection, other nodes, reading back
  std::optional<double> price_per_gpu_hour;  // any currency
  std::optional<double> watts_per_gpu;       // drawn all the time
  double pue = 1;                            // energy of the building over that of the GPUs, at least 1
};

struct Cost {
  double step_seconds = 0;                 // of the run
  int64_t steps_between_checkpoints = 0;   // 0: none are counted
  double seconds_between_checkpoints = 0;  // of those steps
  double seconds = 0;                      // expected, from the first step to the last checkpoint
  double lost_seconds = 0;                 // part of it: in checkpoints, restarts and repeated steps
  double goodput = 1;                      // share of it in steps that are kept
  double failures = 0;                     // expected number
  double gpu_hours = 0;
  std::optional<double> price;  // in the currency of price_per_gpu_hour
  std::optional<double> mwh;
};

// Mean time between failures of `gpus` GPUs, if it is `seconds` for `of_gpus`.
double mtbf_of(double seconds, int64_t of_gpus, int gpus);

// Expected seconds with a checkpoint after every `interval` steps; without failures those of the steps alone.
// Infinity if it exceeds what a double holds.
double expected_seconds(const Campaign& run, int64_t interval);

// Steps between checkpoints for which expected_seconds is least, from 1 to all steps; 0 without failures.
int64_t best_interval(const Campaign& run);

// The cost with the best interval.
Cost cost_of(const Campaign& run);

// The cost for a step of `least` to `most` seconds, each with its best interval. Every number of `low` is the
// least of the three, and every number of `high` the largest. REQUIRES least <= run.step_seconds <= most.
struct CostRange {
  Cost low, estimate, high;
};
CostRange cost_range(const Campaign& run, double least, double most);

}  // namespace boxcar::campaign

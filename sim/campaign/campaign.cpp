#include "sim/campaign/campaign.h"

#include <algorithm>
#include <cmath>

namespace boxcar::campaign {
namespace {

bool has_failures(const Campaign& run) { return std::isfinite(run.mtbf_seconds); }

// The best time between checkpoints if it need not be whole steps: the one root of x = 1 - exp(-(x + d)) in
// (0, 1), in units of the mean time between failures.
double best_seconds(const Campaign& run) {
  const double d = run.checkpoint_seconds / run.mtbf_seconds;
  double low = 0, high = 1;
  for (int i = 0; i < 100; ++i) {
    const double x = (low + high) / 2;
    (x + std::expm1(-(x + d)) < 0 ? low : high) = x;
  }
  return high * run.mtbf_seconds;
}

}  // namespace

double mtbf_of(double seconds, int64_t of_gpus, int gpus) {
  return seconds * static_cast<double>(of_gpus) / gpus;
}

double expected_seconds(const Campaign& run, int64_t interval) {
  const double useful = static_cast<double>(run.steps) * run.step_seconds;
  if (!has_failures(run)) return useful;
  const double mtbf = run.mtbf_seconds, between = static_cast<double>(interval) * run.step_seconds;
  return mtbf * std::exp(run.restart_seconds / mtbf) * std::expm1((between + run.checkpoint_seconds) / mtbf) *
         useful / between;
}

int64_t best_interval(const Campaign& run) {
  if (!has_failures(run)) return 0;
  const double steps = std::min(best_seconds(run) / run.step_seconds, static_cast<double>(run.steps));
  const int64_t fewer = std::max<int64_t>(1, static_cast<int64_t>(steps));
  const int64_t more = std::min(fewer + 1, run.steps);
  return expected_seconds(run, more) < expected_seconds(run, fewer) ? more : fewer;
}

Cost cost_of(const Campaign& run) {
  Cost cost;
  cost.step_seconds = run.step_seconds;
  cost.steps_between_checkpoints = best_interval(run);
  cost.seconds_between_checkpoints = static_cast<double>(cost.steps_between_checkpoints) * run.step_seconds;
  cost.seconds = expected_seconds(run, cost.steps_between_checkpoints);
  const double useful = static_cast<double>(run.steps) * run.step_seconds;
  cost.lost_seconds = cost.seconds - useful;
  cost.goodput = useful / cost.seconds;
  cost.failures = has_failures(run) ? cost.seconds / run.mtbf_seconds : 0;
  cost.gpu_hours = cost.seconds / 3600 * run.gpus;
  if (run.price_per_gpu_hour) cost.price = cost.gpu_hours * *run.price_per_gpu_hour;
  if (run.watts_per_gpu) cost.mwh = cost.gpu_hours * *run.watts_per_gpu * run.pue / 1e6;
  return cost;
}

CostRange cost_range(const Campaign& run, double least, double most) {
  const Cost estimate = cost_of(run);
  CostRange range{estimate, estimate, estimate};
  for (const double seconds : {least, most}) {
    Campaign other = run;
    other.step_seconds = seconds;
    const Cost cost = cost_of(other);
    const auto take = [&](auto Cost::*number) {
      range.low.*number = std::min(range.low.*number, cost.*number);
      range.high.*number = std::max(range.high.*number, cost.*number);
    };
    take(&Cost::steps_between_checkpoints);
    take(&Cost::seconds_between_checkpoints);
    for (double Cost::*number : {&Cost::step_seconds, &Cost::seconds, &Cost::lost_seconds, &Cost::goodput,
                                 &Cost::failures, &Cost::gpu_hours})
      take(number);
    for (std::optional<double> Cost::*number : {&Cost::price, &Cost::mwh}) take(number);
  }
  return range;
}

}  // namespace boxcar::campaign

#include "actors/training/train_run.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace boxcar::training {

double learning_rate(const TrainRun& run, double peak, int64_t step) {
  if (step < run.warmup_steps)
    return peak * static_cast<double>(step + 1) / static_cast<double>(run.warmup_steps);
  if (run.lr_schedule == "constant") return peak;
  const auto length = static_cast<double>(std::max<int64_t>(run.steps - 1 - run.warmup_steps, 1));
  const double done = std::min(static_cast<double>(step - run.warmup_steps) / length, 1.0);
  return run.min_learning_rate +
         (peak - run.min_learning_rate) * 0.5 * (1 + std::cos(std::numbers::pi * done));
}

}  // namespace boxcar::training

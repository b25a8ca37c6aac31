// The mean time of a step over the longest run of whole periods at the end of a simulation.
#pragma once

#include <cmath>
#include <vector>

namespace boxcar::support {

// `ends`: end time of each step, in s. Negative if there is no period.
inline double mean_step(const std::vector<double>& ends) {
  const size_t n = ends.size();
  for (size_t period = 1; period <= n / 4; ++period) {
    bool repeats = true;
    for (size_t i = n - 2 * period; i < n; ++i) {
      const double now = ends[i] - ends[i - 1], before = ends[i - period] - ends[i - period - 1];
      repeats &= std::abs(now - before) < 1e-6;
    }
    if (repeats) return (ends[n - 1] - ends[n - 1 - period]) / static_cast<double>(period);
  }
  return -1;
}

}  // namespace boxcar::support

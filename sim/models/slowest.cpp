#include "sim/models/slowest.h"

#include <cmath>
#include <unordered_map>

namespace boxcar::sim {
namespace {

// The mean of a variable is the integral of 1 - its distribution above 0, minus that of its distribution
// below.
double integrate(int count) {
  constexpr double step = 1.0 / 64, end = 10;
  double mean = 0;
  for (double x = step / 2; x < end; x += step) {
    const double above = std::erfc(x / std::sqrt(2.0)) / 2;  // of one draw
    mean += step * (-std::expm1(count * std::log1p(-above)) - std::pow(above, count));
  }
  return mean;
}

}  // namespace

double slowest_of(int count) {
  thread_local std::unordered_map<int, double> known;
  const auto [at, fresh] = known.try_emplace(count, 0);
  if (fresh) at->second = integrate(count);
  return at->second;
}

}  // namespace boxcar::sim

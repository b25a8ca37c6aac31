// A share of a peak by size, from a measured table.
#pragma once

#include <vector>

namespace boxcar::backends {

// A table of (x, share of peak) points that is interpolated in log x and clamped at its ends.
struct Curve {
  std::vector<double> x, y;
  double at(double x) const;  // 1 if the table is empty
  friend bool operator==(const Curve&, const Curve&) = default;
};

}  // namespace boxcar::backends

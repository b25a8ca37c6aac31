#include "planner/solve/cost.h"

#include <algorithm>
#include <iterator>

namespace boxcar::search {
namespace {

// The points that no remaining point covers to within `slack` in the first coordinate. Slow points are kept
// first, because their other coordinates are least.
Front relaxed(const Space& space, const Front& points, double slack) {
  Front left;
  for (size_t i = points.size(); i-- > 0;) {
    Cost reach = points[i];
    reach[0] += slack;
    bool spared =
        std::any_of(left.begin(), left.end(), [&](const Cost& c) { return space.covers(c, reach); });
    if (!spared) left.push_back(points[i]);
  }
  std::reverse(left.begin(), left.end());
  return left;
}

}  // namespace

Cost unlimited() {
  Cost cost;
  cost.fill(infinity);
  return cost;
}

bool is_forbidden(const Space& space, const Cost& cost) {
  return std::any_of(cost.begin(), cost.begin() + space.size(), [](double c) { return c == infinity; });
}

void prune(const Space& space, Front& points) {
  if (points.size() < 2) return;
  if (space.size() == 1) {
    points = {*std::min_element(points.begin(), points.end())};
    return;
  }
  std::sort(points.begin(), points.end());
  size_t left = 0;
  for (const Cost& point : points) {
    // With two coordinates the last kept point has the least second coordinate.
    size_t first = space.size() == 2 && left > 0 ? left - 1 : 0;
    bool covered = false;
    for (size_t i = first; i < left && !covered; ++i) covered = space.covers(points[i], point);
    if (!covered) points[left++] = point;
  }
  points.resize(left);
}

double thin(const Space& space, Front& points, size_t most) {
  if (points.size() <= most) return 0;
  double range = points.back()[0] - points.front()[0];
  double slack = 0;
  Front left;
  for (double parts = static_cast<double>(most); parts >= 1; parts /= 2) {
    slack = range / parts;
    left = relaxed(space, points, slack);
    if (left.size() <= most) break;
  }
  points = std::move(left);
  return slack;
}

bool Sums::covered(const Cost& cost) const {
  // Points are in order of the first coordinate. With two coordinates the second falls, so the last point
  // that is early enough decides.
  auto end = std::upper_bound(front_.begin(), front_.end(), cost[0],
                              [](double first, const Cost& point) { return first < point[0]; });
  if (space_.size() <= 2) return end != front_.begin() && space_.covers(*std::prev(end), cost);
  return std::any_of(front_.begin(), end, [&](const Cost& point) { return space_.covers(point, cost); });
}

void Sums::add(const Front& a, const Cost* b, size_t b_size) {
  Cost least = unlimited();  // of b, each coordinate separately
  for (size_t q = 0; q < b_size; ++q) {
    for (size_t k = 0; k < least.size(); ++k) least[k] = std::min(least[k], b[q][k]);
  }
  fresh_.clear();
  for (const Cost& p : a) {
    ++made_;
    if (covered(space_.add(p, least))) continue;
    made_ += static_cast<int64_t>(b_size);
    for (size_t q = 0; q < b_size; ++q) {
      Cost sum = space_.add(p, b[q]);
      if (space_.covers(sum, limits_) && !covered(sum)) fresh_.push_back(sum);
    }
  }
  if (fresh_.empty()) return;
  front_.insert(front_.end(), fresh_.begin(), fresh_.end());
  prune(space_, front_);
}

}  // namespace boxcar::search

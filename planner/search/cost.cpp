#include "planner/search/cost.h"

#include <algorithm>

namespace boxcar::search {
namespace {

// The points for which none is left that is as good, but for `slack` in the first coordinate. Slow points
// come first: they have least of the others.
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
    // With two coordinates the last point that was left has the least of the second.
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

}  // namespace boxcar::search

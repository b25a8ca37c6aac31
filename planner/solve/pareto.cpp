#include "planner/solve/pareto.h"

#include <algorithm>
#include <numeric>

namespace boxcar::search {

std::vector<size_t> pareto_front(const std::vector<std::vector<double>>& rows) {
  std::vector<size_t> order(rows.size());
  std::iota(order.begin(), order.end(), size_t{0});
  // A row that beats another comes before it.
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return rows[a] < rows[b]; });
  std::vector<size_t> front;
  for (const size_t row : order) {
    const bool beaten = std::any_of(front.begin(), front.end(), [&](size_t other) {
      return rows[other] != rows[row] && std::equal(rows[other].begin(), rows[other].end(), rows[row].begin(),
                                                    [](double a, double b) { return a <= b; });
    });
    if (!beaten) front.push_back(row);
  }
  std::sort(front.begin(), front.end());
  return front;
}

}  // namespace boxcar::search

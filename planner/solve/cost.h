// Costs of choices, each several separate numbers, and fronts of costs.
//
//   Space{.sums = 2, .maxima = 1}: seconds, bytes that stay, bytes of workspace at one time
//   {3, 10, 4} combined with {1, 5, 6}: {4, 15, 6}
//   front of {4, 15, 6}, {5, 10, 6}, {5, 15, 9}: the first two; the third is covered by the first
//
// The first `sums` coordinates of a cost add up, the next `maxima` are peaks; the rest is 0. Coordinates are
// at least 0, and infinity in any of them forbids the choice. Both ways to combine are monotone. So a cost
// that another covers (that is nowhere less than it) stays covered after both are combined with anything, and
// dropping it loses nothing.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "sbp/at.h"

namespace boxcar::search {

inline constexpr int max_coordinates = 6;
inline constexpr double infinity = std::numeric_limits<double>::infinity();
using Cost = std::array<double, max_coordinates>;

// No limit on any coordinate.
Cost unlimited();

struct Space {
  int sums = 1;
  int maxima = 0;

  int size() const { return sums + maxima; }
  Cost add(const Cost& a, const Cost& b) const {
    Cost c{};
    for (int k = 0; k < sums; ++k) at(c, k) = at(a, k) + at(b, k);
    for (int k = sums; k < size(); ++k) {
      at(c, k) = at(a, k) < at(b, k) ? at(b, k) : at(a, k);
    }
    return c;
  }
  // a <= b in every coordinate.
  bool covers(const Cost& a, const Cost& b) const {
    for (int k = 0; k < size(); ++k) {
      if (at(a, k) > at(b, k)) return false;
    }
    return true;
  }
};

bool is_forbidden(const Space& space, const Cost& cost);

// Costs in lexicographic order, none of which covers another.
using Front = std::vector<Cost>;

// Sorts points and drops covered ones; of equal points one stays.
void prune(const Space& space, Front& points);

// Drops points of a front until `most` are left, and returns the slack: for every dropped point there is one
// left that is no larger in the other coordinates and larger by at most the slack in the first. With two
// coordinates any `most` > 0 is reached. With more, the front of the other coordinates always stays.
double thin(const Space& space, Front& points, size_t most);

// The front of the sums of several pairs of fronts, without sums above `limits`. Covered sums are left out
// early.
class Sums {
 public:
  Sums(const Space& space, const Cost& limits) : space_(space), limits_(limits) {}
  void add(const Front& a, const Cost* b, size_t b_size);
  Front take() { return std::move(front_); }
  int64_t made() const { return made_; }  // number of sums, without those left out early

 private:
  bool covered(const Cost& cost) const;

  const Space& space_;
  const Cost& limits_;
  Front front_, fresh_;
  int64_t made_ = 0;
};

}  // namespace boxcar::search

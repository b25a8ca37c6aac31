// Operands that broadcast to one shape, seen as rows of the result in which each operand is contiguous or one
// element. Axes are joined if all operands allow it: equal shapes are one long row.
//
//   BroadcastRows rows({4, 6}, {{4, 6}, {6}});   // 4 rows of 6: a from 0, 6, 12, 18; b from 0 each time
//   rows.each([&](int64_t at, const int64_t* starts) { ... rows.width(), rows.step(i) ... });
#pragma once

#include <vector>

#include "ir/types.h"

namespace boxcar::backends::cpu {

// Axes along which elements are visited, outermost first, with each operand's step along each axis.
struct Axes {
  std::vector<int64_t> extents;
  std::vector<std::vector<int64_t>> steps;  // by operand, then by axis
};

// Drops axes of extent 1 and joins neighbours if every operand's steps allow it; at least one axis remains.
Axes join(const Axes& axes);
// Removes the innermost axis.
struct Inner {
  int64_t extent;
  std::vector<int64_t> steps;  // by operand
};
Inner take_inner(Axes& axes);

// visit(offset of each operand) for every index, in order.
template <class Visit>
void each_offset(const Axes& axes, Visit visit) {
  std::vector<int64_t> index(axes.extents.size(), 0), offsets(axes.steps.size(), 0);
  int64_t count = 1;
  for (const int64_t extent : axes.extents) count *= extent;
  for (int64_t i = 0; i < count; ++i) {
    visit(static_cast<const int64_t*>(offsets.data()));
    for (size_t axis = index.size(); axis-- > 0;) {
      const bool wraps = ++index[axis] == axes.extents[axis];
      const int64_t moved = wraps ? 1 - index[axis] : 1;
      for (size_t operand = 0; operand < offsets.size(); ++operand)
        offsets[operand] += moved * axes.steps[operand][axis];
      if (!wraps) break;
      index[axis] = 0;
    }
  }
}

// Steps of a row-major operand stretched to `result`: 0 along stretched axes.
std::vector<int64_t> stretched_steps(const ir::Shape& own, const ir::Shape& result);

class BroadcastRows {
 public:
  BroadcastRows(const ir::Shape& result, const std::vector<ir::Shape>& operands);

  int64_t width() const { return width_; }
  int64_t step(size_t operand) const { return inner_[operand]; }  // 0 or 1

  // visit(first element of the row in the result, in each operand)
  template <class Visit>
  void each(Visit visit) const {
    int64_t row = 0;
    each_offset(outer_, [&](const int64_t* starts) { visit(width_ * row++, starts); });
  }

 private:
  Axes outer_;
  std::vector<int64_t> inner_;
  int64_t width_ = 1;
};

}  // namespace boxcar::backends::cpu

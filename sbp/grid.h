// A tensor cut along every border of two layouts, so that each of their blocks is a set of whole cells.
//
//   10 elements, S(0) over 2 and over 3 devices: cuts 0 4 5 7 10, cells [0,4) [4,5) [5,7) [7,10);
//   part 1 of 3, [4,7), is cells 1 and 2
#pragma once

#include <vector>

#include "sbp/boxing.h"

namespace boxcar::sbp {

class Grid {
 public:
  using Cells = std::vector<Range>;      // half-open ranges of cells, per axis
  using Indices = std::vector<int64_t>;  // one cell: an index per axis

  Grid(const Layout& a, const Layout& b);

  // Cuts the longest axis further: each cell into up to `parts`.
  void refine(int64_t parts);

  int64_t count() const;  // of cells
  Cells all() const;
  Cells cells(const std::vector<Range>& block) const;  // REQUIRES: the block begins and ends on cuts
  std::vector<Range> block(const Indices& cell) const;
  int64_t volume(const Indices& cell) const;

  // Calls visit(number, indices) for each of `cells`; numbers are row-major over the whole grid.
  template <typename Visit>
  void each(const Cells& cells, Visit visit) const {
    Indices at;
    for (const Range range : cells) {
      if (range.size() <= 0) return;
      at.push_back(range.begin);
    }
    while (true) {
      size_t number = 0;
      for (size_t axis = 0; axis < at.size(); ++axis)
        number = number * (cuts_[axis].size() - 1) + static_cast<size_t>(at[axis]);
      visit(number, at);
      size_t axis = at.size();
      while (axis > 0 && ++at[axis - 1] == cells[axis - 1].end) {
        at[axis - 1] = cells[axis - 1].begin;
        --axis;
      }
      if (axis == 0) return;
    }
  }

 private:
  std::vector<std::vector<int64_t>> cuts_;  // per axis, ascending, from 0 to the extent
};

}  // namespace boxcar::sbp

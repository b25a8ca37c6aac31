// Moves elements of one size from one strided place to another: the basis of transpose, slice, concat and
// broadcast_to.
//
//   const StridedCopy copy({{2, 3}, {{3, 1}, {1, 2}}}, 4);   // [2, 3] to its transpose, 4 bytes each
//   copy.run(from, to);
#pragma once

#include "backends/cpu/broadcast_rows.h"

namespace boxcar::backends::cpu {

class StridedCopy {
 public:
  // Steps in elements of source and destination; a step of 0 in the source repeats. Sizes 1, 2, 4 and 8.
  StridedCopy(const Axes& axes, int64_t element_bytes);
  void run(const void* from, void* to) const;

 private:
  Axes outer_;
  Inner row_, column_;  // the two innermost loops; those of a transposition are tiled
  int64_t bytes_;
};

}  // namespace boxcar::backends::cpu

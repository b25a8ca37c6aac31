// Moves elements of one size from one strided place to another: what transpose, slice, concat and
// broadcast_to are made of.
//
//   const StridedCopy copy({{2, 3}, {{3, 1}, {1, 2}}}, 4);   // from [2, 3] to its transpose [3, 2], 4 bytes
//   each copy.run(from, to);
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

// Classes on the last axis of logits. A vocabulary is padded to a size that kernels and devices can divide;
// the attribute `classes` of a loss's ops is the number of real classes, and what lies beyond it counts for
// nothing. A part of the axis begins at `offset`.
//
//   classes_here({classes=10}, 16) == 10
//   classes_here({classes=10, offset=8}, 8) == 2
//   classes_here({classes=0}, 16) == 16          all of them
#pragma once

#include <algorithm>
#include <cstdint>

#include "ir/types.h"

namespace boxcar::ir {

inline int64_t classes_here(const Attrs& attrs, int64_t extent) {
  const int64_t classes = attr_int(attrs, "classes");
  if (classes == 0) return extent;
  const int64_t offset = attrs.contains("offset") ? attr_int(attrs, "offset") : 0;
  return std::clamp<int64_t>(classes - offset, 0, extent);
}

}  // namespace boxcar::ir

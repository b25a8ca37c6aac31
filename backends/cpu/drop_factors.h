// Dropout's factors for a chunk's elements: 0, or 1 / (1 - p) for kept ones.
//
//   drop_factors(Dropout(attrs, shape).at(moment), shape, at, count, factors);   // from element `at` on
#pragma once

#include "backends/cpu/chunks.h"
#include "backends/cpu/reference_random.h"

namespace boxcar::backends::cpu {

// `shape` is that of the part. Positions are looked up once per row.
template <class A>
void drop_factors(const Dropout& drop, const ir::Shape& shape, int64_t at, int64_t count, Chunk<A>& factors) {
  const int64_t width = shape.empty() ? 1 : shape.back();
  const A kept = static_cast<A>(drop.kept());
  for (int64_t i = 0; i < count;) {
    const int64_t begin = drop.position(at + i), here = std::min(count - i, width - (at + i) % width);
    for (int64_t j = 0; j < here; ++j) factors.at[i + j] = drop.keeps(begin + j) ? kept : A(0);
    i += here;
  }
  std::fill(factors.at + count, factors.at + (count + kLanes - 1) / kLanes * kLanes, A(0));
}

}  // namespace boxcar::backends::cpu

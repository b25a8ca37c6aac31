// What dropout multiplies a chunk's elements by: 0, or 1 / (1 - p) for those that are kept.
//
//   drop_factors(Dropout(attrs, shape).at(moment), shape, at, count, factors);   // of elements at to at +
//   count
#pragma once

#include "backends/cpu/chunks.h"
#include "backends/cpu/reference_random.h"

namespace boxcar::backends::cpu {

// `shape` is that of the part. Positions are looked up once a row.
template <class A>
void drop_factors(const Dropout& drop, const ir::Shape& shape, int64_t at, int64_t count, Chunk<A>& factors) {
  const int64_t width = shape.empty() ? 1 : shape.back();
  for (int64_t i = 0; i < count;) {
    const int64_t begin = drop.position(at + i), here = std::min(count - i, width - (at + i) % width);
    for (int64_t j = 0; j < here; ++j) factors.at[i + j] = static_cast<A>(drop.factor_at(begin + j));
    i += here;
  }
  std::fill(factors.at + count, factors.at + (count + kLanes - 1) / kLanes * kLanes, A(0));
}

}  // namespace boxcar::backends::cpu

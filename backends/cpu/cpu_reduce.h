// The arithmetic of collectives: several members' elements become one.
//
//   const void* parts[] = {a, b, c};
//   reduce(parts, out, 4, ir::DType::float32, sbp::Reduction::sum)     // out[i] = (a[i] + b[i]) + c[i]
//
// Elements are reduced in the order of `parts`, so that the bits depend on nothing else: float16 and bfloat16
// in float32 with one rounding at the end, whole numbers in 64 bits. A NaN in any part is the result of sum,
// max and min alike. `out` may be one of the parts, and overlaps no other.
#pragma once

#include <cstdint>
#include <span>

#include "ir/types.h"
#include "sbp/sbp.h"

namespace boxcar::backends::cpu {

// There is at least one part; empty parts may be null.
void reduce(std::span<const void* const> parts, void* out, int64_t count, ir::DType dtype,
            sbp::Reduction reduction);
// Throws Error (fault) for reductions that reduce() does not support: float8, and sums of booleans.
void check_reduction(ir::DType dtype, sbp::Reduction reduction);

}  // namespace boxcar::backends::cpu

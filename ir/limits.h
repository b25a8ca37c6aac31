// Upper limits of numbers in a graph or plan, which may be untrusted. Within them, every number that ops
// compute from extents and attributes fits in 64 bits.
//
//   flaw_of({{4, 6}}) == "";  flaw_of({{4, -6}}) == "an extent is negative"
#pragma once

#include <string>

#include "ir/types.h"

namespace boxcar::ir {

// Limit of an extent and of the magnitude of a whole number in an op's attribute: products of two fit in 64
// bits.
inline constexpr int64_t most_extent = int64_t{1} << 31;
// Limit of the product of a tensor's extents, with 0 counted as 1. Three times this still fits in 64 bits.
inline constexpr int64_t most_elements = int64_t{1} << 60;

// Why a tensor may not have this type; empty if it may.
std::string flaw_of(const TensorType& type);

}  // namespace boxcar::ir

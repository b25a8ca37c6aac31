// Upper limits of numbers in a graph or plan, which may come from anybody. Within them, whatever ops compute
// from extents and attributes fits in 64 bits.
//
//   flaw_of({{4, 6}}) == "";  flaw_of({{4, -6}}) == "an extent is negative"
#pragma once

#include <string>

#include "ir/types.h"

namespace boxcar::ir {

// Limit of an extent and of the magnitude of a whole number in an op's attribute: products of two fit in 64
// bits.
inline constexpr int64_t most_extent = int64_t{1} << 31;
// Limit of the product of a tensor's extents, where 0 counts as 1: three times as many still fit in 64 bits.
inline constexpr int64_t most_elements = int64_t{1} << 60;

// Why no tensor may have this type; empty where one may.
std::string flaw_of(const TensorType& type);

}  // namespace boxcar::ir

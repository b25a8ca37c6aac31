// What numbers of a graph or plan may be at most, which may come from anybody. Within these, what ops compute
// of extents and attributes fits in 64 bits.
//
//   flaw_of({{4, 6}}) == "";  flaw_of({{4, -6}}) == "an extent is negative"
#pragma once

#include <string>

#include "ir/types.h"

namespace boxcar::ir {

// Of an extent, and of a whole number of an op's attribute either way from 0: products of two fit in 64 bits.
inline constexpr int64_t most_extent = int64_t{1} << 31;
// Of all extents of a tensor together, where one of 0 counts as 1: three times as many can still be counted.
inline constexpr int64_t most_elements = int64_t{1} << 60;

// Why no tensor may have this type; empty where one may.
std::string flaw_of(const TensorType& type);

}  // namespace boxcar::ir

// Checks of a model's sizes.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>

#include "sbp/error.h"

namespace boxcar::ir::models {

// Throws Error (bad input) naming the key unless `ok`.
inline void require(bool ok, const char* key, const std::string& message) {
  if (!ok) throw Error::input(key, message);
}

// Throws unless each size is small enough that the product of two fits in 64 bits.
inline void require_small(std::initializer_list<std::pair<const char*, int64_t>> sizes) {
  constexpr int64_t largest = (int64_t{1} << 31) - 1;
  for (const auto& [key, value] : sizes)
    require(value <= largest, key, fmt::format("is {}, expected at most {}", value, largest));
}

}  // namespace boxcar::ir::models

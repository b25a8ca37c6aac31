// A number that stands for a sequence of numbers: FNV-1a (Fowler, Noll, Vo) over whole numbers instead of
// bytes.
//
//   fingerprint(std::string_view("ab")) != fingerprint(std::string_view("ba"))
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>

#include "ir/models/graph_model.h"

namespace boxcar::backends::host {

template <class Numbers>
uint64_t fingerprint(const Numbers& numbers) {
  uint64_t value = 0xcbf29ce484222325u;
  for (const auto number : numbers)
    value = (value ^ static_cast<std::make_unsigned_t<std::remove_const_t<decltype(number)>>>(number)) *
            0x100000001b3u;
  return value;
}

// Digest of what a user's own graph computes, 16 digits; comments and spaces in its text do not count.
std::string fingerprint_of(const ir::models::GraphModel& model);

}  // namespace boxcar::backends::host

// Tokens that are their own positions.
#pragma once

#include <string>

#include "backends/host/data.h"
#include "temporary.h"

namespace boxcar::tests {

// n tokens, each equal to its position.
inline backends::host::TokenData counting(const TemporaryFolder& folder, int64_t n) {
  std::string bytes;
  for (int64_t i = 0; i < n; ++i) bytes += {static_cast<char>(i & 255), static_cast<char>(i >> 8)};
  return backends::host::TokenData::open({folder.file("counting.bin", bytes)}, 65536);
}

}  // namespace boxcar::tests

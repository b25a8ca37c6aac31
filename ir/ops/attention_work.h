// The share of attention's pairs of query and key that a causal mask keeps, for its work and its time.
//
//   causal_share(0, 4096)      0.5
//   causal_share(128, 4096)    0.0308: 128 keys for each query except the first ones
#pragma once

#include <cstdint>

namespace boxcar::ir {

// The share of pairs that are seen in a sequence of `tokens` if each query sees the `window` keys up to its
// own; 0: all of them.
inline double causal_share(int64_t window, int64_t tokens) {
  if (window == 0 || window >= tokens) return 0.5;
  const double share = static_cast<double>(window) / static_cast<double>(tokens);
  return share * (1 - share / 2);
}

}  // namespace boxcar::ir

// The share of attention's pairs of query and key that its mask keeps, for its work and its time.
//
//   seen_share(0, 0, 4096)       0.5: causal
//   seen_share(128, 0, 4096)     0.0308: 128 keys for each query except the first ones
//   seen_share(0, 1024, 4096)    0.125: four documents, each causal
#pragma once

#include <algorithm>
#include <cstdint>

#include "ir/types.h"

namespace boxcar::ir {

// The most keys that a query of a fused attention sees, and the mean length of the documents that it stays
// within; 0: no limit, also if a plan does not say.
inline int64_t window_of(const Attrs& attrs) {
  return attrs.contains("window") ? attr_int(attrs, "window") : 0;
}
inline int64_t document_of(const Attrs& attrs) {
  return attrs.contains("document") ? attr_int(attrs, "document") : 0;
}

// The share of pairs that are seen in a sequence of `tokens` if each query sees the `window` keys up to its
// own; 0: all of them.
inline double causal_share(int64_t window, int64_t tokens) {
  if (window == 0 || window >= tokens) return 0.5;
  const double share = static_cast<double>(window) / static_cast<double>(tokens);
  return share * (1 - share / 2);
}

// The tokens among which attention looks for keys: a document, or the sequence if `document` is 0 or longer.
inline int64_t tokens_together(int64_t document, int64_t tokens) {
  return document > 0 ? std::min(document, tokens) : tokens;
}

// The share of pairs that are seen in a sequence of `tokens` that consists of documents of `document` tokens
// (0: it is one). Each query sees the `window` keys up to its own in its document; 0: all of them.
inline double seen_share(int64_t window, int64_t document, int64_t tokens) {
  const int64_t together = tokens_together(document, tokens);
  return tokens == 0
             ? 0.5
             : causal_share(window, together) * static_cast<double>(together) / static_cast<double>(tokens);
}

}  // namespace boxcar::ir

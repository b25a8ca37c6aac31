// Random numbers by position: every plan and every backend draws the same ones, whatever the layout.
//
//   const RandomKey key = random_key(seed, step, op);
//   const bool keep = uniform(key, element) >= p;
//
// `element` is the row-major position in the step's global batch: the position in the global tensor of a
// micro-batch plus the elements of earlier micro-batches, so that draws do not depend on the number of
// micro-batches.
//
// 64-bit mixing as in SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators",
// 2014), whose finaliser passes the usual batteries on counters; integer arithmetic only, so that every
// device agrees to the bit.
#pragma once

#include <cstdint>

namespace boxcar::backends {

inline uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

struct RandomKey {
  uint64_t value = 0;
};

inline RandomKey random_key(int64_t seed, int64_t step, int64_t op) {
  uint64_t key = mix(static_cast<uint64_t>(seed));
  key = mix(key ^ static_cast<uint64_t>(step));
  return {mix(key ^ static_cast<uint64_t>(op))};
}

// 24 bits.
inline int64_t draw_bits(RandomKey key, int64_t element) {
  return static_cast<int64_t>(mix(key.value ^ static_cast<uint64_t>(element)) >> 40);
}

// In [0, 1), exact in float32.
inline double uniform(RandomKey key, int64_t element) {
  return static_cast<double>(draw_bits(key, element)) * 0x1p-24;
}

}  // namespace boxcar::backends

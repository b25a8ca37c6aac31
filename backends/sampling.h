// The draw of classes by sample_rows, its gradient and sample_labels (ir/ops/nn_sampling.cpp): the rule that
// every kernel follows, so that all draw the same classes.
//
//   const RandomKey key = sampling_key(seed, step, micro_batch);
//   draw_bits(key, 7)      of two classes that no label has, the one with the smaller number is drawn first,
//                          of equal numbers the earlier class
#pragma once

#include "backends/random.h"

namespace boxcar::backends {

// Ops that drop elements have numbers from 0 on, so no key of theirs is the same.
inline RandomKey sampling_key(int64_t seed, int64_t step, int64_t micro_batch) {
  return random_key(seed, step, -1 - micro_batch);
}

}  // namespace boxcar::backends

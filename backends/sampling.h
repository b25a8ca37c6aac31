// The draw of classes by sample_rows, its gradient and sample_labels (ir/ops/nn_sampling.cpp): the rule that
// every kernel follows, so that all draw the same classes.
//
//   const RandomKey key = sampling_key(seed, step, micro_batch);
//   draw_bits(key, 7)      of two classes that no label has, the one with the smaller number is drawn first,
//                          of equal numbers the earlier class
#pragma once

#include <fmt/format.h>

#include <string>

#include "backends/random.h"
#include "sbp/error.h"
#include "sbp/sbp.h"

namespace boxcar::backends {

// Ops that drop elements have numbers from 0 on, so no key of theirs is the same.
inline RandomKey sampling_key(int64_t seed, int64_t step, int64_t micro_batch) {
  return random_key(seed, step, -1 - micro_batch);
}

// Throws Error (fault): a part of the classes that begin at `first` has more labels' classes than it draws.
[[noreturn]] inline void refuse_part(const std::string& op, int64_t classes, int64_t samples, int64_t parts,
                                     int64_t first, int64_t part) {
  const sbp::Range own = sbp::part_range(classes, parts, part);
  throw Error::fault(
      op, fmt::format("draws {} of the {} classes from {} on, but more are those of labels",
                      sbp::part_range(samples, parts, part).size(), own.size(), first + own.begin));
}

}  // namespace boxcar::backends

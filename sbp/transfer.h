// Slice transfers between any two layouts: the part of boxing that names devices and blocks.
//
//   8 elements, S(0) on 0-1 -> S(0) on 1-2: 0 -> 1 [0, 4), 1 -> 2 [4, 8);
//     device 1 holds [4, 8) and needs [0, 4)
//   8 elements, P(sum) on 0-1 -> S(0) on 2-3: both send [0, 4) to 2, which adds them, and [4, 8) to 3
//
// Partials that several devices need reduced meet first at one root per block if that moves less; this takes
// two steps. Partials of several reductions always do so, from the inside, each kind at its own roots:
//
//   4 elements, (P(sum), P(max)) on 0-3:2x2 -> S(0) on 0-3: the maxima of [0, 1) meet at 0 (of 0 and 1) and
//   at 2 (of 2 and 3), then the sum of both at 0, and so on
#pragma once

#include "sbp/boxing.h"

namespace boxcar::sbp {

std::vector<Step> transfer(const Layout& from, const Layout& to);

// Elements that transfer(from, to) moves.
int64_t transfer_elements(const Layout& from, const Layout& to);

}  // namespace boxcar::sbp

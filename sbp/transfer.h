// Slice transfers between any two layouts: the part of boxing that names devices and blocks.
//
//   8 elements, S(0) on 0-1 -> S(0) on 1-2: 0 -> 1 [0, 4), 1 -> 2 [4, 8); device 1 holds [4, 8) and needs [0,
//   4) 8 elements, P(sum) on 0-1 -> S(0) on 2-3: both send [0, 4) to 2, which adds them, and [4, 8) to 3
//
// Partials that several devices need reduced meet at one root per block first, where that moves less: two
// steps.
#pragma once

#include "sbp/boxing.h"

namespace boxcar::sbp {

// `from` and `to` are each partial in one kind of reduction only.
std::vector<Step> transfer(const Layout& from, const Layout& to);

// What transfer(from, to) moves.
int64_t transfer_elements(const Layout& from, const Layout& to);

}  // namespace boxcar::sbp

// Slice transfers between any two layouts: the part of boxing that names devices and blocks.
//
//   8 elements, S(0) on 0-1 -> S(0) on 1-2: device 1 keeps nothing of 4..8? it has [4, 8) and needs [0, 4):
//   0 -> 1: [0, 4), 1 -> 2: [4, 8): 8 elements moved
//
// Partials of one reduction are carried along: each device of the result that is not partial gets all of
// them, or, where that is cheaper, one root per block reduces them first and hands the result on.
#pragma once

#include "sbp/boxing.h"

namespace boxcar::sbp {

// One step, or two where partials are reduced at a root first. `from` is partial in one kind of reduction
// only.
std::vector<Step> transfer(const Layout& from, const Layout& to);

// What transfer(from, to) moves.
int64_t transfer_elements(const Layout& from, const Layout& to);

}  // namespace boxcar::sbp

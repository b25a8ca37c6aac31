// Whether what a collective writes over its operands is read by others at that time.
//
//   ar all_reduce(%g) {in_place=true} -> %ar.done on net   norm square_sum(%g) on compute
//   is refused: norm may read %g before, while or after ar writes it; square_sum(%g, %ar.done) comes after
#pragma once

#include "ir/plan.h"

namespace boxcar::planner {

// Throws Error (cannot run) naming both where another reader of a version may act while a collective with
// in_place writes over it: it has to have ended before in any case, or to begin after. What one reads
// of the other, at first or further hand, shows it at once; all else is decided by uses.h.
void check_overwrites(const ir::Plan& plan);

}  // namespace boxcar::planner

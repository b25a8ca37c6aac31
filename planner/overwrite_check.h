// Whether other acts may read a collective's operands while it writes over them.
//
//   ar all_reduce(%g) {in_place=true} -> %ar.done on net   norm square_sum(%g) on compute
//   is refused: norm may read %g before, while or after ar writes it; square_sum(%g, %ar.done) comes after
#pragma once

#include "ir/plan.h"

namespace boxcar::planner {

// Throws Error (cannot run) naming both if another reader of a version may act while a collective with
// in_place writes over it. In every order the reader has to end before the collective begins, or begin after
// it ends. If one reads the other's output, directly or through further acts, their order is known; uses.h
// decides the rest.
void check_overwrites(const ir::Plan& plan);

}  // namespace boxcar::planner

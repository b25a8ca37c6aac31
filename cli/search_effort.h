// The effort of a search: how many plans it simulates, and how near the best must be to the bound.
//
//   quick      the first 4 plans
//   normal     the best by estimate, then the proposals of moves around the best (planner/search/moves.h)
//   thorough   then every point whose bound allows it to be better
//   20         like thorough, but 20 plans at most
//
// Each first simulates the plans of the one before it, so more effort finds no plan that is worse, except for
// the 0.1 % below which a plainer plan is preferred.
#pragma once

#include <string>

#include "planner/search/options.h"

namespace boxcar::cli {

struct Effort {
  std::string effort = "normal";
  std::string gap;  // "2%" or "0.02": points are simulated until none can be better by more; empty: not given
  bool prove = false;  // as gap 0%
};

// Sets plans and gap. Throws Error (bad input) if a value cannot be read, if quick contradicts a gap, or if a
// gap is asked of the least memory, for which no bound is known.
void set_effort(const Effort& effort, search::SearchOptions& options);

}  // namespace boxcar::cli

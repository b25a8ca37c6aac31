// The range of each constant of the cluster over which a found plan stays the best.
//
//   stays_best(best, plan, options, again)[0].twice   // of "flops": {1.62, the job of another plan, 0.031}
//
// The search is repeated with the constant halved and doubled. If it finds a better plan, the factor from
// which that plan is the better one is found by simulating both.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "planner/search/search.h"
#include "sim/explain/sensitivity.h"

namespace boxcar::explain {

// One end of the range.
struct RangeEnd {
  double factor = 1;  // to 2 %; the half or the double if no better plan was found there
  // The job of the better plan at the half or the double; nothing: none was found.
  std::optional<planner::Job> better = std::nullopt;
  // How much better it is there, as a part of this plan's time or price; nothing if this plan exceeds the
  // longest step that was asked for.
  std::optional<double> better_part = std::nullopt;
};

struct StaysBest {
  Constant constant;
  std::optional<RangeEnd> half, twice;  // nothing if the constant would leave its bounds
};

// Searches the same job with a constant times a factor; nothing ends the analysis.
using SearchAgain = std::function<std::optional<search::Outcome>(const Constant& constant, double factor)>;

// `best` with its plan, found on its job's cluster, by a goal of time or cost. Rows of constants that were
// not searched to the end are left out.
std::vector<StaysBest> stays_best(const search::Candidate& best, const ir::Plan& plan,
                                  const search::SearchOptions& options, const SearchAgain& again);

}  // namespace boxcar::explain

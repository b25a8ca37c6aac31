// Refinements that are tried after the best degrees by estimate are simulated. Estimates are poor for them.
#pragma once

#include <vector>

#include "planner/search/attempts.h"
#include "planner/search/moves.h"
#include "planner/search/rules.h"

namespace boxcar::search {

struct Refinement {
  Attempts& attempts;
  Candidates& points;
  const std::vector<Candidate>& candidates;  // all that fit by estimate, the best first
  const SearchOptions& options;
  const Fixed& fixed;
};

// Tries recomputation of as few layers as memory requires (for the least memory: of as many as the time
// allows), backward passes in two parts, and jobs that differ from the best in one thing.
void change_degrees(const Refinement& of);

// Chooses the layout of every op, for the best and for those of other degrees that could win by it. Then
// tries other micro-batches and schedules of the results. For the least memory, does so for all degrees.
void lay_out_best(const Refinement& of);

// Where estimates are poor: the share by which a candidate may be worse than the best and still be tried.
constexpr double near_best = 0.1;
constexpr int most_of_degrees = 3;  // plans of the same degrees that are simulated, at most

// A weight of memory, in s for each byte, above any time that layouts take: bytes come first.
constexpr double bytes_first_weight = 1e-6;

}  // namespace boxcar::search

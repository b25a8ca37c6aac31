// Refinements tried once the best degrees by estimate are simulated, of which estimates know little.
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

// Tries recomputation of as few layers as memory asks for (for the least memory: of as many as the time
// lets), backward passes in two parts, and jobs that differ from the best in one thing.
void change_degrees(const Refinement& of);

// Chooses the layout of every op, for the best and for those of other degrees that could win by it; then
// tries other micro-batches and schedules of the results. For the least memory, does so for all degrees.
void lay_out_best(const Refinement& of);

constexpr double nearly = 0.1;  // as good as the best by estimate, where estimates know little
constexpr int alike = 3;        // the most plans of the same degrees that are simulated

// A price above any time that layouts take.
constexpr double seconds_per_byte = 1e-6;

}  // namespace boxcar::search

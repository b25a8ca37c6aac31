// What is tried once the best degrees by estimate are simulated: what estimates know little of.
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

// Recomputation of as few layers as memory asks for (for the least memory: of as many as the time lets),
// backward passes in two parts, and what differs from the best in one thing.
void change_degrees(const Refinement& of);

// The layout of every op: of the best, and of those of other degrees that could win by it; of what is found
// other micro-batches and schedules. For the least memory of all degrees.
void lay_out_best(const Refinement& of);

constexpr double nearly = 0.1;  // by estimate as good as the best, where estimates know little
constexpr int alike = 3;        // plans of the same degrees that are simulated

// Worth more than any time that layouts take.
constexpr double seconds_per_byte = 1e-6;

}  // namespace boxcar::search

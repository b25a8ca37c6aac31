// How many micro-batches of a point's stages are in flight, which memory and periods follow from.
#pragma once

#include <vector>

#include "planner/planner.h"

namespace boxcar::search {

// Micro-batches whose activations a (virtual) stage holds at most: to the end of their backward pass; where
// that is split, to the end of its first part, and between the parts. With an allocator, virtual stages hold
// them when their stage holds most of all.
struct Held {
  double to_end = 0, to_backward = 0, between = 0;
};
// By stage, of each of its virtual stages.
using InFlight = std::vector<std::vector<Held>>;
InFlight in_flight_of(const planner::Job& job);

}  // namespace boxcar::search

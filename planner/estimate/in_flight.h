// The micro-batches in flight on a point's stages, from which memory and periods follow.
#pragma once

#include <vector>

#include "planner/planner.h"

namespace boxcar::search {

// The most micro-batches whose activations a (virtual) stage holds: until the end of their backward pass or,
// if that is split, until the end of its first part, and between the parts. With an allocator, they are those
// of the moment at which the whole stage holds most.
struct Held {
  double to_end = 0, to_backward = 0, between = 0;
};
// By stage, for each of its virtual stages.
using InFlight = std::vector<std::vector<Held>>;
InFlight in_flight_of(const planner::Job& job);

}  // namespace boxcar::search

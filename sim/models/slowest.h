// How far the slowest of many devices of one type is behind their mean. Chips of one type differ in leakage
// and so in the clock that they hold within their power.
//
//   slowest_of(1) = 0     slowest_of(8) = 1.42     slowest_of(1024) = 3.25
#pragma once

namespace boxcar::sim {

// The mean of the largest of `count` (at least 1) independent draws from a normal distribution of mean 0, in
// standard deviations. Exact to 1e-4. Pure; any thread.
double slowest_of(int count);

}  // namespace boxcar::sim

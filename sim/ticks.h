// Virtual time as whole ticks of 2^-43 s (0.11 ps), so that sums of durations do not depend on their order
// and two states can be compared exactly: merged and unmerged runs then agree to the tick. The ends of flows
// that share links are SimGrid's: they differ by up to a nanosecond with other concurrent events.
//
//   to_ticks(0.5) == int64_t{1} << 42;  to_seconds(to_ticks(2e-6)) is 2e-6 within 0.06 ps
//
// The range is 12 days of virtual time.
#pragma once

#include <cmath>
#include <cstdint>

namespace boxcar::sim {

using Ticks = int64_t;

inline constexpr double ticks_per_second = 8796093022208.0;  // 2^43

inline Ticks to_ticks(double seconds) { return std::llround(seconds * ticks_per_second); }
inline double to_seconds(Ticks ticks) { return static_cast<double>(ticks) / ticks_per_second; }

}  // namespace boxcar::sim

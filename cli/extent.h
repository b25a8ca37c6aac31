// How far a command goes.
#pragma once

#include <cstdint>

namespace boxcar::cli {

// `reading` stops where the work begins: input is read and checked, but nothing is compiled, simulated,
// searched, trained, measured or fitted. Commands that only list (clusters, models, sbp) run all the same.
enum class Extent : uint8_t { whole, reading };

}  // namespace boxcar::cli

// `boxcar compare-trace TRACE PLAN`: a profile of a real step beside the simulated one, and a device file
// that closes as much of the difference as constants of a device can.
#pragma once

#include <CLI/CLI.hpp>

#include "cli/extent.h"

namespace boxcar::cli {

void add_compare_trace_command(CLI::App& app, Extent extent);

}  // namespace boxcar::cli

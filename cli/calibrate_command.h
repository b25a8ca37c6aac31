// `boxcar calibrate FILES --cluster NAME -o my.yaml`: a cluster whose constants are fitted to a user's
// measurements.
#pragma once

#include <CLI/CLI.hpp>

#include "cli/extent.h"

namespace boxcar::cli {

void add_calibrate_command(CLI::App& app, Extent extent = Extent::whole);

}  // namespace boxcar::cli

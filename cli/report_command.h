#pragma once

#include <CLI/CLI.hpp>

#include "cli/extent.h"

namespace boxcar::cli {

// `boxcar report PLAN -o FILE`: a saved plan as a page for a browser.
void add_report_command(CLI::App& app, Extent extent);

}  // namespace boxcar::cli

// `boxcar campaign`: the cost of whole training runs, side by side.
#pragma once

#include <CLI/CLI.hpp>

#include "cli/extent.h"

namespace boxcar::cli {

// As add_simulate_command.
void add_campaign_command(CLI::App& app, int& exit_code, Extent extent = Extent::whole);

}  // namespace boxcar::cli

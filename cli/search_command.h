// `boxcar search`: the fastest plan for a model on a cluster, as far as keys leave it open.
#pragma once

#include <CLI/CLI.hpp>

#include "cli/extent.h"

namespace boxcar::cli {

// As add_simulate_command.
void add_search_command(CLI::App& app, int& exit_code, Extent extent = Extent::whole);

}  // namespace boxcar::cli

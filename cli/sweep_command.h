// `boxcar sweep`: many simulations or searches, into a file of runs.
#pragma once

#include <CLI/CLI.hpp>

#include "cli/extent.h"

namespace boxcar::cli {

// As add_simulate_command. `reading` ends once every point's keys are checked: no file of runs is opened.
void add_sweep_command(CLI::App& app, Extent extent = Extent::whole);

}  // namespace boxcar::cli

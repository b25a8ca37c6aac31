// `boxcar simulate`: a job, or a saved plan, on a cluster description in virtual time.
#pragma once

#include <CLI/CLI.hpp>

#include "cli/extent.h"

namespace boxcar::cli {

// Adds the subcommand to `app`. When it is chosen, it leaves its exit code in `exit_code`; wrong input is
// thrown as Error.
void add_simulate_command(CLI::App& app, int& exit_code, Extent extent = Extent::whole);

}  // namespace boxcar::cli

// `boxcar diff A B`: the differences between two saved plans, and the cost of each.
#pragma once

#include <CLI/CLI.hpp>

#include "cli/program.h"

namespace boxcar::cli {

void add_diff_command(CLI::App& app, Extent extent);

}  // namespace boxcar::cli

// `boxcar diff A B`: what two saved plans do differently, and what each difference costs.
#pragma once

#include <CLI/CLI.hpp>

#include "cli/program.h"

namespace boxcar::cli {

void add_diff_command(CLI::App& app, Extent extent);

}  // namespace boxcar::cli

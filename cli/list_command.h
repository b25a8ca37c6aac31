// `boxcar clusters [NAME]` and `boxcar models`: the presets to choose from.
#pragma once

#include <CLI/CLI.hpp>

namespace boxcar::cli {

void add_list_commands(CLI::App& app);

}  // namespace boxcar::cli

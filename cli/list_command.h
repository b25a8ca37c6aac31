// `boxcar clusters [NAME]` and `boxcar models`: the available presets.
#pragma once

#include <CLI/CLI.hpp>

namespace boxcar::cli {

void add_list_commands(CLI::App& app);

}  // namespace boxcar::cli

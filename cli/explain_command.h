// `boxcar explain`: why a saved plan is as it is.
#pragma once

#include <CLI/CLI.hpp>

namespace boxcar::cli {

void add_explain_command(CLI::App& app);

}  // namespace boxcar::cli

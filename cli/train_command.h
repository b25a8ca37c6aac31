// `boxcar train`: compiles a job and runs it for real.
#pragma once

#include <CLI/CLI.hpp>

namespace boxcar::cli {

void add_train_command(CLI::App& app);

}  // namespace boxcar::cli

// `boxcar train`: compiles a job and really runs it.
#pragma once

#include <CLI/CLI.hpp>

#include "cli/extent.h"

namespace boxcar::cli {

void add_train_command(CLI::App& app, Extent extent = Extent::whole);

}  // namespace boxcar::cli

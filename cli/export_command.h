// `boxcar export`: a job or a saved plan as another framework's launch arguments or configuration, or as
// traces for other simulators.
#pragma once

#include <CLI/CLI.hpp>

#include "cli/extent.h"

namespace boxcar::cli {

void add_export_command(CLI::App& app, Extent extent);

}  // namespace boxcar::cli

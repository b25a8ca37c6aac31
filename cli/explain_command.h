// `boxcar explain`: why a saved plan is as it is.
#pragma once

#include <CLI/CLI.hpp>

#include "cli/extent.h"

namespace boxcar::cli {

void add_explain_command(CLI::App& app, Extent extent = Extent::whole);

}  // namespace boxcar::cli

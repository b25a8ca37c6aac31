// `boxcar profile`: measures this machine and writes a device that simulate and train accept as --device.
#pragma once

#include <CLI/CLI.hpp>

#include "cli/extent.h"

namespace boxcar::cli {

void add_profile_command(CLI::App& app, Extent extent = Extent::whole);

}  // namespace boxcar::cli

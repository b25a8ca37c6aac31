// `boxcar tokenize`: text as a file of tokens that `boxcar train` reads.
#pragma once

#include <CLI/CLI.hpp>

#include "cli/extent.h"

namespace boxcar::cli {

void add_tokenize_command(CLI::App& app, Extent extent);

}  // namespace boxcar::cli

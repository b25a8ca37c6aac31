// `boxcar import`: a model of ONNX as graph text, and its weights.
#pragma once

#include <CLI/CLI.hpp>

#include "cli/extent.h"

namespace boxcar::cli {

void add_import_command(CLI::App& app, Extent extent);

}  // namespace boxcar::cli

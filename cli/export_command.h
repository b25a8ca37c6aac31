// `boxcar export`: a job or a saved plan as another framework's launch arguments or configuration, or as
// traces for other simulators.
#pragma once

#include <CLI/CLI.hpp>

#include "cli/export/export.h"
#include "cli/extent.h"

namespace boxcar::cli {

void add_export_command(CLI::App& app, Extent extent);

// What is exported of a job, and of a saved plan at `path`. Throw Error (bad input), the latter where the
// plan does not say of which job it is.
exports::Source source_of(const GivenKeys& given);
exports::Source source_of_plan(const std::string& path, const GivenKeys& given);

}  // namespace boxcar::cli

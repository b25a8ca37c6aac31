// The files of runs that `boxcar sweep` writes: their columns, as one table.
//
//   runs_format().columns()[2].name == "status"
//   runs_format().column("tp")->key == "parallel.tp"
//   runs_format().column("step_time_s")->better == sweep::Better::less
#pragma once

#include <string>

#include "sim/sweep/store.h"

namespace boxcar::cli {

// Its columns are in the order of a file: identity, keys of a job as sweep_name() calls them, results.
const sweep::RunsFormat& runs_format();

// Rows of such a file, as sweep::read_runs gives them. A QueryError is an error at a flag: "--where".
sweep::RunsTable read_rows(const std::string& path, const sweep::RunsQuery& query);

}  // namespace boxcar::cli

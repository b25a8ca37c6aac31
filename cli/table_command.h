// `boxcar table`: rows of a file of runs, chosen, sorted and printed.
#pragma once

#include <CLI/CLI.hpp>

#include "sim/sweep/store.h"

namespace boxcar::cli {

void add_table_command(CLI::App& app);

// A table for people, with three or four digits; the same as CSV (RFC 4180) and as one JSON document, with
// all digits. A document's columns configuration and result are JSON documents, and text otherwise.
std::string to_table(const sweep::RunsTable& table);
std::string to_csv(const sweep::RunsTable& table);
std::string to_json(const sweep::RunsTable& table);

}  // namespace boxcar::cli

// The document of `boxcar report RUNS`: all that its page shows of a file of runs, which `boxcar sweep`
// wrote.
//
//   const auto document = runs_document("runs.db", "gpus = 128");
//   document["columns"][5]   // {"name": "tp", "meaning": "...", "kind": "asked", "better": null}
//   document["rows"][0][5]   // 8
//
// Numbers are those of `boxcar table --json`. A column is asked (a key or a constant to which the sweeps gave
// several values), another key, or a result. Columns without a value in any row, and the documents of single
// runs, are left out.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace boxcar::cli {

inline constexpr size_t most_rows_of_a_page = 50'000;

// Whether the file at `path` is a database of SQLite, by its first bytes.
bool is_runs_file(const std::string& path);

// `where`: rows for which this expression holds; empty: all. Throws Error (bad input) as read_rows does, and
// if there are no rows or more than a page takes.
nlohmann::ordered_json runs_document(const std::string& path, const std::string& where);

}  // namespace boxcar::cli

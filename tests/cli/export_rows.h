// Rows of a framework's table of exports.
#pragma once

#include <algorithm>
#include <string>

#include "cli/export/export.h"

namespace boxcar::cli::export_tests {

// The row of a key, by its path; null if there is none.
inline const exports::Row* row_of(const exports::Framework& framework, const std::string& path) {
  for (const exports::Row* row : exports::rows_of(framework))
    if (std::count(row->keys.begin(), row->keys.end(), path)) return row;
  return nullptr;
}

}  // namespace boxcar::cli::export_tests

// How models refuse a size.
#pragma once

#include <string>

#include "sbp/error.h"

namespace boxcar::ir::models {

// Throws Error (bad input) naming the key unless `ok`.
inline void require(bool ok, const char* key, const std::string& message) {
  if (!ok) throw Error::input(key, message);
}

}  // namespace boxcar::ir::models

// Any exception as one of ours, with the text and exit code with which it ends the program.
#pragma once

#include <exception>
#include <new>
#include <string>

#include "sbp/error.h"

namespace boxcar {

inline Error as_error(const std::exception& e) {
  if (const auto* known = dynamic_cast<const Error*>(&e)) return *known;
  if (dynamic_cast<const std::bad_alloc*>(&e)) return Error::fault("", "out of memory");
  return Error::fault("", std::string("internal fault: ") + e.what());
}

}  // namespace boxcar

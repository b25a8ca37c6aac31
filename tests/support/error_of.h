// The message of a refused call, for tests that assert whole messages.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "sbp/error.h"

namespace boxcar::support {

// Returns "no error" if nothing is thrown; expects an error of this kind.
inline std::string error_of(const std::function<void()>& call, Exit code = Exit::bad_input) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  return "no error";
}

}  // namespace boxcar::support

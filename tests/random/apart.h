// Runs a check in its own process, so that a crash, a hang or excess memory ends only that process.
#pragma once

#include <functional>
#include <string>

namespace boxcar::tests {

// The failure's text: googletest's expectations, an exception, a signal, or that the check took more than
// `seconds` of processor time or waited too long. Empty on success. The caller must have one thread.
std::string failure_of(const std::function<void()>& check, int seconds);

}  // namespace boxcar::tests

// Runs a check in a process of its own: what crashes, hangs or takes too much memory ends that process alone.
#pragma once

#include <functional>
#include <string>

namespace boxcar::tests {

// The text of what failed: googletest's expectations, an exception, a signal, or that it took more than
// `seconds` of processor time, or waited for long. Empty where nothing did. The caller has one thread.
std::string failure_of(const std::function<void()>& check, int seconds);

}  // namespace boxcar::tests

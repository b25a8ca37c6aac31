// Mistakes of people and machines: one exception type for the whole project.
//
//   throw Error::input("job.yaml:7: tp", "6 does not divide heads 32 (use 1, 2, 4, 8, 16 or 32)");
//   what(): "job.yaml:7: tp: 6 does not divide heads 32 (use 1, 2, 4, 8, 16 or 32)", exit code 2
//
// Messages are lower case: the place, then the value found and the value expected, then the correction.
#pragma once

#include <stdexcept>
#include <string>

namespace boxcar {

enum class Exit : int { done = 0, cannot_run = 1, bad_input = 2, fault = 3 };

class Error : public std::runtime_error {
 public:
  Error(Exit code, std::string where, std::string message)
      : std::runtime_error(where.empty() ? message : where + ": " + message),
        code_(code),
        where_(std::move(where)) {}

  // The input is wrong (exit 2).
  static Error input(std::string where, std::string message) {
    return Error(Exit::bad_input, std::move(where), std::move(message));
  }
  // The input is well formed but the job cannot run: it does not fit, or would deadlock (exit 1).
  static Error cannot_run(std::string where, std::string message) {
    return Error(Exit::cannot_run, std::move(where), std::move(message));
  }
  // Something failed while running, or an invariant of Boxcar is broken (exit 3).
  static Error fault(std::string where, std::string message) {
    return Error(Exit::fault, std::move(where), std::move(message));
  }

  Exit code() const { return code_; }
  const std::string& where() const { return where_; }

 private:
  Exit code_;
  std::string where_;
};

}  // namespace boxcar

// Draws jobs and checks each against all laws.
#pragma once

#include <cstdint>
#include <functional>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "draw.h"

namespace boxcar::tests {

struct SoakOptions {
  uint64_t seed = 1;
  int64_t jobs = 0;                 // 0: until the time is up
  double seconds = 0;               // 0: until all jobs have run
  std::set<std::string> laws = {};  // by name; empty: all
  std::string record = {};          // gets a line per passing job; empty: none
  std::ostream* progress = nullptr;
};

struct Failure {
  RandomJob job;  // the smallest that still fails
  std::string law, message;
};
// How to reproduce it: the message, the command and the job.
std::string to_text(const Failure& failure);

struct SoakResult {
  int64_t jobs = 0, refused = 0;
  std::map<std::string, int64_t> checks;  // by law
  std::vector<Failure> failures;          // one for each law and message
  size_t covered = 0, pairs = 0, illegal = 0;
};

// `coverage`: pairs that have run before; grows.
SoakResult soak(const SoakOptions& options, Coverage& coverage);

// Runs the laws on one job; nothing if all hold.
std::vector<Failure> check(const RandomJob& job, const std::set<std::string>& laws,
                           std::map<std::string, int64_t>* checks = nullptr);

}  // namespace boxcar::tests

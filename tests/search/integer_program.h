// A problem of choices as an integer program that CBC solves: an independent way to the same optimum.
#pragma once

#include <string>

#include "planner/solve/assignment.h"

namespace boxcar::search {

bool has_cbc();  // scripts/setup --clang installs it (coinor-cbc)

// x = one choice of a node; y = one pair of choices of an edge. Sums of y over either end equal that end's x.
// Minimises the first coordinate, with the second at most `limit`.
class IntegerProgram {
 public:
  IntegerProgram(const Assignment& problem, double limit);

  // The minimum; infinity if nothing is feasible.
  double solve() const;

 private:
  void cost(const Cost& cost, const std::string& variable);
  void pairs(const Assignment& problem, size_t e);

  std::string value_, memory_, rows_, binaries_, text_;
};

}  // namespace boxcar::search

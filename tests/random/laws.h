// What must hold for every job: one row for each law.
//
//   for (const Law& law : laws())
//     if (law.is_for(job)) failure_of([&] { law.check(job); }, law.seconds)
#pragma once

#include <string>
#include <vector>

#include "planner/laid_out.h"
#include "random_job.h"

namespace boxcar::tests {

// A job as the planner has it: resolved, and where its layouts come from.
struct Point {
  planner::Job job;
  std::string layouts;
};
Point point_of(const RandomJob& job);

struct Law {
  const char* name;
  const char* says;
  bool (*is_for)(const RandomJob& job);  // whether it says anything of this one, which is legal
  void (*check)(const RandomJob& job);   // by googletest's expectations; what it throws is a failure too
  int seconds;                           // of processor time, after which it is taken to hang
};
const std::vector<Law>& laws();

}  // namespace boxcar::tests

// Laws that every job must satisfy, one row each.
//
//   for (const Law& law : laws())
//     if (law.is_for(job)) failure_of([&] { law.check(job); }, law.seconds)
#pragma once

#include <string>
#include <vector>

#include "planner/laid_out.h"
#include "random_job.h"

namespace boxcar::tests {

// A job as the planner has it: resolved, and with the source of its layouts.
struct Point {
  planner::Job job;
  std::string layouts;
};
Point point_of(const RandomJob& job);

struct Law {
  const char* name;
  const char* says;
  bool (*is_for)(const RandomJob& job);  // whether the law covers this legal job
  void (*check)(const RandomJob& job);   // by googletest's expectations; an exception is a failure too
  int seconds;                           // of processor time; beyond it the check counts as hung
};
const std::vector<Law>& laws();

}  // namespace boxcar::tests

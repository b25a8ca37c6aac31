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

// Whether the optimizer moves weights by rounding as far as by anything else. A diffusion U-Net norms what it
// adds the time to, so gradients of the time's weights are nothing but rounding; so are those of queries that
// see one key, and of keys' biases. LAMB moves the first two as far as any others, Adagrad, whose eps is
// small, the last two, and Adafactor all of them.
bool scales_rounding(const RandomJob& job);

struct Law {
  const char* name;
  const char* says;
  bool (*is_for)(const RandomJob& job);  // whether the law covers this legal job
  void (*check)(const RandomJob& job);   // by googletest's expectations; an exception is a failure too
  int seconds;                           // of processor time; beyond it the check counts as hung
};
const std::vector<Law>& laws();

}  // namespace boxcar::tests

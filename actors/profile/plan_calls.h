// The kernels of a plan, each once, to be measured for models that will be simulated.
//
//   std::set<std::string> known;                                   // by text: op, types, way of work
//   for (const Sampled& kernel : calls_of(job, known)) ...         // kernels of a job that are not known yet
#pragma once

#include <set>
#include <string>
#include <vector>

#include "actors/layout.h"
#include "backends/measure/samples.h"
#include "planner/planner.h"

namespace boxcar::profile {

// A kernel of a program and its key: op, types and everything that changes its way of work.
struct Known {
  std::string key;
  measure::Sampled sampled;
};
bool is_kernel(const ir::Actor& actor);
Known known_as(const actors::Layout& layout, const ir::Actor& actor);

// Kernels of device 0. The job need not be resolved, but its cluster must be.
std::vector<measure::Sampled> calls_of(const planner::Job& job, std::set<std::string>& known);

}  // namespace boxcar::profile

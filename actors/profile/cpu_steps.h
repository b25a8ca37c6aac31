// Kernels as training runs them: steps of small models, and the time of each of their acts.
//
//   std::set<std::string> known;                                  // kernels that have samples
//   std::vector<KernelSample> samples = measure_steps(known, progress);
//   for (const Sampled& lone : part_calls(known)) ...             // of plans for several devices: not run
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "backends/measure/samples.h"

namespace boxcar::profile {

// Samples on a single device: medians over all acts of the same op, types and way of work. Caches are in the
// state in which earlier acts have left them.
std::vector<measure::KernelSample> measure_steps(std::set<std::string>& known,
                                                 const std::function<void(const std::string&)>& progress);

// Kernels of tensor-parallel plans that are not known yet.
std::vector<measure::Sampled> part_calls(std::set<std::string>& known);

}  // namespace boxcar::profile

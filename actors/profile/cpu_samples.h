// What `boxcar profile --backend cpu` measures of this machine: kernels as training runs them, what an act
// and a message cost, how fast threads exchange data, how much of a core is left to each when all of them
// work.
//
//   Samples samples = measure_cpu([](const std::string& what) { ... });   // about half a minute
//   fit::fit_device(samples)                                              // sim/fit: a device
#pragma once

#include <functional>
#include <string>

#include "backends/measure/samples.h"

namespace boxcar::profile {

// `progress` is told what is measured next.
measure::Samples measure_cpu(const std::function<void(const std::string&)>& progress);

}  // namespace boxcar::profile

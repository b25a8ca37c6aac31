// Measurements of this machine for `boxcar profile --backend cpu`: kernels as training runs them, the cost of
// an act and of a message, the rate at which threads exchange data, and the share of its speed that a core
// keeps when all cores work.
//
//   Samples samples = measure_cpu([](const std::string& what) { ... });   // about half a minute
//   fit::fit_device(samples)                                              // sim/fit: a device
#pragma once

#include <functional>
#include <string>

#include "backends/measure/samples.h"

namespace boxcar::profile {

// `progress` is called with a description of the next measurement.
measure::Samples measure_cpu(const std::function<void(const std::string&)>& progress);

}  // namespace boxcar::profile

// What `boxcar profile --backend cpu` measures of this machine: kernels as training runs them, what an act
// and a message cost, how fast threads exchange data, how much of a core is left to each when all of them
// work.
//
//   Samples samples = measure_cpu([](const std::string& what) { ... });   // about half a minute
//   fit(samples)                                                          // device_fit.h: a device
#pragma once

#include <functional>
#include <string>

#include "cli/samples.h"

namespace boxcar::cli {

// `progress` is told what is measured next.
Samples measure_cpu(const std::function<void(const std::string&)>& progress);

}  // namespace boxcar::cli

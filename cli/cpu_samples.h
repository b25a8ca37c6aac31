// What `boxcar profile --backend cpu` measures of this machine: kernels as training runs them, what an act
// and a message cost, how fast threads exchange data, how much of a core is left to each when all of them
// work.
//
//   Samples samples = measure_cpu([](const std::string& what) { ... });   // about half a minute
//   fit(samples)                                                          // cpu_profile.h: a device
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "backends/device.h"
#include "sbp/boxing.h"

namespace boxcar::cli {

// A kernel on one thread: where it stands in a step of training, or by itself with operands that are no
// longer in the first-level caches.
struct KernelSample {
  backends::Call call;
  double seconds = 0;
};

// A collective of threads of one process, nothing beside it. `bytes`: the larger of a member's input and
// output.
struct GroupSample {
  sbp::Collective collective = sbp::Collective::none;
  int ranks = 0;
  int64_t bytes = 0;
  double seconds = 0;
};

struct Samples {
  std::vector<KernelSample> kernels;
  std::vector<GroupSample> groups;
  double act_seconds = 0;      // of an act that does next to nothing
  double message_seconds = 0;  // from an act's end until a thread that slept begins the next
  double copy_bandwidth = 0;   // bytes/s that one thread copies
  double cores = 0;            // threads' worth of work when there is one for each of the machine's cores
  int64_t memory_bytes = 0;
};

// `progress` is told what is measured next.
Samples measure_cpu(const std::function<void(const std::string&)>& progress);

}  // namespace boxcar::cli

// Measurements for `boxcar profile --backend cuda`: products of real layers' sizes and uneven ones, attention
// by length and head size, every kernel of whole models' plans, sums of vectors for the memory, copies from
// the host, the host's time for a launch, the rate that a product sustains for seconds, and collectives if
// there are several devices.
//
//   Samples samples = measure_gpus(make, 8, gpu_sweep(free_bytes), progress);   // under 5 minutes
//
// It uses devices only through backends/device.h, so that a device with known constants can replace them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "backends/measure/group_bench.h"
#include "backends/measure/samples.h"
#include "planner/planner.h"

namespace boxcar::profile {

// Measurements, in this order until the time is over.
struct Sweep {
  int64_t memory = 0, footprint = 0;    // Bench's
  std::vector<measure::Sampled> calls;  // one by one
  std::vector<planner::Job> jobs;       // jobs whose plans' kernels are measured
  measure::Sampled sustained;           // for seconds
  double sustained_seconds = 0;
  int64_t upload_bytes = 0, largest_group = 0;
  double budget_seconds = 0;  // no kernel is begun after this time
};
// For a GPU with `free_bytes` free: sizes of GPT-2 124M to 1.5B, a Llama of 1B, ResNet-50 and others. Calls
// are left out if twice their inputs and outputs do not fit into `most` bytes.
Sweep gpu_sweep(int64_t free_bytes, int64_t most = 32'000'000'000);
// Sums of vectors of 64 to `most` elements, for the floor and the bandwidth of memory.
std::vector<measure::Sampled> sum_calls(int64_t most);

// Measures device 0 of `gpus` equal ones, and groups of 2, 4, ... of them. `progress` is called with a
// description of the next measurement.
measure::Samples measure_gpus(const measure::MakeBackend& make, int gpus, const Sweep& sweep,
                              const std::function<void(const std::string&)>& progress);

}  // namespace boxcar::profile

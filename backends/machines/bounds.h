// Bounds of the numbers that describe machines.
#pragma once

#include <cstdint>

namespace boxcar::backends {

// Numbers that no machine has are refused.
constexpr double least_rate = 1e6, most_rate = 1e15;  // bytes/s
constexpr double most_flops = 1e18, most_latency = 1;
constexpr double least_cores = 0.1, most_cores = 4096;
constexpr int64_t least_memory = int64_t{1} << 20, most_memory = int64_t{1} << 50;
constexpr int most_gpus = 1 << 20, most_node_gpus = 1024;

}  // namespace boxcar::backends

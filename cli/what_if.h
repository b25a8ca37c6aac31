// Changes to a described cluster: constants, slow ranks.
//
//   change(cluster, "bandwidth.network=2x")     every NIC twice as fast
//   change(cluster, "latency.network=5e-6")     5 us
//   slow_down(cluster, "rank=17,slowdown=1.3")  rank 17 takes 1.3 times as long for its kernels
//
// A constant's name is its path in the YAML ("node.nic_bandwidth", "matmul.wave_overlap") or a short one
// (docs/clusters.md). A name with several numbers below it (flops, memory_efficiency) takes only factors.
#pragma once

#include <string>

#include "backends/machines/forward.h"

namespace boxcar::cli {

// Throw Error (bad input) at "--what-if" and "--straggler", saying what was expected.
void change(backends::Cluster& cluster, const std::string& text);
void slow_down(backends::Cluster& cluster, const std::string& text);

}  // namespace boxcar::cli

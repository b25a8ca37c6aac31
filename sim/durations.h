// How long each act of a plan takes when nothing contends, from the time models.
#pragma once

#include <vector>

#include "backends/cluster.h"
#include "ir/plan.h"
#include "sim/models/collective_time.h"

namespace boxcar::sim {

// What one act costs: `seconds` of a kernel or a fixed duration, or a communication.
struct ActCost {
  double seconds = 0;  // of work that loads no link
  CommTime comm;       // where bytes_on_link > 0
  double total() const { return seconds + comm.seconds(); }
};

// By actor of the program of class `cls`, as the class's first device sees it. An attribute "seconds" (a
// double) fixes the duration of an act; kernels take kernel_seconds times the device's slowdown.
std::vector<ActCost> act_costs(const ir::Plan& plan, const backends::Cluster& cluster, int cls);

// The devices that act with `device` in a group of `comm`; {device} where it is in none.
std::vector<int> group_of(const ir::Comm& comm, int device);

bool is_communication(const ir::Actor& actor);

}  // namespace boxcar::sim

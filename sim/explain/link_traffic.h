// Traffic of a device in a step, by link.
//
//   stage0  between nodes     reduce_scatter over dp 16    62 acts  5.9 GB  298 ms
//   stage0  nvswitch, in node all_reduce over tp 8       9312 acts  469 GB   3.1 s
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backends/machines/forward.h"
#include "ir/plan.h"
#include "sim/step_timeline.h"

namespace boxcar::explain {

// All acts of a program that are of one kind, over one kind of group.
struct LinkTraffic {
  std::string stage, link, what, over;  // over: "dp 16"; empty for copies and pulls
  double link_bandwidth = 0;            // bytes/s of a device, one way; 0: not known
  int64_t acts = 0;                     // of one device in a step
  double bytes = 0;                     // sim::MovedBytes::size over all acts
  double alone_seconds = 0;             // by the time models, if nothing else used the link
  double simulated_seconds = 0;         // of the acts as simulated, waits for a shared link included
};

// Traffic of each program's first device, in the plan's order, links in a node first. `timeline` is of `plan`
// on `cluster`; programs without acts in it have no simulated seconds.
std::vector<LinkTraffic> link_traffic(const ir::Plan& plan, const backends::Cluster& cluster,
                                      const sim::StepTimeline& timeline);

}  // namespace boxcar::explain

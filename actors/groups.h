// The number of groups of each device of a plan on a backend: those of collectives, one for each group of
// devices and queue, and links (links.h). It is none on a backend whose groups do not wait on the devices
// themselves (Backend::sends). Also the number of queues that the devices have for these. The results are the
// same in all processes.
//
//   four devices, dp 2 x pp 2:   device 0 is in "dp of 0 on net.dp", and sends and receives over two links
//   groups_of(state)[0]          {.groups = 3, .queues = 6}: its queues, and one for the link that it sends
//   over
#pragma once

#include <vector>

#include "actors/run_state.h"

namespace boxcar::actors {

struct DeviceGroups {
  int groups = 0;
  int queues = 0;  // queues with acts, or for sends
};
std::vector<DeviceGroups> groups_of(const RunState& state);

}  // namespace boxcar::actors

// Pass serve (Hints::servers): gradients go to parameter servers, which lie on the hosts of the devices.
//
// Devices on the inner dimension of the mesh (dp) share a server; servers stand along "replica". A server
// holds an equal share of every tensor (pins.h, served), and its devices have equal parts of that share. So
// each device exchanges its own part with the same device of every other server. With 2 servers of 8 devices:
//
//   gradient (P, P)        on the device   reduce_scatter along dp             (P, S(0))
//                          a copy          to the host
//                          on the host     exchange: the push, and its sum     (S(0,inner), S(0))
//   servers_update:        on the host     the update, by update_on_host
//     weight               on the host     exchange: the pull                  (B, S(0))
//   else, the gradient     on the host     exchange: the pull of the sum       (B, S(0))
//                          a copy          to the device
//                          on the device   all_gather along dp                 (B, B)
//
// A tensor that cannot be cut into shares, such as a scalar, or that is split over the devices anyway, is
// reduced as without servers.
#pragma once

#include "planner/lowering/stage.h"
#include "planner/lowering/tasks.h"

namespace boxcar::planner {

void serve(const Stage& stage, StageTasks& tasks);
// Exchanges go from host to host and change the layout along "replica" alone; nothing else takes sums of
// gradients to shares.
void check_servers(const Stage& stage, const StageTasks& tasks);

}  // namespace boxcar::planner

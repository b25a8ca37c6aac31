// How long the host of an eager framework makes a device wait.
//
// The host runs ahead of the device as long as the device has work or waits for its links. If the launches of
// a layer's pass, collectives among them, take longer than that, each kernel ends later by its share of the
// difference:
//
//   10 kernels of a layer's forward pass, 300 us on the device, 40 us of the host per launch: + 10 us each
//
// A delayed kernel may hide behind a collective. Delays then grow until the layer's pass takes as long as its
// launches. In a pipeline, the launches of a pass itself come when its first kernel waits for another stage.
//
// A lead that the host won earlier, say in the head, does not count: published launch-bound layers take as
// long behind long kernels as behind short ones.
#pragma once

#include <functional>
#include <vector>

#include "backends/machines/cluster.h"
#include "ir/plan.h"

namespace boxcar::sim {

// An act as its host and device see it.
struct HostAct {
  bool delays = false;  // a kernel of its own, which may end later
  double launches = 0;  // by the host
  double waits = 0;     // launches that the device waits for before it
};

// Seconds that each act adds to the device's own time for its phase, with these delays of acts in s.
using Advances = std::function<std::vector<double>(const std::vector<double>& delays)>;

// Delays of the ends of acts in s, by actor of the program. `acts`: by actor. `turns`: devices whose launches
// one host makes in turn.
std::vector<double> host_delays(const ir::Program& program, const backends::Cluster& cluster,
                                const std::vector<HostAct>& acts, int turns, const Advances& advances);

}  // namespace boxcar::sim

// A simulated timeline in Chrome's trace format: open it in https://ui.perfetto.dev.
//
// One process per simulated device (its class's first member), one track per queue, a slice per act; arrows
// from the act that filled a register to the acts on other queues and devices that read it; counters of the
// bytes and the number of register slots in use, sampled as the maximum over a few thousand windows. Only a
// run's last step is written. Time 0 is the start of its first act, which may be before the previous step
// ends: loads and gathers run ahead. If the timeline lacks devices, the others are written, with arrows only
// between devices.
#pragma once

#include <ostream>

#include "ir/plan.h"
#include "sim/simulate.h"

namespace boxcar::sim {

// `result` holds a timeline of `plan` (Options::timeline). Times are written in microseconds.
void write_chrome_trace(const ir::Plan& plan, const Result& result, std::ostream& out);

}  // namespace boxcar::sim

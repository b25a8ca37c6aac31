// Runs a plan on a cluster description in virtual time: the actor state machine of actors/ on SimGrid's clock
// and links. Reports when every act began and ended.
//
// One device per class of the plan is simulated (fold.h refines classes first so that all members of a class
// see the same); `fold = false` simulates every device. Not thread-safe: one simulation at a time in a
// process.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "backends/machines/forward.h"
#include "ir/plan.h"
#include "sim/models/collective_time.h"

namespace boxcar::sim {

struct Options {
  bool fold = true;
  bool merge = true;     // neighbouring acts as one activity (merge.h)
  bool periodic = true;  // repeat a proved periodic regime, and a proved end of a step, by arithmetic
  bool every_flow =
      false;  // collectives as all their flows, unfolded (ring_flows.h), else one each per bottleneck link
  int steps = 0;                    // 0: until the state at a step's end recurs (at most 32)
  bool timeline = false;            // keep every act of every step
  int64_t timeline_acts = 200'000;  // in a step; if there are more, only of the first class of each program
  // Called many times a second; an exception from it ends the simulation.
  std::function<void()> look = {};
};

struct Act {
  int cls = 0;                // index into Result::classes
  int actor = 0;              // in that class's program, of the plan given
  int index = 0;              // which act of this actor, from 0, over all steps
  double start = 0, end = 0;  // s
};

struct ClassResult {
  int program = 0;
  std::vector<int> devices;
  // Seconds of the last step:
  double busy = 0;                 // compute queue
  double span = 0;                 // compute queue, from its first act's start to its last act's end
  double exposed_comm = 0;         // the compute queue idle while its next act waits for a transfer
  std::vector<double> queue_busy;  // by queue of the program
  int64_t peak_bytes = 0;          // most bytes held in registers at once
};

struct Result {
  double step_seconds = 0;  // steady: from one step's end to the next
  double first_step_seconds = 0;
  std::vector<double> step_ends;
  std::vector<ClassResult> classes;
  std::vector<Act> timeline;  // by class, actor and index; empty unless requested
  bool folded = false;
  int64_t events = 0;  // activities of the engine
  double wall_seconds = 0;
};

// Throws Error (cannot run) if the plan hangs, naming who waits for whom, or if a quota is exceeded.
Result simulate(const ir::Plan& plan, const backends::Cluster& cluster, const Options& options = {});

// Seconds of one act when nothing contends but others' traffic: kernels from kernel_time, communication from
// collective_time. By actor of the program of class `cls`.
std::vector<double> act_seconds(const ir::Plan& plan, const backends::Cluster& cluster, int cls,
                                const Beside& others = {});

}  // namespace boxcar::sim

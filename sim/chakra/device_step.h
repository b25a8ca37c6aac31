// The first step of a plan as one device runs it: its acts, and the blocks that other devices pull from it,
// each after the ones that it waits for.
//
//   two devices, 3 micro-batches: a -> %x (2 slots) -> b on device 0, p on device 1 pulls %y, which b writes
//   device 0:  0 a[0]   1 b[0] reads 0   2 send p[0] reads 1   3 a[1] ...   6 a[2] after 1, the slot's reader
//   device 1:  0 p[0]   1 p[1] after 0 ...
//
// A node's number is its place in the list, so it waits only for lower numbers. The order is that of the
// schedule and, within a phase, of the program, as far as waiting allows. Collectives come in the order in
// which the plan issues them, which is the same on all members.
#pragma once

#include <cstdint>
#include <tuple>
#include <vector>

#include "ir/plan.h"

namespace boxcar::chakra {

// An act of the device, or the sending end of another device's act, which is a pull.
struct StepNode {
  bool sends = false;
  int program = 0;  // of the actor: the device's, or the puller's
  int actor = 0, act = 0;
  int device = 0;         // the device that acts: this one, or the puller
  std::vector<int> data;  // nodes that write what it reads
  // Nodes before it on its queue, and readers of slots that it overwrites. For a collective between programs
  // also the sends of earlier runs, which simulators with one transfer at a time would otherwise never reach.
  std::vector<int> order;
};

class DeviceSteps {
 public:
  // `plan` has passed planner::verify and outlives this.
  explicit DeviceSteps(const ir::Plan& plan);

  std::vector<StepNode> of(int device) const;
  // The number of a pull's act; acts of one device have different numbers.
  int tag(int program, int actor, int act) const;
  // The device that `device` pulls from by a pull of its program.
  int source(const ir::Actor& pull, int device) const;
  int program_of(int device) const;

 private:
  struct Reader {
    int actor = 0, repeat = 1;
  };
  // Shared by all devices of a program.
  struct Shared {
    std::vector<std::vector<int>> runs;        // by phase: places in the schedule
    std::vector<std::vector<int>> in_phase;    // by phase: its actors
    std::vector<std::vector<Reader>> readers;  // by register: those that do not update it
    std::vector<int> first_tag;                // by actor
  };
  struct Pull {
    int program = 0, actor = 0, device = 0;
    friend auto operator<=>(const Pull&, const Pull&) = default;
  };
  class Builder;

  const ir::Plan& plan_;
  std::vector<int> program_;              // by device
  std::vector<Shared> shared_;            // by program
  std::vector<std::vector<Pull>> pulls_;  // by device that is pulled from, in the order of their turns
};

}  // namespace boxcar::chakra

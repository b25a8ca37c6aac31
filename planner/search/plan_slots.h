// Chooses the slots of a plan's registers with the fewest bytes that keep its period. Once the order of every
// queue is fixed, only they are left to choose.
//
//   stage1: of an activation that is pulled and waits for the backward pass, 6 slots, of which the period
//   needs 5: {"stage1", "h3.residual2", 5}
//
// Registers with one slot do not change. Neither do those whose writer and readers are on one queue, because
// its order determines how many slots they need. Others keep at least two: a single slot would lie in memory
// that runs share, where nothing separates another device's reads from the next act. The remaining registers
// are solved on the plan's marked graph with the given durations (registers.h). Acts that are connected to
// others only by their queue's order are merged there. Merging changes no cycle's time or tokens, so the
// answer is exact for the plan without contention.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "planner/estimate/estimate.h"
#include "planner/search/registers.h"

namespace boxcar::search {

struct Slots {
  std::string program, reg;
  int count = 1;
  friend bool operator==(const Slots&, const Slots&) = default;
};

struct PlanSlots {
  std::vector<Slots> changes;  // registers whose count changed
  double saved_bytes = 0;      // on all devices
  double period = 0;           // s, by the durations
  bool optimal = false;
  int acts = 0;  // number of acts after merging
};

// The registers to choose, and the graph with all others unchanged. `seconds` is by node of the view, which
// has the issue order.
PlanCounts open_counts(const planner::StepView& view, const std::vector<double>& seconds);

// `plan` has passed ir::check. No changes if more than `most_acts` acts are left, or if the plan has more
// than 25 times as many; then `acts` is 0. `look` is called regularly; an exception from it ends the work.
PlanSlots fewest_slots(const ir::Plan& plan, const backends::Cluster& cluster, const ActSeconds& seconds,
                       int most_acts, const std::function<void()>& look = {});

// Sets these counts and places all registers again. Throws Error (fault) naming a register that does not
// exist.
void set_slots(ir::Plan& plan, const std::vector<Slots>& slots);

}  // namespace boxcar::search

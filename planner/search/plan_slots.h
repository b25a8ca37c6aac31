// The slots of a plan's registers at the fewest bytes that keep its period. Once the order of every queue is
// fixed, only they are left to choose.
//
//   stage1: of an activation that is pulled and waits for the backward pass, 6 slots, of which the period
//   needs 5: {"stage1", "h3.residual2", 5}
//
// Registers with one slot stay so, and so do those whose writer and readers are on one queue, whose order
// says how many slots they need. Others keep two at least: one slot would lie in memory that runs share,
// where nothing keeps another device's reads apart from the next act. The remaining registers are solved on
// the plan's marked graph with the given durations (registers.h). There, acts that only their queue's order
// ties to others are merged. Merging changes no cycle's time or tokens, so the answer is exact for the plan
// where nothing contends.
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
  std::vector<Slots> changes;  // registers that have another count than before
  double saved_bytes = 0;      // on all devices
  double period = 0;           // s, by the durations
  bool optimal = false;
  int acts = 0;  // that are left after merging
};

// The registers to look at, and the graph with all others as they are; `seconds` by node of the view, which
// has the issue order.
PlanCounts open_counts(const planner::StepView& view, const std::vector<double>& seconds);

// `plan` has passed ir::check. No changes where more than `most_acts` acts are left, or where the plan has
// more than 25 times as many; `acts` is 0 then. `look` is called now and then; what it throws ends the work.
PlanSlots fewest_slots(const ir::Plan& plan, const backends::Cluster& cluster, const ActSeconds& seconds,
                       int most_acts, const std::function<void()>& look = {});

// Sets these counts and places registers anew. Throws Error (fault) naming a register that is not there.
void set_slots(ir::Plan& plan, const std::vector<Slots>& slots);

}  // namespace boxcar::search

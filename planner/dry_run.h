// Runs one step of a plan without a clock: whatever can act acts, until every act of the step has ended or
// nothing can.
//
// A marked graph is live exactly if every directed cycle holds a token, which is so exactly if, from the
// first marking, each transition can fire once: a step can then be repeated for ever. So a step that ends
// here proves that the plan cannot deadlock under any interleaving, and a step that stops has a cycle without
// a token.
//
// Time is linear in the acts that are left after two reductions: a need that the order of its own queue
// always fulfils is dropped, then acts that need nothing and that nothing needs are left out of their queue's
// order.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "planner/step_view.h"

namespace boxcar::planner {

// One act on a cycle, and why it waits for the next one on it.
struct Wait {
  int node = 0, act = 0;
  std::string reason;  // "needs %x of first (device 0): a F[0]"
};

struct DryRun {
  bool ended = false;
  std::vector<Wait> cycle;  // where it has not; the last waits for the first
  int64_t acts = 0;         // looked at
};
// `on_act` hears of each act that is looked at, by unit, in an order in which a step can run: acts that could
// begin earlier, where each takes as long as any other, come first.
DryRun dry_run(const StepView& view, const std::function<void(int unit)>& on_act = {});

// "first (device 0): a F[0] needs ..., first (device 0): b F[0] comes after ...", one wait to a line.
std::string to_text(const StepView& view, const std::vector<Wait>& cycle);

}  // namespace boxcar::planner

// Runs one step of a plan without a clock. All that can act acts, until every act of the step has ended or
// none can act.
//
// A marked graph is live exactly if every directed cycle holds a token. This is so exactly if, from the first
// marking, each transition can fire once; a step can then be repeated forever. So a step that ends here
// proves that the plan cannot deadlock under any interleaving, and a step that stops has a cycle without a
// token.
//
// Time is linear in the acts that are left after two reductions. First, needs that the order of their own
// queue always fulfils are dropped. Then acts that need nothing and that nothing needs are removed from their
// queue's order.
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
  std::vector<Wait> cycle;  // if it has not ended; the last waits for the first
  int64_t acts = 0;         // number of acts looked at
};
// `on_act` is called with the unit of each act that is looked at, in an order in which a step can run. Acts
// that could begin earlier, if all took equally long, come first.
DryRun dry_run(const StepView& view, const std::function<void(int unit)>& on_act = {});

// "first (device 0): a F[0] needs ..., first (device 0): b F[0] comes after ...", one wait per line.
std::string to_text(const StepView& view, const std::vector<Wait>& cycle);

}  // namespace boxcar::planner

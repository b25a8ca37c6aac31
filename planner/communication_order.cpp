#include "planner/communication_order.h"

#include "planner/dry_run.h"
#include "planner/step_view.h"
#include "sbp/at.h"
#include "sbp/error.h"

namespace boxcar::planner {

std::vector<std::pair<int, int>> communication_order(const ir::Plan& plan) {
  const StepView view = view_of_devices(plan);
  std::vector<std::pair<int, int>> order;
  const DryRun run = dry_run(view, [&](int unit) {
    for (const int n : at(view.units, unit).nodes) {
      const ir::ActorKind kind = view.actor_of(n).kind;
      if (kind != ir::ActorKind::collective && kind != ir::ActorKind::pull) continue;
      order.emplace_back(at(view.nodes, n).instance, at(view.nodes, n).actor);
    }
  });
  if (!run.ended)
    throw Error::cannot_run(plan.name,
                            "would deadlock, these acts wait for one another:\n" + to_text(view, run.cycle));
  return order;
}

}  // namespace boxcar::planner

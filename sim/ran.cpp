#include "sim/ran.h"

#include <algorithm>
#include <tuple>

#include "sbp/at.h"

namespace boxcar::sim {

Result result_of(const ir::Plan& plan, const std::vector<actors::RunAct>& acts) {
  Result result;
  std::vector<std::vector<int>> per_step;  // by device, actor
  result.classes.resize(static_cast<size_t>(plan.devices));
  for (const ir::RankClass& cls : plan.classes)
    for (int device : cls.devices) {
      at(result.classes, device).program = cls.program;
      at(result.classes, device).devices = {device};
    }
  for (const ClassResult& cls : result.classes) {
    const ir::Program& program = at(plan.programs, cls.program);
    std::vector<int> runs(program.phases.size());
    for (const ir::PhaseRun& run : program.schedule) ++at(runs, run.phase);
    auto& counts = per_step.emplace_back();
    for (const ir::Actor& actor : program.actors) counts.push_back(at(runs, actor.phase));
  }
  const auto count_of = [&](const actors::RunAct& act) { return at(at(per_step, act.device), act.actor); };
  int64_t first = acts.empty() ? 0 : acts.front().index / count_of(acts.front());
  for (const actors::RunAct& act : acts) first = std::min(first, act.index / count_of(act));
  for (const actors::RunAct& act : acts) {
    const int64_t index = act.index - first * count_of(act);
    const auto step = static_cast<size_t>(index / count_of(act));
    if (result.step_ends.size() <= step) result.step_ends.resize(step + 1);
    result.step_ends[step] = std::max(result.step_ends[step], act.end);
    result.timeline.push_back({act.device, act.actor, static_cast<int>(index), act.start, act.end});
  }
  std::sort(result.timeline.begin(), result.timeline.end(), [](const Act& a, const Act& b) {
    return std::tie(a.cls, a.actor, a.index) < std::tie(b.cls, b.actor, b.index);
  });
  return result;
}

}  // namespace boxcar::sim

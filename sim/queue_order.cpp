#include "sim/queue_order.h"

#include "sbp/at.h"

namespace boxcar::sim {

QueueOrder::QueueOrder(const ir::Program& program) : program_(program), runs_(program.phases.size()) {
  for (size_t run = 0; run < program.schedule.size(); ++run) {
    at(runs_, program.schedule[run].phase).push_back(static_cast<int>(run));
  }
}

int QueueOrder::acts_per_step(int actor) const {
  return static_cast<int>(at(runs_, at(program_.actors, actor).phase).size());
}

QueueOrder::Place QueueOrder::place(int phase, int64_t act) const {
  const std::vector<int>& runs = at(runs_, phase);
  auto per_step = static_cast<int64_t>(runs.size());
  return {act / per_step, at(runs, act % per_step)};
}

bool QueueOrder::always_before(const ActSeries& a, const ActSeries& b) {
  int phase_a = at(program_.actors, a.actor).phase;
  int phase_b = at(program_.actors, b.actor).phase;
  bool a_first = a.actor < b.actor;  // in program order
  auto [known, made] = known_.try_emplace({phase_a, a.mul, a.add, phase_b, b.mul, b.add, a_first});
  if (made) known->second = check(phase_a, a, phase_b, b, a_first);
  return known->second;
}

// Both series advance by whole steps every `period` values of u, so one period decides.
bool QueueOrder::check(int phase_a, const ActSeries& a, int phase_b, const ActSeries& b, bool a_first) const {
  auto acts_a = static_cast<int>(at(runs_, phase_a).size());
  auto acts_b = static_cast<int>(at(runs_, phase_b).size());
  if (acts_a == 0 || acts_b == 0 || a.add < 0 || b.add < 0) return false;
  if (acts_a % a.mul != 0 || acts_b % b.mul != 0 || acts_a / a.mul != acts_b / b.mul) return false;
  for (int64_t u = 0; u < acts_a / a.mul; ++u) {
    Place before = place(phase_a, u * a.mul + a.add), after = place(phase_b, u * b.mul + b.add);
    if (before > after || (before == after && !a_first)) return false;
  }
  return true;
}

}  // namespace boxcar::sim

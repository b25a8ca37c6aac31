#include "planner/estimate/phase_walks.h"

#include <algorithm>

#include "sbp/at.h"

namespace boxcar::search {

bool computes(const ir::Program& program, const ir::Actor& actor) {
  return at(program.queues, actor.queue).kind == ir::QueueKind::compute && !actor.is(ir::OpKind::accumulate);
}

double phase_seconds(const ir::Program& program, int phase, const std::vector<double>& seconds) {
  std::vector<double> ready(program.registers.size()), queue(program.queues.size());
  double end = 0;
  for (size_t a = 0; a < program.actors.size(); ++a) {
    const ir::Actor& actor = program.actors[a];
    if (actor.phase != phase) continue;
    double& now = at(queue, actor.queue);
    for (const ir::Input& input : actor.inputs)
      if (input.program < 0) now = std::max(now, at(ready, input.reg));
    if (actor.kind != ir::ActorKind::pull) now += seconds[a];
    for (int reg : actor.outputs) at(ready, reg) = now;
    end = std::max(end, now);
  }
  return end;
}

double waiting_seconds(const ir::Program& program, int phase, const std::vector<double>& seconds, int after) {
  std::vector<double> ready(program.registers.size()), queue(program.queues.size());
  std::vector<bool> needs_kernel(program.registers.size());
  double begin = 0, end = 0, busy = 0;  // of the compute queue, after actor `after`
  for (size_t a = 0; a < program.actors.size(); ++a) {
    const ir::Actor& actor = program.actors[a];
    if (actor.phase != phase || actor.is(ir::OpKind::accumulate)) continue;
    const bool is_one = computes(program, actor);
    bool needs = is_one;
    double start = at(queue, actor.queue);
    for (const ir::Input& input : actor.inputs) {
      if (input.program >= 0 || !at(needs_kernel, input.reg)) continue;
      needs = true;
      start = std::max(start, at(ready, input.reg));
    }
    if (!needs) continue;
    const double now = at(queue, actor.queue) = start + seconds[a];
    for (const int reg : actor.outputs) at(ready, reg) = now, at(needs_kernel, reg) = true;
    if (is_one) end = now, busy += seconds[a];
    if (is_one && static_cast<int>(a) <= after) begin = now, busy = 0;
  }
  return end - begin - busy;
}

namespace {

// The last kernel in program order that `reg` needs.
int last_kernel_before(const ir::Program& program, int reg) {
  const int actor = at(program.registers, reg).producer;
  if (actor < 0) return -1;
  if (computes(program, at(program.actors, actor))) return actor;
  int last = -1;
  for (const ir::Input& input : at(program.actors, actor).inputs)
    if (input.program < 0) last = std::max(last, last_kernel_before(program, input.reg));
  return last;
}

}  // namespace

BehindBoundary behind_boundary(const ir::Plan& plan, int own, const std::vector<double>& seconds) {
  const ir::Program& program = at(plan.programs, own);
  const auto is_backward = [&](const ir::Actor& actor) {
    return program.phase_of(actor).kind == ir::PhaseKind::backward;
  };
  int last = -1;
  for (const ir::Program& other : plan.programs)
    for (const ir::Actor& actor : other.actors)
      for (const ir::Input& input : actor.inputs) {
        if (input.program != own) continue;
        const int kernel = last_kernel_before(program, input.reg);
        if (kernel >= 0 && is_backward(at(program.actors, kernel))) last = std::max(last, kernel);
      }
  BehindBoundary sum;
  for (size_t a = static_cast<size_t>(last + 1); a < program.actors.size(); ++a)
    if (computes(program, program.actors[a]) && is_backward(program.actors[a])) sum.kernels += seconds[a];
  for (int phase = 0; phase < static_cast<int>(program.phases.size()); ++phase)
    if (at(program.phases, phase).kind == ir::PhaseKind::backward)
      sum.waiting += waiting_seconds(program, phase, seconds, last);
  return sum;
}

double before_gradient(const ir::Program& program, const std::vector<double>& seconds) {
  std::vector<double> ready(program.registers.size()), queue(program.queues.size());
  std::vector<bool> comes(program.registers.size());
  for (size_t a = 0; a < program.actors.size(); ++a) {
    const ir::Actor& actor = program.actors[a];
    if (program.phase_of(actor).kind != ir::PhaseKind::backward) continue;
    bool needs = actor.kind == ir::ActorKind::pull;
    double& now = at(queue, actor.queue);
    for (const ir::Input& input : actor.inputs)
      if (input.program < 0) needs |= at(comes, input.reg);
    if (needs && computes(program, actor)) return now;
    for (const ir::Input& input : actor.inputs)
      if (input.program < 0 && !needs) now = std::max(now, at(ready, input.reg));
    if (!needs) now += seconds[a];
    for (const int reg : actor.outputs) at(ready, reg) = now, at(comes, reg) = needs;
  }
  return 0;
}

}  // namespace boxcar::search

#include "sim/routing.h"

#include <algorithm>
#include <string>

#include "sbp/at.h"

namespace boxcar::sim {
namespace {

// The load of the fullest expert's device over the mean.
double fullest(const ir::Plan& plan, double experts, double skew) {
  double devices = 1;
  for (const ir::Comm& comm : plan.comms)
    if (comm.name == "ep") devices = static_cast<double>(comm.groups[0].size());
  const double own = std::max(1.0, experts / devices);
  return (skew + (own - 1) * (experts - skew) / (experts - 1)) / own;
}

}  // namespace

std::vector<double> routing_times(const ir::Plan& plan, const ir::Program& program) {
  std::vector<double> times(program.actors.size(), 1);
  const auto fact = plan.facts.find("routing_skew");
  if (fact == plan.facts.end()) return times;
  double experts = 0;
  std::vector<bool> slots(program.registers.size());
  for (const ir::Actor& actor : program.actors) {  // until all that follows is known, in any order of actors
    if (!actor.op.starts_with("moe_")) continue;
    if (actor.op == "moe_dispatch") experts = static_cast<double>(ir::attr_int(actor.attrs, "experts"));
    if (actor.op == "moe_dispatch" || actor.op == "moe_combine_grad") at(slots, actor.outputs[0]) = true;
  }
  if (experts < 2) return times;
  const auto reads = [&](const ir::Actor& actor) {
    return std::count_if(actor.inputs.begin(), actor.inputs.end(),
                         [&](const ir::Input& in) { return in.program < 0 && at(slots, in.reg); });
  };
  for (bool any = true; any;) {
    any = false;
    for (const ir::Actor& actor : program.actors) {
      // Gradients of weights and biases are sums over the slots.
      const auto operands = reads(actor);
      const bool ends = actor.op.starts_with("moe_") || actor.op.starts_with("reduce_") ||
                        (actor.op == "batch_matmul" && operands == 2);
      if (operands == 0 || ends) continue;
      for (int reg : actor.outputs) {
        any = any || !at(slots, reg);
        at(slots, reg) = true;
      }
    }
  }
  const double most = fullest(plan, experts, fact->second);
  for (size_t a = 0; a < times.size(); ++a)
    if (reads(program.actors[a]) > 0) times[a] = most;
  return times;
}

}  // namespace boxcar::sim

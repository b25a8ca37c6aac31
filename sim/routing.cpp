#include "sim/routing.h"

#include <algorithm>

#include "sbp/at.h"

namespace boxcar::sim {
namespace {

using ir::OpKind;

bool is_routing(const ir::Actor& actor) {
  return actor.is(OpKind::dispatch) || actor.is(OpKind::combine) || actor.is(OpKind::combine_grad);
}

// The load of the fullest expert's device over the mean, if each device has `own` of the experts.
double fullest(double experts, double own, double skew) {
  return (skew + (own - 1) * (experts - skew) / (experts - 1)) / own;
}

}  // namespace

std::vector<double> routing_times(const ir::Plan& plan, const ir::Program& program) {
  std::vector<double> times(program.actors.size(), 1);
  const auto fact = plan.facts.find("routing_skew");
  if (fact == plan.facts.end()) return times;
  double experts = 0, own = 0;
  std::vector<bool> slots(program.registers.size());
  for (const ir::Actor& actor : program.actors) {  // until all that follows is known, in any order of actors
    if (actor.is(OpKind::dispatch)) experts = static_cast<double>(ir::attr_int(actor.attrs, "experts"));
    if (actor.is(OpKind::dispatch) || actor.is(OpKind::combine_grad)) at(slots, actor.outputs[0]) = true;
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
      const bool ends = is_routing(actor) || actor.is(OpKind::reduction) ||
                        (actor.is(OpKind::batched_product) && operands == 2);
      if (operands == 0 || ends) continue;
      if (own == 0 && actor.is(OpKind::batched_product))
        own = static_cast<double>(output_types(program, actor).at(0).shape.at(0));
      for (int reg : actor.outputs) {
        any = any || !at(slots, reg);
        at(slots, reg) = true;
      }
    }
  }
  const double most = fullest(experts, std::clamp(own, 1.0, experts), fact->second);
  for (size_t a = 0; a < times.size(); ++a)
    if (reads(program.actors[a]) > 0) times[a] = most;
  return times;
}

}  // namespace boxcar::sim

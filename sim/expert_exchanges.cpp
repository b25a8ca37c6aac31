#include "sim/expert_exchanges.h"

#include <utility>

#include "ir/plan_roles.h"
#include "sbp/at.h"
#include "sim/act_view.h"
#include "sim/rings.h"

namespace boxcar::sim {
namespace {

using ir::OpKind;

// `routing`: an act that makes slots of tokens or that adds slots up by token.
ExpertChoice choice_of(const ir::Program& program, const ir::Actor& routing) {
  const bool backward = routing.is(OpKind::combine_grad);
  const ir::Types read = input_types(program, routing), made = output_types(program, routing);
  const ir::Shape& slots = (routing.is(OpKind::combine) ? read : made).at(0).shape;  // experts, slots, width
  const size_t index = backward ? 2 : 1;
  ExpertChoice choice;
  choice.experts = slots.at(slots.size() - 3);
  choice.top_k = at(read, index).shape.back();
  const ir::Actor* from = ir::producer_of(program, at(routing.inputs, index));
  while (from && from->kind == ir::ActorKind::collective) from = ir::producer_of(program, from->inputs.at(0));
  if (!from || !from->attrs.contains("top_groups")) return choice;
  const int64_t all = input_types(program, *from).at(0).shape.back();
  choice.parts = all / std::exchange(choice.experts, all);
  choice.groups = ir::attr_int(from->attrs, "groups");
  choice.top_groups = ir::attr_int(from->attrs, "top_groups");
  return choice;
}

}  // namespace

std::optional<ExpertExchange> expert_exchange(const ir::Program& program, const ir::Actor& actor) {
  if (!is_exchange(actor, sbp::Collective::all_to_all) || actor.inputs.size() != 1) return {};
  const ir::Actor* from = ir::producer_of(program, actor.inputs[0]);
  while (from && from->op == "transpose") from = ir::producer_of(program, from->inputs.at(0));
  if (from && (from->is(OpKind::dispatch) || from->is(OpKind::combine_grad)))
    return ExpertExchange{true, choice_of(program, *from)};
  for (const ir::Actor& reader : program.actors)
    if (reader.is(OpKind::combine) && ir::producer_of(program, reader.inputs.at(0)) == &actor)
      return ExpertExchange{false, choice_of(program, reader)};
  return {};
}

}  // namespace boxcar::sim

#include "actors/profile/plan_calls.h"

#include <utility>

#include "ir/op.h"
#include "planner/resolve.h"
#include "sbp/at.h"

namespace boxcar::profile {

bool is_kernel(const ir::Actor& actor) {
  return actor.kind == ir::ActorKind::kernel && ir::has_op(actor.op) && !actor.inputs.empty();
}
Known known_as(const actors::Layout& layout, const ir::Actor& actor) {
  const ir::Program& program = layout.program(0);
  const auto reg = [&](int index) -> const ir::Register& { return at(program.registers, index); };
  Known known{actor.op, {{actor.op, {}, {}, layout.attrs(0, actor)}, {}}};
  measure::Sampled& sampled = known.sampled;
  for (const ir::Input& input : actor.inputs)
    if (!actors::is_control(reg(input.reg)))
      sampled.call.inputs.push_back(ir::input_type(reg(input.reg), input));
  for (int output : actor.outputs) {
    if (actors::is_control(reg(output))) continue;
    sampled.call.outputs.push_back(reg(output).type);
    sampled.adds.push_back(reg(output).every > 1);
  }
  for (const ir::Types* types : {&sampled.call.inputs, &sampled.call.outputs})
    for (const ir::TensorType& type : *types) known.key += " " + ir::to_text(type);
  for (const char* name : {"program", "transpose_a", "transpose_b", "causal", "window"})
    if (auto attr = actor.attrs.find(name); attr != actor.attrs.end())
      known.key += ir::to_text(ir::Attrs{*attr});
  return known;
}

std::vector<measure::Sampled> calls_of(const planner::Job& job, std::set<std::string>& known) {
  std::vector<measure::Sampled> list;
  const ir::Plan plan = planner::compile(planner::resolve(job));
  const actors::Layout layout(plan, [](int) { return 0; });
  for (const ir::Actor& actor : layout.program(0).actors) {
    if (!is_kernel(actor)) continue;
    Known kernel = known_as(layout, actor);
    if (known.insert(kernel.key).second) list.push_back(std::move(kernel.sampled));
  }
  return list;
}

}  // namespace boxcar::profile

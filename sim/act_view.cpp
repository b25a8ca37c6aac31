#include "sim/act_view.h"

#include "sbp/at.h"

namespace boxcar::sim {
namespace {

bool is_operand(const ir::Register& reg) { return reg.bytes > 0 || reg.type.elements() == 0; }

}  // namespace

ir::Types input_types(const ir::Program& program, const ir::Actor& actor) {
  ir::Types types;
  types.reserve(actor.inputs.size());
  for (const ir::Input& input : actor.inputs) {
    const auto& reg = at(program.registers, input.reg);
    if (is_operand(reg)) types.push_back(ir::input_type(reg, input));
  }
  return types;
}

ir::Types output_types(const ir::Program& program, const ir::Actor& actor) {
  ir::Types types;
  types.reserve(actor.outputs.size());
  for (int output : actor.outputs) {
    const auto& reg = at(program.registers, output);
    if (is_operand(reg)) types.push_back(reg.type);
  }
  return types;
}

}  // namespace boxcar::sim

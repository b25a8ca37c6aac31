#include "sim/act_view.h"

#include "sbp/at.h"

namespace boxcar::sim {
ir::Types input_types(const ir::Program& program, const ir::Actor& actor) {
  ir::Types types;
  types.reserve(actor.inputs.size());
  for (const ir::Input& input : actor.inputs) {
    const auto& reg = at(program.registers, input.reg);
    if (!is_control(reg)) types.push_back(ir::input_type(reg, input));
  }
  return types;
}

ir::Types output_types(const ir::Program& program, const ir::Actor& actor) {
  ir::Types types;
  types.reserve(actor.outputs.size());
  for (int output : actor.outputs) {
    const auto& reg = at(program.registers, output);
    if (!is_control(reg)) types.push_back(reg.type);
  }
  return types;
}

std::vector<size_t> read_in_phase(const ir::Program& program, const ir::Actor& actor) {
  std::vector<size_t> found;
  for (const ir::Input& input : actor.inputs) {
    if (input.program >= 0) continue;
    const auto from = static_cast<size_t>(at(program.registers, input.reg).producer);
    if (program.actors[from].phase == actor.phase) found.push_back(from);
  }
  return found;
}

}  // namespace boxcar::sim

#include "planner/lowering/registers.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "sbp/at.h"

namespace boxcar::planner {

using ir::OpId;
using ir::TensorId;
using sbp::NdSbp;

bool is_even(const sbp::Shape& shape, const NdSbp& layout, const Mesh& mesh) {
  for (size_t a = 0; a < shape.size(); ++a) {
    int64_t parts = 1;
    for (size_t d = 0; d < layout.size(); ++d)
      if (layout[d].is_split() && layout[d].axis == static_cast<int>(a)) parts *= mesh.extents[d];
    if (shape[a] % parts != 0) return false;
  }
  return true;
}

std::string Names::unique(const std::string& name) {
  const int count = ++counts_[name];
  return count == 1 ? name : unique(fmt::format("{}.{}", name, count));
}

namespace {

ir::MemoryKind memory_of(const Stage& stage, TensorId t) {
  const ir::Tensor& tensor = stage.tensor(t);
  const bool frozen =
      tensor.role == ir::Role::constant && stage.op(tensor.producer).is(ir::OpKind::parameter);
  switch (frozen ? ir::Role::parameter : tensor.role) {
    case ir::Role::parameter:
      return ir::MemoryKind::parameters;
    case ir::Role::gradient:
      return ir::MemoryKind::gradients;
    case ir::Role::optimizer:
      return ir::MemoryKind::optimizer;
    default:
      return ir::MemoryKind::activations;
  }
}

}  // namespace

Registers::Registers(const Stage& stage, const StageTasks& tasks, ProgramBuilder& builder)
    : stage_(stage), tasks_(tasks), builder_(builder), held_(tasks.values.size()) {
  for (ValueId v = 0; v < tasks.declared; ++v) make_for(v);
}

void Registers::set(ValueId v, int reg, int ready) {
  set(v, Held{reg, local_type(value(v).t, value(v).layout).shape, ready});
}

int Registers::make_for(ValueId v) {
  set(v, make(value(v).t, value(v).layout, value(v).suffix));
  place(v);
  return held(v).reg;
}

// Moves a value's register to the memory of the host if it belongs there.
void Registers::place(ValueId v) {
  ir::Register& made = at(builder_.program.registers, held(v).reg);
  if (value(v).on_host) made.host_bytes = std::exchange(made.bytes, 0);
}

int Registers::make(TensorId t, const NdSbp& layout, const std::string& suffix) {
  const ir::TensorType type = local_type(t, layout);
  const double kept = kept_beside(t, suffix);  // 0: over its operand; then 1 byte, as 0 is a control edge
  const auto bytes = static_cast<int64_t>(kept * static_cast<double>(type.bytes()));
  const int reg = builder_.add_register(names_.unique(stage_.tensor(t).name + suffix), type,
                                        memory_of(stage_, t), kept > 0 ? bytes : 1);
  ir::Register& made = at(builder_.program.registers, reg);
  made.over = made.bytes < type.bytes();
  return reg;
}

int Registers::make_on_host(TensorId t, const ir::TensorType& type, const std::string& suffix) {
  const int reg = builder_.add_register(names_.unique(stage_.tensor(t).name + suffix), type,
                                        memory_of(stage_, t), type.bytes());
  ir::Register& made = at(builder_.program.registers, reg);
  made.host_bytes = std::exchange(made.bytes, 0);
  return reg;
}

int Registers::make_control(const std::string& actor) {
  return builder_.add_register(names_.unique(actor + ".done"), {{}, ir::DType::int8},
                               ir::MemoryKind::workspace, 0);
}

int Registers::copy_to(ValueId v, int source) {
  if (held(v).reg >= 0) return held(v).reg;
  const ir::Register from = at(builder_.program.registers, source);
  const int reg = builder_.add_register(names_.unique(stage_.tensor(value(v).t).name + value(v).suffix),
                                        from.type, from.memory, slot_bytes(from));
  at(builder_.program.registers, reg).over = from.over;
  set(v, reg);
  place(v);
  return reg;
}

ir::TensorType Registers::local_type(TensorId t, const NdSbp& layout) {
  const sbp::Shape& shape = stage_.tensor(t).type.shape;
  if (!is_even(shape, layout, stage_.in.mesh)) uneven.emplace(shape, layout);
  return stage_.local_type(t, layout);
}

// Bytes of a kernel's result and of those that the framework keeps with it, as a multiple of its own. The
// first of two runs keeps nothing more.
double Registers::kept_beside(TensorId t, const std::string& suffix) const {
  const std::map<std::string, double>& retained = stage_.in.hints.retained_bytes;
  const OpId producer = stage_.tensor(t).producer;
  if (retained.empty() || !suffix.empty() || producer < 0) return 1;
  const ir::Op& op = stage_.op(producer);
  const auto found = retained.find(op.type);
  if (found == retained.end() || op.outputs[0] != t || op.runs_again) return 1;
  return stage_.here(producer) ? found->second : std::max(1.0, found->second);  // a copy overwrites nothing
}

void Registers::add_inputs(ir::Actor& actor, const std::vector<ValueId>& values) const {
  std::vector<Held> operands;
  for (ValueId v : values) operands.push_back(held(v));
  add_inputs(actor, operands);
}

void Registers::add_inputs(ir::Actor& actor, const std::vector<Held>& operands) const {
  std::vector<int> controls;
  for (const Held& operand : operands) {
    ir::Input input{operand.reg, 1, -1, -1, {}};
    if (at(builder_.program.registers, operand.reg).type.shape != operand.shape) input.view = operand.shape;
    actor.inputs.push_back(std::move(input));
    if (operand.ready >= 0 && std::find(controls.begin(), controls.end(), operand.ready) == controls.end())
      controls.push_back(operand.ready);
  }
  for (int control : controls) actor.inputs.push_back({control, 1, -1, -1, {}});
}

void Registers::add_outputs(ir::Actor& actor, const std::vector<ValueId>& values) {
  for (ValueId v : values) {
    if (value(v).over >= 0)
      set(v, held(value(v).over).reg);
    else if (v >= tasks_.declared)
      make_for(v);
    actor.outputs.push_back(held(v).reg);
  }
}

}  // namespace boxcar::planner

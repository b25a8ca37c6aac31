#include "sim/float8_operands.h"

#include <algorithm>

#include "backends/machines/device_profile.h"
#include "backends/machines/framework.h"
#include "ir/plan_roles.h"
#include "sbp/at.h"
#include "sim/act_view.h"

namespace boxcar::sim {
namespace {

bool fuses_with(const backends::Framework& framework, const ir::Actor* producer) {
  if (!producer || producer->kind != ir::ActorKind::kernel || !ir::has_op(producer->op)) return false;
  switch (framework.float8_fuses) {
    case backends::Float8Fuses::kernels:
      return ir::op(producer->op).family == ir::Family::memory;
    case backends::Float8Fuses::norms:
      return producer->is(ir::OpKind::norm);
    case backends::Float8Fuses::nothing:
      break;
  }
  return false;
}

bool is_weight(const ir::Actor& product, size_t operand) {
  return operand == 1 && ir::role_of(ir::op(product.op), product.attrs) != ProductRole::weight_grad;
}

}  // namespace

bool runs_in_float8(const backends::Cluster& cluster, const ir::Program& program, const ir::Actor& actor) {
  if (!cluster.device->float8 || actor.kind != ir::ActorKind::kernel || actor.layer < 0 ||
      !ir::has_op(actor.op))
    return false;
  const ir::OpDef& def = ir::op(actor.op);
  return has_float8(def, def.family == ir::Family::matmul && ir::is_of_weight(program, actor));
}

std::array<Float8Operand, 2> float8_operands(const backends::Framework& framework, const ir::Program& program,
                                             const ir::Actor& product) {
  const ir::Types types = input_types(program, product);
  std::array<Float8Operand, 2> operands;
  for (size_t i = 0; i < operands.size(); ++i) {
    Float8Operand& operand = operands[i];
    operand.elements = static_cast<double>(at(types, i).elements());
    const ir::Input& input = at(product.inputs, i);
    if (is_weight(product, i)) {
      if (framework.float8_weights_stay) operand.serves = input.repeat;
      continue;
    }
    const ir::Actor* producer = ir::producer_of(program, input);
    if (producer && ir::gathers(*producer) && producer->inputs.size() == 1) {
      operand.own = static_cast<double>(at(input_types(program, *producer), 0).elements());
      producer = ir::producer_of(program, producer->inputs[0]);
    }
    operand.fused = fuses_with(framework, producer);
  }
  return operands;
}

bool gathers_in_float8(const backends::Cluster& cluster, const ir::Program& program, const ir::Actor& actor) {
  if (!cluster.device->float8 || !ir::gathers(actor) || actor.layer < 0 || actor.inputs.size() != 1)
    return false;
  bool read = false;
  for (const ir::Actor& reader : program.actors)
    for (size_t i = 0; i < reader.inputs.size(); ++i) {
      const ir::Input& input = reader.inputs[i];
      if (ir::producer_of(program, input) != &actor || ir::is_control(at(program.registers, input.reg)))
        continue;
      if (!runs_in_float8(cluster, program, reader) || i > 1 || is_weight(reader, i)) return false;
      read = true;
    }
  return read;
}

}  // namespace boxcar::sim

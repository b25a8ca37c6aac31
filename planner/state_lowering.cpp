// State: parameters, moments, their copies in another type or layout, and the ops that update them once per
// step.
#include <fmt/format.h>

#include <algorithm>

#include "ir/op.h"
#include "ir/ops/updates.h"
#include "planner/stage_lowering.h"
#include "sbp/error.h"

namespace boxcar::planner {

using ir::OpId;
using ir::TensorId;

void StageLowering::find_state() {
  for (const ir::Update& update : in_.graph.updates)
    state_of_next_[static_cast<size_t>(update.next)] = update.state;
  for (OpId o = 0; o < static_cast<OpId>(in_.graph.ops.size()); ++o) {
    const ir::Op& op = op_of(o);
    bool state = op.is(ir::OpKind::parameter);
    if (site(o).run == Run::update) state = state || depends_on_state_alone(o);
    for (TensorId t : op.outputs) from_state_[static_cast<size_t>(t)] = state;
    if (!in_.sharding.gathers_in_each_pass() || op.phase == ir::Phase::update || !here(o)) continue;
    for (TensorId t : op.inputs)  // gathered for this layer
      if (const auto& used = in_.pins.used[static_cast<size_t>(t)]; used && *used != stored(t)) {
        std::vector<TensorId>& group = groups_[{phase(o), op.layer}];
        if (std::find(group.begin(), group.end(), t) == group.end()) group.push_back(t);
      }
  }
}

bool StageLowering::depends_on_state_alone(OpId o) const {
  const ir::Op& op = op_of(o);
  for (TensorId t : op.inputs)
    if (!from_state_[static_cast<size_t>(t)]) return false;
  return !op.inputs.empty();
}

// A register in the stored layout; and, below zero 3, one in the layout that forward and backward read,
// gathered once.
void StageLowering::declare_state(OpId o) {
  const TensorId t = op_of(o).outputs[0];
  const int reg = make_register(t, stored(t), "");
  values(t).push_back({stored(t), -1, reg, local_type(t, stored(t)).shape, -1});
  const auto& used = in_.pins.used[static_cast<size_t>(t)];
  bool read = false;
  for (OpId reader : in_.readers[static_cast<size_t>(t)])
    read = read || op_of(reader).phase != ir::Phase::update;
  if (!read || !used || *used == stored(t) || in_.sharding.gathers_in_each_pass()) return;
  const int whole = make_register(t, *used, ".whole");
  step_gathers_.push_back({t, values(t)[0], *used, whole});
  values(t).push_back({*used, -1, whole, local_type(t, *used).shape, -1});
}

// Ops on state alone belong to the end of a step; their registers are there from the start.
void StageLowering::declare_copies(OpId o) {
  const ir::Op& op = op_of(o);
  copies_[op.inputs[0]].push_back(o);
  for (size_t i = 0; i < op.outputs.size(); ++i) {
    const TensorId t = op.outputs[i];
    const sbp::NdSbp& produced = layout(o).outputs[i];
    const bool whole = produced == stored(t);
    const int reg = make_register(t, produced, whole ? "" : ".shard");
    values(t).push_back({produced, -1, reg, local_type(t, produced).shape, -1});
    if (whole) continue;
    const int out = make_register(t, stored(t), "");
    step_gathers_.push_back({t, values(t)[0], stored(t), out});
    values(t).push_back({stored(t), -1, out, local_type(t, stored(t)).shape, -1});
  }
}

// Copies of what has changed, but those that are `made` with it.
void StageLowering::after_update(TensorId state, const std::vector<OpId>& made) {
  for (OpId copy : copies_[state]) {
    if (std::find(made.begin(), made.end(), copy) == made.end()) emit_kernel(copy, builder.phases.update());
    for (TensorId t : op_of(copy).outputs) after_update(t);
  }
}

void StageLowering::emit_updates() {
  const int update = builder.phases.update();
  std::map<std::string, std::vector<OpId>> together;  // by rule
  for (OpId o = 0; o < static_cast<OpId>(in_.graph.ops.size()); ++o) {
    const ir::Op& op = op_of(o);
    if (site(o).run != Run::update || !here(o) || !ir::has_op(op.type) || depends_on_state_alone(o)) continue;
    if (in_.hints.fused_optimizer && ir::has_op(op.type + "_all")) {
      together[op.type + ir::to_text(op.attrs)].push_back(o);
      continue;
    }
    if (site(o).joint) {
      emit_joint(o);
      continue;
    }
    emit_kernel(o, update);
    for (TensorId t : op.outputs)
      if (const TensorId state = state_of_next_[static_cast<size_t>(t)]; state >= 0) after_update(state);
  }
  for (const auto& [rule, ops] : together) update_together(ops);
  for (OpId o = 0; o < static_cast<OpId>(in_.graph.ops.size()); ++o)
    if (op_of(o).is(ir::OpKind::parameter) && here(o)) emit_holder(op_of(o).outputs[0]);
  box_in_buckets(step_gathers_, update, {"parameters"}, true);
}

// One act for all these updates, which also writes the casts of weights: operands of the first, of the
// second, and so on, then what all of them read.
void StageLowering::update_together(const std::vector<OpId>& ops) {
  const int update = builder.phases.update();
  const ir::Op& first = op_of(ops[0]);
  const ir::Updates of_one = *ir::updates_of(first.type, first.attrs);
  ir::Actor actor;
  actor.name = actor_name(first.type + "_all");
  actor.op = first.type + "_all";
  actor.queue = builder.queue("compute");
  actor.phase = update;
  std::vector<Value> operands, scalars;
  std::vector<OpId> copies;
  ir::Shape copied;
  for (size_t n = 0; n < ops.size(); ++n) {
    const ir::Op& op = op_of(ops[n]);
    scalars.clear();
    for (size_t i = 0; i < op.inputs.size(); ++i)
      (i < of_one.operands ? operands : scalars)
          .push_back(value_in(op.inputs[i], layout(ops[n]).inputs[i], update));
    add_outputs(ops[n], actor);
    const OpId copy = cast_of(state_of_next_[static_cast<size_t>(op.outputs[0])]);
    if (copy < 0 || (!copies.empty() && op_of(copy).attrs != op_of(copies[0]).attrs)) continue;
    copies.push_back(copy);
    copied.push_back(static_cast<int64_t>(n));
  }
  for (OpId copy : copies) add_outputs(copy, actor);
  operands.insert(operands.end(), scalars.begin(), scalars.end());
  add_inputs(actor, operands);
  ir::Attrs attrs = first.attrs;
  attrs["tensors"] = static_cast<int64_t>(ops.size());
  attrs["copies"] = copied;
  if (!copies.empty()) attrs["to"] = op_of(copies[0]).attrs.at("to");
  actor.attrs = ir::complete(ir::op(actor.op), attrs);
  add_kernel(std::move(actor));
  for (OpId o : ops)
    for (TensorId t : op_of(o).outputs) after_update(state_of_next_[static_cast<size_t>(t)], copies);
}

// The cast that reads a state as it is kept, if there is one.
OpId StageLowering::cast_of(TensorId state) {
  for (OpId copy : copies_[state])
    if (op_of(copy).is(ir::OpKind::cast) && layout(copy).inputs[0] == stored(state)) return copy;
  return -1;
}

// What nothing updates is there again each step.
void StageLowering::emit_holder(TensorId t) {
  const int reg = stored_register(t);
  if (builder.phase_of(reg) >= 0) return;
  ir::Actor actor;
  actor.name = actor_name(tensor(t).name);
  actor.kind = ir::ActorKind::host;
  actor.op = "parameter";
  actor.attrs["seconds"] = 0.0;
  actor.queue = builder.queue("host");
  actor.phase = builder.phases.update();
  actor.outputs = {reg};
  builder.add_actor(std::move(actor));
  after_update(t);
}

// A sum over all stages: each adds up its own, then all of them do.
void StageLowering::emit_joint(OpId o) {
  const ir::Op& op = op_of(o);
  const TensorId out = op.outputs[0];
  const int update = builder.phases.update();
  std::vector<int> partial;
  for (size_t d = 0; d < in_.mesh.dims(); ++d)
    if (layout(o).outputs[0][d].is_partial()) partial.push_back(static_cast<int>(d));
  ir::Actor part;
  part.name = actor_name(op.name + ".stage");
  part.op = op.type;
  part.attrs = op.attrs;
  part.phase = update;
  part.layer = layer(o);
  std::vector<Value> own;
  for (size_t i = 0; i < op.inputs.size(); ++i)
    if (site(tensor(op.inputs[i]).producer).stage == stage_)
      own.push_back(value_in(op.inputs[i], layout(o).inputs[i], update));
  add_inputs(part, own);
  if (part.inputs.empty()) throw Error::fault(op.name, fmt::format("stage {} has no part in it", stage_));
  const int local = make_register(out, broadcast(in_.mesh), ".stage");
  part.outputs = {local};
  builder.add_actor(std::move(part));

  const int reg = make_register(out, broadcast(in_.mesh), "");
  ir::Actor all;
  all.name = actor_name(op.name + ".all_reduce");
  all.kind = ir::ActorKind::collective;
  all.op = "all_reduce";
  all.collective = sbp::Collective::all_reduce;
  all.comm = in_.comms.across_stages(partial);
  all.comm_bytes = tensor(out).type.bytes();
  all.queue = builder.queue(in_.comms.queue(all.comm));
  all.phase = update;
  all.layer = layer(o);
  all.moves = ir::name_in_layer(in_.graph, out);
  all.inputs.push_back({local, 1, -1, -1, {}});
  all.outputs = {reg};
  builder.add_actor(std::move(all));
  values(out).push_back({broadcast(in_.mesh), -1, reg, tensor(out).type.shape});
}

}  // namespace boxcar::planner

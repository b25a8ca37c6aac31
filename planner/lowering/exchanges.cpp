#include "planner/lowering/exchanges.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "planner/lowering/boxes.h"
#include "sbp/at.h"

namespace boxcar::planner {

ExchangeEmitter::ExchangeEmitter(const Stage& stage, const StageTasks& tasks, StageProgram& out,
                                 Registers& registers, Names& actor_names)
    : stage_(stage), tasks_(tasks), out_(out), registers_(registers), names_(actor_names) {
  const int replica = stage.in.mesh.dim(MeshDim::replica);
  if (replica < 0) return;
  servers_ = static_cast<int>(at(stage.in.mesh.extents, replica));
  stride_ = stage.in.mesh.devices() / servers_;  // it is the outermost dimension
  own_ = stage.places[0] / stride_;
}

void ExchangeEmitter::emit(const Task& task) {
  const auto replica = static_cast<size_t>(stage_.in.mesh.dim(MeshDim::replica));
  for (const Bucket& bucket : task.buckets)
    for (const Boxed& boxed : bucket) {
      out_.exchanged[boxed.source] = registers_.held(boxed.source).reg;
      boxed.from[replica].is_partial() ? push(task, boxed) : pull(task, boxed);
    }
}

void ExchangeEmitter::push(const Task& task, const Boxed& boxed) {
  const sbp::Shape& shape = stage_.tensor(boxed.t).type.shape;
  const ir::TensorType type = registers_.local_type(boxed.t, boxed.to);
  const ir::Attrs block = slice_attrs(stage_, shape, boxed.from, boxed.to);
  std::vector<Held> parts(static_cast<size_t>(servers_));
  ir::Actor own = kernel(task, boxed, "slice", block);
  registers_.add_inputs(own, std::vector<Held>{registers_.held(boxed.source)});
  own.outputs = {registers_.make_on_host(boxed.t, type, ".slice")};
  at(parts, own_) = {own.outputs[0], type.shape, -1};
  out_.builder.add_actor(std::move(own));
  for (int offset = 1; offset < servers_; ++offset)
    at(parts, (own_ + offset) % servers_) = pulled(task, boxed, offset, type, block);
  ir::Actor sum = kernel(task, boxed, "sum", {});
  registers_.add_inputs(sum, parts);
  registers_.add_outputs(sum, {boxed.result});
  out_.builder.add_actor(std::move(sum));
}

void ExchangeEmitter::pull(const Task& task, const Boxed& boxed) {
  const auto replica = static_cast<size_t>(stage_.in.mesh.dim(MeshDim::replica));
  std::vector<Held> parts(static_cast<size_t>(servers_));
  at(parts, own_) = registers_.held(boxed.source);
  for (int offset = 1; offset < servers_; ++offset) {
    const int server = (own_ + offset) % servers_;
    at(parts, server) = pulled(task, boxed, offset, type_at(boxed, boxed.from, place(server)), {});
  }
  ir::Actor join = kernel(task, boxed, "concat", {{"axis", int64_t{boxed.from[replica].axis}}});
  registers_.add_inputs(join, parts);
  registers_.add_outputs(join, {boxed.result});
  out_.builder.add_actor(std::move(join));
}

Held ExchangeEmitter::pulled(const Task& task, const Boxed& boxed, int offset, ir::TensorType type,
                             ir::Attrs block) {
  const int server = (own_ + offset) % servers_;
  const std::string verb = block.empty() ? "pull" : "push", suffix = fmt::format(".{}{}", verb, server);
  ir::Actor actor;
  actor.name = names_.unique(stage_.tensor(boxed.t).name + suffix);
  actor.kind = ir::ActorKind::pull;
  actor.op = "pull";
  actor.attrs = std::move(block);
  actor.queue = out_.builder.queue(offset == 1 ? "net." + verb : fmt::format("net.{}.{}", verb, offset));
  actor.phase = task.phase;
  actor.layer = stage_.layer_of(boxed.t);
  actor.moves = ir::name_in_layer(stage_.in.graph, boxed.t);
  actor.comm_bytes = type.bytes();
  ir::Input input{-1, 1, -1, stage_.in.comms.replicas(offset), {}};
  const Held& source = registers_.held(boxed.source);  // on another host the same
  const bool reshaped = at(out_.builder.program.registers, source.reg).type.shape != source.shape;
  if (!actor.attrs.empty() && reshaped) input.view = source.shape;
  actor.inputs.push_back(std::move(input));
  const int reg = registers_.make_on_host(boxed.t, type, suffix);
  actor.outputs = {reg};
  out_.links.push_back(
      {out_.builder.add_actor(std::move(actor)), boxed.t, stage_.index, "", boxed.source, place(server)});
  return {reg, std::move(type.shape), -1};
}

ir::Actor ExchangeEmitter::kernel(const Task& task, const Boxed& boxed, const char* op, ir::Attrs attrs) {
  ir::Actor actor;
  actor.name = names_.unique(fmt::format("{}.{}", stage_.tensor(boxed.t).name, op));
  actor.op = op;
  actor.attrs = std::move(attrs);
  actor.queue = out_.builder.queue("update");
  actor.phase = task.phase;
  actor.layer = stage_.layer_of(boxed.t);
  return actor;
}

ir::TensorType ExchangeEmitter::type_at(const Boxed& boxed, const sbp::NdSbp& layout, int place) const {
  const ir::TensorType& type = stage_.tensor(boxed.t).type;
  return {sbp::local_shape(type.shape, layout, stage_.in.mesh.extents, place), type.dtype};
}

}  // namespace boxcar::planner

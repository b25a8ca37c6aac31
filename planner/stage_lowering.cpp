#include "planner/stage_lowering.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "ir/op.h"
#include "sbp/error.h"

namespace boxcar::planner {

using ir::ActorKind;
using ir::OpId;
using ir::TensorId;
using sbp::NdSbp;

namespace {

ir::MemoryKind memory_of(ir::Role role) {
  switch (role) {
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

bool is_source(const ir::Op& op) { return !ir::has_op(op.type); }

}  // namespace

bool is_even(const sbp::Shape& shape, const sbp::NdSbp& layout, const Mesh& mesh) {
  for (size_t a = 0; a < shape.size(); ++a) {
    int64_t parts = 1;
    for (size_t d = 0; d < layout.size(); ++d)
      if (layout[d].is_split() && layout[d].axis == static_cast<int>(a)) parts *= mesh.extents[d];
    if (shape[a] % parts != 0) return false;
  }
  return true;
}

StageLowering::StageLowering(const LoweringInput& input, int stage, std::vector<int> places, std::string name)
    : builder(std::move(name), input.pipeline, stage),
      in_(input),
      stage_(stage),
      places_(std::move(places)),
      place_(places_[0]),
      values_(input.graph.tensors.size()),
      state_of_next_(input.graph.tensors.size(), -1),
      from_state_(input.graph.tensors.size(), false) {
  for (const ir::Op& op : input.graph.ops)
    if (op.recomputed)
      recomputed_.insert(op.name.substr(0, op.name.size() - std::string_view(".recomputed").size()));
}

void StageLowering::run() {
  find_state();
  emit_passes();
  const size_t reduction = builder.program.actors.size();
  reduce_gradients();
  if (!in_.hints.overlap_grad) order_reduction_after_backward(reduction);
  const size_t update = builder.program.actors.size();
  emit_updates();
  if (!in_.hints.overlap_param) order_forward_after_gathers(update);
}

int StageLowering::phase(OpId o) const {
  const OpSite& s = site(o);
  switch (s.run) {
    case Run::forward:
      return builder.phases.forward(s.chunk);
    case Run::backward:
      return builder.phases.backward(s.chunk);
    case Run::weight:
      return builder.phases.weight(s.chunk);
    case Run::reduce:
      return builder.phases.reduce();
    case Run::update:
      return builder.phases.update();
  }
  return -1;
}

void StageLowering::emit_passes() {
  const auto count = static_cast<OpId>(in_.graph.ops.size());
  for (OpId o = 0; o < count; ++o) {  // a layer gathers all its parameters at once, so all are there first
    if (!here(o)) continue;
    if (op_of(o).is(ir::OpKind::parameter))
      declare_state(o);
    else if (site(o).run == Run::update && depends_on_state_alone(o))
      declare_copies(o);
  }
  std::vector<OpId> mine;
  for (OpId o = 0; o < count; ++o)
    if (here(o) && site(o).run != Run::update && !is_source(op_of(o))) mine.push_back(o);
  if (builder.phases.split)  // the graph has both parts of a backward pass in one
    std::stable_sort(mine.begin(), mine.end(), [&](OpId a, OpId b) {
      return std::max(site(a).run, Run::backward) < std::max(site(b).run, Run::backward);
    });
  for (size_t i = 0; i < mine.size(); ++i) {
    const std::pair now{phase(mine[i]), op_of(mine[i]).layer};
    if (now != at_layer_) flush_layer();
    at_layer_ = now;
    const auto next = std::find_if_not(mine.begin() + static_cast<std::ptrdiff_t>(i) + 1, mine.end(),
                                       [&](OpId o) { return op_of(o).is(ir::OpKind::alias); });
    if (in_.hints.overlap_tp && next != mine.end() && !op_of(mine[i]).is(ir::OpKind::alias))
      gather_ahead(*next, now.first);
    emit(mine[i]);
  }
  flush_layer();
  flush_layer();
}

// Asks for what `next` reads again of the forward pass before the kernel in front of it begins.
void StageLowering::gather_ahead(OpId next, int in_phase) {
  if (phase(next) != in_phase) return;
  for (size_t i = 0; i < op_of(next).inputs.size(); ++i) {
    const TensorId t = op_of(next).inputs[i];
    if (read_again(t, in_phase)) value_in(t, layout(next).inputs[i], in_phase);
  }
}

// Whether a backward pass reads what the forward pass of this stage has made.
bool StageLowering::read_again(TensorId t, int in_phase) const {
  const OpId producer = tensor(t).producer;
  return builder.phases.per_micro_batch(in_phase) && !builder.phases.is_forward(in_phase) &&
         site(producer).run == Run::forward && site(producer).stage == stage_ && !is_source(op_of(producer));
}

// What is there from the start of a phase is not moved before the kernel in front of its first reader begins:
// else that of all layers would be.
void StageLowering::hold_back(size_t actor) {
  const auto& actors = builder.program.actors;
  if (actor == actors.size() || actors[actor].kind != ActorKind::collective) return;  // nothing has to move
  for (size_t a = actor; a-- > 0;)
    if (actors[a].kind == ActorKind::kernel && actors[a].phase == actors[actor].phase)
      return builder.control(static_cast<int>(a), static_cast<int>(actor));
}

void StageLowering::emit(OpId o) {
  const ir::Op& op = op_of(o);
  if (op.is(ir::OpKind::alias)) return emit_alias(o);
  const bool sum_of_late = op.is(ir::OpKind::accumulate) && in_.sharding.reduces_each_micro_batch() &&
                           values(op.inputs[0]).empty();
  if (sum_of_late) {  // its input is reduced with its layer
    layer_sums_.push_back(o);
    return;
  }
  emit_kernel(o, phase(o));
}

void StageLowering::emit_alias(OpId o) {
  const ir::Op& op = op_of(o);
  Value value = value_in(op.inputs[0], layout(o).inputs[0], phase(o));
  const TensorId t = op.outputs[0];
  value.layout = layout(o).outputs[0];
  value.scope = -1;
  value.shape = local_type(t, value.layout).shape;
  values(t).push_back(value);
  box_to_stored(t, o, value.layout, phase(o));
  cut_for_others(t, phase(o));
}

int StageLowering::emit_kernel(OpId o, int in_phase) {
  const ir::Op& op = op_of(o);
  ir::Actor actor;
  actor.kind = ActorKind::kernel;
  actor.op = op.type;
  actor.attrs = local_attrs(in_.graph, op, layout(o), in_.mesh, places_);
  actor.queue = builder.queue("compute");
  actor.phase = in_phase;
  actor.layer = layer(o);
  std::vector<Value> operands;
  for (size_t i = 0; i < op.inputs.size(); ++i)
    operands.push_back(value_in(op.inputs[i], layout(o).inputs[i], in_phase));
  add_inputs(actor, operands);
  actor.name = actor_name(op.name);
  add_outputs(o, actor);
  const int index = add_kernel(std::move(actor));
  if (op.is(ir::OpKind::accumulate))
    for (int reg : builder.program.actors.back().outputs) builder.set_every(reg, in_.pipeline.micro_batches);
  for (size_t i = 0; i < op.outputs.size(); ++i) {
    box_to_stored(op.outputs[i], o, layout(o).outputs[i], in_phase);
    cut_for_others(op.outputs[i], in_phase);
  }
  return index;
}

int StageLowering::add_kernel(ir::Actor actor) {
  const int in_phase = actor.phase, index = builder.add_actor(std::move(actor));
  for (int reduction : std::exchange(awaited_, {})) builder.control(reduction, index);
  if (auto waiting = waiting_for_reader_.find(in_phase);
      waiting != waiting_for_reader_.end() && waiting->second) {
    first_reader_[in_phase] = index;
    waiting->second = false;
  }
  return index;
}

// Outputs that a state becomes are written over it.
void StageLowering::add_outputs(OpId o, ir::Actor& actor) {
  const ir::Op& op = op_of(o);
  for (size_t i = 0; i < op.outputs.size(); ++i) {
    const TensorId t = op.outputs[i];
    const TensorId state = state_of_next_[static_cast<size_t>(t)];
    const NdSbp& produced = layout(o).outputs[i];
    int reg = -1;
    if (state >= 0) reg = stored_register(state);
    for (const Value& value : values(t))  // declared beforehand
      if (value.layout == produced && value.scope < 0) reg = value.reg;
    if (reg < 0) reg = make_register(t, produced, "");
    actor.outputs.push_back(reg);
    if (values(t).empty() || state >= 0)
      values(t).push_back({produced, -1, reg, local_type(t, produced).shape, -1});
  }
}

// Boxes what was produced in another layout than it is kept in: now, with its layer, or once per step.
void StageLowering::box_to_stored(TensorId t, OpId o, const NdSbp& produced, int in_phase) {
  if (in_.mesh.devices() == 1) values(t).back().layout = stored(t);
  if (produced == stored(t) || in_.mesh.devices() == 1) return;
  const Item item{t, values(t).back(), stored(t), -1};
  if (in_phase == builder.phases.update()) return;  // state: after_update
  const bool once = op_of(o).is(ir::OpKind::accumulate) || in_phase == builder.phases.reduce();
  const auto& readers = in_.readers[static_cast<size_t>(t)];
  const auto any_reader = [&](auto is) { return std::any_of(readers.begin(), readers.end(), is); };
  const bool summed = any_reader([&](OpId reader) { return op_of(reader).is(ir::OpKind::accumulate); });
  const bool read_at_once = any_reader([&](OpId reader) {
    const Run run = site(reader).run;
    return (run == Run::backward || run == Run::weight) && !op_of(reader).is(ir::OpKind::accumulate);
  });
  const bool gradient = tensor(t).role == ir::Role::gradient && !read_at_once;
  if (gradient && !once && in_.sharding.reduces_each_micro_batch()) {
    values(t).clear();
    layer_reductions_.push_back(item);
    return;
  }
  if (once || (gradient && !summed)) {
    reductions_.push_back(item);
    return;
  }
  values(t).push_back(box(item, in_phase));
}

// With scatter_gather what all ranks of tp hold goes in equal parts, along the first axis that has them.
NdSbp StageLowering::sent(TensorId t) const {
  NdSbp layout = stored(t);
  const auto tp = std::find(in_.mesh.names.begin(), in_.mesh.names.end(), "tp") - in_.mesh.names.begin();
  const auto dim = static_cast<size_t>(tp);
  if (!in_.hints.scatter_gather || dim == in_.mesh.dims() || !layout[dim].is_broadcast()) return layout;
  const sbp::Shape& shape = tensor(t).type.shape;
  for (int axis = 0; axis < static_cast<int>(shape.size()); ++axis) {
    int64_t parts = in_.mesh.extents[dim];
    for (size_t d = 0; d < layout.size(); ++d)
      if (layout[d].is_split() && layout[d].axis == axis) parts *= in_.mesh.extents[d];
    if (shape[static_cast<size_t>(axis)] % parts != 0) continue;
    layout[dim] = sbp::Sbp::S(axis);
    return layout;
  }
  return layout;
}

void StageLowering::cut_for_others(TensorId t, int in_phase) {
  const auto& readers = in_.readers[static_cast<size_t>(t)];
  const bool elsewhere =
      std::any_of(readers.begin(), readers.end(), [&](OpId reader) { return !here(reader); });
  if (!elsewhere || values(t).empty() || values(t).back().layout != stored(t) || sent(t) == stored(t)) return;
  values(t).push_back(box({t, values(t).back(), sent(t), -1}, in_phase));
}

int StageLowering::sent_register(TensorId t) const {
  for (const Value& value : values_[static_cast<size_t>(t)])
    if (value.scope < 0 && value.layout == sent(t)) return value.reg;
  throw Error::fault(builder.program.name,
                     fmt::format("no register holds what is sent of {}", tensor(t).name));
}

int StageLowering::stored_register(TensorId t) const {
  for (const Value& value : values_[static_cast<size_t>(t)])
    if (value.scope < 0 && value.layout == stored(t)) return value.reg;
  throw Error::fault(builder.program.name, fmt::format("no register holds {}", tensor(t).name));
}

namespace {

// Into how many parts a layout cuts a tensor: the same on every rank, however uneven they are.
int64_t parts(const NdSbp& layout, const Mesh& mesh) {
  int64_t result = 1;
  for (size_t d = 0; d < layout.size(); ++d)
    if (layout[d].is_split()) result *= mesh.extents[d];
  return result;
}

}  // namespace

StageLowering::Value StageLowering::value_in(TensorId t, const NdSbp& want, int in_phase) {
  if (values(t).empty()) fetch(t, in_phase);
  if (in_.mesh.devices() == 1) return values(t).back();  // every layout is the whole tensor
  const Value* base = nullptr;
  const auto& used = in_.pins.used[static_cast<size_t>(t)];
  const bool gathered = builder.phases.per_micro_batch(in_phase) && used &&
                        std::any_of(values(t).begin(), values(t).end(), [&](const Value& value) {
                          return value.scope < 0 && value.layout == *used;
                        });  // what it was gathered from may be newer
  for (const Value& value : values(t)) {
    if (value.scope >= 0 && value.scope != in_phase) continue;
    if (gathered && value.scope < 0 && value.layout != *used) continue;
    if (value.layout == want) return value;
    if (value.layout == stored(t) && (!base || base->layout != used)) base = &value;
    if (value.layout == used) base = &value;  // of state: gathered already
  }
  if (!base)
    throw Error::fault(builder.program.name, fmt::format("{} is read before it is there", tensor(t).name));
  if (gather_group(t, in_phase)) return value_in(t, want, in_phase);
  const NdSbp base_layout = base->layout;
  const bool partial =
      std::any_of(base_layout.begin(), base_layout.end(), [](sbp::Sbp s) { return s.is_partial(); });
  const size_t first = builder.program.actors.size();
  Value boxed = box({t, *base, want, -1}, in_phase);
  if (read_again(t, in_phase)) hold_back(first);
  const bool no_larger =
      !from_state_[static_cast<size_t>(t)] && parts(want, in_.mesh) >= parts(base_layout, in_.mesh);
  // Of activations, where a framework keeps what it has gathered: its backward pass does not gather it again.
  const bool kept = in_.hints.retained_bytes.contains("all_gather") && builder.phases.is_forward(in_phase) &&
                    tensor(t).role == ir::Role::activation;
  boxed.scope = partial || no_larger || kept ? -1 : in_phase;
  values(t).push_back(boxed);
  return boxed;
}

void StageLowering::fetch(TensorId t, int in_phase) {
  const OpId producer = tensor(t).producer;
  if (is_source(op_of(producer))) return load(t, in_phase);
  if (site(producer).stage == stage_)
    throw Error::fault(builder.program.name, fmt::format("{} is read before it is there", tensor(t).name));
  pull(t, in_phase);
}

void StageLowering::load(TensorId t, int in_phase) {
  const bool input = tensor(t).role == ir::Role::input;
  const int reg = make_register(t, stored(t), "");
  ir::Actor actor;
  actor.name = actor_name(tensor(t).name);
  actor.kind = input ? ActorKind::copy : ActorKind::host;
  actor.op = input ? "load" : "constant";
  actor.attrs = op_of(tensor(t).producer).attrs;
  if (!input) actor.attrs["seconds"] = 0.0;
  actor.queue = builder.queue(input ? "copy_in" : "host");
  actor.phase = in_phase;
  actor.layer = layer(tensor(t).producer);
  actor.comm_bytes = input ? local_type(t, stored(t)).bytes() : 0;
  actor.outputs = {reg};
  builder.add_actor(std::move(actor));
  values(t).push_back({stored(t), input ? -1 : in_phase, reg, local_type(t, stored(t)).shape, -1});
}

void StageLowering::pull(TensorId t, int in_phase) {
  const OpSite& from = site(tensor(t).producer);
  const int stages = in_.pipeline.stages;
  const bool forward = from.run == Run::forward;
  int offset = from.stage - stage_;
  if ((from.stage + 1) % stages == stage_ && (forward || stages > 2)) offset = -1;
  if ((stage_ + 1) % stages == from.stage && (!forward || stages > 2)) offset = 1;
  const std::string queue = pull_queue(forward ? "net.pp.forward" : "net.pp.backward", t, in_phase);
  const NdSbp part = sent(t);
  const int reg = make_register(t, part, "");
  ir::Actor actor;
  actor.name = actor_name(tensor(t).name + ".pull");
  actor.kind = ActorKind::pull;
  actor.op = "pull";
  actor.queue = builder.queue(queue);
  actor.phase = in_phase;
  actor.layer = layer(tensor(t).producer);
  actor.moves = ir::name_in_layer(in_.graph, t);
  actor.comm_bytes = local_type(t, part).bytes();
  actor.inputs.push_back({-1, 1, -1, in_.comms.peers(offset), {}});
  actor.outputs = {reg};
  links.push_back({builder.add_actor(std::move(actor)), t, from.stage, queue + ".out"});
  const Value pulled{part, -1, reg, local_type(t, part).shape, -1};
  values(t).push_back(part == stored(t) ? pulled : box({t, pulled, stored(t), -1}, in_phase));
}

// A stage gives in the order in which it makes, on every queue, and takes in that order, whoever gives: then
// of all pulls the one whose value is made first never waits for another. What is read in another order goes
// beside: "net.pp.backward.2".
std::string StageLowering::pull_queue(const std::string& name, TensorId t, int in_phase) {
  const OpId producer = tensor(t).producer;
  for (int beside = 1;; ++beside) {
    const std::string queue = beside == 1 ? name : fmt::format("{}.{}", name, beside);
    const auto [last, first] = last_pulled_.try_emplace({queue, in_phase}, producer);
    if (!first && producer < last->second) continue;
    last->second = producer;
    return queue;
  }
}

// Operands first, then what says that they are whole.
void StageLowering::add_inputs(ir::Actor& actor, const std::vector<Value>& values) const {
  std::vector<int> controls;
  for (const Value& value : values) {
    ir::Input input{value.reg, 1, -1, -1, {}};
    if (builder.program.registers[static_cast<size_t>(value.reg)].type.shape != value.shape)
      input.view = value.shape;
    actor.inputs.push_back(std::move(input));
    if (value.ready >= 0 && std::find(controls.begin(), controls.end(), value.ready) == controls.end())
      controls.push_back(value.ready);
  }
  for (int control : controls) actor.inputs.push_back({control, 1, -1, -1, {}});
}

int StageLowering::control_register(const std::string& actor) {
  return builder.add_register(unique(register_names_, actor + ".done"), {{}, ir::DType::int8},
                              ir::MemoryKind::workspace, 0);
}

ir::TensorType StageLowering::local_type(TensorId t, const NdSbp& layout) {
  const ir::TensorType& type = tensor(t).type;
  if (!is_even(type.shape, layout, in_.mesh)) uneven.emplace(type.shape, layout);
  return {sbp::local_shape(type.shape, layout, in_.mesh.extents, place_), type.dtype};
}

// Times its bytes that a result of a kernel takes with what the framework keeps beside it; the first of two
// runs keeps nothing.
double StageLowering::kept_beside(TensorId t, const std::string& suffix) const {
  if (in_.hints.retained_bytes.empty() || !suffix.empty() || tensor(t).producer < 0) return 1;
  const ir::Op& op = op_of(tensor(t).producer);
  const auto found = in_.hints.retained_bytes.find(op.type);
  if (found == in_.hints.retained_bytes.end() || op.outputs[0] != t || recomputed_.contains(op.name))
    return 1;
  return here(tensor(t).producer) ? found->second : std::max(1.0, found->second);  // a copy lies over nothing
}

int StageLowering::make_register(TensorId t, const NdSbp& layout, const std::string& suffix) {
  const ir::TensorType type = local_type(t, layout);
  const double kept = kept_beside(t, suffix);  // 0: over its operand; a byte then, as none is a control edge
  const auto bytes = static_cast<int64_t>(kept * static_cast<double>(type.bytes()));
  const int reg = builder.add_register(unique(register_names_, tensor(t).name + suffix), type,
                                       memory_of(tensor(t).role), kept > 0 ? bytes : 1);
  ir::Register& made = builder.program.registers[static_cast<size_t>(reg)];
  made.over = made.bytes < type.bytes();
  return reg;
}

std::string StageLowering::unique(std::unordered_map<std::string, int>& names, const std::string& name) {
  const int count = ++names[name];
  return count == 1 ? name : unique(names, fmt::format("{}.{}", name, count));
}

}  // namespace boxcar::planner

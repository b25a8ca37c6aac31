#include "planner/pins.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "ir/derived_name.h"
#include "planner/reduced_gradients.h"
#include "planner/sharding.h"
#include "sbp/at.h"

namespace boxcar::planner {

using sbp::Sbp;

namespace {

// A quick test: most names have another last character.
bool may_match(std::string_view pattern, std::string_view name) {
  return pattern.empty() || pattern.back() == '*' || (!name.empty() && name.back() == pattern.back());
}

}  // namespace

bool matches(std::string_view pattern, std::string_view name) {
  if (!may_match(pattern, name)) return false;
  const size_t star = pattern.find('*');
  if (star == std::string_view::npos) return pattern == name;
  if (name.substr(0, star) != pattern.substr(0, star)) return false;
  const std::string_view rest = pattern.substr(star + 1);
  if (rest.find('*') == std::string_view::npos) return name.substr(star).ends_with(rest);
  for (size_t at = star; at <= name.size(); ++at)
    if (matches(rest, name.substr(at))) return true;
  return false;
}

namespace {

// The axis that `shards` ranks split, of a tensor whose axes are in `parts` parts: a whole axis if its shards
// are even, else an axis inside its parts.
Sbp shard_axis(const sbp::Shape& shape, const std::vector<int64_t>& parts, int64_t shards) {
  const auto first = [&](auto&& suits) -> std::optional<Sbp> {
    for (size_t a = 0; a < shape.size(); ++a)
      if (suits(shape[a], parts[a])) return Sbp::S(static_cast<int>(a), parts[a] > 1 ? 1 : 0);
    return std::nullopt;
  };
  if (const auto s = first([&](int64_t n, int64_t p) { return p == 1 && n % shards == 0; })) return *s;
  if (const auto s = first([&](int64_t n, int64_t p) { return p > 1 && n % (p * shards) == 0; })) return *s;
  if (const auto s = first([&](int64_t n, int64_t p) { return p == 1 && n >= shards; })) return *s;
  if (const auto s = first([&](int64_t, int64_t p) { return p > 1; })) return *s;
  return shape.empty() ? Sbp::B() : Sbp::S(0);
}

std::vector<int64_t> parts_of(size_t rank, const sbp::NdSbp& layout, const Mesh& mesh) {
  std::vector<int64_t> parts(rank, 1);
  for (size_t d = 0; d < layout.size(); ++d)
    if (layout[d].is_split()) at(parts, layout[d].axis) *= mesh.extents[d];
  return parts;
}

// How ep and cp split the axis of experts: inside the parts of tp if it splits it too. Tokens that ep
// exchanges then go to the experts of their rank of tp.
Sbp split_of_experts(bool over_tp) { return Sbp::S(0, over_tp ? 1 : 0); }

// Whether ranks of context parallelism that share a group of `experts` can each have the same number.
bool cp_splits_experts(int64_t experts, const Mesh& mesh, bool over_tp) {
  if (mesh.dim(MeshDim::cp) < 0) return false;
  int64_t ranks = 1;
  for (const MeshDim dim : {MeshDim::ep, MeshDim::cp, MeshDim::tp})
    if (const int d = mesh.dim(dim); d >= 0 && (dim != MeshDim::tp || over_tp)) ranks *= at(mesh.extents, d);
  return experts % ranks == 0;
}

}  // namespace

sbp::NdSbp sharded(const sbp::Shape& shape, const sbp::NdSbp& whole, const Mesh& mesh,
                   ir::ParameterKind kind) {
  sbp::NdSbp result = whole;
  if (kind == ir::ParameterKind::experts) {
    const int tp = mesh.dim(MeshDim::tp);
    const bool over_tp = tp >= 0 && at(whole, tp) == Sbp::S(0);
    if (cp_splits_experts(shape[0], mesh, over_tp)) {
      Sbp& cp = at(result, mesh.dim(MeshDim::cp));
      if (cp.is_broadcast()) cp = split_of_experts(over_tp);
    }
  }
  std::vector<size_t> dims;
  int64_t shards = 1;
  for (const MeshDim dim : {MeshDim::dp, MeshDim::ep, MeshDim::cp})
    if (const int d = mesh.dim(dim); d >= 0 && at(result, d).is_broadcast()) {
      dims.push_back(static_cast<size_t>(d));
      shards *= mesh.extents[dims.back()];
    }
  if (shards == 1) return result;
  const Sbp shard = shard_axis(shape, parts_of(shape.size(), result, mesh), shards);
  for (size_t d : dims) result[d] = shard;
  return result;
}

sbp::NdSbp served(const sbp::Shape& shape, const sbp::NdSbp& whole, const Mesh& mesh) {
  if (shape.empty() || whole != broadcast(mesh)) return whole;
  const Sbp part = shard_axis(shape, std::vector<int64_t>(shape.size(), 1), mesh.devices());
  sbp::NdSbp result(mesh.dims(), part);
  if (mesh.dims() > 1) at(result, mesh.dim(MeshDim::replica)) = Sbp::S(part.axis, 1);
  return result;
}

namespace {

// Parameters: split by columns, by rows, or along their only axis. Activations: between the parallel parts;
// inside them; gathered for the experts in the forward pass; experts' slots by sequence; of the loss; logits,
// if they are gathered.
enum class Where : uint8_t { column, row, vector, stream, inside, gathered, slots, whole, logits };
struct PinRule {
  std::string_view pattern;
  Where where;
  // In a layer with experts, a slice of ep and cp, and of tp if it does not cut experts, has the tokens of
  // its experts.
  bool by_expert = false;
  bool summed = false;  // and each rank of a tp that cuts experts has the complete sums
};
// The splits of tensor parallelism: of parameters, and of activations between the parallel parts (the
// stream).
constexpr PinRule rules[] = {
    {"*.attn.qkv.weight", Where::column},
    {"*.attn.qkv.bias", Where::vector},
    {"*.attn.qkv.lora_b.weight", Where::column},
    {"*.attn.proj.lora_a.weight", Where::row},
    {"*.mlp.fc1.lora_b.weight", Where::column},
    {"*.mlp.fc2.lora_a.weight", Where::row},
    {"*.attn.q.weight", Where::column},
    {"*.attn.kv.weight", Where::column},
    {"*.attn.k.weight", Where::column},
    {"*.attn.v.weight", Where::column},
    {"*.attn.q.bias", Where::vector},
    {"*.attn.k.bias", Where::vector},
    {"*.attn.v.bias", Where::vector},
    {"*.attn.proj.weight", Where::row},
    {"*.mlp.fc1.weight", Where::column},
    {"*.mlp.fc1.bias", Where::vector},
    {"*.mlp.shared.fc1.weight", Where::column},
    {"*.mlp.shared.fc1.bias", Where::vector},
    {"*.mlp.shared.fc2.weight", Where::row},
    {"*.mlp.gate.weight", Where::column},
    {"*.mlp.gate.bias", Where::vector},
    {"*.mlp.up.weight", Where::column},
    {"*.mlp.up.bias", Where::vector},
    {"*.mlp.fc2.weight", Where::row},
    {"embedding.word", Where::row},
    {"head.weight", Where::column},
    {"head.bias", Where::vector},
    {"*.residual1", Where::stream},
    {"*.residual2", Where::stream},
    {"*.cross.residual", Where::stream},
    {"*.cross.ln", Where::stream},
    {"encoder.ln_f", Where::stream},
    {"decoder.embedding.*", Where::stream},
    {"*.ln1", Where::stream},
    {"*.ln2", Where::stream},
    {"ln_f", Where::stream},
    {"*.attn.proj", Where::stream},
    {"*.attn.proj.lora_a", Where::stream},
    {"*.mlp.fc2.lora_a", Where::stream},
    {"*.mlp.fc2", Where::stream, true},
    {"*.mlp.fc2.bias_add", Where::stream, true, true},
    {"*.mlp.combine", Where::stream},
    {"*.mlp.shared.fc2", Where::stream},
    {"*.mlp.sum", Where::stream},
    {"*.mlp.dispatch", Where::gathered},
    {"*.mlp.dispatch_shares", Where::slots},
    {"*.mlp.by_sequence", Where::slots},
    {"*.mlp.slots", Where::gathered, true},
    {"*.mlp.slot_shares", Where::gathered, true},
    {"embedding.lookup", Where::stream},
    {"embedding.add", Where::stream},
    {"embedding.out", Where::stream},
    {"head", Where::logits},
    {"head.float", Where::logits},
    {"loss.max", Where::whole},
    {"loss.sum_exp", Where::whole},
    {"loss.pick", Where::whole},
    {"loss.nll", Where::whole},
    {"*.attn.qkv", Where::inside},
    {"*.attn.q", Where::inside},
    {"*.attn.k", Where::inside},
    {"*.attn.kv", Where::inside},
    {"*.attn.v", Where::inside},
    {"*.attn.merge", Where::inside},
    {"*.mlp.fc1", Where::inside, true},
    {"*.mlp.shared.fc1", Where::inside},
};

// A product with its adapter or bias has the rule of the product if it has no own rule.
const PinRule* find_rule(std::string_view name) {
  for (const PinRule& rule : rules)
    if (may_match(rule.pattern, name) && matches(rule.pattern, name)) return &rule;
  for (const std::string_view added : {".lora_add", ".bias_add"})
    if (name.ends_with(added)) return find_rule(name.substr(0, name.size() - added.size()));
  return nullptr;
}

// The layout of a parameter on the tensor-parallel dimension. Experts' weights have an additional first axis.
// Convolutions' weights are [out, in, rows, columns], their biases [out, 1, 1].
Sbp tensor_parallel(Where where, const sbp::Shape& shape, ir::ParameterKind kind) {
  const auto last = static_cast<int>(shape.size()) - 1;
  int longer = last;  // the last axis that is longer than 1
  while (longer > 0 && shape[static_cast<size_t>(longer)] == 1) --longer;
  switch (where) {
    case Where::column:
      return Sbp::S(kind == ir::ParameterKind::convolution ? 0 : last);
    case Where::row:
      return Sbp::S(last - 1);
    case Where::vector:
      return Sbp::S(longer);
    default:
      return Sbp::B();
  }
}

// A parameter's layouts: as forward and backward passes read it, and as sharded states are kept.
struct StateLayout {
  sbp::NdSbp whole, sharded;
};

struct Context {
  const ir::Graph& graph;
  const Hints& hints;
  Sharding sharding;
  const Mesh& mesh;
  std::vector<ir::ParameterKind> kinds;  // by tensor
  std::set<int> expert_layers;
  Pins pins;
  const Chosen* chosen = nullptr;

  void set(ir::TensorId t, MeshDim dim, Sbp sbp) {
    if (const int d = mesh.dim(dim); d >= 0) at(at(pins.stored, t), d) = sbp;
  }
  void set(ir::TensorId t, const sbp::NdSbp& layout) {
    at(pins.stored, t).assign(layout.begin(), layout.end());
  }
  const ir::Op& producer(ir::TensorId t) const { return at(graph.ops, graph.tensor(t).producer); }
};

// The chosen layout, else that of the table.
sbp::NdSbp whole_layout(const Context& c, ir::TensorId weight) {
  if (c.chosen && !at(*c.chosen, weight).empty()) return at(*c.chosen, weight);
  const sbp::Shape& shape = c.graph.tensor(weight).type.shape;
  sbp::NdSbp whole = broadcast(c.mesh);
  if (c.chosen) return whole;
  const PinRule* rule = find_rule(ir::base_name(c.graph.tensor(weight).name));
  const int tp = c.mesh.dim(MeshDim::tp), ep = c.mesh.dim(MeshDim::ep);
  const ir::ParameterKind kind = at(c.kinds, weight);
  if (tp >= 0 && rule) at(whole, tp) = tensor_parallel(rule->where, shape, kind);
  if (kind != ir::ParameterKind::experts) return whole;
  const bool over_tp = deals_experts_over_tp(c.hints);
  if (ep >= 0) at(whole, ep) = split_of_experts(over_tp);
  if (over_tp) at(whole, tp) = Sbp::S(0);
  return whole;
}

StateLayout state_layout(const Context& c, ir::TensorId weight) {
  const sbp::NdSbp whole = whole_layout(c, weight);
  const sbp::Shape& shape = c.graph.tensor(weight).type.shape;
  if (c.hints.servers > 0) return {whole, served(shape, whole, c.mesh)};
  return {whole, sharded(shape, whole, c.mesh, at(c.kinds, weight))};
}

// Whether it is [batch, sequence, features]. A tensor of another rank has no pins, whatever its name.
bool is_of_positions(const ir::TensorType& type) { return type.shape.size() == 3; }

// Applies a rule to an activation. Context parallelism splits [batch, sequence, ...] along the sequence.
void pin_activation(Context& c, ir::TensorId t) {
  const std::string_view name = ir::base_name(c.graph.tensor(t).name);
  const PinRule* rule = find_rule(name);
  if (!rule) return;
  const bool stream = rule->where == Where::stream, inside = rule->where == Where::inside;
  if (rule->where == Where::whole || (rule->where == Where::logits && c.hints.gather_logits))
    c.set(t, MeshDim::tp, Sbp::B());
  // This includes slots, which fc1 and its weights' gradient read. The gradient is then whole, and nothing is
  // exchanged for it again.
  const ir::Op& op = c.producer(t);
  const bool by_expert = rule->by_expert && c.expert_layers.contains(op.layer);
  const bool over_tp = deals_experts_over_tp(c.hints);
  if (by_expert) {
    c.set(t, MeshDim::ep, split_of_experts(over_tp));
    if (cp_splits_experts(c.graph.tensor(t).type.shape[0], c.mesh, over_tp))
      c.set(t, MeshDim::cp, split_of_experts(over_tp));
    if (over_tp) c.set(t, MeshDim::tp, Sbp::S(0));
  }
  const bool is_gradient = op.phase == ir::Phase::backward && !op.recomputed;
  const bool gathered = rule->where == Where::gathered;
  if (over_tp && (rule->where == Where::slots || (gathered && !by_expert)))
    c.set(t, MeshDim::tp, Sbp::S(1));  // [sequences, experts, ...]
  if (!over_tp && ((by_expert && rule->summed) || (gathered && !is_gradient)))
    c.set(t, MeshDim::tp, Sbp::B());
  if ((!stream && !inside) || by_expert || !is_of_positions(c.graph.tensor(t).type)) return;
  for (const MeshDim dim : {MeshDim::replica, MeshDim::dp, MeshDim::ep}) c.set(t, dim, Sbp::S(0));
  c.set(t, MeshDim::cp, Sbp::S(1));
  if (stream) c.set(t, MeshDim::tp, c.hints.sequence_parallel ? Sbp::S(1) : Sbp::B());
}

// Attention that exchanges heads for sequence reads its inputs of all positions.
bool is_read_by_attention(const ir::Graph& graph, ir::TensorId t) {
  return std::any_of(graph.ops.begin(), graph.ops.end(), [t](const ir::Op& op) {
    return op.is(ir::OpKind::attention) && std::count(op.inputs.begin(), op.inputs.end(), t) > 0;
  });
}

void pin_input(Context& c, ir::TensorId t) {
  const size_t rank = c.graph.tensor(t).type.shape.size();
  if (rank == 0) return;
  for (const MeshDim dim : {MeshDim::replica, MeshDim::dp, MeshDim::ep}) c.set(t, dim, Sbp::S(0));
  c.set(t, MeshDim::cp, rank > 1 && !is_read_by_attention(c.graph, t) ? Sbp::S(1) : Sbp::B());
  c.set(t, MeshDim::tp, Sbp::B());
}

// Pins state and tensors computed from it: kept sharded or whole, read whole.
void pin_state(Context& c, ir::TensorId t, const StateLayout& layout, bool is_sharded) {
  c.set(t, is_sharded ? layout.sharded : layout.whole);
  at(c.pins.used, t) = layout.whole;
}

// Addends of a gradient have its tp split, so that the gradient of a whole table is never made.
void pin_addends(Context& c, ir::TensorId sum, const StateLayout& layout) {
  const ir::Op& op = c.producer(sum);
  const bool sums = op.is(ir::OpKind::add) || op.is(ir::OpKind::sum);
  if (!sums || op.phase != ir::Phase::backward) return;
  for (ir::TensorId t : op.inputs) {
    for (size_t d = 0; d < layout.whole.size(); ++d)
      if (layout.whole[d].is_split()) at(c.pins.stored, t)[d] = layout.whole[d];
    pin_addends(c, t, layout);
  }
}

// Pins a gradient before accumulation: split like its parameter, and sharded if each micro-batch's gradient
// is reduced.
void pin_use(Context& c, const ir::Op& accumulate, const StateLayout& layout) {
  const ir::TensorId reduced = accumulate.inputs[0], made = before_reduction(c.graph, reduced);
  pin_addends(c, made, layout);
  for (ir::TensorId t : {made, reduced})
    for (size_t d = 0; d < layout.whole.size(); ++d)
      if (layout.whole[d].is_split()) at(c.pins.stored, t)[d] = layout.whole[d];
  PartialSbp& pin = at(c.pins.stored, reduced);
  for (size_t d = 0; d < pin.size(); ++d)
    if (c.sharding.gradients && !layout.whole[d].is_split() && layout.sharded[d].is_split())
      pin[d] = layout.sharded[d];
}

// Pins the gradient that an update op reads.
void pin_gradient(Context& c, ir::TensorId t, const StateLayout& layout) {
  c.set(t, c.sharding.states ? layout.sharded : layout.whole);
  const ir::Op& op = c.producer(before_reduction(c.graph, t));
  if (op.is(ir::OpKind::accumulate)) return pin_use(c, op, layout);
  if (!op.is(ir::OpKind::add) || op.phase != ir::Phase::update) return;
  for (ir::TensorId use : op.inputs)  // gradients of two uses are first added and then reduced together
    if (c.producer(use).is(ir::OpKind::accumulate)) pin_use(c, c.producer(use), layout);
}

// The layout of a moment, which may have an extent of 1 where its weight has more.
StateLayout layout_of_moment(const Context& c, ir::TensorId moment, ir::TensorId weight) {
  StateLayout layout = state_layout(c, weight);
  const sbp::Shape &shape = c.graph.tensor(moment).type.shape, &of = c.graph.tensor(weight).type.shape;
  for (sbp::NdSbp* sbp : {&layout.whole, &layout.sharded})
    for (Sbp& s : *sbp)
      if (s.is_split() && at(shape, s.axis) != at(of, s.axis)) s = Sbp::B();
  return layout;
}

// The updates of moments come behind that of their weight.
void pin_updates(Context& c) {
  ir::TensorId weight = -1;
  for (const ir::Update& update : c.graph.updates) {
    if (!ir::is_of_moment(c.graph, update)) weight = update.state;
    const StateLayout layout = layout_of_moment(c, update.state, weight);
    pin_state(c, update.state, layout, c.sharding.states);
    pin_state(c, update.next, layout, c.sharding.states);
    if (const ir::TensorId gradient = gradient_of(c.graph, update); gradient >= 0)
      pin_gradient(c, gradient, layout);
  }
}

}  // namespace

namespace {

Pins find_pins(const ir::Graph& graph, const Hints& hints, const Mesh& mesh, const Chosen* chosen) {
  const size_t count = graph.tensors.size();
  std::vector<ir::ParameterKind> kinds = ir::parameter_kinds(graph);
  std::set<int> expert_layers;
  for (const ir::Op& op : graph.ops)
    if (op.is(ir::OpKind::dispatch)) expert_layers.insert(op.layer);
  Context c{graph,
            hints,
            sharding_of(hints),
            mesh,
            std::move(kinds),
            std::move(expert_layers),
            {std::vector<PartialSbp>(count, PartialSbp(mesh.dims())),
             std::vector<std::optional<sbp::NdSbp>>(count), hints.gather_keys && !chosen},
            chosen};
  pin_updates(c);
  for (const ir::Op& op : graph.ops) {
    const ir::TensorId out = op.outputs[0];
    const bool known = at(c.pins.used, out).has_value();
    if (op.is(ir::OpKind::input) && !chosen) pin_input(c, out);
    if (op.is(ir::OpKind::parameter) && !known)
      pin_state(c, out, state_layout(c, out), c.sharding.parameters);  // nothing updates it
    if (op.phase != ir::Phase::update) {
      for (ir::TensorId t : op.outputs) {
        if (!chosen)
          pin_activation(c, t);
        else if (const sbp::NdSbp& layout = at(*chosen, t); !layout.empty() && !known)
          c.set(t, layout);
      }
    } else if (op.is(ir::OpKind::cast) && at(c.pins.used, op.inputs[0])) {
      pin_state(c, out, state_layout(c, op.inputs[0]), c.sharding.parameters);
    }
  }
  for (size_t t = 0; t < count; ++t)
    if (graph.tensors[t].sbp && graph.tensors[t].sbp->size() == mesh.dims())
      c.set(static_cast<int>(t), *graph.tensors[t].sbp);
  return std::move(c.pins);
}

}  // namespace

Pins pins_of(const ir::Graph& graph, const Hints& hints, const Mesh& mesh) {
  return find_pins(graph, hints, mesh, nullptr);
}

Pins pins_of(const ir::Graph& graph, const Hints& hints, const Mesh& mesh, const Chosen& chosen) {
  return find_pins(graph, hints, mesh, &chosen);
}

}  // namespace boxcar::planner

#include "planner/pins.h"

#include <array>
#include <set>

namespace boxcar::planner {

using sbp::Sbp;

bool matches(std::string_view pattern, std::string_view name) {
  const size_t star = pattern.find('*');
  if (star == std::string_view::npos) return pattern == name;
  if (name.substr(0, star) != pattern.substr(0, star)) return false;
  const std::string_view rest = pattern.substr(star + 1);
  for (size_t at = star; at <= name.size(); ++at)
    if (matches(rest, name.substr(at))) return true;
  return false;
}

std::string_view base_name(std::string_view tensor) {
  constexpr std::array suffixes = {".grad", ".half", ".sum", ".next", ".again", ".replica", ".bias_add", "."};
  const auto strip = [&] {
    std::string_view left = tensor;
    while (!left.empty() && left.back() >= '0' && left.back() <= '9') left.remove_suffix(1);
    for (std::string_view suffix : suffixes)
      if (left.ends_with(suffix) && (suffix != "." || left.size() < tensor.size())) {
        tensor = left.substr(0, left.size() - suffix.size());
        return true;
      }
    return false;
  };
  while (strip()) {
  }
  return tensor;
}

Sbp shard_axis(const sbp::Shape& shape, Sbp tp, int64_t tp_parts, int64_t shards) {
  const int split = tp.is_split() ? tp.axis : -1;
  for (size_t a = 0; a < shape.size(); ++a)
    if (static_cast<int>(a) != split && shape[a] % shards == 0) return Sbp::S(static_cast<int>(a));
  if (split >= 0 && shape[static_cast<size_t>(split)] % (tp_parts * shards) == 0) return Sbp::S(split, 1);
  for (size_t a = 0; a < shape.size(); ++a)
    if (static_cast<int>(a) != split && shape[a] >= shards) return Sbp::S(static_cast<int>(a));
  if (shape.empty()) return Sbp::B();
  return split >= 0 ? Sbp::S(split, 1) : Sbp::S(0);
}

namespace {

enum class Where : uint8_t {
  column,
  row,
  vector,  // parameters
  stream,
  inside,  // activations between the parallel parts, and inside of them
  whole,   // of the loss
};
struct PinRule {
  std::string_view pattern;
  Where where;
};
// What tensor parallelism does to parameters, and the activations between the parallel parts (the stream).
constexpr PinRule rules[] = {
    {"*.attn.qkv.weight", Where::column},
    {"*.attn.qkv.bias", Where::vector},
    {"*.attn.q.weight", Where::column},
    {"*.attn.k.weight", Where::column},
    {"*.attn.v.weight", Where::column},
    {"*.attn.q.bias", Where::vector},
    {"*.attn.k.bias", Where::vector},
    {"*.attn.v.bias", Where::vector},
    {"*.attn.proj.weight", Where::row},
    {"*.mlp.fc1.weight", Where::column},
    {"*.mlp.fc1.bias", Where::vector},
    {"*.mlp.gate.weight", Where::column},
    {"*.mlp.gate.bias", Where::vector},
    {"*.mlp.up.weight", Where::column},
    {"*.mlp.up.bias", Where::vector},
    {"*.mlp.fc2.weight", Where::row},
    {"embedding.word", Where::vector},
    {"head.weight", Where::column},
    {"*.residual1", Where::stream},
    {"*.residual2", Where::stream},
    {"*.ln1", Where::stream},
    {"*.ln2", Where::stream},
    {"ln_f", Where::stream},
    {"*.attn.proj", Where::stream},
    {"*.mlp.fc2", Where::stream},
    {"embedding.lookup", Where::stream},
    {"embedding.add", Where::stream},
    {"embedding.out", Where::stream},
    {"loss.max", Where::whole},
    {"loss.sum_exp", Where::whole},
    {"loss.pick", Where::whole},
    {"loss.nll", Where::whole},
    {"*.attn.qkv", Where::inside},
    {"*.attn.merge", Where::inside},
    {"*.mlp.fc1", Where::inside},
};

const PinRule* find_rule(std::string_view name) {
  for (const PinRule& rule : rules)
    if (matches(rule.pattern, name)) return &rule;
  return nullptr;
}

// The layout of a parameter on the tensor-parallel dimension.
Sbp tensor_parallel(Where where) {
  if (where == Where::column) return Sbp::S(1);
  return where == Where::row || where == Where::vector ? Sbp::S(0) : Sbp::B();
}

struct Context {
  const ir::Graph& graph;
  const Hints& hints;
  const Mesh& mesh;
  int tp, cp;
  Pins pins;

  void set(ir::TensorId t, int dim, Sbp sbp) {
    if (dim >= 0) pins.stored[static_cast<size_t>(t)][static_cast<size_t>(dim)] = sbp;
  }
  const ir::Op& producer(ir::TensorId t) const {
    return graph.ops[static_cast<size_t>(graph.tensor(t).producer)];
  }
  Sbp tensor_parallel_of(ir::TensorId t) const {
    if (tp < 0) return Sbp::B();
    const PinRule* rule = find_rule(base_name(graph.tensor(t).name));
    return rule ? tensor_parallel(rule->where) : Sbp::B();
  }
  // Every data dimension: `shard` on the inner one, B on the others.
  void set_data(ir::TensorId t, Sbp shard) {
    set(t, mesh.dim("replica"), Sbp::B());
    set(t, cp, Sbp::B());
    set(t, mesh.dim("dp"), shard);
  }
};

// What a rule says of an activation: [batch, sequence, ...] is split along the sequence by context
// parallelism.
void pin_activation(Context& c, ir::TensorId t) {
  const PinRule* rule = find_rule(base_name(c.graph.tensor(t).name));
  const bool stream = rule && rule->where == Where::stream, inside = rule && rule->where == Where::inside;
  if (rule && rule->where == Where::whole) c.set(t, c.tp, Sbp::B());
  if ((!stream && !inside) || c.graph.tensor(t).type.shape.size() != 3) return;
  c.set(t, c.cp, Sbp::S(1));
  if (stream) c.set(t, c.tp, c.hints.sequence_parallel ? Sbp::S(1) : Sbp::B());
}

void pin_input(Context& c, ir::TensorId t) {
  const size_t rank = c.graph.tensor(t).type.shape.size();
  if (rank == 0) return;
  c.set(t, c.mesh.dim("replica"), Sbp::S(0));
  c.set(t, c.mesh.dim("dp"), Sbp::S(0));
  c.set(t, c.cp, rank > 1 ? Sbp::S(1) : Sbp::B());
  c.set(t, c.tp, Sbp::B());
}

void set_used(Context& c, ir::TensorId t, Sbp tp) {
  sbp::NdSbp used = broadcast(c.mesh);
  if (c.tp >= 0) used[static_cast<size_t>(c.tp)] = tp;
  c.pins.used[static_cast<size_t>(t)] = used;
}

// A state tensor and the casts of it: sharded where it is updated, and as forward and backward want it.
void pin_state(Context& c, ir::TensorId t, Sbp tp, Sbp shard) {
  c.set(t, c.tp, tp);
  c.set_data(t, c.hints.zero >= 1 ? shard : Sbp::B());
  set_used(c, t, tp);
}

void pin_copy(Context& c, ir::TensorId t, Sbp tp, Sbp shard) {
  c.set(t, c.tp, tp);
  c.set_data(t, c.hints.zero >= 3 ? shard : Sbp::B());
  set_used(c, t, tp);
}

// A parameter that nothing updates.
void pin_frozen(Context& c, ir::TensorId t) {
  const Sbp tp = c.tensor_parallel_of(t);
  c.set(t, c.tp, tp);
  c.set_data(t, Sbp::B());
  set_used(c, t, tp);
}

// A gradient before accumulation: reduced every micro-batch from zero 2 on.
void pin_use(Context& c, const ir::Op& accumulate, Sbp tp, Sbp shard) {
  if (tp.is_split()) c.set(accumulate.inputs[0], c.tp, tp);
  if (c.hints.zero >= 2) c.set(accumulate.inputs[0], c.mesh.dim("dp"), shard);
}

// The gradient that an update op reads.
void pin_gradient(Context& c, ir::TensorId t, Sbp tp, Sbp shard) {
  c.set(t, c.tp, tp);
  c.set_data(t, c.hints.zero >= 1 ? shard : Sbp::B());
  const ir::Op& op = c.producer(t);
  if (op.type == "accumulate") return pin_use(c, op, tp, shard);
  if (op.type != "add" || op.phase != ir::Phase::update) return;
  for (ir::TensorId use : op.inputs)  // gradients of two uses are added up first and reduced together
    if (c.producer(use).type == "accumulate") pin_use(c, c.producer(use), tp, shard);
}

void pin_updates(Context& c, std::vector<Sbp>& shards) {
  const int dp = c.mesh.dim("dp");
  const int64_t parts = dp < 0 ? 1 : c.mesh.extents[static_cast<size_t>(dp)];
  const int64_t tp_parts = c.tp < 0 ? 1 : c.mesh.extents[static_cast<size_t>(c.tp)];
  for (const ir::Update& update : c.graph.updates) {
    const ir::Op& op = c.producer(update.next);
    const ir::TensorId weight = op.inputs[0];
    const Sbp tp = c.tensor_parallel_of(weight);
    const Sbp shard = shard_axis(c.graph.tensor(weight).type.shape, tp, tp_parts, parts);
    shards[static_cast<size_t>(weight)] = shard;
    pin_state(c, update.state, tp, shard);
    pin_state(c, update.next, tp, shard);
    if (update.state == weight) pin_gradient(c, op.inputs[1], tp, shard);
  }
}

}  // namespace

Pins pins_of(const ir::Graph& graph, const Hints& hints, const Mesh& mesh) {
  const size_t count = graph.tensors.size();
  Context c{graph,
            hints,
            mesh,
            mesh.dim("tp"),
            mesh.dim("cp"),
            {std::vector<PartialSbp>(count, PartialSbp(mesh.dims())),
             std::vector<std::optional<sbp::NdSbp>>(count)}};
  std::vector<Sbp> shards(count);
  pin_updates(c, shards);
  for (const ir::Op& op : graph.ops) {
    if (op.type == "input") pin_input(c, op.outputs[0]);
    if (op.type == "parameter" && !c.pins.used[static_cast<size_t>(op.outputs[0])])
      pin_frozen(c, op.outputs[0]);
    if (op.phase == ir::Phase::update) {
      if (op.type != "cast" || !c.pins.used[static_cast<size_t>(op.inputs[0])]) continue;
      pin_copy(c, op.outputs[0], c.tensor_parallel_of(op.inputs[0]),
               shards[static_cast<size_t>(op.inputs[0])]);
      continue;
    }
    for (ir::TensorId t : op.outputs) pin_activation(c, t);
  }
  for (size_t t = 0; t < count; ++t)
    if (graph.tensors[t].sbp && graph.tensors[t].sbp->size() == mesh.dims())
      c.pins.stored[t].assign(graph.tensors[t].sbp->begin(), graph.tensors[t].sbp->end());
  return std::move(c.pins);
}

}  // namespace boxcar::planner

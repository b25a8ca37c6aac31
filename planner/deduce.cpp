#include "planner/deduce.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <optional>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include "ir/op.h"
#include "ir/ops/optimizers.h"
#include "planner/key_writer.h"
#include "planner/reduced_gradients.h"
#include "sbp/at.h"
#include "sbp/error.h"

namespace boxcar::planner {

using sbp::NdSbp;
using sbp::Sbp;
using sbp::Signature;

double transition_bytes(Sbp from, Sbp to, double bytes, int64_t parts) {
  constexpr double never = std::numeric_limits<double>::infinity();
  const auto p = static_cast<double>(parts);
  const auto by_all = [&](sbp::Collective collective, double of_rank) {
    return p * sbp::sent_bytes(collective, of_rank, p);
  };
  if (from == to) return 0;
  if (to.is_partial() && to.reduction != sbp::Reduction::sum) return never;  // only a sum has shares
  if (from.is_broadcast()) return 0;
  if (from.is_split()) {
    if (to.is_partial()) return never;
    return to.is_split() ? by_all(sbp::Collective::all_to_all, bytes / p)
                         : by_all(sbp::Collective::all_gather, bytes);
  }
  if (to.is_partial()) return never;
  return by_all(to.is_split() ? sbp::Collective::reduce_scatter : sbp::Collective::all_reduce, bytes);
}

namespace {

// Inputs to one op's decision.
struct Call {
  const ir::Op* op = nullptr;
  ir::Types inputs, outputs;
  std::vector<NdSbp> current;            // of the inputs
  std::vector<std::vector<NdSbp>> made;  // of the inputs: layouts they were boxed to earlier in this pass
  std::vector<bool> held;                // inputs that are read unchanged, or a slice of them
  std::vector<PartialSbp> pins;          // of the outputs
  bool in_place = false;                 // whether the outputs are made as they are pinned: they overwrite
};

bool same_kind(Sbp a, Sbp b) { return a.kind == b.kind && a.axis == b.axis && a.reduction == b.reduction; }

Sbp with_inner(Sbp sbp, int8_t inner) {
  if (sbp.is_split()) sbp.inner = inner;
  return sbp;
}

using Score = std::tuple<double, int, int, int>;
constexpr Score never{std::numeric_limits<double>::infinity(), 0, 0, 0};

// Scores signatures on dimension `d`. An impossible one has infinite bytes.
struct Chooser {
  const Call& call;
  size_t d;
  int64_t parts;
  const ir::Types& local_inputs;
  const ir::Types& local_outputs;
  bool shares = false;  // whether shares of a state may be read, which takes one more kernel in every pass

  // A split of a split keeps its order through an op. A new split of an axis that a later mesh dimension
  // already splits lies inside that split, so that nothing is gathered first. An operand that is read
  // unchanged decides for all.
  int8_t inner(const Signature& signature) const {
    int8_t result = 0;
    for (size_t i = 0; i < signature.inputs.size(); ++i) {
      const NdSbp& now = call.current[i];
      const Sbp want = signature.inputs[i];
      if (!want.is_split()) continue;
      if (call.held[i] && same_kind(now[d], want)) return now[d].inner;
      if (same_kind(now[d], want)) {
        result = std::max(result, now[d].inner);
        continue;
      }
      for (size_t later = d + 1; later < now.size(); ++later)
        if (now[later].is_split() && now[later].axis == want.axis)
          result = std::max<int8_t>(result, static_cast<int8_t>(now[later].inner + 1));
    }
    return result;
  }

  // Whether a split leaves a device without elements.
  bool leaves_empty(size_t input, Sbp split) const {
    return split.is_split() && at(local_inputs[input].shape, split.axis) < parts;
  }

  // No operand is moved to a split that leaves a device without elements, unless an operand that is read
  // unchanged has such a split. An operand that already has it is not moved.
  bool splittable(const Signature& signature, int8_t order) const {
    bool fits = true;
    for (size_t i = 0; i < signature.inputs.size(); ++i) {
      if (!leaves_empty(i, signature.inputs[i])) continue;
      const bool stays = call.current[i][d] == with_inner(signature.inputs[i], order);
      if (stays && call.held[i]) return true;
      fits = fits && stays;
    }
    return fits;
  }

  // Whether another op needs this input in the same layout, so that it moves once for both.
  bool already(size_t input, Sbp want) const {
    return std::any_of(call.made[input].begin(), call.made[input].end(),
                       [&](const NdSbp& layout) { return layout[d] == want; });
  }

  Score score(const Signature& signature) const {
    const int8_t order = inner(signature);
    double bytes = 0;
    int boxed = 0, partial = 0, split = 0;
    for (size_t i = 0; i < signature.inputs.size(); ++i) {
      const Sbp want = with_inner(signature.inputs[i], order), have = call.current[i][d];
      partial += want.is_partial();
      if (want == have) continue;
      if (already(i, want)) continue;
      const bool share = shares && want == Sbp::P();
      if (call.held[i] && (!have.is_broadcast() || (want.is_partial() && !share))) return never;
      ++boxed;
      bytes += transition_bytes(have, want, static_cast<double>(local_inputs[i].bytes()), parts);
    }
    if (boxed > 0 && !splittable(signature, order)) return never;
    for (size_t o = 0; o < signature.outputs.size(); ++o) {
      const Sbp got = with_inner(signature.outputs[o], order);
      split += got.is_split();
      if (call.in_place && got != call.pins[o][d].value_or(got)) return never;
      if (const auto& pin = call.pins[o][d])
        bytes += transition_bytes(got, *pin, static_cast<double>(local_outputs[o].bytes()), parts);
    }
    return {bytes, boxed, partial, -split};
  }
};

// An op's signatures on the first mesh dimensions, and the types that they leave to the first part.
struct Making {
  OpLayout layout;
  ir::Types inputs, outputs;
  ir::Attrs attrs;
  int64_t groups = 1;  // groups of devices along the next dimension
  Score score = {0, 0, 0, 0};
};

Making start(const Call& call) {
  Making making{{}, call.inputs, call.outputs, call.op->attrs};
  making.layout.inputs.resize(call.inputs.size());
  making.layout.outputs.resize(call.outputs.size());
  return making;
}

void take(Making& making, const Call& call, const Signature& signature, int8_t order, int64_t parts) {
  OpLayout& layout = making.layout;
  for (size_t i = 0; i < layout.inputs.size(); ++i)
    layout.inputs[i].push_back(with_inner(signature.inputs[i], order));
  for (size_t o = 0; o < layout.outputs.size(); ++o)
    layout.outputs[o].push_back(with_inner(signature.outputs[o], order));
  layout.signatures.push_back(signature);
  making.attrs = ir::localize(ir::op(call.op->type), making.inputs, making.attrs, signature, parts, 0);
  take_part(making.inputs, signature.inputs, parts, 0);
  take_part(making.outputs, signature.outputs, parts, 0);
  making.groups *= parts;
}

bool legal(const Call& call, const Making& making, const Mesh& mesh) {
  return is_legal(ir::op(call.op->type), call.inputs, call.op->attrs, making.layout, mesh.extents);
}

// On each dimension chooses the best signature, without regard to later ones; false if there is none.
bool choose_one_by_one(const Call& call, const Mesh& mesh, Making& making) {
  for (size_t d = 0; d < mesh.dims(); ++d) {
    const int64_t parts = mesh.extents[d];
    const Chooser chooser{call, d, parts, making.inputs, making.outputs};
    const std::vector<Signature> candidates =
        offered(ir::op(call.op->type), making.inputs, making.attrs, mesh, d);
    const Signature* best = nullptr;
    Score least = never;
    for (const Signature& candidate : candidates)
      if (const Score score = chooser.score(candidate); score < least) least = score, best = &candidate;
    if (!best) return false;
    take(making, call, *best, chooser.inner(*best), parts);
  }
  return true;
}

// The legal combination with the best sum of scores, bytes counted over the whole mesh.
class Combinations {
 public:
  Combinations(const Call& call, const Mesh& mesh, bool shares)
      : call_(call), mesh_(mesh), shares_(shares), def_(ir::op(call.op->type)) {}

  // Nothing if no combination is legal.
  std::optional<OpLayout> best() {
    best_.score = never;
    extend(start(call_));
    if (best_.score == never) return std::nullopt;
    return std::move(best_.layout);
  }

 private:
  // Signatures that the op offers for the first part and for the whole, because a later dimension may cut
  // first.
  std::vector<Signature> candidates(const Making& making, size_t d) const {
    std::vector<Signature> all = offered(def_, making.inputs, making.attrs, mesh_, d);
    for (Signature& signature : offered(def_, call_.inputs, call_.op->attrs, mesh_, d))
      if (std::find(all.begin(), all.end(), signature) == all.end()) all.push_back(std::move(signature));
    return all;
  }

  void extend(const Making& making) {
    const size_t d = making.layout.signatures.size();
    if (d == mesh_.dims()) {
      if (making.score < best_.score) best_ = making;
      return;
    }
    const int64_t parts = mesh_.extents[d];
    const Chooser chooser{call_, d, parts, making.inputs, making.outputs, shares_};
    for (const Signature& signature : candidates(making, d)) {
      const Score score = added(making.score, chooser.score(signature), making.groups);
      if (std::get<0>(score) == std::get<0>(never) || std::get<0>(score) > std::get<0>(best_.score)) continue;
      Making next = making;
      next.score = score;
      take(next, call_, signature, chooser.inner(signature), parts);
      if (legal(call_, next, mesh_)) extend(next);
    }
  }

  static Score added(const Score& before, const Score& score, int64_t groups) {
    return {std::get<0>(before) + std::get<0>(score) * static_cast<double>(groups),
            std::get<1>(before) + std::get<1>(score), std::get<2>(before) + std::get<2>(score),
            std::get<3>(before) + std::get<3>(score)};
  }

  const Call& call_;
  const Mesh& mesh_;
  const bool shares_;
  const ir::OpDef& def_;
  Making best_;
};

OpLayout decide(const Call& call, const Mesh& mesh) {
  Making making = start(call);
  if (choose_one_by_one(call, mesh, making) && legal(call, making, mesh)) return std::move(making.layout);
  for (const bool shares : {false, true})  // shares of a bias that a product of rows adds
    if (std::optional<OpLayout> best = Combinations(call, mesh, shares).best()) return std::move(*best);
  throw Error::fault(call.op->name, fmt::format("no signature of {} fits what it reads on mesh {}",
                                                call.op->type, fmt::join(mesh.names, ", ")));
}

// Equal exactly for calls with the same decision. Names of ops are not part of it.
std::string key_of(const Call& call) {
  KeyWriter key;
  key.text(call.op->type);
  key.attrs(call.op->attrs);
  key.raw(call.inputs.size());
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    key.type(call.inputs[i]);
    key.layout(call.current[i]);
    key.raw(static_cast<char>(call.held[i]));
    key.raw(call.made[i].size());
    for (const NdSbp& layout : call.made[i]) key.layout(layout);
  }
  for (const ir::TensorType& type : call.outputs) key.type(type);
  for (const PartialSbp& pins : call.pins)
    for (const auto& pin : pins) {
      key.raw(pin.has_value());
      key.raw(pin.value_or(Sbp::B()));
    }
  return key.take();
}

// Key of an op with the layout that was chosen for it.
std::string key_of(const ir::Graph& graph, const ir::Op& op, const OpLayout& layout) {
  KeyWriter key;
  key.text(op.type);
  key.attrs(op.attrs);
  for (const ir::TensorId t : op.inputs) key.type(graph.tensor(t).type);
  for (const auto* operands : {&layout.inputs, &layout.outputs})
    for (const NdSbp& operand : *operands) key.layout(operand);
  for (const Signature& signature : layout.signatures)
    key.layout(signature.inputs), key.layout(signature.outputs);
  return key.take();
}

void check_legal(const ir::Graph& graph, const ir::Op& op, const OpLayout& layout, const Mesh& mesh) {
  ir::Types inputs;
  for (const ir::TensorId t : op.inputs) inputs.push_back(graph.tensor(t).type);
  if (is_legal(ir::op(op.type), inputs, op.attrs, layout, mesh.extents)) return;
  std::vector<std::string> signatures;
  for (const Signature& signature : layout.signatures) signatures.push_back(sbp::to_text(signature));
  throw Error::fault(op.name, fmt::format("the signatures chosen for {} do not go together on mesh {}: {}",
                                          op.type, fmt::join(mesh.names, ", "), fmt::join(signatures, "; ")));
}

NdSbp pinned(const PartialSbp& pins, const NdSbp& otherwise) {
  NdSbp result = otherwise;
  for (size_t d = 0; d < pins.size(); ++d)
    if (pins[d]) result[d] = *pins[d];
  return result;
}

// Whether this input of a fused attention is the queries.
bool is_queries(const ir::Op& op, size_t input) {
  return (op.is(ir::OpKind::attention) && input == 0) || (op.is(ir::OpKind::attention_grad) && input == 1);
}

// By tensor and phase: the layouts to which a tensor was boxed.
using Made = std::vector<std::array<std::vector<NdSbp>, 3>>;

Call call_of(const ir::Graph& graph, const ir::Op& op, const Pins& pins, const std::vector<NdSbp>& stored,
             const Made& made, const Mesh& mesh) {
  Call call;
  call.op = &op;
  call.in_place =
      ir::find_optimizer(op.type) || ir::updates_rows(op.type) || op.is(ir::OpKind::moving_average);
  call.inputs.reserve(op.inputs.size());
  call.made.reserve(op.inputs.size());
  call.current.reserve(op.inputs.size());
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    const ir::TensorId t = op.inputs[i];
    const auto& used = at(pins.used, t);
    const bool state = used && op.phase != ir::Phase::update;
    call.inputs.push_back(graph.tensor(t).type);
    call.made.push_back(at(at(made, t), op.phase));
    call.current.push_back(state ? *used : at(stored, t));
    call.held.push_back(state || (used && call.in_place) ||
                        op.is(ir::OpKind::accumulate) ||  // sums of partial values stay partial
                        is_cast_for_reduction(graph, op) || (pins.queries_stay && is_queries(op, i)));
  }
  for (ir::TensorId t : op.outputs) {
    call.outputs.push_back(graph.tensor(t).type);
    call.pins.push_back(at(pins.stored, t));
    if (graph.tensor(t).role != ir::Role::gradient) continue;
    for (size_t d = 0; d < mesh.dims();
         ++d)  // summing gradients over ranks must not cause a gather of activations
      if (mesh.names[d] != "tp") call.pins.back()[d].reset();
  }
  return call;
}

void note_made(const ir::Op& op, const Call& call, const OpLayout& layout, Made& made) {
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    if (layout.inputs[i] == call.current[i]) continue;
    auto& known = at(at(made, op.inputs[i]), op.phase);
    if (std::find(known.begin(), known.end(), layout.inputs[i]) == known.end())
      known.push_back(layout.inputs[i]);
  }
}

}  // namespace

namespace {
Deduction deduce(const ir::Graph& graph, const Pins& pins, const std::vector<const Mesh*>& meshes,
                 const Layouts* chosen);
}  // namespace

Deduction deduce(const ir::Graph& graph, const Pins& pins, const Mesh& mesh) {
  return deduce(graph, pins, std::vector<const Mesh*>(graph.ops.size(), &mesh));
}

Deduction deduce(const ir::Graph& graph, const Pins& pins, const Mesh& mesh, const Layouts& layouts) {
  return deduce(graph, pins, std::vector<const Mesh*>(graph.ops.size(), &mesh), &layouts);
}

Deduction deduce(const ir::Graph& graph, const Pins& pins, const std::vector<const Mesh*>& meshes) {
  return deduce(graph, pins, meshes, nullptr);
}

namespace {

Deduction deduce(const ir::Graph& graph, const Pins& pins, const std::vector<const Mesh*>& meshes,
                 const Layouts* chosen) {
  Deduction result;
  Made made(graph.tensors.size());
  result.ops.resize(graph.ops.size());
  result.stored.resize(graph.tensors.size());
  std::map<const Mesh*, std::unordered_map<std::string, OpLayout>> decided;
  std::map<const Mesh*, std::unordered_set<std::string>> legal_ones;
  for (size_t o = 0; o < graph.ops.size(); ++o) {
    const ir::Op& op = graph.ops[o];
    OpLayout& layout = result.ops[o];
    if (op.is(ir::OpKind::to_global)) {
      layout.inputs.push_back(at(result.stored, op.inputs[0]));
      layout.outputs.push_back(*op.to_sbp);
    } else if (!ir::has_op(op.type)) {  // a source
      for (ir::TensorId t : op.outputs)
        layout.outputs.push_back(pinned(at(pins.stored, t), broadcast(*meshes[o])));
    } else if (chosen && !chosen->ops[o].signatures.empty()) {
      layout = chosen->ops[o];
      if (legal_ones[meshes[o]].insert(key_of(graph, op, layout)).second)
        check_legal(graph, op, layout, *meshes[o]);
    } else {
      const Call call = call_of(graph, op, pins, result.stored, made, *meshes[o]);
      const auto [at, fresh] = decided[meshes[o]].try_emplace(key_of(call));
      if (fresh) at->second = decide(call, *meshes[o]);
      layout = at->second;
      note_made(op, call, layout, made);
    }
    for (size_t i = 0; i < op.outputs.size(); ++i) {
      const auto t = static_cast<size_t>(op.outputs[i]);
      result.stored[t] = pinned(pins.stored[t], layout.outputs[i]);
    }
  }
  return result;
}

}  // namespace

}  // namespace boxcar::planner

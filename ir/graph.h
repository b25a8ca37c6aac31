// The logical graph: ops on global tensors, as if for one device. Placement and SBP are optional.
//
//   graph g
//   placement p0 = 0-1
//   %x: float32[4, 5] = input() @p0 S(0)
//   %w: float32[5, 8] = parameter() @p0 B
//   %y: float32[4, 8] = matmul(%x, %w)
//
// One line per op: outputs with their types, the op, operands, {attributes that are not defaults}, then
// everything else that is not a default, in the order @placement, a layout per output ("-": left open),
// to=layout, replica_of=, name=, role=, layer=, phase=, module=, core (module core_attn), runs_again,
// recomputed. Text reads back: parse_graph(to_text(g)) gives the same text. In text to be parsed, a line may
// omit the types of a registered op's results, and also the results after the first, which then get default
// names:
//
//   %n = layer_norm(%y, %gamma, %beta)             also defines %n.mean and %n.rstd
//
// A step in one graph. A training graph is acyclic: one step from its state to the next. "parameter" ops hold
// state (parameters, master weights, moments); an update line gives its next value:
//
//   %w: float32[5, 8] = parameter() role=optimizer            the float32 master
//   %w.half: float16[5, 8] = cast(%w) {to="float16"} role=parameter phase=update
//   ... forward and backward read %w.half ...
//   %w.next: float32[5, 8], ... = adam(%w, %w.grad.sum, %w.m, %w.v, ...) phase=update
//   update %w = %w.next
//
// An op of phase update that depends only on state (the cast) belongs to the end of the *previous* step: the
// next step's forward phase starts from its outputs, which exist before the first step.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/op.h"
#include "ir/op_kind.h"
#include "ir/types.h"
#include "sbp/at.h"
#include "sbp/sbp.h"

namespace boxcar::ir {

using TensorId = int;
using OpId = int;

// Purpose of a tensor; decides the memory kind of its register.
enum class Role : uint8_t { activation, input, parameter, gradient, optimizer, constant };
// Which part of the step an op runs in: forward and backward run once per micro-batch, update once per step.
enum class Phase : uint8_t { forward, backward, update };
// Parts of a layer that recomputation may choose, in the words of Megatron-LM's --recompute-modules.
// core_attn: an attention, from its queries, keys and values to its context; layernorm: the norms in front of
// a layer's halves, or after them; mla_up_proj: from latents to queries, keys and values; moe: router,
// experts and the ops that move tokens to them; moe_act and shared_experts are parts of it.
enum class Module : uint8_t { none, core_attn, layernorm, mla_up_proj, mlp, moe, moe_act, shared_experts };
inline std::vector<std::string> words_of(Module) {
  return {"none", "core_attn", "layernorm", "mla_up_proj", "mlp", "moe", "moe_act", "shared_experts"};
}

struct Tensor {
  std::string name;  // unique, without the %
  TensorType type;   // global, of one micro-batch for activations
  OpId producer = -1;
  int output = 0;  // which output of the producer
  Role role = Role::activation;
  std::optional<sbp::NdSbp> sbp = {};  // pinned by the user or a hint; then deduced
};

struct Op {
  std::string name;  // unique: "h3.attn.qkv"
  std::string type;  // registry name; sources are "input", "parameter", "constant"
  std::vector<TensorId> inputs, outputs;
  Attrs attrs;  // complete
  Phase phase = Phase::forward;
  int placement = -1;                // index into Graph::placements; -1: not yet decided
  int layer = -1;                    // which block of the model, -1 before the first, `layers` after the last
  Module module = Module::none;      // the innermost one that it is part of
  bool runs_again = false;           // recomputation: the first of two runs of a forward op
  bool recomputed = false;           // the second, in the backward phase
  std::optional<sbp::NdSbp> to_sbp;  // for "to_global": the layout asked for
  std::string replica_of;            // a state on several stages: the name of its first replica

  bool is(OpKind kind) const { return kind_of(type) == kind; }
};

// After a step, `state` (the output of a "parameter" op) holds the value of `next`.
struct Update {
  TensorId state = -1, next = -1;
  friend auto operator<=>(const Update&, const Update&) = default;
};

// A model's result: a scalar, the mean over samples.
inline constexpr const char* loss_name = "loss";

struct Graph {
  std::string name;
  std::vector<Tensor> tensors;
  std::vector<Op> ops;  // in topological order
  std::vector<sbp::Placement> placements;
  std::vector<Update> updates;
  int layers = 0;

  const Tensor& tensor(TensorId id) const { return at(tensors, id); }
  Tensor& tensor(TensorId id) { return at(tensors, id); }
  bool in_layer(const Op& op) const { return op.layer >= 0 && op.layer < layers; }
};

// input, parameter, constant and to_global are not in the registry: they are the source or the destination of
// a tensor.
bool is_special(std::string_view op_type);
Role usual_role(
    std::string_view op_type);  // of a result: input, parameter, constant; activation for all others

// Default names of an op's results: "h0.ln1", "h0.ln1.mean", "h0.ln1.rstd"; "x.out2" for a result without a
// name.
std::string output_name(const OpDef& def, const std::string& op_name, size_t index);
int64_t parameter_elements(const Graph& graph);  // of all "parameter" ops
std::string layer_name(int layer);               // "h3": prefix of the names of its ops and tensors
// "ln2.grad" for "h3.ln2.grad", made in layer 3; outside of layers the whole name.
std::string name_in_layer(const Graph& graph, TensorId id);
// The same from a name alone, such as that of an actor for several layers: 3 and "ln2.grad" for
// "h3.ln2.grad", -1 and the whole name for one without a layer's prefix.
std::pair<int, std::string_view> layer_and_rest(std::string_view name);

// The consumers of every tensor, by tensor id, in op order. An op that reads a tensor twice is listed once.
std::vector<std::vector<OpId>> consumers(const Graph& graph);
TensorId find_tensor(const Graph& graph,
                     std::string_view name);  // throws Error (bad input) with the nearest name

// Whether it updates a moment, a state that an optimizer keeps beside a weight.
bool is_of_moment(const Graph& graph, const Update& update);

const char* to_text(Role role);    // "activation"
const char* to_text(Phase phase);  // "forward"
std::string to_text(const Graph& graph);
Graph parse_graph(std::string_view text);  // throws Error with line and column

// Every op is in the registry, operands exist and come before use, types match infer, names are unique,
// pinned layouts fit tensor and placement. Throws Error (fault) naming the first op at fault. It runs after
// every pass.
void verify(const Graph& graph);

// Builds a graph as a program for one device. Not thread-safe. TensorIds are cheap to copy.
//
//   Builder b("mlp");
//   auto x = b.input("x", {{4, 5}, DType::float32});
//   auto y = b.op("matmul", {x, b.parameter("w", {...})})[0];
class Builder {
 public:
  explicit Builder(std::string name);

  int placement(const sbp::Placement& placement);  // an index for the calls below
  TensorId input(std::string name, TensorType type);
  TensorId parameter(std::string name, TensorType type);
  TensorId frozen_parameter(std::string name, TensorType type);        // which training leaves as it is
  TensorId constant(std::string name, TensorType type, double value);  // every element is `value`
  // Runs infer; `name` defaults to the op's type and a number.
  std::vector<TensorId> op(std::string_view type, std::vector<TensorId> inputs, Attrs attrs = {},
                           std::string name = {});
  TensorId op1(std::string_view type, std::vector<TensorId> inputs, Attrs attrs = {}, std::string name = {});
  // Pins where and how a tensor is laid out (line 9 of Table 4 of the paper).
  void place(TensorId tensor, int placement, sbp::NdSbp sbp);
  // The same global tensor on another placement or in another layout (line 13 of Table 4): a boxing op.
  TensorId to_global(TensorId tensor, int placement, sbp::NdSbp sbp);

  // Ops built from here on belong to this layer and have this name prefix.
  void set_layer(int layer, std::string prefix);
  // Ops built from here on are of this module; returns the previous one.
  Module set_module(Module module) { return std::exchange(module_, module); }
  const TensorType& type(TensorId tensor) const;
  Graph finish();  // verifies; throws Error (bad input)

 private:
  TensorId source(const char* type, std::string name, TensorType tensor_type, Attrs attrs);
  std::vector<TensorId> append(Op op, std::vector<TensorType> types,
                               const std::vector<std::string>& suffixes);

  Graph graph_;
  int layer_ = -1;
  Module module_ = Module::none;
  std::string prefix_;
};

}  // namespace boxcar::ir

#include "ir/graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <system_error>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "ir/graph_line.h"
#include "ir/order.h"
#include "sbp/at.h"
#include "sbp/error.h"
#include "sbp/suggest.h"

namespace boxcar::ir {
namespace {

// Ops outside the registry: they are the source or the destination of a tensor, and compute nothing.
struct Special {
  const char* type;
  Role role;
  size_t inputs;
};
constexpr Special specials[] = {{"input", Role::input, 0},
                                {"parameter", Role::parameter, 0},
                                {"constant", Role::constant, 0},
                                {"to_global", Role::activation, 1}};

const Special* find_special(std::string_view type) {
  for (const Special& special : specials)
    if (type == special.type) return &special;
  return nullptr;
}

std::string join(const std::string& prefix, const std::string& name) {
  return prefix.empty() ? name : prefix + "." + name;
}

// "lse" for the names {"out", "lse"}; "out2" for a repeated trailing "...".
std::string output_suffix(const OpDef& def, size_t index) {
  if (index < def.outputs.size()) {
    std::string name = def.outputs[index];
    while (!name.empty() && (name.back() == '?' || name.back() == '.')) name.pop_back();
    return name;
  }
  return fmt::format("out{}", index);
}

// Names are written unquoted in the graph's text.
void check_name(const char* what, const std::string& name) {
  if (!is_graph_name(name))
    throw Error::input(fmt::format("{} '{}'", what, name), "a name holds letters, digits and _ . - / only");
}

[[noreturn]] void refuse(const Graph& graph, const std::string& op, const std::string& message) {
  throw Error::fault(fmt::format("graph {}: op {}", graph.name, op), message);
}

std::string shapes(const Types& types) {
  std::string text;
  for (const TensorType& type : types) text += (text.empty() ? "" : ", ") + to_text(type);
  return text;
}

// The checks of verify(), one op after the other.
class Verifier {
 public:
  explicit Verifier(const Graph& graph) : graph_(graph), defined_(graph.tensors.size(), false) {
    names_.reserve(graph.ops.size() + graph.tensors.size());
  }

  void run() {
    for (size_t i = 0; i < graph_.ops.size(); ++i) check_op(static_cast<OpId>(i));
    for (size_t i = 0; i < graph_.tensors.size(); ++i)
      if (!defined_[i]) throw fault_at("tensor %" + graph_.tensors[i].name, "no op defines it");
    names_.clear();
    for (const Tensor& tensor : graph_.tensors)
      if (!names_.insert(tensor.name).second)
        throw fault_at("tensor %" + tensor.name, "the name stands twice");
    check_updates();
  }

 private:
  Error fault_at(const std::string& what, const std::string& message) const {
    return Error::fault(fmt::format("graph {}: {}", graph_.name, what), message);
  }

  const OpDef& def(std::string_view type) {
    auto found = defs_.find(type);
    if (found == defs_.end()) found = defs_.emplace(type, &op(type)).first;
    return *found->second;
  }

  void check_op(OpId id) {
    const Op& op = at(graph_.ops, id);
    if (!names_.insert(op.name).second) refuse(graph_, op.name, "the name stands twice");
    if (op.placement < -1 || op.placement >= static_cast<int>(graph_.placements.size()))
      refuse(graph_, op.name, fmt::format("placement {} is not in the graph", op.placement));
    types_.clear();
    types_.reserve(op.inputs.size());
    for (TensorId input : op.inputs) {
      verify_operand(graph_, op, input, defined_);
      types_.push_back(graph_.tensor(input).type);
    }
    check_types(op);
    for (size_t i = 0; i < op.outputs.size(); ++i) check_output(id, static_cast<int>(i));
  }

  void check_types(const Op& op) {
    if (const Special* special = find_special(op.type)) {
      if (op.inputs.size() != special->inputs || op.outputs.size() != 1)
        refuse(graph_, op.name,
               fmt::format("{} takes {} operands and has one result", op.type, special->inputs));
      if (op.is(OpKind::to_global) && (op.placement < 0 || !op.to_sbp))
        refuse(graph_, op.name, "to_global needs a placement and a layout");
      if (op.is(OpKind::to_global) && !(types_[0] == graph_.tensor(op.outputs[0]).type))
        refuse(graph_, op.name, "to_global changes the type");
      return;
    }
    const OpDef& row = def(op.type);
    if (op.attrs.size() != row.attrs.size()) refuse(graph_, op.name, "its attributes are not complete");
    Types expected;
    try {
      expected = row.infer(types_, op.attrs);
    } catch (const Error& error) {
      refuse(graph_, op.name, error.what());
    }
    const auto type_of = [&](TensorId output) -> const TensorType& { return graph_.tensor(output).type; };
    if (std::ranges::equal(op.outputs, expected, {}, type_of)) return;
    Types got;
    for (TensorId output : op.outputs) got.push_back(type_of(output));
    refuse(graph_, op.name,
           fmt::format("{} gives {}, but the graph says {}", op.type, shapes(expected), shapes(got)));
  }

  // A pinned layout has one entry per dimension of the mesh, and splits axes that the tensor has.
  void check_layout(const Op& op, const Tensor& tensor, const sbp::NdSbp& layout) const {
    for (const sbp::Sbp sbp : layout)
      if (sbp.is_split() && sbp.axis >= static_cast<int>(tensor.type.shape.size()))
        refuse(graph_, op.name,
               fmt::format("%{} is {} and cannot be {}", tensor.name, to_text(tensor.type), to_text(layout)));
    if (op.placement < 0) return;
    const sbp::Placement& placement = at(graph_.placements, op.placement);
    if (placement.mesh.size() != layout.size())
      refuse(graph_, op.name,
             fmt::format("%{} is {} on {}, expected {} entries", tensor.name, to_text(layout),
                         to_text(placement), placement.mesh.size()));
  }

  void check_output(OpId id, int index) {
    const Op& op = at(graph_.ops, id);
    const TensorId output = at(op.outputs, index);
    const Tensor& tensor = graph_.tensor(output);
    if (at(defined_, output)) refuse(graph_, op.name, fmt::format("defines %{} again", tensor.name));
    if (tensor.producer != id || tensor.output != index)
      refuse(graph_, op.name, fmt::format("%{} does not name it as its producer", tensor.name));
    if (tensor.sbp) check_layout(op, tensor, *tensor.sbp);
    at(defined_, output) = true;
  }

  void check_updates() {
    std::unordered_set<TensorId> seen;
    for (const Update& update : graph_.updates) {
      const Tensor& state = graph_.tensor(update.state);
      if (!at(graph_.ops, state.producer).is(OpKind::parameter))
        throw fault_at("update %" + state.name, "is not a parameter");
      if (!(state.type == graph_.tensor(update.next).type))
        throw fault_at("update %" + state.name, fmt::format("is {}, but %{} is {}", to_text(state.type),
                                                            graph_.tensor(update.next).name,
                                                            to_text(graph_.tensor(update.next).type)));
      if (!seen.insert(update.state).second) throw fault_at("update %" + state.name, "is updated twice");
    }
  }

  const Graph& graph_;
  std::vector<bool> defined_;
  std::unordered_set<std::string_view> names_;
  std::unordered_map<std::string_view, const OpDef*> defs_;
  Types types_;
};

}  // namespace

bool is_special(std::string_view op_type) { return find_special(op_type) != nullptr; }

Role usual_role(std::string_view op_type) {
  const Special* special = find_special(op_type);
  return special ? special->role : Role::activation;
}

void verify(const Graph& graph) { Verifier(graph).run(); }

std::vector<std::vector<OpId>> consumers(const Graph& graph) {
  std::vector<std::vector<OpId>> result(graph.tensors.size());
  for (size_t i = 0; i < graph.ops.size(); ++i)
    for (TensorId input : graph.ops[i].inputs) {
      std::vector<OpId>& list = at(result, input);
      if (list.empty() || list.back() != static_cast<OpId>(i)) list.push_back(static_cast<OpId>(i));
    }
  return result;
}

bool is_of_moment(const Graph& graph, const Update& update) {
  return update.state != at(graph.ops, graph.tensor(update.next).producer).inputs[0];
}

TensorId find_tensor(const Graph& graph, std::string_view name) {
  for (size_t i = 0; i < graph.tensors.size(); ++i)
    if (graph.tensors[i].name == name) return static_cast<TensorId>(i);
  std::vector<std::string> names;
  for (const Tensor& tensor : graph.tensors) names.push_back(tensor.name);
  throw Error::input("graph " + graph.name,
                     fmt::format("has no tensor %{}{}", name, did_you_mean(name, names)));
}

const char* to_text(Role role) {
  constexpr const char* names[] = {"activation", "input", "parameter", "gradient", "optimizer", "constant"};
  return at(names, role);
}

const char* to_text(Phase phase) {
  constexpr const char* names[] = {"forward", "backward", "update"};
  return at(names, phase);
}

Builder::Builder(std::string name) {
  check_name("graph", name);
  graph_.name = std::move(name);
}

int Builder::placement(const sbp::Placement& placement) {
  const auto found = std::find(graph_.placements.begin(), graph_.placements.end(), placement);
  const auto index = static_cast<int>(found - graph_.placements.begin());
  if (found == graph_.placements.end()) graph_.placements.push_back(placement);
  return index;
}

TensorId Builder::source(const char* type, std::string name, TensorType tensor_type, Attrs attrs) {
  Op op;
  op.name = join(prefix_, name);
  op.type = type;
  op.attrs = std::move(attrs);
  const Role role = usual_role(type);
  const TensorId id = append(std::move(op), {std::move(tensor_type)}, {})[0];
  graph_.tensor(id).role = role;
  return id;
}

TensorId Builder::input(std::string name, TensorType type) {
  return source("input", std::move(name), std::move(type), {});
}

TensorId Builder::parameter(std::string name, TensorType type) {
  return source("parameter", std::move(name), std::move(type), {});
}

TensorId Builder::frozen_parameter(std::string name, TensorType type) {
  const TensorId made = parameter(std::move(name), std::move(type));
  graph_.tensor(made).role = Role::constant;
  return made;
}

TensorId Builder::constant(std::string name, TensorType type, double value) {
  return source("constant", std::move(name), std::move(type), {{"value", value}});
}

std::vector<TensorId> Builder::append(Op op, std::vector<TensorType> types,
                                      const std::vector<std::string>& suffixes) {
  const auto id = static_cast<OpId>(graph_.ops.size());
  check_name("op", op.name);
  op.layer = layer_;
  if (!is_special(op.type)) op.module = module_;
  for (size_t i = 0; i < types.size(); ++i) {
    Tensor tensor;
    tensor.name = i == 0 ? op.name : op.name + "." + suffixes[i];
    tensor.type = std::move(types[i]);
    tensor.producer = id;
    tensor.output = static_cast<int>(i);
    op.outputs.push_back(static_cast<TensorId>(graph_.tensors.size()));
    graph_.tensors.push_back(std::move(tensor));
  }
  graph_.ops.push_back(std::move(op));
  return graph_.ops.back().outputs;
}

std::vector<TensorId> Builder::op(std::string_view type, std::vector<TensorId> inputs, Attrs attrs,
                                  std::string name) {
  const OpDef& def = ir::op(type);
  Op op;
  op.name = join(prefix_, name.empty() ? fmt::format("{}{}", type, graph_.ops.size()) : name);
  op.type = def.name;
  Types types;
  for (TensorId input : inputs) types.push_back(graph_.tensor(input).type);
  op.inputs = std::move(inputs);
  std::vector<std::string> suffixes;
  Types outputs;
  try {
    op.attrs = complete(def, attrs);
    outputs = def.infer(types, op.attrs);
  } catch (const Error& error) {
    throw Error(error.code(), op.name, error.what());
  }
  for (size_t i = 0; i < outputs.size(); ++i) suffixes.push_back(output_suffix(def, i));
  return append(std::move(op), std::move(outputs), suffixes);
}

TensorId Builder::op1(std::string_view type, std::vector<TensorId> inputs, Attrs attrs, std::string name) {
  return op(type, std::move(inputs), std::move(attrs), std::move(name))[0];
}

void Builder::place(TensorId tensor, int placement, sbp::NdSbp sbp) {
  Tensor& placed = graph_.tensor(tensor);
  at(graph_.ops, placed.producer).placement = placement;
  placed.sbp = std::move(sbp);
}

TensorId Builder::to_global(TensorId tensor, int placement, sbp::NdSbp sbp) {
  Op op;
  op.name = join(prefix_, fmt::format("{}.to_global{}", graph_.tensor(tensor).name, graph_.ops.size()));
  op.type = "to_global";
  op.inputs = {tensor};
  op.placement = placement;
  op.to_sbp = sbp;
  const TensorId id = append(std::move(op), {graph_.tensor(tensor).type}, {})[0];
  graph_.tensor(id).sbp = std::move(sbp);
  return id;
}

std::string output_name(const OpDef& def, const std::string& op_name, size_t index) {
  return index == 0 ? op_name : join(op_name, output_suffix(def, index));
}

int64_t parameter_elements(const Graph& graph) {
  int64_t count = 0;
  for (const Op& op : graph.ops)
    if (op.is(OpKind::parameter)) count += graph.tensor(op.outputs[0]).type.elements();
  return count;
}

std::string layer_name(int layer) { return fmt::format("h{}", layer); }

std::string name_in_layer(const Graph& graph, TensorId id) {
  const Tensor& tensor = graph.tensor(id);
  const Op& op = at(graph.ops, tensor.producer);
  const std::string before = graph.in_layer(op) ? layer_name(op.layer) + '.' : "";
  return tensor.name.starts_with(before) ? tensor.name.substr(before.size()) : tensor.name;
}

std::pair<int, std::string_view> layer_and_rest(std::string_view name) {
  const size_t dot = name.find('.');
  if (dot == std::string_view::npos || !name.starts_with('h')) return {-1, name};
  int layer = -1;
  const auto [end, error] = std::from_chars(name.data() + 1, name.data() + dot, layer);
  if (error != std::errc() || end != name.data() + dot || layer < 0) return {-1, name};
  return {layer, name.substr(dot + 1)};
}

void Builder::set_layer(int layer, std::string prefix) {
  layer_ = layer;
  prefix_ = std::move(prefix);
}

const TensorType& Builder::type(TensorId tensor) const { return graph_.tensor(tensor).type; }

Graph Builder::finish() {
  try {
    verify(graph_);
  } catch (const Error& error) {
    throw Error::input("", error.what());
  }
  return std::move(graph_);
}

}  // namespace boxcar::ir

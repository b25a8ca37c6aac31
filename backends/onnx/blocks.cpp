#include "backends/onnx/blocks.h"

#include <algorithm>
#include <cctype>
#include <set>
#include <string_view>
#include <vector>

#include "sbp/at.h"

namespace boxcar::backends::onnx {
namespace {

bool is_number(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c); });
}

// The name up to the first part that is a number or ends in one, behind a dot or "_": "layer1/layer1.0" for
// "/layer1/layer1.0/conv1/Conv"; "layer1.0" for "layer1.0.conv1.weight", whose parts are separated by dots.
// "" if there is none.
std::string numbered_module(std::string_view name, char between) {
  while (name.starts_with(between)) name.remove_prefix(1);
  for (size_t begin = 0; begin < name.size();) {
    const size_t end = std::min(name.find(between, begin), name.size());
    const std::string_view part = name.substr(begin, end - begin);
    if (end == name.size()) return "";  // the operator or weight itself
    const size_t before = part.find_last_of("._");
    if (is_number(before == std::string_view::npos ? part : part.substr(before + 1)))
      return std::string(name.substr(0, end));
    begin = end + 1;
  }
  return "";
}

class Marker {
 public:
  Marker(ir::Graph& graph, const OnnxModel& model, const std::map<std::string, size_t>& node_of_op)
      : graph_(graph), model_(model), node_of_op_(node_of_op) {
    for (const OnnxNode& node : model.nodes)
      has_paths_ = has_paths_ || node.name.find('/', 1) != std::string::npos;
  }

  void run() {
    find_modules();
    if (layers_.size() < 2) return;
    graph_.layers = static_cast<int>(layers_.size());
    std::vector<int> layer(graph_.ops.size(), -1);
    for (size_t o = 0; o < graph_.ops.size(); ++o) {
      ir::Op& op = graph_.ops[o];
      if (op.inputs.empty()) continue;
      int last = -1;  // of the inputs; kept if the op has no module of its own
      for (const ir::TensorId input : op.inputs)
        last = std::max(last, at(layer, graph_.tensor(input).producer));
      const auto found = layers_.find(module_of(op));
      layer[o] = std::max(last, found == layers_.end() ? -1 : found->second);
      if (is_after(o, op, last)) layer[o] = graph_.layers;
      if (layer[o] != last) op.layer = layer[o];
    }
  }

 private:
  bool is_parameter(ir::TensorId tensor) const {
    return at(graph_.ops, graph_.tensor(tensor).producer).is(ir::OpKind::parameter);
  }

  std::string module_of(const ir::Op& op) const {
    const auto node = node_of_op_.find(op.name);
    if (node == node_of_op_.end()) return "";
    if (has_paths_) return numbered_module(at(model_.nodes, node->second).name, '/');
    for (const std::string& input : at(model_.nodes, node->second).inputs)
      if (model_.weights.contains(input))
        if (std::string module = numbered_module(input, '.'); !module.empty()) return module;
    return "";
  }

  // Numbered modules in order, each the first reader of a parameter.
  void find_modules() {
    std::set<ir::TensorId> read;
    for (size_t o = 0; o < graph_.ops.size(); ++o) {
      const std::string module = module_of(graph_.ops[o]);
      bool first = false;
      for (const ir::TensorId input : graph_.ops[o].inputs)
        first = (is_parameter(input) && read.insert(input).second) || first;
      if (module.empty()) continue;
      last_numbered_ = o;
      if (first) layers_.try_emplace(module, static_cast<int>(layers_.size()));
    }
  }

  // Whether an op is of a head: of no module, and behind the last. Without paths only ops on weights count.
  bool is_after(size_t o, const ir::Op& op, int last) const {
    if (o <= last_numbered_ || last + 1 < graph_.layers) return false;
    return has_paths_ || std::any_of(op.inputs.begin(), op.inputs.end(),
                                     [&](ir::TensorId input) { return is_parameter(input); });
  }

  ir::Graph& graph_;
  const OnnxModel& model_;
  const std::map<std::string, size_t>& node_of_op_;
  bool has_paths_ = false;
  std::map<std::string, int> layers_;
  size_t last_numbered_ = 0;
};

}  // namespace

void mark_blocks(ir::Graph& graph, const OnnxModel& model, const std::map<std::string, size_t>& node_of_op) {
  Marker(graph, model, node_of_op).run();
}

void mark_cores(ir::Graph& graph) {
  const auto readers = ir::consumers(graph);
  const auto is_between = [](const ir::Op& op) {
    constexpr std::string_view between[] = {"scale",   "add", "causal_mask", "where",
                                            "dropout", "mul", "identity"};
    return std::find(std::begin(between), std::end(between), op.type) != std::end(between);
  };
  for (size_t o = 0; o < graph.ops.size(); ++o) {
    if (graph.ops[o].type != "softmax") continue;
    std::vector<ir::OpId> core{static_cast<ir::OpId>(o)};
    const ir::Op* from = &graph.ops[o];
    do {
      const ir::OpId producer = graph.tensor(from->inputs[from->type == "where" ? 1 : 0]).producer;
      from = &at(graph.ops, producer);
      core.push_back(producer);
    } while (is_between(*from));
    ir::OpId to = static_cast<ir::OpId>(o);
    do {
      const auto& next = at(readers, at(graph.ops, to).outputs[0]);
      if (next.size() != 1) break;
      to = next[0];
      core.push_back(to);
    } while (is_between(at(graph.ops, to)));
    if (from->type != "batch_matmul" || at(graph.ops, to).type != "batch_matmul") continue;
    for (const ir::OpId op : core) at(graph.ops, op).module = ir::Module::core_attn;
  }
}

}  // namespace boxcar::backends::onnx

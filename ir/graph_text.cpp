// Writes the text form of graphs: see ir/graph.h.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "ir/graph.h"
#include "sbp/words.h"

namespace boxcar::ir {
namespace {

void write_layouts(const Graph& graph, const Op& op, std::string& out) {
  const auto pinned = [&](TensorId id) { return graph.tensor(id).sbp.has_value(); };
  if (std::none_of(op.outputs.begin(), op.outputs.end(), pinned)) return;
  for (size_t i = 0; i < op.outputs.size(); ++i) {
    const auto& sbp = graph.tensor(op.outputs[i]).sbp;
    out += (i == 0 ? " " : ", ") + (sbp ? sbp::to_text(*sbp) : "-");
  }
}

void write_roles(const Graph& graph, const Op& op, std::string& out) {
  const Role usual = usual_role(op.type);
  const auto is_usual = [&](TensorId id) { return graph.tensor(id).role == usual; };
  if (std::all_of(op.outputs.begin(), op.outputs.end(), is_usual)) return;
  out += " role=";
  for (size_t i = 0; i < op.outputs.size(); ++i) {
    if (i > 0) out += ",";
    out += to_text(graph.tensor(op.outputs[i]).role);
  }
}

// Attributes that are not the op's defaults.
Attrs telling_attrs(const Op& op) {
  if (!has_op(op.type)) return op.attrs;
  const Attrs& usual = ir::op(op.type).attrs;
  Attrs telling;
  for (const auto& [name, value] : op.attrs) {
    const auto found = usual.find(name);
    if (found == usual.end() || found->second != value) telling.emplace(name, value);
  }
  return telling;
}

void write_op(const Graph& graph, const Op& op, std::string& out) {
  auto to = std::back_inserter(out);
  for (size_t i = 0; i < op.outputs.size(); ++i) {
    const Tensor& tensor = graph.tensor(op.outputs[i]);
    fmt::format_to(to, "{}%{}: {}", i == 0 ? "" : ", ", tensor.name, to_text(tensor.type));
  }
  fmt::format_to(to, " = {}(", op.type);
  for (size_t i = 0; i < op.inputs.size(); ++i)
    fmt::format_to(to, "{}%{}", i == 0 ? "" : ", ", graph.tensor(op.inputs[i]).name);
  out += ")";
  if (const Attrs attrs = telling_attrs(op); !attrs.empty()) out += " " + to_text(attrs);
  if (op.placement >= 0) fmt::format_to(to, " @p{}", op.placement);
  write_layouts(graph, op, out);
  if (op.to_sbp) out += " to=" + sbp::to_text(*op.to_sbp);
  if (!op.replica_of.empty()) out += " replica_of=" + op.replica_of;
  if (op.outputs.empty() || op.name != graph.tensor(op.outputs[0]).name) out += " name=" + op.name;
  write_roles(graph, op, out);
  if (op.layer != -1) fmt::format_to(to, " layer={}", op.layer);
  if (op.phase != Phase::forward) fmt::format_to(to, " phase={}", to_text(op.phase));
  if (op.module == Module::core_attn)
    out += " core";
  else if (op.module != Module::none)
    out += " module=" + word(op.module);
  if (op.runs_again) out += " runs_again";
  if (op.recomputed) out += " recomputed";
  out += "\n";
}

}  // namespace

std::string to_text(const Graph& graph) {
  std::string out = "graph " + graph.name;
  if (graph.layers > 0) out += fmt::format(" layers={}", graph.layers);
  out += "\n";
  for (size_t i = 0; i < graph.placements.size(); ++i)
    out += fmt::format("placement p{} = {}\n", i, sbp::to_text(graph.placements[i]));
  for (const Op& op : graph.ops) write_op(graph, op, out);
  for (const Update& update : graph.updates)
    out += fmt::format("update %{} = %{}\n", graph.tensor(update.state).name, graph.tensor(update.next).name);
  return out;
}

}  // namespace boxcar::ir

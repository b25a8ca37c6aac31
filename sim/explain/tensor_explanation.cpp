#include "sim/explain/tensor_explanation.h"

#include <fmt/format.h>

#include <algorithm>

#include "sbp/at.h"
#include "sbp/error.h"
#include "sbp/suggest.h"

namespace boxcar::explain {
namespace {

ir::TensorId tensor_named(const ir::Graph& graph, const std::string& name) {
  std::vector<std::string> names;
  for (const ir::Tensor& tensor : graph.tensors) {
    if (tensor.name == name) return ir::find_tensor(graph, name);
    names.push_back(tensor.name);
  }
  throw Error::input("--tensor",
                     fmt::format("the plan's graph has no {}{}", name, did_you_mean(name, names)));
}

}  // namespace

std::string ranges_text(const std::vector<int>& numbers) {
  std::string text;
  for (size_t i = 0; i < numbers.size();) {
    size_t end = i + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    text += text.empty() ? "" : ", ";
    text += end - i > 1 ? fmt::format("{}-{}", numbers[i], numbers[end - 1]) : fmt::format("{}", numbers[i]);
    i = end;
  }
  return text;
}

TensorExplanation explain_tensor(const planner::LaidOut& laid, const std::string& name) {
  const ir::TensorId t = tensor_named(laid.graph, name);
  const ir::Tensor& tensor = laid.graph.tensor(t);
  const sbp::NdSbp& layout = at(laid.layouts.stored, t);
  TensorExplanation e{name, to_text(tensor.type), 0, {}, {}, {}};
  e.stage = std::max(0, at(laid.sites, tensor.producer).stage);
  for (int place = 0; place < laid.mesh.devices(); ++place) {
    e.devices.push_back(laid.mesh.device(place, e.stage));
    e.blocks[sbp::local_ranges(tensor.type.shape, layout, laid.mesh.extents, place)].push_back(
        e.devices.back());
  }
  std::sort(e.devices.begin(), e.devices.end());
  for (auto& [block, devices] : e.blocks) std::sort(devices.begin(), devices.end());
  for (size_t d = 0; d < laid.mesh.dims(); ++d)
    e.layout.push_back(
        fmt::format("{} {}: {}", laid.mesh.names[d], laid.mesh.extents[d], to_text(layout[d])));
  return e;
}

std::string without_layer(const std::string& name) {
  const auto [layer, rest] = ir::layer_and_rest(name);
  return layer < 0 ? name : "h*." + std::string(rest);
}

}  // namespace boxcar::explain

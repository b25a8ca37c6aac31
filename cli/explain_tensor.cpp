#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/explain.h"
#include "sbp/error.h"
#include "sbp/suggest.h"

namespace boxcar::cli {
namespace {

using Blocks = std::map<std::vector<sbp::Range>, std::vector<int>>;

std::string list(const Blocks& blocks) {
  std::string text;
  for (const auto& [block, devices] : blocks) {
    std::vector<std::string> axes;
    for (const sbp::Range& range : block) axes.push_back(fmt::format("{}:{}", range.begin, range.end));
    text += fmt::format("  [{}]  {}\n", fmt::join(axes, ", "), ranges_text(devices));
  }
  return text;
}
// A matrix in few columns as a grid, anything else as a list.
std::string drawing(const Blocks& blocks) {
  constexpr size_t most_columns = 8, width = 14;
  std::map<sbp::Range, std::map<sbp::Range, std::string>> rows;
  std::map<sbp::Range, int> columns;
  for (const auto& [block, devices] : blocks) {
    if (block.size() != 2) return list(blocks);
    rows[block[0]][block[1]] = ranges_text(devices);
    ++columns[block[1]];
  }
  if (columns.size() > most_columns) return list(blocks);
  std::string text = fmt::format("  {:<{}}", "", width);
  for (const auto& [column, count] : columns)
    text += fmt::format(" {:<{}}", fmt::format("{}:{}", column.begin, column.end), width);
  for (const auto& [row, cells] : rows) {
    text.erase(text.find_last_not_of(' ') + 1);
    text += fmt::format("\n  {:<{}}", fmt::format("{}:{}", row.begin, row.end), width);
    for (const auto& [column, count] : columns) {
      const auto cell = cells.find(column);
      text += fmt::format(" {:<{}}", cell == cells.end() ? "" : cell->second, width);
    }
  }
  text.erase(text.find_last_not_of(' ') + 1);
  return text + "\n";
}

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
  const sbp::NdSbp& layout = laid.layouts.stored[static_cast<size_t>(t)];
  TensorExplanation e{name, to_text(tensor.type), 0, {}, {}, {}};
  e.stage = std::max(0, laid.sites[static_cast<size_t>(tensor.producer)].stage);
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

std::string to_text(const TensorExplanation& e) {
  return fmt::format("%{}: {} on stage {}, devices {}\n{}\n\n{}", e.name, e.type, e.stage,
                     ranges_text(e.devices), fmt::join(e.layout, ", "), drawing(e.blocks));
}

nlohmann::ordered_json to_json(const TensorExplanation& e) {
  nlohmann::ordered_json blocks = nlohmann::ordered_json::array();
  for (const auto& [block, devices] : e.blocks) {
    nlohmann::ordered_json axes = nlohmann::ordered_json::array();
    for (const sbp::Range& range : block) axes.push_back({range.begin, range.end});
    blocks.push_back({{"block", axes}, {"devices", devices}});
  }
  return {{"name", e.name},       {"type", e.type},     {"stage", e.stage},
          {"devices", e.devices}, {"layout", e.layout}, {"blocks", blocks}};
}

}  // namespace boxcar::cli

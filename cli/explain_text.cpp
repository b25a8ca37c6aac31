#include "cli/explain_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "cli/quantities.h"
#include "cli/report_text.h"
#include "cli/verdict.h"
#include "ir/units.h"

namespace boxcar::cli {
namespace {

using explain::Communication;
using explain::DimensionExplanation;
using explain::LayoutShares;
using explain::OpExplanation;
using explain::PlanExplanation;
using explain::ranges_text;
using explain::signature_text;
using explain::SignatureCost;
using explain::StageExplanation;
using explain::TensorExplanation;

std::string shares_text(const LayoutShares& shares) {
  std::vector<std::string> some;
  for (const auto& [layout, share] : shares)
    if (share >= 0.005) some.push_back(fmt::format("{} {:.0f} %", layout, 100 * share));
  return some.empty() ? "-" : fmt::format("{}", fmt::join(some, ", "));
}

// The layers of virtual stages, "0, 8, 16, 24", by their ends: "0 ... 24".
std::string layers_text(const std::string& layers) {
  const size_t comma = layers.find(','), last = layers.rfind(' ');
  if (layers.empty()) return "-";
  return comma == std::string::npos ? layers : layers.substr(0, comma) + " ..." + layers.substr(last);
}

std::string stages_text(const PlanExplanation& e) {
  size_t width = 12;  // of the layers
  for (const StageExplanation& s : e.stages) width = std::max(width, layers_text(s.layers).size());
  std::string text =
      fmt::format("  {:<10} {:>7} {:<{}} {:<20} {:>9} {:>9} {:>7} {:>9} {:>9}", "stage", "GPUs", "layers",
                  width, "mesh", "in flight", "busy", "idle", "exposed", "peak");
  for (int kind = 0; kind < ir::memory_kinds; ++kind)
    text += fmt::format(" {:>11}", ir::to_text(static_cast<ir::MemoryKind>(kind)));
  const bool hosts =
      std::any_of(e.stages.begin(), e.stages.end(), [](const auto& s) { return s.report.host_bytes > 0; });
  text += hosts ? fmt::format(" {:>11}\n", "on the host") : "\n";
  for (const StageExplanation& s : e.stages) {
    text +=
        fmt::format("  {:<10} {:>7} {:<{}} {:<20} {:>9} {:>9} {:>7} {:>9} {:>9}", s.report.name,
                    s.report.devices, layers_text(s.layers), width, s.mesh.empty() ? "-" : s.mesh,
                    s.in_flight, ir::format_seconds(s.report.busy_seconds),
                    percent_text(s.report.bubble_fraction), ir::format_seconds(s.report.exposed_comm_seconds),
                    ir::format_bytes(static_cast<double>(s.report.peak_bytes)));
    for (const int64_t bytes : s.report.by_kind)
      text += fmt::format(" {:>11}", ir::format_bytes(static_cast<double>(bytes)));
    if (hosts) text += fmt::format(" {:>11}", ir::format_bytes(static_cast<double>(s.report.host_bytes)));
    text += "\n";
  }
  return text;
}

std::string communications_text(const PlanExplanation& e) {
  if (e.communications.empty()) return "  nothing is moved\n";
  std::string text = fmt::format("  {:>9} {:>9} {:>7}  {:<10} {:<10} {}\n", "a step", "bytes", "acts",
                                 "stage", "over", "what, and why");
  for (const Communication& c : e.communications)
    text +=
        fmt::format("  {:>9} {:>9} {:>7}  {:<10} {:<10} {}: {}\n", ir::format_seconds(c.seconds),
                    ir::format_bytes(c.bytes), c.acts, c.stage, c.over.empty() ? "-" : c.over, c.name, c.why);
  return text;
}

nlohmann::ordered_json shares_json(const LayoutShares& shares) {
  nlohmann::ordered_json doc = nlohmann::ordered_json::object();
  for (const auto& [layout, share] : shares) doc[layout] = share;
  return doc;
}

std::string moved_text(const SignatureCost& cost) {
  std::vector<std::string> moved;
  for (const SignatureCost::Boxing& b : cost.moved)
    moved.push_back(fmt::format("{}: {} -> {}", b.name, to_text(b.from), to_text(b.to)));
  return fmt::format("{}", fmt::join(moved, ", "));
}

std::string step_text(const OpExplanation& e, const SignatureCost& cost) {
  if (!e.steps) return "";
  if (!std::isfinite(cost.step)) return fmt::format("{:>9} ", "none");
  const double size = std::abs(cost.step);
  return fmt::format("{:>9} ", size < 1e-9 ? "-" : (cost.step < 0 ? "-" : "+") + ir::format_seconds(size));
}

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

}  // namespace

std::string to_text(const PlanExplanation& e, const std::string& slow_stages) {
  std::string text = "verdict\n" + verdict_text(e.report) + result_text(e.report);
  text += fmt::format("\nstages, memory of one device, limit {}\n",
                      ir::format_bytes(static_cast<double>(e.report.memory_limit_bytes)));
  text += stages_text(e) + slow_stages;
  text += "\nlayouts as kept, by part of a device's bytes\n";
  for (const StageExplanation& s : e.stages)
    text += fmt::format("  {:<10} parameters {}; activations {}\n", s.report.name, shares_text(s.parameters),
                        shares_text(s.activations));
  for (size_t i = 0; i < e.runners_up.size(); ++i)
    text += (i == 0 ? "\nrunners-up of the search\n  " : "  ") + e.runners_up[i] + "\n";
  text += "\ncommunication by time, of one device, whether or not it hides behind computing\n";
  text += communications_text(e);
  if (!e.sensitivity.empty())
    text += "\nsensitivity, the step with one constant halved and doubled\n" +
            to_text(e.sensitivity, e.report.step_seconds);
  return text + configuration_text(e.report);
}

nlohmann::ordered_json to_json(const PlanExplanation& e) {
  using nlohmann::ordered_json;
  ordered_json doc = ordered_json::parse(to_json(e.report));
  ordered_json stages = ordered_json::array(), moved = ordered_json::array();
  for (const StageExplanation& s : e.stages) {
    ordered_json memory;
    for (size_t kind = 0; kind < s.report.by_kind.size(); ++kind)
      memory[ir::to_text(static_cast<ir::MemoryKind>(kind))] = s.report.by_kind[kind];
    stages.push_back({{"name", s.report.name},
                      {"gpus", s.report.devices},
                      {"layers", s.layers},
                      {"mesh", s.mesh},
                      {"parameter_layouts", shares_json(s.parameters)},
                      {"activation_layouts", shares_json(s.activations)},
                      {"in_flight", s.in_flight},
                      {"busy_s", s.report.busy_seconds},
                      {"bubble_fraction", s.report.bubble_fraction},
                      {"exposed_comm_s", s.report.exposed_comm_seconds},
                      {"peak_memory_bytes", s.report.peak_bytes},
                      {"memory_bytes", memory}});
  }
  for (const Communication& c : e.communications)
    moved.push_back({{"name", c.name},
                     {"stage", c.stage},
                     {"over", c.over},
                     {"why", c.why},
                     {"s", c.seconds},
                     {"bytes", c.bytes},
                     {"acts", c.acts}});
  doc["stages"] = stages;
  doc["runners_up"] = e.runners_up;
  doc["communications"] = moved;
  if (!e.sensitivity.empty()) doc["sensitivity"] = to_json(e.sensitivity);
  return doc;
}

std::string to_text(const OpExplanation& e) {
  std::string text = e.op + "\n";
  bool none = false;
  for (const DimensionExplanation& d : e.dimensions) {
    text += fmt::format("\n{}, {} devices\n  {:<44} {}{:>9} {:>9}  {}\n", d.name, d.devices, "  signature",
                        e.steps ? "     step " : "", "kernel", "boxing", "what moves");
    for (const SignatureCost& c : d.signatures) {
      none |= e.steps && !std::isfinite(c.step);
      std::string line = fmt::format(
          "  {} {:<42} {}{:>9} {:>9}  {}", c.chosen ? '*' : ' ', signature_text(c.signature), step_text(e, c),
          ir::format_seconds(c.kernel), c.boxing > 0 ? ir::format_seconds(c.boxing) : "-", moved_text(c));
      line.erase(line.find_last_not_of(' ') + 1);
      text += line + "\n";
    }
    text += "  " + d.decided + "\n";
    for (const std::string& change : d.would_change) text += "  " + change + "\n";
  }
  if (e.steps)
    text += fmt::format("\nstep: by how much it would grow by the time models with this signature and {}{}\n",
                        e.anew ? "the best layouts of all other ops" : "all other ops as they are",
                        e.anew && e.dimensions.size() > 1 ? " on that dimension" : "");
  if (none) text += "none: no layouts of the other ops go with it\n";
  return text;
}

nlohmann::ordered_json to_json(const OpExplanation& e) {
  using nlohmann::ordered_json;
  ordered_json dimensions = ordered_json::array();
  for (const DimensionExplanation& d : e.dimensions) {
    ordered_json signatures = ordered_json::array();
    for (const SignatureCost& c : d.signatures) {
      ordered_json moved = ordered_json::array();
      for (const SignatureCost::Boxing& b : c.moved)
        moved.push_back(
            {{"tensor", b.name}, {"from", to_text(b.from)}, {"to", to_text(b.to)}, {"s", b.seconds}});
      ordered_json row{{"signature", signature_text(c.signature)},
                       {"chosen", c.chosen},
                       {"kernel_s", c.kernel},
                       {"boxing_s", c.boxing},
                       {"moved", moved}};
      if (e.steps) row["step_growth_s"] = std::isfinite(c.step) ? ordered_json(c.step) : ordered_json();
      signatures.push_back(std::move(row));
    }
    dimensions.push_back({{"name", d.name},
                          {"devices", d.devices},
                          {"signatures", signatures},
                          {"decided", d.decided},
                          {"would_change", d.would_change}});
    if (!d.constant.empty()) dimensions.back()["constant"] = {{"name", d.constant}, {"times", d.times}};
  }
  ordered_json doc{{"op", e.op}, {"dimensions", dimensions}};
  if (e.steps) doc["others"] = e.anew ? "laid out anew" : "as they are";
  return doc;
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

std::string to_text(const std::vector<explain::Sensitivity>& rows, double step_seconds) {
  const auto change = [&](const std::optional<double>& seconds) {
    return seconds ? std::abs(*seconds / step_seconds - 1) : 0;
  };
  std::vector<explain::Sensitivity> order = rows;  // largest effect first
  std::stable_sort(order.begin(), order.end(), [&](const auto& a, const auto& b) {
    return std::max(change(a.half_seconds), change(a.double_seconds)) >
           std::max(change(b.half_seconds), change(b.double_seconds));
  });
  const auto cell = [&](const std::optional<double>& seconds) {
    if (!seconds) return std::string("-");
    return fmt::format("{} {}", ir::format_seconds(*seconds),
                       signed_percent_text(*seconds / step_seconds - 1));
  };
  std::string text = fmt::format("  {:<18} {:>18} {:>18}\n", "constant", "half", "double");
  for (const explain::Sensitivity& row : order)
    text += fmt::format("  {:<18} {:>18} {:>18}  {}\n", row.constant.name, cell(row.half_seconds),
                        cell(row.double_seconds), row.constant.what);
  return text;
}

nlohmann::ordered_json to_json(const std::vector<explain::Sensitivity>& rows) {
  using nlohmann::ordered_json;
  const auto step = [](const std::optional<double>& seconds) {
    return seconds ? ordered_json(*seconds) : ordered_json(nullptr);
  };
  ordered_json all = ordered_json::array();
  for (const explain::Sensitivity& row : rows)
    all.push_back({{"name", row.constant.name},
                   {"what", row.constant.what},
                   {"half_step_s", step(row.half_seconds)},
                   {"double_step_s", step(row.double_seconds)}});
  return all;
}

}  // namespace boxcar::cli

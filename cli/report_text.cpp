#include "cli/report_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "backends/machines/device_profile.h"
#include "cli/keys.h"
#include "cli/quantities.h"
#include "cli/verdict.h"
#include "ir/units.h"
#include "sbp/at.h"

namespace boxcar::cli {
namespace {

using nlohmann::ordered_json;

// A short list as it is, a long one by its repetitions: "[3 x 13, 93 x 12]".
std::string short_list(const std::string& text) {
  constexpr size_t most = 16;
  if (!text.starts_with('[') || static_cast<size_t>(std::count(text.begin(), text.end(), ',')) < most)
    return text;
  std::vector<std::pair<std::string, int>> runs;
  std::istringstream items(text.substr(1, text.size() - 2));
  for (std::string item; std::getline(items >> std::ws, item, ',');) {
    if (runs.empty() || runs.back().first != item) runs.emplace_back(item, 0);
    ++runs.back().second;
  }
  std::vector<std::string> parts;
  for (const auto& [item, times] : runs)
    parts.push_back(times == 1 ? item : fmt::format("{} x {}", times, item));
  return fmt::format("[{}]", fmt::join(parts, ", "));
}

std::string keys_text(const std::map<std::string, std::string>& configuration) {
  std::string text;
  for (const std::string& section : sections()) {
    std::string line;
    for (const Key& key : keys()) {
      auto found = configuration.find(key.path());
      if (key.section != section || found == configuration.end()) continue;
      std::string item = fmt::format("{} {}", key.name, short_list(found->second));
      if (line.size() + item.size() > 86) {
        text +=
            fmt::format("  {:<9} {}\n", text.find("  " + section) == std::string::npos ? section : "", line);
        line.clear();
      }
      line += (line.empty() ? "" : ", ") + item;
    }
    if (!line.empty())
      text +=
          fmt::format("  {:<9} {}\n", text.find("  " + section) == std::string::npos ? section : "", line);
  }
  return text;
}

// "109.7 TFLOP/s"; of a processor "38.2 GFLOP/s".
std::string rate_text(double tflops) {
  return tflops < 1 ? fmt::format("{:.1f} GFLOP/s", 1000 * tflops) : fmt::format("{:.1f} TFLOP/s", tflops);
}

std::string speed_text(const explain::Report& r) {
  std::string text;
  auto row = [&](const char* name, const std::string& value) {
    text += fmt::format("  {:<22} {}\n", name, value);
  };
  row("step time", ir::format_seconds(r.step_seconds) + "   (first step " +
                       ir::format_seconds(r.first_step_seconds) + ")");
  for (const std::string& changed : r.changes) row("what if", changed);
  if (r.described_step_seconds > 0)
    row("as described", fmt::format("{}   ({})", ir::format_seconds(r.described_step_seconds),
                                    signed_percent_text(r.step_seconds / r.described_step_seconds - 1)));
  if (r.jitter_runs > 0)
    row("with jitter",
        fmt::format("mean {}, 95th percentile {} of {} runs", ir::format_seconds(r.jitter_mean_seconds),
                    ir::format_seconds(r.jitter_p95_seconds), r.jitter_runs));
  const auto a_step = [&](double per_second) {
    return static_cast<int64_t>(std::llround(per_second * r.step_seconds));
  };
  row("global batch",
      fmt::format("{} samples", a_step(r.samples_per_second)) +
          (r.tokens_per_second > 0 ? fmt::format(", {} tokens", a_step(r.tokens_per_second)) : ""));
  row("throughput",
      fmt::format("{:.4g} samples/s", r.samples_per_second) +
          (r.tokens_per_second > 0 ? fmt::format(", {:.4g} tokens/s", r.tokens_per_second) : ""));
  row("model compute", fmt::format("{} per GPU, MFU {:.1f} %", rate_text(r.model_tflops), 100 * r.mfu));
  row("hardware compute", fmt::format("{} per GPU, recomputation included", rate_text(r.hardware_tflops)));
  row("idle",
      fmt::format("{} of the compute queue's time, mean over stages", percent_text(r.bubble_fraction)));
  row("exposed communication", ir::format_seconds(r.exposed_comm_seconds) + " on the worst stage");
  return text;
}

std::string traffic_text(const explain::Report& r) {
  std::string text;
  for (const auto& [name, bytes] : r.comm_bytes) {
    text += fmt::format("  {:<22} {} per step over all devices\n", name, ir::format_bytes(bytes));
  }
  return text.empty() ? "  none\n" : text;
}

bool uses_host(const explain::Report& r) {
  return std::any_of(r.stages.begin(), r.stages.end(),
                     [](const explain::StageReport& stage) { return stage.host_bytes > 0; });
}

std::string stages_text(const explain::Report& r) {
  std::string text = fmt::format("  {:<10} {:>7} {:>9} {:>8} {:>9}", "stage", "GPUs", "busy", "idle", "peak");
  for (int kind = 0; kind < ir::memory_kinds; ++kind)
    text += fmt::format(" {:>11}", ir::to_text(static_cast<ir::MemoryKind>(kind)));
  const bool hosts = uses_host(r);
  text += hosts ? fmt::format(" {:>11}\n", "on the host") : "\n";
  for (const explain::StageReport& stage : r.stages) {
    text += fmt::format("  {:<10} {:>7} {:>9} {:>8} {:>9}", stage.name, stage.devices,
                        r.simulated ? ir::format_seconds(stage.busy_seconds) : "-",
                        r.simulated ? percent_text(stage.bubble_fraction) : "-",
                        ir::format_bytes(static_cast<double>(stage.peak_bytes)));
    for (int64_t bytes : stage.by_kind)
      text += fmt::format(" {:>11}", ir::format_bytes(static_cast<double>(bytes)));
    if (hosts) text += fmt::format(" {:>11}", ir::format_bytes(static_cast<double>(stage.host_bytes)));
    text += stage.peak_bytes > r.memory_limit_bytes ? "  too much\n" : "\n";
  }
  return text;
}

ordered_json plan_json(const explain::Report& r) {
  return {{"actors", r.plan.actors}, {"registers", r.plan.registers},         {"queues", r.plan.queues},
          {"groups", r.plan.groups}, {"acts_per_step", r.plan.acts_per_step}, {"programs", r.programs},
          {"classes", r.classes}};
}

void add_times(ordered_json& doc, const explain::Report& r) {
  doc["step_time_s"] = r.step_seconds;
  doc["first_step_time_s"] = r.first_step_seconds;
  doc["samples_per_s"] = r.samples_per_second;
  doc["tokens_per_s"] = r.tokens_per_second;
  doc["model_tflops_per_gpu"] = r.model_tflops;
  doc["hardware_tflops_per_gpu"] = r.hardware_tflops;
  doc["mfu"] = r.mfu;
  doc["bubble_fraction"] = r.bubble_fraction;
  doc["exposed_comm_s"] = r.exposed_comm_seconds;
  add_verdict(doc, r);
}

// For each stage, the program that takes most ("stage0.0", "stage0.1": parts of a stage that differ).
std::vector<explain::StageReport> fullest_by_stage(const explain::Report& r) {
  std::vector<explain::StageReport> stages;
  for (const explain::StageReport& program : r.stages) {
    const auto found = std::find_if(stages.begin(), stages.end(), [&](const explain::StageReport& s) {
      return s.stage >= 0 && s.stage == program.stage;
    });
    if (found == stages.end())
      stages.push_back(program);
    else if (program.peak_bytes > found->peak_bytes)
      *found = program;
  }
  return stages;
}

void add_memory(ordered_json& doc, const explain::Report& r) {
  ordered_json peaks = ordered_json::array(), limits = ordered_json::array(),
               breakdown = ordered_json::array(), held = ordered_json::array(), kept = ordered_json::array(),
               whole = ordered_json::array(), allocated = ordered_json::array(),
               on_host = ordered_json::array();
  const bool allocates = r.allocates && r.simulated;
  for (const explain::StageReport& stage : fullest_by_stage(r)) {
    peaks.push_back(stage.peak_bytes);
    allocated.push_back(stage.held_bytes + r.library_workspaces);
    whole.push_back((allocates ? stage.held_bytes + r.library_workspaces : stage.peak_bytes) +
                    r.outside_bytes);
    held.push_back(stage.held_bytes);
    kept.push_back(stage.kept_bytes);
    on_host.push_back(stage.host_bytes);
    limits.push_back(r.memory_limit_bytes);
    ordered_json kinds;
    for (size_t kind = 0; kind < stage.by_kind.size(); ++kind) {
      kinds[ir::to_text(static_cast<ir::MemoryKind>(kind))] = stage.by_kind[kind];
    }
    breakdown.push_back(kinds);
  }
  doc["peak_memory_bytes"] = peaks;
  if (r.simulated) doc["held_memory_bytes"] = held;
  if (allocates) doc["allocated_memory_bytes"] = allocated;
  if (r.outside_bytes > 0) doc["device_memory_bytes"] = whole;
  doc["memory_limit_bytes"] = limits;
  if (r.node_peak_bytes > 0) doc["node_peak_memory_bytes"] = r.node_peak_bytes;
  doc["memory_breakdown_bytes"] = breakdown;
  doc["kept_activation_bytes"] = kept;
  if (uses_host(r)) doc["host_memory_bytes"] = on_host;
}

}  // namespace

std::string configuration_text(const explain::Report& r) {
  return "\nconfiguration\n" + keys_text(r.configuration);
}

std::string result_text(const explain::Report& r) {
  return (r.simulated ? "\nresult\n" + speed_text(r) : "") + "\ncommunication\n" + traffic_text(r);
}

std::string numbers_text(const explain::Report& r) {
  std::string text = result_text(r);
  const std::string limit = ir::format_bytes(static_cast<double>(r.memory_limit_bytes));
  text += r.node_peak_bytes > 0 ? fmt::format("\nmemory, {} of {} in a node, which its GPUs share",
                                              ir::format_bytes(static_cast<double>(r.node_peak_bytes)), limit)
                                : fmt::format("\nmemory, limit {} per GPU", limit);
  text += r.fits ? "\n" : ": does not fit\n";
  text += stages_text(r);
  text += fmt::format(
      "\nplan: {} actors, {} registers, {} queues, {} groups, {} acts a step; {} programs, {} classes\n",
      r.plan.actors, r.plan.registers, r.plan.queues, r.plan.groups, r.plan.acts_per_step, r.programs,
      r.classes);
  if (r.simulated) {
    text += fmt::format("simulator: {} events in {}, {} resident, {}\n", r.events,
                        ir::format_seconds(r.wall_seconds),
                        ir::format_bytes(static_cast<double>(r.peak_rss_bytes)),
                        r.folded ? "symmetric ranks folded" : "every rank");
  }
  return text;
}

std::string to_table(const explain::Report& r) {
  return "verdict\n" + verdict_text(r) + numbers_text(r) + configuration_text(r);
}

std::string to_json(const explain::Report& r) {
  ordered_json doc;
  doc["schema_version"] = 1;
  doc["fits"] = r.fits;
  if (r.simulated) add_times(doc, r);
  if (!r.changes.empty()) {
    doc["what_if"] = {{"changes", r.changes}};
    if (r.described_step_seconds > 0) doc["what_if"]["described_step_time_s"] = r.described_step_seconds;
  }
  if (r.simulated && r.jitter_runs > 0)
    doc["jitter"] = {
        {"runs", r.jitter_runs}, {"mean_s", r.jitter_mean_seconds}, {"p95_s", r.jitter_p95_seconds}};
  doc["comm_bytes"] = r.comm_bytes;
  add_memory(doc, r);
  doc["plan"] = plan_json(r);
  doc["simulator"] = {{"events", r.events},
                      {"wall_s", r.wall_seconds},
                      {"peak_rss_bytes", r.peak_rss_bytes},
                      {"folded", r.folded}};
  doc["configuration"] = r.configuration;
  return doc.dump(2) + "\n";
}

std::string to_json(const std::map<std::string, std::string>& configuration, const planner::Job& job,
                    const planner::TooLarge& error) {
  const auto stages = static_cast<size_t>(job.parallel.pp);
  ordered_json doc;
  doc["schema_version"] = 1;
  doc["fits"] = false;
  doc["peak_memory_bytes"] = ordered_json::array_t(stages);
  at(doc["peak_memory_bytes"], error.stage) = error.device_bytes;
  doc["memory_limit_bytes"] = std::vector<int64_t>(stages, job.cluster.device->memory_bytes);
  doc["too_large"] = {
      {"name", error.name}, {"stage", fmt::format("stage{}", error.stage)}, {"bytes", error.bytes}};
  doc["configuration"] = configuration;
  return doc.dump(2) + "\n";
}

}  // namespace boxcar::cli

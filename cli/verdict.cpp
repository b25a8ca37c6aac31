#include "cli/verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "cli/quantities.h"
#include "ir/units.h"

namespace boxcar::cli {
namespace {

using nlohmann::ordered_json;

std::string bytes_text(int64_t bytes) { return ir::format_bytes(static_cast<double>(bytes)); }

// If devices of a node share its memory, the memory that they take together; otherwise the fullest stage.
std::string fits_text(const explain::Report& r) {
  const explain::StageReport& fullest = explain::fullest(r);
  const bool shared = r.node_peak_bytes > fullest.peak_bytes;
  const int64_t peak = shared ? r.node_peak_bytes : fullest.peak_bytes, room = r.memory_limit_bytes - peak;
  return fmt::format("{}{} of {} {}, {} {}", r.fits ? "" : "no: ", bytes_text(peak),
                     bytes_text(r.memory_limit_bytes), shared ? "in a node" : "on " + fullest.name,
                     bytes_text(std::abs(room)), room < 0 ? "too much" : "free");
}

std::string step_text(const explain::Report& r) {
  std::string text = ir::format_seconds(r.step_seconds);
  if (r.error.of_other && r.error.device_steps == 0) {
    text += fmt::format(", with no published run on {} to compare", r.error.device);
  } else {
    const auto [least, most] = campaign::step_range(r.step_seconds, r.error.error.share);
    text += fmt::format(", {} to {} by published runs", ir::format_seconds(least), ir::format_seconds(most));
  }
  text += r.tokens_per_second > 0 ? fmt::format("; {:.4g} tokens/s", r.tokens_per_second)
                                  : fmt::format("; {:.4g} samples/s", r.samples_per_second);
  return text + (r.mfu > 0 ? fmt::format(", MFU {:.1f} %", 100 * r.mfu) : "");
}

// Shares of the step, the largest first.
std::string binding_text(const explain::Binding& b) {
  std::array<std::pair<double, std::string>, 3> shares{{{b.kernels, "kernels of " + b.stage},
                                                        {b.communication, "exposed communication"},
                                                        {b.waiting, "waiting"}}};
  std::stable_sort(shares.begin(), shares.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  return fmt::format("{}, {} of the step; {} {}, {} {}", shares[0].second, percent_text(shares[0].first),
                     shares[1].second, percent_text(shares[1].first), shares[2].second,
                     percent_text(shares[2].first));
}

}  // namespace

std::vector<std::pair<std::string, std::string>> verdict_lines(const explain::Report& r) {
  if (!r.simulated) return {{"fits", fits_text(r)}};
  return {{"fits", fits_text(r)}, {"step", step_text(r)}, {"bound by", binding_text(binding(r))}};
}

std::string verdict_text(const explain::Report& r) {
  std::string text;
  for (const auto& [name, line] : verdict_lines(r)) text += fmt::format("  {:<9} {}\n", name, line);
  return text;
}

std::string bound_text(const explain::Report& r) {
  return fmt::format("  bound by  {}\n", binding_text(binding(r)));
}

std::string why_not_text(const explain::Report& r) {
  if (r.node_peak_bytes > r.memory_limit_bytes)
    return fmt::format(
        "does not fit: the devices of a node need {} together, it has {} (use more nodes, or a "
        "smaller model, micro_batch or seq)",
        bytes_text(r.node_peak_bytes), bytes_text(r.memory_limit_bytes));
  const explain::StageReport& worst = explain::fullest(r);
  return fmt::format("does not fit: {} needs {} of {}, {} too much", worst.name, bytes_text(worst.peak_bytes),
                     bytes_text(r.memory_limit_bytes), bytes_text(worst.peak_bytes - r.memory_limit_bytes));
}

ordered_json error_json(const campaign::ErrorBar& bar) {
  const campaign::StepError& error = bar.error;
  return {{"share", error.share},   {"published_steps", error.steps},  {"framework", error.framework},
          {"device", error.device}, {"of_other_device", bar.of_other}, {"least_gpus", error.least_gpus}};
}

ordered_json binding_json(const explain::Report& r) {
  const explain::Binding b = binding(r);
  return {{"stage", b.stage},
          {"kernels", b.kernels},
          {"exposed_communication", b.communication},
          {"waiting", b.waiting}};
}

void add_verdict(ordered_json& doc, const explain::Report& r) {
  const auto [least, most] = campaign::step_range(r.step_seconds, r.error.error.share);
  doc["step_time_range_s"] = {least, most};
  doc["step_error"] = error_json(r.error);
  doc["bound_by"] = binding_json(r);
}

}  // namespace boxcar::cli

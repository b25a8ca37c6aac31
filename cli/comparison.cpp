#include "cli/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "cli/verdict.h"
#include "ir/units.h"

namespace boxcar::cli {
namespace {

using nlohmann::ordered_json;

// None of these keys can change alone: their product is the number of GPUs, or follows from it.
bool is_degree(const std::string& path) {
  const char* degrees[] = {"parallel.dp", "parallel.tp", "parallel.pp", "parallel.context_parallel",
                           "cluster.gpus"};
  return std::find(std::begin(degrees), std::end(degrees), path) != std::end(degrees);
}

// They have a number for each stage.
bool is_by_stage(const std::string& path, const GivenKeys& keys) {
  const auto found = keys.find(path);
  const bool list = found != keys.end() && found->second.text.find(',') != std::string::npos;
  return path == "parallel.stage_layers" || path == "parallel.stage_order" ||
         (list && (path == "parallel.schedule" || path == "parallel.recompute_layers"));
}

std::string text_of(const GivenKeys& keys, const std::string& path) {
  const auto found = keys.find(path);
  return found == keys.end() ? "" : found->second.text;
}

int gpus_of(const explain::Report& r) {
  return std::accumulate(r.stages.begin(), r.stages.end(), 0,
                         [](int sum, const explain::StageReport& one) { return sum + one.devices; });
}

void put(GivenKeys& to, const GivenKeys& from, const std::string& path) {
  if (const auto found = from.find(path); found != from.end()) to.insert(*found);
}

// How much slower a plan is, as a share, and by what: its step; samples per second, if a step has others; or
// tokens per second, if a sample has others.
std::pair<double, const char*> slower(const explain::Report& base, const explain::Report& r) {
  const auto differ = [](double a, double b) { return std::abs(a - b) > 1e-9 * std::abs(b); };
  const auto tokens = [](const explain::Report& of) { return of.tokens_per_second / of.samples_per_second; };
  const auto samples = [](const explain::Report& of) { return of.samples_per_second * of.step_seconds; };
  if (tokens(r) > 0 && tokens(base) > 0 && differ(tokens(r), tokens(base)))
    return {base.tokens_per_second / r.tokens_per_second - 1, " by tokens per second"};
  if (differ(samples(r), samples(base)))
    return {base.samples_per_second / r.samples_per_second - 1, " by samples per second"};
  return {r.step_seconds / base.step_seconds - 1, ""};
}

}  // namespace

std::string placed_text(const explain::Report& base, const Variation& v) {
  if (!v.why_not.empty()) return v.why_not;
  const auto [step, by] = slower(base, v.report);
  const explain::StageReport& stage = explain::fullest(v.report);
  const int64_t more = stage.peak_bytes - explain::fullest(base).peak_bytes;
  const std::string time =
      std::abs(step) < 5e-4
          ? "as fast"
          : fmt::format("{:.1f} % {}", 100 * std::abs(step), step > 0 ? "slower" : "faster") + by;
  const std::string memory = more == 0
                                 ? "as much"
                                 : fmt::format("{} {}", ir::format_bytes(static_cast<double>(std::abs(more))),
                                               more > 0 ? "more" : "less");
  const int gpus = gpus_of(v.report);
  const std::string where = gpus == gpus_of(base) ? "" : fmt::format("on {} GPUs ", gpus);
  return fmt::format("{}{}, {}; {} on {}, {}", where, ir::format_seconds(v.report.step_seconds), time,
                     ir::format_bytes(static_cast<double>(stage.peak_bytes)), stage.name, memory);
}

ordered_json placed_json(const explain::Report& base, const Variation& v) {
  ordered_json doc{{"fits", v.why_not.empty()}};
  if (!v.plan.empty()) doc["plan"] = v.plan;
  if (!v.chosen.empty()) doc["chosen"] = v.chosen;
  if (!v.why_not.empty()) {
    doc["why"] = v.why_not;
    return doc;
  }
  doc["gpus"] = gpus_of(v.report);
  doc["step_time_s"] = v.report.step_seconds;
  doc["slower"] = slower(base, v.report).first;
  doc["peak_memory_bytes"] = explain::fullest(v.report).peak_bytes;
  doc["tokens_per_s"] = v.report.tokens_per_second;
  doc["bound_by"] = binding_json(v.report);
  doc["more_memory_bytes"] = explain::fullest(v.report).peak_bytes - explain::fullest(base).peak_bytes;
  return doc;
}

std::vector<Difference> differences_of(const GivenKeys& a, const GivenKeys& b) {
  std::vector<std::string> paths;
  for (const Key& key : keys())
    if (text_of(a, key.path()) != text_of(b, key.path())) paths.push_back(key.path());
  if (text_of(a, "parallel.recompute") != "full" && text_of(b, "parallel.recompute") != "full")
    std::erase(paths, "parallel.recompute_stop");  // has no effect in either
  const auto is_model = [](const std::string& path) { return path.starts_with("model."); };
  const bool model = std::any_of(paths.begin(), paths.end(), is_model);
  const bool degrees = model || std::any_of(paths.begin(), paths.end(), is_degree);
  const bool stages = model || text_of(a, "parallel.pp") != text_of(b, "parallel.pp") ||
                      text_of(a, "parallel.virtual_stages") != text_of(b, "parallel.virtual_stages");
  // Recomputation changes together with the stages if it gives layers of each.
  constexpr const char* layers = "parallel.recompute_layers";
  const bool recompute = stages && (is_by_stage(layers, a) || is_by_stage(layers, b));
  // A kind of recomputation changes together with the layers that have it.
  const bool kinds = text_of(a, "parallel.recompute") != text_of(b, "parallel.recompute");
  // Keys that change together have one name.
  const auto group_of = [&](const std::string& path) -> std::string {
    const bool recomputes = path.starts_with("parallel.recompute");
    if (is_degree(path) || is_model(path) || (recompute && recomputes) ||
        (stages && (path == "parallel.virtual_stages" || is_by_stage(path, a) || is_by_stage(path, b))))
      return "degrees";
    return kinds && recomputes ? "recomputation" : path;
  };
  std::vector<Difference> all;
  std::map<std::string, size_t> at;  // by group
  if (degrees || stages) at["degrees"] = 0, all.emplace_back();
  for (const std::string& path : paths) {
    const auto [group, is_new] = at.try_emplace(group_of(path), all.size());
    if (is_new) all.emplace_back();
    put(all[group->second].a, a, path);
    put(all[group->second].b, b, path);
  }
  return all;
}

std::string flags_text(const GivenKeys& given) {
  std::string text;
  for (const Key& key : keys())
    if (const auto found = given.find(key.path()); found != given.end())
      text += fmt::format("{}{} {}", text.empty() ? "" : " ", key.flag, found->second.text);
  return text;
}

}  // namespace boxcar::cli

#include "cli/variation.h"

#include <fmt/format.h>

#include <algorithm>

#include "backends/machines/framework.h"
#include "cli/comparison.h"
#include "cli/job_presets.h"
#include "cli/search_report.h"
#include "cli/verdict.h"
#include "planner/laid_out.h"
#include "planner/search/fitting.h"
#include "planner/verify.h"
#include "sbp/error.h"
#include "sim/simulate.h"

namespace boxcar::cli {
namespace {

bool any_of(const GivenKeys& keys, std::initializer_list<const char*> paths) {
  return std::any_of(paths.begin(), paths.end(), [&](const char* path) { return keys.contains(path); });
}

// None if there is no such framework, which resolve() reports.
std::map<std::string, std::string> defaults_of(const GivenKeys& keys) {
  const auto named = keys.find("train.stack");
  if (named == keys.end()) return {};
  try {
    return backends::load_framework(named->second.text).defaults;
  } catch (const Error&) {
    return {};
  }
}

// Values that a name stands for are replaced by those of the other name.
void drop_values_of_names(GivenKeys& keys, const GivenKeys& others) {
  const auto erase = [&](const std::string& path) {
    if (!others.contains(path)) keys.erase(path);
  };
  if (const auto model = others.find("model.family"); model != others.end()) {
    GivenKeys named{*model};
    expand(named);
    if (named.size() > 1)  // a family's name stands for no sizes
      for (const Key& key : cli::keys())
        if (key.path().starts_with("model.")) erase(key.path());
  }
  if (others.contains("train.preset"))  // a plan does not name the preset of its values
    for (const std::string& preset : preset_names())
      for (const auto& [path, value] : preset_values(preset)) erase(path);
  if (!others.contains("train.stack")) return;
  const auto has = [&](const std::string& path, const std::string& value) {
    return keys.contains(path) && keys[path].text == value;
  };
  for (const auto& [path, value] : defaults_of(keys))
    if (has(path, value)) erase(path);
  for (const auto& [path, value] : defaults_of(others))
    if (has(path, text_of(key_at(path), Request{}))) erase(path);
}

constexpr const char* recompute_layers = "parallel.recompute_layers";
constexpr const char* stage_layers = "parallel.stage_layers";

// A list that a job has, in the form in which it is given: "[3, 2]" as "3,2".
Given text_in(const planner::Job& job, const std::string& path) {
  Request request;
  request.job = job;
  std::string text = text_of(key_at(path), request);
  std::erase_if(text, [](char c) { return c == '[' || c == ']' || c == ' '; });
  return {text.empty() ? "all" : text, path};
}

// The keys for the fewest recomputed layers that fit; none if none do.
GivenKeys fewest_recomputed(const GivenKeys& keys) {
  try {
    const planner::ResolvedJob job = resolve(keys).job;
    const auto fewest = search::with_fewest_recomputed(job, !keys.contains(stage_layers), sim::act_seconds);
    if (!fewest) return {};
    GivenKeys chosen{{recompute_layers, text_in(*fewest, recompute_layers)}};
    if ((*fewest)->parallel.stage_layers != job->parallel.stage_layers)
      chosen[stage_layers] = text_in(*fewest, stage_layers);
    return chosen;
  } catch (const Error& error) {
    if (error.code() == Exit::fault) throw;
    return {};  // vary() reports it
  }
}

}  // namespace

GivenKeys with_flags(GivenKeys keys, const GivenKeys& others) {
  const auto derive = [&](const char* path) {
    if (!others.contains(path)) keys.erase(path);
  };
  if (any_of(others, {"cluster.preset"})) derive("cluster.gpus_per_node");
  const bool stages =
      any_of(others, {"parallel.pp", "parallel.virtual_stages", "model.family", "model.layers"});
  if (any_of(others, {"parallel.tp", "parallel.pp", "parallel.context_parallel", "cluster.gpus"}))
    derive("parallel.dp");
  if (any_of(others, {"parallel.dp", "parallel.tp", "parallel.pp", "parallel.context_parallel"}))
    derive("parallel.fsdp_group");
  if (any_of(others, {"parallel.dp"}) && !others.contains("cluster.gpus") &&
      !any_of(others, {"parallel.tp", "parallel.pp", "parallel.context_parallel"}))
    derive("cluster.gpus");
  if (stages)
    for (const char* path : {"parallel.stage_layers", "parallel.stage_order", "parallel.recompute_layers"})
      derive(path);
  if (const auto pp = others.find("parallel.pp"); pp != others.end() && pp->second.text == "1")
    for (const char* path : {"parallel.virtual_stages", "parallel.schedule"}) derive(path);
  const auto schedule = keys.find("parallel.schedule");
  const bool is_list = schedule != keys.end() && schedule->second.text.find(',') != std::string::npos;
  if (stages && is_list) derive("parallel.schedule");
  drop_values_of_names(keys, others);
  for (auto& [path, value] : keys) value.may_lapse = true, value.where = path + ", as the plan has it";
  for (const auto& [path, value] : others) keys[path] = value;
  return keys;
}

Variation vary(const GivenKeys& keys, const std::optional<search::LayoutRequest>& layouts) {
  Variation v;
  try {
    const Resolved resolved = resolve(keys);
    const planner::ResolvedJob& job = resolved.job;
    v.plan = flags_of(*job);
    planner::Choose choose;
    if (layouts && planner::mesh_of(job->parallel).devices() > 1)
      choose = search::chooser(job, *layouts, nullptr);
    ir::Plan plan = planner::compile(planner::lay_out(job, choose), job);
    plan.labels = resolved.labels;
    const std::vector<planner::MemoryUse> memory = planner::memory_use(plan);
    v.report = explain::memory_report(plan, job->cluster, memory);
    if (!v.report.fits) {
      v.why_not = why_not_text(v.report);
      return v;
    }
    v.report = explain::report(plan, job->cluster, memory, sim::simulate(plan, job->cluster));
  } catch (const Error& error) {
    if (error.code() == Exit::fault) throw;
    v.why_not = error.what();
  }
  return v;
}

Variation place(const GivenKeys& plan, const GivenKeys& others,
                const std::optional<search::LayoutRequest>& layouts) {
  GivenKeys keys = with_flags(plan, others);
  const auto some = plan.find(recompute_layers);
  if (some == plan.end() || some->second.text == "all" ||
      any_of(others, {"parallel.recompute", recompute_layers}))
    return vary(keys, layouts);
  if (keys.contains(recompute_layers)) {
    Variation kept = vary(keys, layouts);
    const bool is_too_large = !kept.why_not.empty() && !kept.report.stages.empty();
    if (!is_too_large) return kept;
    keys.erase(recompute_layers);
  }
  const GivenKeys chosen = fewest_recomputed(keys);
  GivenKeys with_fewest = keys;
  for (const auto& [path, value] : chosen) with_fewest[path] = value;
  Variation v = vary(with_fewest, layouts);
  v.chosen = chosen.empty() ? "--recompute-layers all" : flags_text(chosen);
  return v;
}

}  // namespace boxcar::cli

#include "cli/variation.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/verdict.h"
#include "planner/laid_out.h"
#include "planner/verify.h"
#include "sbp/error.h"
#include "sim/simulate.h"

namespace boxcar::cli {
namespace {

bool any_of(const GivenKeys& keys, std::initializer_list<const char*> paths) {
  return std::any_of(paths.begin(), paths.end(), [&](const char* path) { return keys.contains(path); });
}

}  // namespace

GivenKeys with_flags(GivenKeys keys, const GivenKeys& others) {
  const auto derive = [&](const char* path) {
    if (!others.contains(path)) keys.erase(path);
  };
  const bool stages = any_of(others, {"parallel.pp", "parallel.virtual_stages"});
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
  for (const auto& [path, value] : others) keys[path] = value;
  return keys;
}

Variation vary(const GivenKeys& keys, const std::optional<search::LayoutRequest>& layouts) {
  Variation v;
  try {
    const Resolved resolved = resolve(keys);
    const planner::ResolvedJob& job = resolved.job;
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

}  // namespace boxcar::cli

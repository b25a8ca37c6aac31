#include "cli/plan_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "cli/output.h"
#include "ir/graph.h"
#include "sbp/error.h"
#include "sbp/suggest.h"

namespace boxcar::cli {
namespace {

// Nobody knows how long an op takes that is not in the registry, unless the plan says so.
void check_ops(const ir::Plan& plan, const std::string& path) {
  for (const ir::Program& program : plan.programs) {
    for (const ir::Actor& actor : program.actors) {
      if (actor.kind != ir::ActorKind::kernel || actor.attrs.contains("seconds")) continue;
      if (ir::has_op(actor.op) || ir::is_special(actor.op)) continue;
      std::vector<std::string> names;
      for (const ir::OpDef& op : ir::all_ops()) names.push_back(op.name);
      throw Error::input(path, fmt::format("{}: {}: no op is named \"{}\"{}", program.name, actor.name,
                                           actor.op, did_you_mean(actor.op, names)));
    }
  }
}

}  // namespace

SavedPlan load_plan(const std::string& file, const GivenKeys& given) {
  SavedPlan loaded;
  ir::Plan& plan = loaded.plan;
  try {
    plan = ir::parse_plan(read_file(file));
    ir::check(plan);
  } catch (const Error& e) {
    std::string message = e.what();
    if (message.starts_with("plan:")) message = file + message.substr(4);  // plan:LINE:COLUMN
    throw Error(e.code(), "", message.starts_with(file) ? message : file + ": " + message);
  }
  check_ops(plan, file);
  for (const auto& [path, value] : given) {
    if (path != "cluster.preset" && path != "cluster.device")
      throw Error::input(
          value.where, "has no effect on a saved plan; only --cluster and --device may be given with --plan");
    plan.labels[path] = value.text;
  }
  if (given.contains("cluster.preset") && !given.contains("cluster.device"))
    plan.labels.erase("cluster.device");
  const std::string name = plan.labels["cluster.preset"];
  if (name.empty()) throw Error::input(file, "names no cluster; give one with --cluster");
  const auto device = plan.labels.find("cluster.device");
  loaded.cluster = load_cluster(name, device == plan.labels.end() ? "" : device->second, plan.devices);
  if (const auto stack = plan.labels.find("train.stack"); stack != plan.labels.end())
    backends::put_stack(loaded.cluster, backends::load_stack(stack->second));
  const auto limit = plan.facts.find("memory_limit_bytes");  // of the devices that it was made for
  const bool elsewhere = given.contains("cluster.preset") || given.contains("cluster.device");
  if (limit != plan.facts.end() && limit->second > 0 && !elsewhere)
    loaded.cluster.device.memory_bytes =
        static_cast<int64_t>(std::min(limit->second, static_cast<double>(ir::most_bytes)));
  if (plan.labels["train.precision"] == "tf32") backends::use_tf32(loaded.cluster.device);
  if (plan.labels["train.precision"] == "fp8") backends::use_float8(loaded.cluster.device);
  if (plan.labels["parallel.flash_version"] == "1") backends::use_flash_version(loaded.cluster.device, 1);
  return loaded;
}

Resolved job_of(const ir::Plan& plan, const std::string& path) {
  GivenKeys given;
  for (const Key& key : keys()) {
    const auto label = plan.labels.find(key.path());
    if (label == plan.labels.end()) continue;
    std::string text = label->second;
    std::erase_if(text, [](char c) { return c == '[' || c == ']' || c == ' '; });
    const bool is_default = text.empty() || (key.name == "recompute_layers" && text == "all") ||
                            (key.name == "fsdp_group" && text == plan.labels.at("parallel.dp"));
    if (!is_default) given[key.path()] = {text, path + ": label " + key.path()};
  }
  return resolve(given);
}

}  // namespace boxcar::cli

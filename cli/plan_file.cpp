#include "cli/plan_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "backends/host/fingerprint.h"
#include "backends/machines/device_profile.h"
#include "backends/machines/framework.h"
#include "cli/job_labels.h"
#include "cli/output.h"
#include "cli/verdict.h"
#include "ir/graph.h"
#include "planner/facts.h"
#include "planner/search/plan_slots.h"
#include "planner/verify.h"
#include "sbp/error.h"
#include "sbp/suggest.h"
#include "sim/explain/report.h"

namespace boxcar::cli {
namespace {

constexpr const char* kernel_label = "parallel.attention_kernel";

// The name of a kernel was once the version of FlashAttention: 1, or 2, which devices have.
void rename_old_labels(ir::Plan& plan) {
  if (const auto version = plan.labels.extract("parallel.flash_version"))
    if (version.mapped() == "1") plan.labels.emplace(kernel_label, "flash1");
}

}  // namespace

ir::Plan read_plan(const std::string& file) {
  ir::Plan plan;
  const std::string text = read_file(file);
  try {
    plan = ir::parse_plan(text);
    rename_old_labels(plan);
    ir::check(plan);
    ir::check_types(plan);
  } catch (const Error& e) {
    if (!text.empty() && !text.starts_with("plan "))
      throw Error::input(file,
                         fmt::format("is no plan, as `boxcar search -o` and `boxcar simulate --save-plan` "
                                     "write it{}",
                                     other_kind(text)));
    std::string message = e.what();
    if (message.starts_with("plan:")) message = file + message.substr(4);  // plan:LINE:COLUMN
    throw Error(e.code(), "", message.starts_with(file) ? message : file + ": " + message);
  }
  return plan;
}

namespace {

// Refuses labels in a section of a job's keys that name no key, since they would be ignored silently.
void check_labels(const ir::Plan& plan, const std::string& path) {
  for (const auto& [label, text] : plan.labels) {
    const size_t dot = std::min(label.find('.'), label.size() - 1);
    const std::string section = label.substr(0, dot), name = label.substr(dot + 1);
    if (section == run_section)
      throw Error::input(path, fmt::format("label {} is a key of a run, and a plan has none "
                                           "(leave it out, and give the key beside the plan)",
                                           label));
    std::vector<std::string> names;
    for (const Key& key : keys())
      if (key.section != run_section && key.section == section) names.push_back(key.name);
    if (!names.empty() && std::find(names.begin(), names.end(), name) == names.end())
      throw Error::input(path, fmt::format("label {} is no key of a job{} (leave it out, or plan anew)",
                                           label, did_you_mean(name, names)));
  }
}

// The first line of `text` that differs in `other`; empty: none.
std::string_view first_difference(std::string_view text, std::string_view other) {
  size_t start = 0;
  for (size_t i = 0; i < text.size() && i < other.size() && text[i] == other[i]; ++i)
    if (text[i] == '\n') start = i + 1;
  return text == other ? "" : text.substr(start, text.find('\n', start) - start);
}

// The devices' memory is that of their description, which may have changed since.
void check_facts(const std::map<std::string, double>& expected, const ir::Plan& plan,
                 const std::string& path) {
  for (const auto& [name, value] : expected) {
    const auto found = plan.facts.find(name);
    if (name != "memory_limit_bytes" && (found == plan.facts.end() || found->second != value))
      throw Error::input(
          path,
          fmt::format("fact {} is {}, its labels make {} (plan anew, and change its keys instead "
                      "of its lines)",
                      name, found == plan.facts.end() ? "missing" : fmt::format("{}", found->second), value));
  }
}

// Uses the skew of the labels, on which no act depends.
void put_skew(ir::Plan& plan, const std::string& file) {
  const double skew = job_of(plan, file).request.job.routing_skew;
  plan.facts.erase("routing_skew");
  if (skew > 1) plan.facts["routing_skew"] = skew;
}

// GPUs of each node of the plan's cluster; a given other cluster is used as it is.
int gpus_per_node(const ir::Plan& plan, const std::string& file) {
  const auto label = plan.labels.find("cluster.gpus_per_node");
  if (label == plan.labels.end()) return 0;
  Request request;
  set(request, label->first, {label->second, file + ": label " + label->first});
  return request.gpus_per_node;
}

}  // namespace

// A value that a job file cannot express is a default.
GivenKeys keys_of(const ir::Plan& plan, const std::string& path) {
  check_labels(plan, path);
  GivenKeys given;
  for (const Key& key : keys()) {
    const auto label = plan.labels.find(key.path());
    if (label == plan.labels.end()) continue;
    std::string text = label->second;
    if (text.starts_with('[') && text.ends_with(']'))  // a list
      std::erase_if(text, [](char c) { return c == '[' || c == ']' || c == ' '; });
    const auto dp = plan.labels.find("parallel.dp");
    const bool is_default =
        text.empty() || (key.name == "fsdp_group" && dp != plan.labels.end() && text == dp->second);
    // A resolved job has values that other keys leave without effect.
    const bool may_lapse = key.path() != kernel_label;
    if (!is_default) given[key.path()] = {text, path + ": label " + key.path(), may_lapse};
  }
  return given;
}

namespace {

// The planned kernel of attention; `may_change`: the device's own, if the device has no speed of that.
void use_kernel(std::string& name, bool may_change, backends::DeviceProfile& device) {
  const std::vector<std::string> known = backends::attention_kernels(device);
  if (may_change && !known.empty() && std::find(known.begin(), known.end(), name) == known.end()) {
    tell(fmt::format("{} has no speed of attention by {}; {} is taken (--attention-kernel)", device.name,
                     name, device.attention_kernel));
    name = device.attention_kernel;
  }
  backends::use_attention_kernel(device, name);
}

}  // namespace

SavedPlan load_plan(const std::string& file, const GivenKeys& given) {
  SavedPlan loaded;
  loaded.plan = read_plan(file);
  ir::Plan& plan = loaded.plan;
  for (const auto& [path, value] : given) {
    if (path == "train.routing_skew" && !plan.labels.contains(path))
      throw Error::input(value.where, "has no effect on a plan without experts");
    if (path == kernel_label && !plan.labels.contains(path))
      throw Error::input(value.where, "has no effect on a plan without fused attention");
    if (path != "cluster.preset" && path != "cluster.device" && path != "train.routing_skew" &&
        path != kernel_label)
      throw Error::input(value.where,
                         "has no effect on a saved plan; of a job's keys it takes --cluster, --device, "
                         "--attention-kernel and --routing-skew");
    plan.labels[path] = value.text;
  }
  if (given.contains("train.routing_skew")) put_skew(plan, file);
  if (given.contains("cluster.preset")) plan.labels.erase("cluster.gpus_per_node");
  if (given.contains("cluster.preset") && !given.contains("cluster.device"))
    plan.labels.erase("cluster.device");
  const std::string name = plan.labels["cluster.preset"];
  if (name.empty()) throw Error::input(file, "names no cluster; give one with --cluster");
  const auto device = plan.labels.find("cluster.device");
  loaded.cluster = load_cluster(name, device == plan.labels.end() ? "" : device->second, plan.devices,
                                gpus_per_node(plan, file));
  if (const auto framework = plan.labels.find("train.stack"); framework != plan.labels.end())
    backends::put_framework(loaded.cluster, backends::load_framework(framework->second));
  const auto limit = plan.facts.find("memory_limit_bytes");  // of the devices that it was made for
  const bool elsewhere = given.contains("cluster.preset") || given.contains("cluster.device");
  if (limit != plan.facts.end() && limit->second > 0 && !elsewhere)
    loaded.cluster.device->memory_bytes =
        static_cast<int64_t>(std::min(limit->second, static_cast<double>(ir::most_bytes)));
  const auto margin = plan.labels.find("cluster.memory_margin");
  if (elsewhere && margin != plan.labels.end()) {
    Request request;
    set(request, margin->first, {margin->second, file + ": label " + margin->first});
    keep_free(loaded.cluster.device, request.memory_margin);
  }
  const std::optional<ir::Precision> precision = explain::precision_of(plan.labels);
  if (precision == ir::Precision::tf32) backends::use_tf32(loaded.cluster.device);
  if (precision == ir::Precision::fp8) {
    const auto recipe = plan.labels.find("train.fp8_recipe");
    backends::use_float8(
        loaded.cluster.device,
        backends::float8_recipe(recipe == plan.labels.end() ? Request{}.fp8_recipe : recipe->second));
  }
  if (const auto kernel = plan.labels.find(kernel_label); kernel != plan.labels.end())
    use_kernel(kernel->second, elsewhere && !given.contains(kernel_label), loaded.cluster.device);
  return loaded;
}

std::string why_not(const SavedPlan& saved) {
  const explain::Report r =
      explain::memory_report(saved.plan, saved.cluster, planner::memory_use(saved.plan));
  return r.fits ? "" : why_not_text(r);
}

void check_fits(const SavedPlan& saved, const std::string& path) {
  if (const std::string why = why_not(saved); !why.empty())
    throw Error::cannot_run(path, why + "; `boxcar simulate --plan` says more");
}

namespace {

// The graph's file is read again, and may have changed.
Resolved resolved_as_planned(const ir::Plan& plan, const std::string& path, const GivenKeys& given) {
  Resolved resolved = resolve(given);
  const ir::models::GraphModel* graph = resolved.request.job.model.graph();
  const auto label = plan.labels.find(graph_label);
  if (graph && label != plan.labels.end() && label->second != backends::host::fingerprint_of(*graph))
    throw Error::input(path, fmt::format("is a plan for another text than {} has now (plan anew)",
                                         given.at("model.graph").text));
  return resolved;
}

}  // namespace

Resolved job_of(const ir::Plan& plan, const std::string& path) {
  return resolved_as_planned(plan, path, keys_of(plan, path));
}

PlanToTrain plan_to_train(const std::string& path, GivenKeys given) {
  PlanToTrain result{read_plan(path), {}};
  if (!result.plan.labels.contains("model.family"))
    throw Error::input(path,
                       "has no labels that say which job it is for (train one that search -o or simulate "
                       "--save-plan wrote)");
  result.given = keys_of(result.plan, path);
  const Request request = resolved_as_planned(result.plan, path, result.given).request;
  expand(given);
  for (const auto& [key_path, value] : given) {
    const size_t dot = key_path.find('.');
    const Key& key = *find_key(key_path.substr(0, dot), key_path.substr(dot + 1));
    if (key.section != run_section && key_path != "train.learning_rate") {
      Request asked = request;
      set(asked, key_path, value);
      const auto label = result.plan.labels.find(key_path);
      const std::string planned = label == result.plan.labels.end() ? text_of(key, request) : label->second;
      if (text_of(key, asked) != text_of(key, request) && value.text != planned)
        throw Error::input(
            value.where,
            fmt::format("asks for {0} {1}, {2} is a plan for {0} {3} (leave it out, or plan anew)", key.name,
                        text_of(key, asked), path, planned));
    } else {
      result.given[key_path] = value;
    }
  }
  return result;
}

void expect_plan_of(const planner::LaidOut& laid, const planner::Job& job, const ir::Plan& plan,
                    const std::string& path) {
  ir::Plan expected = planner::compile(laid);
  expected.name = plan.name, expected.facts = plan.facts, expected.labels = plan.labels;
  std::vector<search::Slots> slots;
  for (size_t p = 0; p < std::min(plan.programs.size(), expected.programs.size()); ++p) {
    const ir::Program& ours = plan.programs[p];
    const ir::Program& theirs = expected.programs[p];
    for (size_t r = 0; r < std::min(ours.registers.size(), theirs.registers.size()); ++r)
      if (ours.registers[r].count != theirs.registers[r].count)
        slots.push_back({theirs.name, theirs.registers[r].name, ours.registers[r].count});
  }
  if (!slots.empty()) search::set_slots(expected, slots);
  const std::string text = ir::to_text(plan);
  std::string_view line = first_difference(text, ir::to_text(expected));
  if (line.empty()) return check_facts(planner::facts_of(laid.graph, job), plan, path);
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  constexpr size_t most_shown = 100;
  throw Error::input(
      path, fmt::format("\"{}{}\" is not in the plan that its labels make (plan anew, and change its keys "
                        "instead of its lines)",
                        line.substr(0, most_shown), line.size() > most_shown ? "..." : ""));
}

}  // namespace boxcar::cli

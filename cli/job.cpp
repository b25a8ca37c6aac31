#include "cli/job.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>
#include <sstream>

#include "backends/machines/device_profile.h"
#include "backends/machines/file_name.h"
#include "backends/machines/framework.h"
#include "backends/machines/yaml.h"
#include "cli/catalog.h"
#include "cli/config_file.h"
#include "cli/effects.h"
#include "cli/flag_synonyms.h"
#include "cli/job_labels.h"
#include "cli/job_presets.h"
#include "cli/output.h"
#include "ir/units.h"
#include "sbp/error.h"
#include "sbp/suggest.h"
#include "sbp/words.h"

namespace boxcar::cli {
namespace {

using backends::place;

// A scalar or a list of scalars as one text: "[7, 8]" for lists.
std::string text_of(const YAML::Node& node, const std::string& where) {
  if (node.IsScalar()) return node.Scalar();
  if (!node.IsSequence()) throw Error::input(where, "expected a value or a list of values");
  std::vector<std::string> items;
  for (const YAML::Node& item : node) {
    if (!item.IsScalar()) throw Error::input(where, "expected a list of plain values");
    items.push_back(item.Scalar());
  }
  return fmt::format("[{}]", fmt::join(items, ","));
}

[[noreturn]] void unknown_key(const std::string& where, const std::string& section, const std::string& name) {
  for (const Key& key : keys()) {
    if (key.name == name) {
      throw Error::input(
          where, fmt::format("unknown key \"{}\" under {}; it belongs under {}", name, section, key.section));
    }
  }
  throw Error::input(where,
                     fmt::format("unknown key \"{}\" under {}{}; known are {}", name, section,
                                 did_you_mean_key(section, name), fmt::join(key_names(section), ", ")));
}

// A section or, in its place, the value of the key whose flag has its name: "model: llama3-70b".
void read_section(const std::string& path, const std::string& section, const YAML::Node& node,
                  GivenKeys& given) {
  const Key* const named = key_called(section);
  if (named && node.IsScalar()) {
    given[named->path()] = {node.Scalar(), fmt::format("{}: {}", place(path, node.Mark()), section)};
    return;
  }
  if (!node.IsMap()) {
    throw Error::input(place(path, node.Mark()),
                       fmt::format("{0}: expected keys and values, as in {0}: {{{1}: ...}}{2}", section,
                                   key_names(section)[0],
                                   named ? fmt::format(", or the value of {} alone", named->name) : ""));
  }
  for (const auto& entry : node) {
    std::string where = place(path, entry.first.Mark());
    std::string name = text_of(entry.first, where);
    const Key* key = find_key(section, name);
    if (!key) unknown_key(where, section, name);
    where = fmt::format("{}: {}", place(path, entry.second.Mark()), key->path());
    if (given.count(key->path())) throw Error::input(where, "given twice");
    if (entry.second.IsNull()) throw Error::input(where, "has no value; leave the key out for its default");
    given[key->path()] = {text_of(entry.second, where), where};
  }
}

std::string family_of(const GivenKeys& given) {
  const auto family = given.find("model.family");
  return family == given.end() ? Request().job.model.family() : family->second.text;
}

void check_families(const GivenKeys& given) {
  const std::string family = family_of(given);
  for (const Key& key : keys()) {
    const auto found = given.find(key.path());
    if (found == given.end() || key.is_of(family)) continue;
    throw Error::input(found->second.where, fmt::format("a model of family {} has none; it is of {}", family,
                                                        fmt::join(key.families, ", ")));
  }
}

void check_required(const GivenKeys& given) {
  const std::string family = family_of(given);
  const bool any_model = std::any_of(given.begin(), given.end(),
                                     [](const auto& key) { return key.first.starts_with("model."); });
  if (!any_model)
    throw Error::input("--model", "missing; name a model (`boxcar models` lists them) or give a job file");
  for (const Key& key : keys()) {
    if (key.required && key.is_of(family) && !given.count(key.path())) {
      throw Error::input(key.path(), fmt::format("missing; give it in the job file or as {}", key.flag));
    }
  }
}

std::string message_of(const Error& e) {
  return std::string(e.what()).substr(e.where().empty() ? 0 : e.where().size() + 2);
}

// Runs `work`; an error whose place is a key ("parallel.tp") gets the place where that key was written.
template <typename Work>
void locate(const GivenKeys& given, const Work& work) {
  try {
    work();
  } catch (const Error& e) {
    throw located(given, e);
  }
}

// Paths that cannot exist (too long, behind a file) do not.
bool is_there(const std::filesystem::path& path) {
  std::error_code none;
  return std::filesystem::exists(path, none);
}

// The file of a model that is given as a path: to a config.json, or to its folder. Text in the form of a name
// is a name.
std::optional<std::string> config_file(const std::string& model) {
  if (!model.ends_with(".json") && model.find('/') == std::string::npos) return std::nullopt;
  if (find_model(model) && !is_there(model)) return std::nullopt;  // a name of Hugging Face's
  std::error_code none;
  return std::filesystem::is_directory(model, none) ? model + "/config.json" : model;
}

// Channels and classes of images were once keys hidden and vocab: old jobs and plans are still read.
void rename_old_keys(GivenKeys& given) {
  if (!ir::models::is_conv_net(family_named(family_of(given)))) return;
  for (const auto& [old, key] :
       {std::pair("model.hidden", "model.channels"), {"model.vocab", "model.classes"}})
    if (!given.contains(key))
      if (auto found = given.extract(old)) {
        found.key() = key;
        given.insert(std::move(found));
      }
}

// "4M-tokens" as sequences of the model's length.
void count_sequences(GivenKeys& given) {
  constexpr std::string_view unit = "tokens";  // "4M-tokens", "4M tokens"
  const auto batch = given.find("train.global_batch"), seq = given.find("model.seq");
  if (batch == given.end() || !batch->second.text.ends_with(unit)) return;
  Given& value = batch->second;
  if (given.contains("model.graph"))
    throw Error::input(value.where, "counts tokens, which a graph does not say; give samples");
  if (seq == given.end()) throw Error::input(value.where, "counts tokens, which needs model.seq");
  const auto whole = [](const char* path, const Given& given, const std::string& text) {
    Request request;
    set(key_at(path), request, given.where, text);
    return path == std::string_view("model.seq") ? request.job.model->seq : request.job.global_batch;
  };
  const int64_t length = whole("model.seq", seq->second, seq->second.text);
  std::string number = value.text.substr(0, value.text.size() - unit.size());
  if (number.ends_with('-') || number.ends_with(' ')) number.pop_back();
  const int64_t tokens = whole("train.global_batch", value, number), sequences = tokens / length;
  if (sequences * length != tokens)
    throw Error::input(value.where,
                       fmt::format("{} tokens are no whole number of sequences of {}; use {}-tokens", tokens,
                                   length, std::max<int64_t>(1, sequences) * length));
  value.text = fmt::format("{}", sequences);
}

}  // namespace

Error located(const GivenKeys& given, const Error& error) {
  const std::string key = error.where() == "gpus"               ? "cluster.gpus"
                          : find_key("model", error.where())    ? "model." + error.where()
                          : find_key("parallel", error.where()) ? "parallel." + error.where()
                                                                : error.where();
  const auto found = given.find(key);
  return Error(error.code(), found != given.end() ? found->second.where : key, message_of(error));
}

namespace {

void expand_model(GivenKeys& given) {
  auto family = given.find("model.family");
  if (family == given.end()) return;
  const std::optional<std::string> file = config_file(family->second.text);
  const std::string& text = family->second.text;
  const bool is_name = text.find_first_of("./") > 0 && std::count(text.begin(), text.end(), '/') == 1;
  if (file && is_name && !text.ends_with(".json") && !is_there(*file))
    throw Error::input(
        family->second.where,
        fmt::format("got \"{}\": there is no {}, and `boxcar models` lists no model of this name; "
                    "give a path to its config.json",
                    family->second.text, *file));
  const CatalogModel read = file ? read_model_config(*file) : CatalogModel{};
  const CatalogModel* model = file ? &read : find_model(family->second.text);
  if (!model) {
    const Key* key = find_key("model", "family");
    if (std::count(key->words.begin(), key->words.end(), family->second.text)) return;
    std::vector<std::string> known = key->words;
    for (const CatalogModel& m : catalog()) known.push_back(m.name);
    const std::vector<std::string> like = models_like(family->second.text);
    throw Error::input(
        family->second.where,
        fmt::format("no model is named \"{}\"{}; `boxcar models` lists them", family->second.text,
                    is_there(std::filesystem::path(text) / "config.json")
                        ? fmt::format(" (did you mean the folder, ./{}?)", text)
                    : like.empty() ? did_you_mean(family->second.text, known)
                                   : fmt::format(" (did you mean {}?)", fmt::join(like, " or "))));
  }
  std::string where = family->second.where;
  family->second.text = model->family;
  for (const auto& [path, text] : model->values)
    given.try_emplace(path, Given{text, where + ": " + path, true});
  for (const std::string& note : model->notes) tell(fmt::format("{}: {}", where, note));
}

}  // namespace

void expand(GivenKeys& given) {
  if (const auto graph = given.find("model.graph"); graph != given.end())
    given.try_emplace("model.family", Given{ir::models::GraphModel().family, graph->second.where});
  rename_old_keys(given);
  expand_model(given);
  count_sequences(given);
}

namespace {

// Whether a line of the text begins with a section, or with something similar.
bool names_a_section(const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find_first_not_of("{ \"'"), colon = line.find_first_of(":\"'", first);
    constexpr size_t longest = 20;
    if (first == std::string::npos || colon == std::string::npos || colon - first > longest) continue;
    const std::string word = line.substr(first, colon - first);
    const std::vector<std::string> known = sections();
    if (std::count(known.begin(), known.end(), word) > 0 || key_called(word) ||
        !did_you_mean(word, known).empty())
      return true;
  }
  return false;
}

}  // namespace

GivenKeys read_job_file(const std::string& path) {
  const std::string text = read_file(path);
  if (text.starts_with("plan "))
    throw Error::input(
        path, fmt::format("is a saved plan; simulate, train and campaign take it as --plan {}", path));
  try {
    return parse_job(text, path);
  } catch (const Error&) {
    if (text.empty() || names_a_section(text)) throw;
    throw Error::input(path, fmt::format("is no job file, which has sections called {}{}",
                                         fmt::join(sections(), ", "), other_kind(text)));
  }
}

GivenKeys parse_job(const std::string& text, const std::string& path) {
  const YAML::Node root = backends::load_yaml(text, path);
  if (root.IsNull() || !root.IsDefined())
    throw Error::input(path, "is empty; it needs the sections model and cluster");
  if (!root.IsMap())
    throw Error::input(place(path, root.Mark()),
                       fmt::format("expected the sections {}", fmt::join(sections(), ", ")));
  GivenKeys given;
  std::vector<std::string> known = sections();
  std::vector<std::string> seen;
  for (const auto& entry : root) {
    std::string where = place(path, entry.first.Mark());
    std::string section = text_of(entry.first, where);
    if (std::find(known.begin(), known.end(), section) == known.end()) {
      throw Error::input(where, fmt::format("unknown section \"{}\"{}; known are {}", section,
                                            key_meant(section) ? did_you_mean_key("", section)
                                                               : did_you_mean(section, known),
                                            fmt::join(known, ", ")));
    }
    if (std::count(seen.begin(), seen.end(), section))
      throw Error::input(where, fmt::format("section {} is given twice", section));
    seen.push_back(section);
    read_section(path, section, entry.second, given);
  }
  return given;
}

backends::Cluster load_cluster(const std::string& name, const std::string& device, int gpus,
                               int of_each_node) {
  backends::Cluster cluster = backends::load_cluster(name, of_each_node > 0 ? 0 : gpus);
  if (of_each_node > 0) {
    backends::take_of_each_node(cluster, of_each_node);
    backends::resize(cluster, gpus);
  }
  if (!device.empty()) backends::put_device(cluster, backends::load_device(device));
  return cluster;
}

void keep_free(backends::DeviceProfile& device, double share) {
  device.memory_bytes -= static_cast<int64_t>(share * static_cast<double>(device.memory_bytes));
}

void set(Request& request, const std::string& path, const Given& value) {
  // Decay here is always separate from the gradient, as in AdamW.
  const bool adamw = path == "train.optimizer" && value.text == "adamw";
  set(key_at(path), request, value.where, adamw ? "adam" : value.text);
}

namespace {

// Sets the values of a preset, before the framework's defaults and the given ones.
void set_preset(const GivenKeys& given, Request& request) {
  const auto named = given.find("train.preset");
  if (named == given.end()) return;
  set(key_at("train.preset"), request, named->second.where, named->second.text);
  for (const auto& [path, value] : preset_values(request.preset))
    set(key_at(path), request, named->second.where, value);
}

void set_all(const backends::Framework& framework, const char* name,
             const std::map<std::string, std::string>& values, Request& request) {
  for (const auto& [path, text] : values) {
    const size_t dot = path.find('.');
    const Key* key = dot == std::string::npos ? nullptr : find_key(path.substr(0, dot), path.substr(dot + 1));
    if (!key || key->section == run_section)
      throw Error::input("framework " + framework.name,
                         fmt::format("{}: no key of a job is named {}", name, path));
    if (!key->is_of(request.job.model.family())) continue;
    set(*key, request, "framework " + framework.name, text);
  }
}

// The framework's own defaults, before given values; if the job is searched, the values that a search uses
// instead of some defaults.
backends::Framework load_framework(const GivenKeys& given, bool searched, Request& request) {
  const auto named = given.find("train.stack");
  backends::Framework framework;
  if (named == given.end()) return framework;
  locate(given, [&] {
    try {
      framework = backends::load_framework(named->second.text);
    } catch (const Error& e) {
      throw Error(e.code(), "train.stack", e.where() == "framework" ? message_of(e) : e.what());
    }
  });
  set_defaults(framework, request);
  if (searched) set_all(framework, "searched_as", framework.searched_as, request);
  return framework;
}

// A user's description without latencies makes small messages and launches look free.
void tell_missing_latencies(const std::string& name, const backends::Cluster& cluster) {
  if (!backends::is_file_name(name)) return;
  const backends::Cluster usual = backends::load_cluster("dgx-h100", 0);
  const auto row = [](const char* key, double seconds) {
    return fmt::format("{}: {}", key, ir::format_seconds(seconds));
  };
  std::vector<std::string> missing;
  if (cluster.node.gpus > 1 && cluster.node.link != backends::LinkKind::none &&
      cluster.node.link_latency == 0)
    missing.push_back(row("node.link_latency", usual.node.link_latency));
  if (cluster.nodes > 1 && cluster.node.nic_latency == 0)
    missing.push_back(row("node.nic_latency", usual.node.nic_latency));
  if (cluster.nodes > 1 && cluster.fabric.hop_latency == 0 &&
      cluster.fabric.kind != backends::FabricKind::single_switch)
    missing.push_back(row("fabric.hop_latency", usual.fabric.hop_latency));
  if (cluster.node.cores == 0 && cluster.node.host_per_op == 0)
    missing.push_back(row("node.host_per_op", usual.node.host_per_op));
  if (!missing.empty())
    tell(fmt::format("{} leaves out latencies, which are then 0; dgx-h100 has {}", name,
                     fmt::join(missing, ", ")));
}

// The user's graph: "m.txt:3:6: ..." or "m.txt: %loss: ...".
ir::models::Model read_graph(const std::string& path) {
  std::string text = read_file(path);
  try {
    return ir::models::read_graph_model(std::move(text));
  } catch (const Error& e) {
    const bool has_line = e.where().starts_with("graph:");
    throw Error(e.code(), has_line ? path + e.where().substr(5) : path, message_of(e));
  }
}

// A framework's kernel counts if the device has it.
void use_attention_kernel(const GivenKeys& given, Request& request) {
  backends::DeviceProfile& device = request.job.cluster.device;
  std::string& name = request.attention_kernel;
  const auto asked = given.find("parallel.attention_kernel");
  const std::vector<std::string> known = backends::attention_kernels(device);
  const bool has = std::find(known.begin(), known.end(), name) != known.end();
  if (has || (asked != given.end() && !asked->second.may_lapse)) backends::use_attention_kernel(device, name);
  name = device.attention_kernel;
}

// Attention is one kernel by default if the device has one for operands of this precision, or documents need
// one.
void default_attention(const GivenKeys& given, const backends::Framework& framework, Request& request) {
  const std::string key = "parallel.attention";
  const auto is_it = [&](const PresetValue& value) { return value.first == key; };
  if (given.contains(key) || framework.defaults.contains(key) ||
      std::ranges::any_of(preset_values(request.preset), is_it))
    return;
  const backends::DeviceProfile& device = request.job.cluster.device;
  const ir::models::Transformer* transformer = request.job.model.transformer();
  const bool has_documents = transformer && transformer->document_length > 0;
  const bool has_kernel = !device.attention_kernel.empty() && ir::is_mixed(request.job.train.precision);
  request.job.train.flash = has_kernel || has_documents;
}

// Sets the given values, and loads the cluster.
Request request_of(const GivenKeys& given, bool searched = false) {
  check_families(given);
  if (const auto preset = given.find("train.preset"); preset != given.end()) {
    const std::vector<std::string> clusters = backends::cluster_presets();
    if (std::count(clusters.begin(), clusters.end(), preset->second.text))
      throw Error::input(preset->second.where,
                         fmt::format("{0} is a cluster: give --cluster {0}", preset->second.text));
  }
  check_required(given);
  Request request;
  if (auto family = given.find("model.family"); family != given.end()) {
    set(*find_key("model", "family"), request, family->second.where, family->second.text);
    request.job.model = ir::models::default_model(family->second.text);
    if (!request.job.model.transformer()) request.job.parallel.micro_batch = 0;
  }
  if (auto optimizer = given.find("train.optimizer"); optimizer != given.end()) {
    set(request, "train.optimizer", optimizer->second);
    set_optimizer(request.job.train, request.job.train.optimizer);
  }
  set_preset(given, request);
  const backends::Framework framework = load_framework(given, searched, request);
  for (const auto& [path, value] : given) set(request, path, value);
  if (request.job.model.graph()) request.job.model = read_graph(request.graph);
  if (!ir::is_mixed(request.job.train.precision) && !given.contains("train.logits"))
    request.job.train.half_logits = false;  // of a preset or a framework
  planner::Hints& hints = request.job.parallel;
  if (request.job.gpus == 0 && hints.dp > 0) request.job.gpus = hints.dp * hints.tp * hints.pp * hints.cp;
  locate(given, [&] {
    try {
      request.job.cluster =
          load_cluster(request.cluster, request.device, request.job.gpus, request.gpus_per_node);
    } catch (const Error& e) {
      if (e.where() == "cluster") throw Error(e.code(), "cluster.preset", message_of(e));
      if (e.where() == "gpus_per_node") throw Error(e.code(), "cluster.gpus_per_node", message_of(e));
      if (e.where() == "device") throw Error(e.code(), "cluster.device", message_of(e));
      if (e.where() == request.cluster) throw Error(e.code(), "cluster.preset", e.what());
      if (e.where() == request.device) throw Error(e.code(), "cluster.device", e.what());
      throw;
    }
    if (request.job.gpus == 0)
      throw Error::input("cluster.gpus", "missing; give it in the job file or as --gpus, or give dp");
    if (request.job.train.precision == ir::Precision::tf32) backends::use_tf32(request.job.cluster.device);
    if (request.job.train.precision == ir::Precision::fp8)
      backends::use_float8(request.job.cluster.device, backends::float8_recipe(request.fp8_recipe));
    tell_missing_latencies(request.cluster, request.job.cluster);
    use_attention_kernel(given, request);
    default_attention(given, framework, request);
    backends::put_framework(request.job.cluster, framework);
    keep_free(request.job.cluster.device, request.memory_margin);
    hints.retained_bytes = request.job.cluster.framework->retained_bytes;
    hints.gathered_stay = request.job.cluster.framework->gathered_stay;
    hints.keeps_float8 = backends::keeps_float8(request.job.cluster);
    hints.keeps_float8_of_experts = backends::keeps_float8_of_experts(request.job.cluster);
  });
  if (request.job.model.transformer()) request.job.model->flash = request.job.train.flash;
  return request;
}

}  // namespace

void set_defaults(const backends::Framework& framework, Request& request) {
  set_all(framework, "defaults", framework.defaults, request);
}

namespace {

void check_rate_of(const GivenKeys& given, const Request& request) {
  const auto precision = given.find("train.precision"), preset = given.find("train.preset");
  check_rate(request.job.cluster.device, request.job.train.precision,
             precision != given.end() ? precision->second.where
             : preset != given.end()  ? preset->second.where
                                      : "");
}

}  // namespace

Request open_request(const GivenKeys& given_by_user) {
  GivenKeys given = given_by_user;
  expand(given);
  Request request = request_of(given, true);
  locate(given, [&] { request.job.model = ir::models::complete(request.job.model); });
  check_rate_of(given, request);
  return request;
}

Resolved resolve(const GivenKeys& given_by_user) {
  GivenKeys given = given_by_user;
  expand(given);
  Request request = request_of(given);
  std::optional<planner::ResolvedJob> job;
  locate(given, [&] { job = planner::resolve(request.job); });
  request.job = *job;
  Resolved resolved{std::move(request), *std::move(job), {}};
  check_effects(given, resolved.request);
  resolved.labels = labels_of(resolved.request);
  check_rate_of(given, resolved.request);
  return resolved;
}

void check_rate(const backends::DeviceProfile& device, ir::Precision precision, const std::string& where) {
  const auto has = [&](ir::DType type) { return device.peak_flops.contains(type); };
  const bool bf16 = has(ir::DType::bfloat16), fp16 = has(ir::DType::float16);
  const auto refuse = [&](const char* type, const char* other) {
    throw Error::input(where, fmt::format("{}: device {} has no {} rate (add one to peak_flops in its "
                                          "description, or use {})",
                                          word(precision), device.name, type, other));
  };
  switch (precision) {
    case ir::Precision::fp32:
      break;
    case ir::Precision::tf32:
      if (device.tf32_flops <= 0) refuse("tf32", "fp32");
      break;
    case ir::Precision::fp16:
      if (!fp16) refuse("float16", bf16 ? "bf16" : "fp32");
      break;
    case ir::Precision::bf16:
      if (!bf16) refuse("bfloat16", fp16 ? "fp16" : "fp32");
      break;
    case ir::Precision::fp64:
      if (!has(ir::DType::float64)) refuse("float64", "fp32");
      break;
    case ir::Precision::fp8:
      if (!has(ir::DType::float8)) refuse("float8", bf16 ? "bf16" : "fp16");
      if (device.float8 && device.float8->four_bits && device.float4_flops <= 0)
        refuse("float4", "another fp8_recipe");
      break;
  }
}

}  // namespace boxcar::cli

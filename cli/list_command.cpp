#include "cli/list_command.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "backends/machines/cluster.h"
#include "backends/machines/device_profile.h"
#include "backends/machines/presets.h"
#include "cli/arguments.h"
#include "cli/catalog.h"
#include "cli/keys.h"
#include "cli/output.h"
#include "ir/read_number.h"
#include "ir/units.h"
#include "sbp/at.h"

namespace boxcar::cli {
namespace {

using nlohmann::ordered_json;

const char* name_of(backends::LinkKind kind) {
  const char* names[] = {"nvswitch", "nvlink mesh", "pcie", "none"};
  return at(names, kind);
}

// A number, true or false, otherwise a text.
ordered_json value_of(const std::string& text) {
  if (const auto whole = ir::read_number<int64_t>(text)) return *whole;
  if (const auto number = ir::read_number<double>(text)) return *number;
  return text == "true" || text == "false" ? ordered_json(text == "true") : ordered_json(text);
}

ordered_json json_of(const YAML::Node& node) {
  if (node.IsMap()) {
    ordered_json map = ordered_json::object();
    for (const auto& entry : node) map[entry.first.Scalar()] = json_of(entry.second);
    return map;
  }
  if (node.IsSequence()) {
    ordered_json list = ordered_json::array();
    for (const YAML::Node& element : node) list.push_back(json_of(element));
    return list;
  }
  if (node.IsNull()) return nullptr;
  return value_of(node.Scalar());
}

// The description of a preset or a file, with its keys and values.
ordered_json description_json(const std::string& name) {
  const auto all = backends::presets();
  const auto preset = std::find_if(all.begin(), all.end(), [&](const backends::Preset& one) {
    return std::string_view(one.kind) == "clusters" && one.name == name;
  });
  return json_of(preset == all.end() ? YAML::LoadFile(name) : YAML::Load(preset->yaml));
}

ordered_json cluster_json(const std::string& name, const backends::Cluster& c) {
  return {{"name", name},
          {"device", c.device->name},
          {"memory_bytes", c.device->memory_bytes},
          {"gpus_per_node", c.node.gpus},
          {"link", name_of(c.node.link)},
          {"link_bytes_per_s", c.node.link_bandwidth},
          {"nics_per_node", c.node.nics},
          {"nic_bytes_per_s", c.node.nic_bandwidth},
          {"description", description_json(name)}};
}

void print_document(const char* what, const ordered_json& rows) {
  print(ordered_json{{"schema_version", 1}, {what, rows}}.dump(2) + "\n");
}

void list_clusters_json(const std::string& only) {
  ordered_json rows = ordered_json::array();
  for (const std::string& name : only.empty() ? backends::cluster_presets() : std::vector{only})
    rows.push_back(cluster_json(name, backends::load_cluster(name)));
  print_document("clusters", rows);
}

void list_clusters() {
  std::string text = fmt::format("{:<18} {:<16} {:>9} {:>5} {:<12} {:>12} {:>16}\n", "cluster", "device",
                                 "memory", "GPUs", "link", "link, 1 way", "NICs per node");
  for (const std::string& name : backends::cluster_presets()) {
    backends::Cluster c = backends::load_cluster(name);
    text += fmt::format("{:<18} {:<16} {:>9} {:>5} {:<12} {:>12} {:>16}\n", name, c.device->name,
                        ir::format_bytes(static_cast<double>(c.device->memory_bytes)), c.node.gpus,
                        name_of(c.node.link), ir::format_bytes(c.node.link_bandwidth) + "/s",
                        fmt::format("{} x {}/s", c.node.nics, ir::format_bytes(c.node.nic_bandwidth)));
  }
  print(text +
        "\nGPUs are those of one node; --gpus N takes as many nodes as are needed. `boxcar clusters NAME` "
        "tells more.\n");
}

// A missing key has its family's default.
void list_models_json() {
  ordered_json rows = ordered_json::array();
  for (const CatalogModel& model : catalog()) {
    ordered_json row{{"name", model.name}, {"family", model.family}};
    for (const Key& key : keys())
      if (const auto found = model.values.find(key.path()); found != model.values.end())
        row[key.name] = value_of(found->second);
    row["source"] = model.source;
    rows.push_back(row);
  }
  print_document("models", rows);
}

void list_models() {
  std::string text = fmt::format("{:<16} {:<6} {:>6} {:>7} {:>6} {:>8} {:>6} {:>7}  {}\n", "model", "family",
                                 "layers", "hidden", "heads", "kv_heads", "seq", "vocab", "source");
  for (const CatalogModel& model : catalog()) {
    auto value = [&](const char* key) {
      auto found = model.values.find(std::string("model.") + key);
      return found == model.values.end() ? std::string("-") : found->second;
    };
    text += fmt::format("{:<16} {:<6} {:>6} {:>7} {:>6} {:>8} {:>6} {:>7}  {}\n", model.name, model.family,
                        value("layers"), value("hidden"), value("heads"), value("kv_heads"), value("seq"),
                        value("vocab"), model.source);
  }
  print(text +
        "\nFamilies gpt, bert and llama take sizes of your own: --model gpt --layers 24 --hidden 2048 "
        "--heads 16 --seq 2048 --vocab 51200.\n"
        "Families resnet, wide_resnet, alexnet, unet and diffusion_unet take --layers, --channels, "
        "--classes and --image.\n"
        "A named model's sizes can be overridden the same way.\n");
}

}  // namespace

void add_list_commands(CLI::App& app) {
  struct Arguments {
    std::string name;
    bool json = false;
  };
  auto arguments = std::make_shared<Arguments>();
  CLI::App* clusters = app.add_subcommand("clusters", "list cluster presets, or describe one");
  clusters->allow_extras();
  clusters->add_option("name", arguments->name, "a preset or a YAML file");
  clusters->add_flag("--json", arguments->json, "print one JSON document");
  clusters->callback([clusters, arguments] {
    refuse_extras(*clusters);
    if (arguments->json)
      list_clusters_json(arguments->name);
    else if (arguments->name.empty())
      list_clusters();
    else
      print(backends::describe(backends::load_cluster(arguments->name)));
  });
  CLI::App* models = app.add_subcommand("models", "list named models and families");
  models->allow_extras();
  models->add_flag("--json", arguments->json, "print one JSON document");
  models->callback([models, arguments] {
    refuse_extras(*models);
    arguments->json ? list_models_json() : list_models();
  });
}

}  // namespace boxcar::cli

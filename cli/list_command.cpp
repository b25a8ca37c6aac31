#include "cli/list_command.h"

#include <fmt/format.h>

#include <cstdio>
#include <memory>

#include "backends/cluster.h"
#include "cli/catalog.h"
#include "cli/output.h"
#include "cli/report.h"

namespace boxcar::cli {
namespace {

const char* name_of(backends::LinkKind kind) {
  const char* names[] = {"nvswitch", "nvlink mesh", "pcie", "none"};
  return names[static_cast<size_t>(kind)];
}

void list_clusters() {
  std::string text = fmt::format("{:<18} {:<16} {:>9} {:>5} {:<12} {:>12} {:>16}\n", "cluster", "device",
                                 "memory", "GPUs", "link", "link, 1 way", "NICs per node");
  for (const std::string& name : backends::cluster_presets()) {
    backends::Cluster c = backends::load_cluster(name);
    text += fmt::format("{:<18} {:<16} {:>9} {:>5} {:<12} {:>12} {:>16}\n", name, c.device.name,
                        format_bytes(static_cast<double>(c.device.memory_bytes)), c.node.gpus,
                        name_of(c.node.link), format_bytes(c.node.link_bandwidth) + "/s",
                        fmt::format("{} x {}/s", c.node.nics, format_bytes(c.node.nic_bandwidth)));
  }
  print(text +
        "\nGPUs are those of one node; --gpus N takes as many nodes as are needed. `boxcar clusters NAME` "
        "tells more.\n");
}

void list_models() {
  std::string text = fmt::format("{:<12} {:<6} {:>6} {:>7} {:>6} {:>8} {:>6} {:>7}  {}\n", "model", "family",
                                 "layers", "hidden", "heads", "kv_heads", "seq", "vocab", "source");
  for (const CatalogModel& model : catalog()) {
    auto value = [&](const char* key) {
      auto found = model.values.find(std::string("model.") + key);
      return found == model.values.end() ? std::string("-") : found->second;
    };
    text += fmt::format("{:<12} {:<6} {:>6} {:>7} {:>6} {:>8} {:>6} {:>7}  {}\n", model.name, model.family,
                        value("layers"), value("hidden"), value("heads"), value("kv_heads"), value("seq"),
                        value("vocab"), model.source);
  }
  print(text +
        "\nFamilies gpt, bert and llama take sizes of your own: --model gpt --layers 24 --hidden 2048 "
        "--heads 16 --seq 2048 --vocab 51200.\n"
        "A named model's sizes can be overridden the same way.\n");
}

}  // namespace

void add_list_commands(CLI::App& app) {
  auto name = std::make_shared<std::string>();
  CLI::App* clusters = app.add_subcommand("clusters", "list cluster presets, or describe one");
  clusters->add_option("name", *name, "a preset or a YAML file");
  clusters->callback([name] {
    if (name->empty())
      list_clusters();
    else
      print(backends::describe(backends::load_cluster(*name)));
  });
  app.add_subcommand("models", "list named models and families")->callback(list_models);
}

}  // namespace boxcar::cli

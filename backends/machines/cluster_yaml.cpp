// Reading devices and clusters from YAML; the bounds refuse values that no machine has.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "backends/machines/cluster.h"
#include "backends/machines/constants.h"
#include "backends/machines/device_profile.h"
#include "backends/machines/file_name.h"
#include "backends/machines/strict_yaml.h"
#include "backends/machines/yaml_reader.h"
#include "sbp/error.h"
#include "sbp/suggest.h"

namespace boxcar::backends {
namespace {

template <class Kind>
struct KindName {
  Kind kind;
  const char* name;
};
constexpr KindName<LinkKind> link_kinds[] = {{LinkKind::nvswitch, "nvswitch"},
                                             {LinkKind::nvlink_mesh, "nvlink-mesh"},
                                             {LinkKind::pcie, "pcie"},
                                             {LinkKind::none, "none"}};
constexpr KindName<FabricKind> fabric_kinds[] = {{FabricKind::single_switch, "single-switch"},
                                                 {FabricKind::leaf_spine, "leaf-spine"},
                                                 {FabricKind::fat_tree, "fat-tree"},
                                                 {FabricKind::torus, "torus"},
                                                 {FabricKind::dragonfly, "dragonfly"}};
template <class Kind, size_t n>
void read_kind(Fields& fields, const char* key, const KindName<Kind> (&names)[n], Kind* to) {
  std::string text;
  if (!fields.text(key, &text)) return;
  std::vector<std::string> known;
  for (const auto& [kind, name] : names) {
    if (text == name) {
      *to = kind;
      return;
    }
    known.emplace_back(name);
  }
  fields.fail(key, fmt::format("unknown kind {}{}; known: {}", text, did_you_mean(text, known),
                               fmt::join(known, ", ")));
}

template <class Kind, size_t n>
const char* name_of(const KindName<Kind> (&names)[n], Kind kind) {
  for (const auto& row : names) {
    if (row.kind == kind) return row.name;
  }
  return "?";
}

void read_mesh(Fields& fields, Node* node) {
  if (node->link != LinkKind::nvlink_mesh) {
    if (fields.has("mesh_links")) fields.fail("mesh_links", "only for link: nvlink-mesh");
    return;
  }
  fields.require("mesh_links");
  fields.matrix("mesh_links", 0, 64, &node->mesh_links);
  size_t n = node->gpus;
  auto& links = node->mesh_links;
  if (links.size() != n) fields.fail("mesh_links", fmt::format("{} rows for {} gpus", links.size(), n));
  for (size_t i = 0; i < n; ++i) {
    if (links[i].size() != n) {
      fields.fail("mesh_links", fmt::format("row {} has {} entries for {} gpus", i, links[i].size(), n));
    }
    for (size_t j = 0; j < i; ++j) {
      if (links[i][j] != links[j][i]) {
        fields.fail("mesh_links",
                    fmt::format("{}-{} has {} links but {}-{} has {}", i, j, links[i][j], j, i, links[j][i]));
      }
    }
    if (links[i][i] != 0) fields.fail("mesh_links", fmt::format("{} is linked to itself", i));
    const auto pairs_without = std::count(links[i].begin(), links[i].end(), 0);
    if (pairs_without > 1) fields.require("pcie_bandwidth");  // over which they exchange
  }
}

Node read_node(Fields& fields) {
  Node node;
  fields.integer("gpus", 1, most_node_gpus, &node.gpus);
  read_kind(fields, "link", link_kinds, &node.link);
  YamlReader reader(fields);
  visit(reader, node);
  fields.has("mesh_links");
  fields.done();
  fields.require("gpus");
  if (node.link != LinkKind::none && node.gpus > 1) fields.require("link_bandwidth");
  if (node.nics > 0) fields.require("nic_bandwidth");
  read_mesh(fields, &node);
  if (node.gpus > 1 && node.link == LinkKind::none) fields.require("pcie_bandwidth");
  return node;
}

// Changes numbers of a node and leaves the rest.
void change_node(Fields& fields, Node* node) {
  YamlReader reader(fields);
  visit(reader, *node);
  fields.done();
}

Fabric read_fabric(Fields& fields) {
  Fabric fabric;
  read_kind(fields, "kind", fabric_kinds, &fabric.kind);
  YamlReader reader(fields);
  visit(reader, fabric);
  bool leaves = fabric.kind == FabricKind::leaf_spine;
  bool dims = !leaves && fabric.kind != FabricKind::single_switch;
  if (leaves) fields.integer("nodes_per_leaf", 1, most_gpus, &fabric.nodes_per_leaf);
  if (dims) fields.integers("dims", 1, most_gpus, &fabric.dims);
  fields.done();
  fields.require("kind");
  if (leaves) fields.require("nodes_per_leaf");
  if (dims) fields.require("dims");
  return fabric;
}

// A device named by path lies beside the file that names it.
std::string device_path(const std::string& name, const std::string& file) {
  if (!is_file_name(name)) return name;
  std::filesystem::path path(name);
  if (path.is_absolute()) return name;
  std::string beside = (std::filesystem::path(file).parent_path() / path).string();
  return beside.find('/') == std::string::npos ? "./" + beside : beside;
}

void read_device(Fields& fields, const std::string& file, Cluster* to) {
  std::string name;
  fields.text("device", &name);
  try {
    put_device(*to, load_device(device_path(name, file)));
  } catch (const Error& error) {
    if (error.where() != "device") throw;
    fields.fail("device", std::string(error.what()).substr(std::string("device: ").size()));
  }
}

void read_slowdown(Fields& fields, Cluster* cluster) {
  std::vector<std::pair<std::string, double>> entries;
  fields.numbers("slowdown", 1, 1000, &entries);
  for (const auto& [name, factor] : entries) {
    bool digits =
        !name.empty() && name.size() < 8 && name.find_first_not_of("0123456789") == std::string::npos;
    int device = digits ? std::stoi(name) : -1;
    if (device < 0 || device >= cluster->devices()) {
      fields.fail("slowdown", fmt::format("no device {}; they are 0 to {}", name, cluster->devices() - 1));
    }
    cluster->slowdown[device] = factor;
  }
}

}  // namespace

const char* to_text(LinkKind kind) { return name_of(link_kinds, kind); }
const char* to_text(FabricKind kind) { return name_of(fabric_kinds, kind); }

DeviceProfile parse_device(const std::string& yaml, const std::string& file) {
  auto fields = parse_fields(yaml, file, "");
  DeviceProfile device;
  if (const auto base = fields->like("device", device_presets()))
    device = load_device(*base);
  else
    for (const char* key : {"memory_bytes", "memory_bandwidth", "peak_flops", "multiprocessors"})
      fields->require(key);
  fields->require("name");
  fields->text("name", &device.name);
  YamlReader reader(*fields);
  visit(reader, device);
  fields->done();
  return device;
}

void resize(Cluster& cluster, int gpus) {
  if (gpus == 0) return;
  Node& node = cluster.node;
  if (gpus < 0 || gpus > most_gpus) {
    throw Error::input("gpus", fmt::format("{} is outside 1 to {}", gpus, most_gpus));
  }
  if (gpus < node.gpus) {
    node.gpus = gpus;
    cluster.nodes = 1;
    if (node.link == LinkKind::nvlink_mesh) {
      node.mesh_links.resize(gpus);
      for (auto& row : node.mesh_links) row.resize(gpus);
    }
    return;
  }
  if (gpus % node.gpus != 0) {
    int below = gpus / node.gpus * node.gpus;
    throw Error::input("gpus",
                       fmt::format("{} is not a multiple of the {} GPUs of a node of {} (use {} or {})", gpus,
                                   node.gpus, cluster.name, below, below + node.gpus));
  }
  cluster.nodes = gpus / node.gpus;
  std::erase_if(cluster.slowdown, [&](const auto& slow) { return slow.first >= gpus; });
}

Cluster parse_cluster(const std::string& yaml, const std::string& file, int gpus) {
  auto fields = parse_fields(yaml, file, "");
  Cluster cluster;
  const auto base = fields->like("cluster", cluster_presets());
  if (base) cluster = load_cluster(*base);
  fields->text("name", &cluster.name);
  if (auto node = fields->map("node")) {
    if (base)
      change_node(*node, &cluster.node);
    else
      cluster.node = read_node(*node);
  }
  YamlReader reader(*fields);
  reader.inside("collective", true, [&] { visit(reader, cluster.collective); });
  if (auto fabric = fields->map("fabric")) cluster.fabric = read_fabric(*fabric);
  fields->integer("nodes", 1, most_gpus / cluster.node.gpus, &cluster.nodes);
  fields->number("price_per_gpu_hour", 0, 1e6, &cluster.price_per_gpu_hour);
  fields->has("slowdown");
  fields->has("device");
  fields->done();
  fields->require("name");
  if (!base) fields->require("device"), fields->require("node");
  if (!base || fields->has("device")) read_device(*fields, file, &cluster);
  resize(cluster, gpus);
  read_slowdown(*fields, &cluster);
  if (cluster.nodes > 1 && cluster.node.nics == 0) {
    fields->fail("node", fmt::format("{} nodes without nics cannot talk", cluster.nodes));
  }
  return cluster;
}

}  // namespace boxcar::backends

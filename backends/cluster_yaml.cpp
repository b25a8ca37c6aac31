// Reading devices and clusters from YAML; the bounds refuse what no machine has.
#include <fmt/format.h>

#include <filesystem>
#include <utility>

#include "backends/cluster.h"
#include "backends/strict_yaml.h"
#include "sbp/error.h"
#include "sbp/suggest.h"

namespace boxcar::backends {
namespace {

constexpr double least_rate = 1e6, most_rate = 1e15;  // bytes/s
constexpr double most_flops = 1e18, most_latency = 1;
constexpr double least_cores = 0.1, most_cores = 4096;
constexpr int64_t most_memory = int64_t{1} << 50;
constexpr int most_gpus = 1 << 20, most_node_gpus = 1024;

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
// ir::DType by the name in a file; tf32 is no type of a tensor.
constexpr KindName<ir::DType> peak_types[] = {
    {ir::DType::float64, "float64"},   {ir::DType::float32, "float32"}, {ir::DType::float16, "float16"},
    {ir::DType::bfloat16, "bfloat16"}, {ir::DType::float8, "float8"},   {ir::DType::int8, "int8"}};

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

void read_curve(Fields& fields, const char* key, Curve* to) { fields.points(key, 1e-6, 1.5, &to->x, &to->y); }

void read_types(Fields& fields, const char* key, double low, double high, std::map<ir::DType, double>* to) {
  auto values = fields.map(key);
  if (!values) return;
  for (const auto& [type, name] : peak_types) {
    double value = 0;
    if (values->number(name, low, high, &value)) (*to)[type] = value;
  }
  values->done();
}

void read_waves(Fields& fields, MatmulModel* to) {
  std::vector<std::vector<double>> tiles;
  fields.rows("tiles", 3, 1e-3, 1e4, &tiles);
  for (const auto& tile : tiles) {
    to->tiles.push_back({static_cast<int>(tile[0]), static_cast<int>(tile[1]), tile[2]});
    if (tile[0] < 1 || tile[1] < 1 || tile[2] > 1.5) {
      fields.fail("tiles", "a tile is [rows, columns, share of peak]");
    }
  }
  fields.number("wave_overlap", 0, 1, &to->wave_overlap);
  fields.number("wave_seconds", 0, most_latency, &to->wave_seconds);
  fields.number("split_seconds", 0, most_latency, &to->split_seconds);
  fields.number("start_seconds", 0, most_latency, &to->start_seconds);
  fields.number("memory_share", 1e-3, 1, &to->memory_share);
}

void read_convolutions(Fields& fields, DeviceProfile* device) {
  auto types = fields.map("convolution");
  if (!types) return;
  for (const auto& [type, name] : peak_types) {
    auto model = types->map(name);
    if (!model) continue;
    ConvolutionModel& to = device->convolution[type];
    model->require("tiles");
    read_waves(*model, &to.waves);
    model->number("input_grad", 1e-3, 10, &to.input_grad);
    model->number("weight_grad", 1e-3, 10, &to.weight_grad);
    model->number("strided_input_grad", 1e-3, 10, &to.strided_input_grad);
    model->number("winograd", 0, 1.5, &to.winograd);
    model->number("winograd_fused", 0, 1.5, &to.winograd_fused);
    model->done();
  }
  types->done();
}

void read_matmul(Fields& fields, MatmulModel* to) {
  auto matmul = fields.map("matmul");
  if (!matmul) return;
  read_waves(*matmul, to);
  matmul->number("ramp_bytes", 0, 1e12, &to->ramp_bytes);
  read_types(*matmul, "type_share", 1e-3, 1.5, &to->type_share);
  matmul->done();
}

void read_peaks(Fields& fields, DeviceProfile* device) {
  auto peaks = fields.map("peak_flops");
  if (!peaks) return;
  for (const auto& [type, name] : peak_types) {
    double flops = 0;
    if (peaks->number(name, 1e6, most_flops, &flops)) device->peak_flops[type] = flops;
  }
  peaks->number("tf32", 1e6, most_flops, &device->tf32_flops);
  peaks->done();
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
  }
}

Node read_node(Fields& fields) {
  Node node;
  fields.integer("gpus", 1, most_node_gpus, &node.gpus);
  read_kind(fields, "link", link_kinds, &node.link);
  fields.number("link_bandwidth", least_rate, most_rate, &node.link_bandwidth);
  fields.number("link_latency", 0, most_latency, &node.link_latency);
  fields.number("pcie_bandwidth", least_rate, most_rate, &node.pcie_bandwidth);
  fields.integer("nics", 0, most_node_gpus, &node.nics);
  fields.number("nic_bandwidth", least_rate, most_rate, &node.nic_bandwidth);
  fields.number("nic_latency", 0, most_latency, &node.nic_latency);
  fields.number("cores", least_cores, most_cores, &node.cores);
  fields.number("host_per_op", 0, most_latency, &node.host_per_op);
  fields.has("mesh_links");
  fields.done();
  fields.require("gpus");
  if (node.link != LinkKind::none && node.gpus > 1) fields.require("link_bandwidth");
  if (node.nics > 0) fields.require("nic_bandwidth");
  read_mesh(fields, &node);
  if (node.gpus > 1 && node.link == LinkKind::none && node.nics == 0) {
    fields.fail("link", "none without nics leaves the GPUs of a node unconnected");
  }
  return node;
}

Fabric read_fabric(Fields& fields) {
  Fabric fabric;
  read_kind(fields, "kind", fabric_kinds, &fabric.kind);
  fields.number("hop_latency", 0, most_latency, &fabric.hop_latency);
  bool leaves = fabric.kind == FabricKind::leaf_spine;
  bool dims = !leaves && fabric.kind != FabricKind::single_switch;
  if (leaves) {
    fields.integer("nodes_per_leaf", 1, most_gpus, &fabric.nodes_per_leaf);
    fields.number("oversubscription", 1, 1000, &fabric.oversubscription);
  }
  if (dims) fields.integers("dims", 1, most_gpus, &fabric.dims);
  fields.done();
  fields.require("kind");
  if (leaves) fields.require("nodes_per_leaf");
  if (dims) fields.require("dims");
  return fabric;
}

void read_line(Fields& fields, const std::string& key, CollectiveModel::Line* to) {
  auto line = fields.map(key.c_str());
  if (!line) return;
  line->number("base", 0, most_latency, &to->base);
  line->number("hop", 0, most_latency, &to->hop);
  line->number("share", 1e-4, 2, &to->share);
  line->done();
}

void read_net_line(Fields& fields, const std::string& key, CollectiveModel::NetLine* to) {
  auto line = fields.map(key.c_str());
  if (!line) return;
  line->number("base", 0, most_latency, &to->base);
  line->number("hop", 0, most_latency, &to->hop);
  line->number("net_hop", 0, most_latency, &to->net_hop);
  line->number("share", 1e-4, 2, &to->share);
  line->done();
}

void read_collective(Fields& fields, CollectiveModel* to) {
  for (int i = 0; i < 3; ++i) read_line(fields, CollectiveModel::protocols[i], &to->node[i]);
  read_line(fields, "nvls", &to->nvls);
  read_line(fields, "exchange_small", &to->exchange[0]);
  read_line(fields, "exchange", &to->exchange[1]);
  read_line(fields, "transfer_small", &to->transfer[0]);
  read_line(fields, "transfer", &to->transfer[1]);
  fields.integer("nvls_ranks", 2, most_node_gpus, &to->nvls_ranks);
  if (auto loss = fields.map("few_ranks_loss")) {
    loss->number("all_reduce", 0, 1.5, &to->all_reduce_loss);
    loss->number("gather", 0, 1.5, &to->gather_loss);
    loss->number("exchange", 0, 1.5, &to->exchange_loss);
    loss->done();
  }
  if (auto net = fields.map("net")) {
    for (int i = 0; i < 3; ++i) {
      read_net_line(*net, std::string("ring_") + CollectiveModel::protocols[i], &to->ring[i]);
      read_net_line(*net, std::string("tree_") + CollectiveModel::protocols[i], &to->tree[i]);
    }
    read_net_line(*net, "exchange", &to->net_exchange);
    net->number("nic_share", 1e-3, 1, &to->nic_share);
    net->done();
  }
  fields.done();
}

void read_host(Fields& fields, HostProfile* to) {
  for (const char* key : {"cores", "link_bandwidth", "collective"}) fields.require(key);
  fields.number("cores", least_cores, most_cores, &to->cores);
  fields.number("link_bandwidth", least_rate, most_rate, &to->link_bandwidth);
  if (auto collective = fields.map("collective")) read_collective(*collective, &to->collective);
  fields.done();
}

// A device named by path lies beside the file that names it.
std::string device_path(const std::string& name, const std::string& file) {
  if (name.find('/') == std::string::npos && !name.ends_with(".yaml") && !name.ends_with(".yml")) return name;
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
  for (const char* key : {"name", "memory_bytes", "memory_bandwidth", "multiprocessors"})
    fields->require(key);
  fields->text("name", &device.name);
  fields->integer("memory_bytes", int64_t{1} << 20, most_memory, &device.memory_bytes);
  fields->number("memory_bandwidth", least_rate, most_rate, &device.memory_bandwidth);
  read_peaks(*fields, &device);
  fields->integer("multiprocessors", 1, 100000, &device.multiprocessors);
  fields->number("launch_latency", 0, most_latency, &device.launch_latency);
  fields->number("kernel_floor", 0, most_latency, &device.kernel_floor);
  read_curve(*fields, "matmul_efficiency", &device.matmul_efficiency);
  read_matmul(*fields, &device.matmul);
  read_convolutions(*fields, &device);
  read_curve(*fields, "convolution_efficiency", &device.convolution_efficiency);
  read_curve(*fields, "memory_efficiency", &device.memory_efficiency);
  std::vector<std::pair<std::string, double>> shares;
  fields->numbers("op_share", 1e-3, 10, &shares);
  device.op_share.insert(shares.begin(), shares.end());
  read_curve(*fields, "attention_forward_efficiency", &device.attention_forward_efficiency);
  read_curve(*fields, "attention_backward_efficiency", &device.attention_backward_efficiency);
  read_curve(*fields, "attention_head_share", &device.attention_head_share);
  fields->number("under_load", 0.1, 1, &device.under_load);
  fields->number("overlap_slowdown", 0, 0.99, &device.overlap_slowdown);
  if (auto host = fields->map("host")) read_host(*host, &device.host.emplace());
  fields->done();
  for (const char* key : {"name", "memory_bytes", "memory_bandwidth", "peak_flops", "multiprocessors"}) {
    fields->require(key);
  }
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
  fields->text("name", &cluster.name);
  if (auto node = fields->map("node")) cluster.node = read_node(*node);
  if (auto collective = fields->map("collective")) read_collective(*collective, &cluster.collective);
  if (auto fabric = fields->map("fabric")) cluster.fabric = read_fabric(*fabric);
  fields->integer("nodes", 1, most_gpus / cluster.node.gpus, &cluster.nodes);
  fields->number("price_per_gpu_hour", 0, 1e6, &cluster.price_per_gpu_hour);
  fields->has("slowdown");
  fields->has("device");
  fields->done();
  for (const char* key : {"name", "device", "node"}) fields->require(key);
  read_device(*fields, file, &cluster);
  resize(cluster, gpus);
  read_slowdown(*fields, &cluster);
  if (cluster.nodes > 1 && cluster.node.nics == 0) {
    fields->fail("node", fmt::format("{} nodes without nics cannot talk", cluster.nodes));
  }
  return cluster;
}

}  // namespace boxcar::backends

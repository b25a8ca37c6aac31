// A cluster as `boxcar clusters` prints it.
#include <fmt/format.h>

#include "backends/machines/cluster.h"
#include "backends/machines/device_profile.h"

namespace boxcar::backends {
namespace {

void row(std::string* out, const char* name, const std::string& value) {
  *out += fmt::format("  {:<14}{}\n", name, value);
}

std::string peaks(const DeviceProfile& device) {
  constexpr std::pair<ir::DType, const char*> types[] = {
      {ir::DType::float64, "float64"},   {ir::DType::float32, "float32"}, {ir::DType::float16, "float16"},
      {ir::DType::bfloat16, "bfloat16"}, {ir::DType::float8, "float8"},   {ir::DType::int8, "int8"}};
  std::string text;
  for (const auto& [type, name] : types) {
    auto found = device.peak_flops.find(type);
    if (found != device.peak_flops.end()) text += fmt::format("{} {:g}, ", name, found->second / 1e12);
    if (type == ir::DType::float32 && device.tf32_flops > 0) {
      text += fmt::format("tf32 {:g}, ", device.tf32_flops / 1e12);
    }
  }
  return text.empty() ? "not known" : text.substr(0, text.size() - 2) + " TFLOP/s";
}

std::string network(const Node& node) {
  if (node.nics == 0) return "none";
  return fmt::format("{} x {:g} Gbit/s per node, {:g} us", node.nics, node.nic_bandwidth * 8 / 1e9,
                     node.nic_latency * 1e6);
}

std::string fabric_text(const Fabric& fabric) {
  std::string text = to_text(fabric.kind);
  if (fabric.kind == FabricKind::leaf_spine) {
    text += fmt::format(", {} nodes per leaf, {:g}:1", fabric.nodes_per_leaf, fabric.oversubscription);
  }
  if (!fabric.dims.empty()) text += fmt::format(" {}", fmt::join(fabric.dims, " x "));
  if (fabric.hop_latency > 0) text += fmt::format(", {:g} us per hop", fabric.hop_latency * 1e6);
  return text;
}

}  // namespace

std::string describe(const Cluster& cluster) {
  const DeviceProfile& device = cluster.device;
  const Node& node = cluster.node;
  std::string out = fmt::format("{}: {} x {} ({} {} of {})\n", cluster.name, cluster.devices(), device.name,
                                cluster.nodes, cluster.nodes == 1 ? "node" : "nodes", node.gpus);
  row(&out, "memory",
      fmt::format("{:.1f} GB, {:g} GB/s", static_cast<double>(device.memory_bytes) / 1e9,
                  device.memory_bandwidth / 1e9));
  row(&out, "peak", peaks(device));
  if (node.link == LinkKind::none) {
    row(&out, "in a node", "no links");
  } else {
    row(&out, "in a node",
        fmt::format("{}, {:g} GB/s per GPU one way, {:g} us", to_text(node.link), node.link_bandwidth / 1e9,
                    node.link_latency * 1e6));
  }
  if (node.pcie_bandwidth > 0) {
    row(&out, "to the host", fmt::format("{:g} GB/s per GPU one way", node.pcie_bandwidth / 1e9));
  }
  if (node.host_bandwidth > 0)
    row(&out, "host memory",
        fmt::format("{:g} GB/s, shared by the GPUs of a node", node.host_bandwidth / 1e9));
  if (node.cores > 0) row(&out, "cores", fmt::format("{:g}, shared by the devices of a node", node.cores));
  if (node.host_per_op > 0) {
    const std::string speed = node.host_speed == 1 ? "" : fmt::format(", at speed {:g}", node.host_speed);
    row(&out, "host", fmt::format("{:g} us to launch an op{}", node.host_per_op * 1e6, speed));
  }
  if (node.load_rate > 0) row(&out, "loading", fmt::format("{:g} samples/s per node", node.load_rate));
  if (node.outside_bytes > 0)
    row(&out, "outside",
        fmt::format("{:g} GB of a GPU's memory, which no tensor has", node.outside_bytes / 1e9));
  row(&out, "between nodes", network(node));
  row(&out, "fabric", fabric_text(cluster.fabric));
  for (const auto& [straggler, factor] : cluster.slowdown) {
    row(&out, "straggler", fmt::format("device {} takes {:g} times as long", straggler, factor));
  }
  if (cluster.price_per_gpu_hour > 0) {
    row(&out, "price", fmt::format("{:g} per GPU and hour", cluster.price_per_gpu_hour));
  }
  return out;
}

}  // namespace boxcar::backends

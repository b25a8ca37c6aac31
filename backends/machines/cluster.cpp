#include "backends/machines/cluster.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <tuple>
#include <utility>

#include "backends/machines/device_profile.h"
#include "backends/machines/file_name.h"
#include "backends/machines/framework.h"
#include "backends/machines/is_device.h"
#include "backends/machines/presets.h"
#include "sbp/error.h"
#include "sbp/suggest.h"

namespace boxcar::backends {
namespace {

std::vector<std::string> names_of(std::string_view kind) {
  std::vector<std::string> names;
  for (const Preset& preset : presets()) {
    if (preset.kind == kind) names.emplace_back(preset.name);
  }
  return names;
}

std::string read(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) throw Error::input(path, "is a directory, not a file");
  if (is_device(path)) throw Error::input(path, "cannot be read: it is not a file");
  std::ifstream in(path, std::ios::binary);
  if (!in) throw Error::input(path, "cannot be read");
  return {std::istreambuf_iterator<char>(in), {}};
}

// The presets whose names contain `name`, those of DGX and HGX machines first: "h100" may be any of them.
std::string meant(const std::string& name, const std::vector<std::string>& known) {
  constexpr size_t most = 3;
  std::string text = name;
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  std::vector<std::string> holding;
  std::copy_if(known.begin(), known.end(), std::back_inserter(holding), [&](const std::string& other) {
    return text.size() > 1 && other.find(text) != std::string::npos;
  });
  std::stable_partition(holding.begin(), holding.end(), [](const std::string& other) {
    return other.starts_with("dgx") || other.starts_with("hgx");
  });
  if (holding.empty()) return did_you_mean(name, known);
  if (holding.size() > most) holding.resize(most);
  return fmt::format(" (did you mean {}?)", fmt::join(holding, " or "));
}

const Preset& find(std::string_view kind, const std::string& name) {
  for (const Preset& preset : presets()) {
    if (preset.kind == kind && preset.name == name) return preset;
  }
  std::vector<std::string> known = names_of(kind);
  std::string noun(kind.substr(0, kind.size() - 1));
  throw Error::input(noun, fmt::format("no preset {}{}; known: {}; or give a path to a .yaml file", name,
                                       meant(name, known), fmt::join(known, ", ")));
}

std::string preset_file(const Preset& preset) { return fmt::format("{}/{}.yaml", preset.kind, preset.name); }

}  // namespace

Cluster::Cluster() = default;
Cluster::Cluster(const Cluster&) = default;
Cluster::Cluster(Cluster&&) noexcept = default;
Cluster& Cluster::operator=(const Cluster&) = default;
Cluster& Cluster::operator=(Cluster&&) noexcept = default;
Cluster::~Cluster() = default;

bool operator==(const Cluster& a, const Cluster& b) {
  const auto plain = [](const Cluster& c) {
    return std::tie(c.name, c.node, c.fabric, c.nodes, c.slowdown, c.price_per_gpu_hour);
  };
  return plain(a) == plain(b) && a.device == b.device && a.collective == b.collective &&
         a.framework == b.framework;
}

double Curve::at(double at) const {
  if (x.empty()) return 1;
  if (at <= x.front()) return y.front();
  if (at >= x.back()) return y.back();
  size_t i = std::upper_bound(x.begin(), x.end(), at) - x.begin();
  double share = std::log(at / x[i - 1]) / std::log(x[i] / x[i - 1]);
  return y[i - 1] + share * (y[i] - y[i - 1]);
}

Cluster load_cluster(const std::string& preset_or_path, int gpus) {
  if (is_file_name(preset_or_path)) return parse_cluster(read(preset_or_path), preset_or_path, gpus);
  const Preset& preset = find("clusters", preset_or_path);
  return parse_cluster(preset.yaml, preset_file(preset), gpus);
}

DeviceProfile load_device(const std::string& preset_or_path) {
  if (is_file_name(preset_or_path)) return parse_device(read(preset_or_path), preset_or_path);
  const Preset& preset = find("devices", preset_or_path);
  return parse_device(preset.yaml, preset_file(preset));
}

std::vector<std::string> cluster_presets() { return names_of("clusters"); }
std::vector<std::string> device_presets() { return names_of("devices"); }

std::vector<std::string> framework_names() {
  std::vector<std::string> names = names_of("frameworks");
  std::sort(names.begin(), names.end());
  return names;
}

Framework load_framework(const std::string& name) {  // or a path
  if (is_file_name(name)) return parse_framework(read(name), name);
  for (const Preset& preset : presets())
    if (std::string_view(preset.kind) == "frameworks" && preset.name == name)
      return parse_framework(preset.yaml, preset_file(preset));
  const std::vector<std::string> known = framework_names();
  throw Error::input("framework", fmt::format("no framework is named \"{}\"{}; known are {}", name,
                                              did_you_mean(name, known), fmt::join(known, ", ")));
}

double outside_bytes(const Cluster& cluster) {
  return cluster.node.outside_bytes + cluster.framework->outside_bytes;
}

bool keeps_float8(const Cluster& cluster) {
  return cluster.device->float8 && cluster.framework->float8_operands_stay;
}

bool keeps_float8_of_experts(const Cluster& cluster) {
  return cluster.device->float8 && cluster.framework->float8_expert_results_stay;
}

double library_workspaces(const Cluster& cluster) {
  const std::optional<CachingAllocator>& allocator = cluster.framework->allocator;
  if (!allocator) return 0;
  const double one =
      allocator->workspace_bytes > 0 ? allocator->workspace_bytes : cluster.device->library_workspace;
  return allocator->workspaces * one;
}

void put_framework(Cluster& cluster, const Framework& framework) {
  cluster.framework = framework;
  if (cluster.device->memory_bytes > 0) {
    const double inside = static_cast<double>(cluster.device->memory_bytes) - outside_bytes(cluster);
    cluster.device->memory_bytes = std::max<int64_t>(1, static_cast<int64_t>(inside));
  }
  if (framework.host_per_op) cluster.node.host_per_op = *framework.host_per_op;
  if (framework.pads_channels) cluster.device->pads_channels = true;
  for (const auto& [op, factor] : framework.op_bytes)
    cluster.device->op_share.try_emplace(op, 1.0).first->second /= factor;
  for (const auto& [op, factor] : framework.half_op_bytes)
    cluster.device->half_op_share.try_emplace(op, 1.0).first->second /= factor;
}

void put_device(Cluster& cluster, DeviceProfile device) {
  if (device.host) {
    const HostProfile& host = *device.host;
    cluster.node.cores = host.cores;
    if (host.link_bandwidth > 0)
      cluster.node.link_bandwidth = cluster.node.pcie_bandwidth = host.link_bandwidth;
    if (host.pcie_bandwidth > 0) cluster.node.pcie_bandwidth = host.pcie_bandwidth;
    if (host.per_op > 0) cluster.node.host_per_op = host.per_op;
    if (host.collective) cluster.collective = *host.collective;
  }
  cluster.device = std::move(device);
}

void take_of_each_node(Cluster& cluster, int gpus) {
  Node& node = cluster.node;
  if (gpus < 1 || gpus > node.gpus)
    throw Error::input("gpus_per_node", fmt::format("{} is outside 1 to {}, the GPUs of a node of {}", gpus,
                                                    node.gpus, cluster.name));
  node.nics = (node.nics * gpus + node.gpus - 1) / node.gpus;
  const int nodes = cluster.nodes;
  resize(cluster, gpus);
  cluster.nodes = nodes;
}

void use_tf32(DeviceProfile& device) {
  if (device.tf32_flops <= 0) return;
  device.peak_flops[ir::DType::float32] = device.tf32_flops;
  device.matmul.type_share.erase(ir::DType::float32);  // was the share of the full float32 peak
}

void use_float8(DeviceProfile& device, const Float8Recipe& recipe) {
  device.float8 = recipe;
  if (!recipe.four_bits) return;
  device.peak_flops[ir::DType::float8] = device.float4_flops;
  device.matmul.type_share[ir::DType::float8] = device.matmul.float4_share;
}

namespace {

void scale(Curve& curve, double factor) {
  if (curve.x.empty()) curve = {{1}, {1}};
  for (double& y : curve.y) y *= factor;
}

// FlashAttention 1 over 2 by head size, forward and backward together, alike on an A100 and an H100 (0.58 to
// 0.64, 0.43 to 0.46): github.com/Dao-AILab/flash-attention's plots. Triton's kernel on an A100: 0.58, 0.46.
AttentionKernel first_of(AttentionKernel second) {
  const Curve first = {{64, 128}, {0.60, 0.45}};
  Curve& share = second.head_share;
  if (share.x.empty()) share = {{64, 128}, {1, 1}};
  for (size_t i = 0; i < share.x.size(); ++i) share.y[i] *= first.at(share.x[i]);
  // Both passes together, 3.5 times the forward pass's flops, take as long; but the backward pass runs at
  // 0.75 of the forward pass's speed, not at 0.84 as the second's.
  scale(second.forward, (1 + 2.5 / 0.75) / (1 + 2.5 / 0.84));
  scale(second.backward, (0.75 + 2.5) / (0.84 + 2.5));
  return second;
}

// The kernels that its description has, and the first FlashAttention.
std::map<std::string, AttentionKernel> attention_by_name(const DeviceProfile& device) {
  std::map<std::string, AttentionKernel> all = device.attention_kernels;
  if (!device.attention_kernel.empty()) all[device.attention_kernel] = device.attention;
  if (const auto second = all.find("flash2"); second != all.end())
    all.emplace("flash1", first_of(second->second));
  return all;
}

}  // namespace

std::vector<std::string> attention_kernels(const DeviceProfile& device) {
  std::vector<std::string> names;
  for (const auto& [name, kernel] : attention_by_name(device)) names.push_back(name);
  return names;
}

void use_attention_kernel(DeviceProfile& device, const std::string& name) {
  if (name == device.attention_kernel) return;
  std::map<std::string, AttentionKernel> all = attention_by_name(device);
  const auto found = all.find(name);
  if (found == all.end()) {
    const std::vector<std::string> known = attention_kernels(device);
    throw Error::input("attention_kernel",
                       known.empty()
                           ? fmt::format("device {} names no kernel of fused attention", device.name)
                           : fmt::format("device {} has no speed of \"{}\"{}; it has {}", device.name, name,
                                         did_you_mean(name, known), fmt::join(known, ", ")));
  }
  device.attention = found->second;
  device.attention_kernel = name;
  all.erase(found);
  device.attention_kernels = std::move(all);
}

}  // namespace boxcar::backends

#include "backends/cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include "backends/presets.h"
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

bool is_path(const std::string& name) {
  return name.find('/') != std::string::npos || name.ends_with(".yaml") || name.ends_with(".yml");
}

std::string read(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) throw Error::input(path, "is a directory, not a file");
  std::ifstream in(path, std::ios::binary);
  if (!in) throw Error::input(path, "cannot be read");
  return {std::istreambuf_iterator<char>(in), {}};
}

const Preset& find(std::string_view kind, const std::string& name) {
  for (const Preset& preset : presets()) {
    if (preset.kind == kind && preset.name == name) return preset;
  }
  std::vector<std::string> known = names_of(kind);
  std::string noun(kind.substr(0, kind.size() - 1));
  throw Error::input(noun, fmt::format("no preset {}{}; known: {}; or give a path to a .yaml file", name,
                                       did_you_mean(name, known), fmt::join(known, ", ")));
}

std::string preset_file(const Preset& preset) { return fmt::format("{}/{}.yaml", preset.kind, preset.name); }

}  // namespace

double Curve::at(double at) const {
  if (x.empty()) return 1;
  if (at <= x.front()) return y.front();
  if (at >= x.back()) return y.back();
  size_t i = std::upper_bound(x.begin(), x.end(), at) - x.begin();
  double share = std::log(at / x[i - 1]) / std::log(x[i] / x[i - 1]);
  return y[i - 1] + share * (y[i] - y[i - 1]);
}

Cluster load_cluster(const std::string& preset_or_path, int gpus) {
  if (is_path(preset_or_path)) return parse_cluster(read(preset_or_path), preset_or_path, gpus);
  const Preset& preset = find("clusters", preset_or_path);
  return parse_cluster(preset.yaml, preset_file(preset), gpus);
}

DeviceProfile load_device(const std::string& preset_or_path) {
  if (is_path(preset_or_path)) return parse_device(read(preset_or_path), preset_or_path);
  const Preset& preset = find("devices", preset_or_path);
  return parse_device(preset.yaml, preset_file(preset));
}

std::vector<std::string> cluster_presets() { return names_of("clusters"); }
std::vector<std::string> device_presets() { return names_of("devices"); }

void put_device(Cluster& cluster, DeviceProfile device) {
  if (device.host) {
    cluster.node.cores = device.host->cores;
    cluster.node.link_bandwidth = cluster.node.pcie_bandwidth = device.host->link_bandwidth;
    cluster.collective = device.host->collective;
  }
  cluster.device = std::move(device);
}

void use_tf32(DeviceProfile& device) {
  if (device.tf32_flops <= 0) return;
  device.peak_flops[ir::DType::float32] = device.tf32_flops;
  device.matmul.type_share.erase(ir::DType::float32);  // was the share of the full float32 peak
}

}  // namespace boxcar::backends

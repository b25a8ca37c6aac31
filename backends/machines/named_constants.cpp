#include "backends/machines/named_constants.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "backends/machines/constants.h"
#include "backends/machines/device_profile.h"
#include "backends/machines/framework.h"

namespace boxcar::backends {
namespace {

class Collector {
 public:
  static constexpr bool reads = false;

  template <class Number>
  void number(const std::string& key, double least, double most, Number& value) {
    all.push_back({path_ + key, least, most, &value});
  }
  void whole(const std::string& key, auto least, auto most, auto& value) {
    number(key, static_cast<double>(least), static_cast<double>(most), value);
  }
  void curve(const std::string& key, Curve& curve) {
    for (size_t i = 0; i < curve.y.size(); ++i)
      number(fmt::format("{}.{}", key, i), 0, most_share, curve.y[i]);
  }
  void tiles(const std::string& key, std::vector<MatmulModel::Tile>& tiles) {
    for (size_t i = 0; i < tiles.size(); ++i)
      number(fmt::format("{}.{}", key, i), 0, most_share, tiles[i].share);
  }
  void types(double least, double most, std::map<ir::DType, double>& values) {
    for (auto& [type, value] : values) number(ir::to_text(type), least, most, value);
  }
  void names(const std::string& key, double least, double most, auto& values) {
    for (auto& [name, value] : values) number(key + "." + name, least, most, value);
  }
  void inside(const std::string& key, bool, const auto& work) {
    const std::string outside = std::exchange(path_, path_ + key + ".");
    work();
    path_ = outside;
  }
  void line(const std::string& key, bool written, const auto& work) { inside(key, written, work); }
  void by_type(const std::string& key, auto& models, const auto& work) {
    for (auto& one : models) inside(key + "." + ir::to_text(one.first), true, [&] { work(one.second); });
  }
  void by_name(const std::string&, auto&, const auto&) {}  // of attention kernels that do not run
  void text(const std::string&, const std::string&) {}
  void optional(const std::string&, auto&, const auto&) {}  // of a host, which is in the cluster by now
  void require(const char*) {}

  std::vector<NamedConstant> all;

 private:
  static constexpr double most_share = 1.5;
  std::string path_;
};

std::vector<NamedConstant> constants_of(Cluster& cluster) {
  Collector found;
  visit(found, cluster.device);
  found.inside("node", true, [&] { visit(found, cluster.node); });
  found.inside("fabric", true, [&] { visit(found, cluster.fabric); });
  found.inside("collective", true, [&] { visit(found, cluster.collective); });
  found.number("piece_seconds", 0, most_latency, cluster.framework->piece_seconds);
  return found.all;
}

// Short names, and the paths that they stand for.
constexpr std::pair<const char*, const char*> short_names[] = {
    {"bandwidth.network", "node.nic_bandwidth"},
    {"bandwidth.link", "node.link_bandwidth"},
    {"bandwidth.pcie", "node.pcie_bandwidth"},
    {"bandwidth.host", "node.host_bandwidth"},
    {"bandwidth.memory", "memory_bandwidth"},
    {"latency.network", "node.nic_latency"},
    {"latency.link", "node.link_latency"},
    {"latency.switch", "fabric.hop_latency"},
    {"latency.launch", "launch_latency"},
    {"oversubscription", "fabric.oversubscription"},
    {"host_per_op", "node.host_per_op"},
    {"memory", "memory_bytes"},
    {"flops", "peak_flops"},
};

std::string long_name(const std::string& name) {
  for (const auto& [shorter, longer] : short_names)
    if (name == shorter || name.starts_with(shorter + std::string(".")))
      return longer + name.substr(std::string(shorter).size());
  return name;
}

}  // namespace

std::vector<NamedConstant> find_constants(Cluster& cluster, const std::string& name) {
  const std::string path = long_name(name);
  std::vector<NamedConstant> found;
  for (const NamedConstant& constant : constants_of(cluster))
    if (constant.name == path || constant.name.starts_with(path + ".")) found.push_back(constant);
  return found;
}

bool scale(Cluster& cluster, const std::string& name, double factor) {
  bool scaled = false;
  for (const NamedConstant& constant : find_constants(cluster, name)) {
    if (constant.value() == 0) continue;
    const double next = constant.value() * factor;
    if (next < constant.least || next > constant.most) return false;
    constant.set(next);
    scaled = true;
  }
  return scaled;
}

std::vector<std::string> constant_names(const Cluster& cluster) {
  Cluster copy = cluster;
  std::vector<std::string> names;
  for (const NamedConstant& constant : constants_of(copy)) names.push_back(constant.name);
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> short_constant_names() {
  std::vector<std::string> all;
  for (const auto& names : short_names) all.emplace_back(names.first);
  return all;
}

}  // namespace boxcar::backends

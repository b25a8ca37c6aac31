// Writing devices and clusters as YAML that reads back as the same value.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backends/machines/cluster.h"
#include "backends/machines/constants.h"
#include "backends/machines/device_profile.h"

namespace boxcar::backends {
namespace {

class Writer {
 public:
  static constexpr bool reads = false;

  // Numbers below their bound are absent, and not written.
  void number(const std::string& key, double least, double, double value) {
    if (value >= least) put(key, fmt::format("{}", value));
  }
  void whole(const std::string& key, int64_t, int64_t, int64_t value) { put(key, fmt::format("{}", value)); }
  void curve(const std::string& key, const Curve& curve) {
    std::vector<std::string> points;
    for (size_t i = 0; i < curve.x.size(); ++i)
      points.push_back(fmt::format("[{}, {}]", curve.x[i], curve.y[i]));
    if (!points.empty()) put(key, fmt::format("[{}]", fmt::join(points, ", ")));
  }
  void tiles(const std::string& key, const std::vector<MatmulModel::Tile>& tiles) {
    std::vector<std::string> rows;
    for (const auto& tile : tiles)
      rows.push_back(fmt::format("[{}, {}, {}]", tile.rows, tile.columns, tile.share));
    if (!rows.empty()) put(key, fmt::format("[{}]", fmt::join(rows, ", ")));
  }
  void types(double, double, const std::map<ir::DType, double>& values) {
    for (const auto& [type, value] : values) number(ir::to_text(type), 0, 0, value);
  }
  void names(const std::string& key, double, double, const auto& values) {
    inside(key, !values.empty(), [&] {
      for (const auto& [name, value] : values) number(name, 0, 0, value);
    });
  }
  void inside(const std::string& key, bool written, const auto& work) {
    if (!written) return;
    put(key, "");
    depth_ += 2;
    work();
    depth_ -= 2;
  }
  void line(const std::string& key, bool written, const auto& work) {
    if (!written) return;
    std::vector<std::string> pairs;
    line_ = &pairs;
    work();
    line_ = nullptr;
    put(key, fmt::format("{{{}}}", fmt::join(pairs, ", ")));
  }
  template <class Model>
  void by_type(const std::string& key, std::map<ir::DType, Model>& models, const auto& work) {
    inside(key, !models.empty(), [&] {
      for (auto& one : models) inside(ir::to_text(one.first), true, [&] { work(one.second); });
    });
  }
  template <class Model>
  void by_name(const std::string& key, std::map<std::string, Model>& models, const auto& work) {
    inside(key, !models.empty(), [&] {
      for (auto& one : models) inside(one.first, true, [&] { work(one.second); });
    });
  }
  void text(const std::string& key, const std::string& value) {
    if (!value.empty()) put(key, value);
  }
  template <class Model>
  void optional(const std::string& key, std::optional<Model>& model, const auto& work) {
    inside(key, model.has_value(), [&] { work(*model); });
  }
  void require(const char*) {}

  void put(const std::string& key, const std::string& value) {
    if (line_)
      line_->push_back(fmt::format("{}: {}", key, value));
    else
      written += fmt::format("{:{}}{}:{}{}\n", "", depth_, key, value.empty() ? "" : " ", value);
  }
  std::string written;

 private:
  int depth_ = 0;
  std::vector<std::string>* line_ = nullptr;
};

}  // namespace

std::string to_yaml(const DeviceProfile& device) {
  Writer writer;
  writer.put("name", device.name);
  DeviceProfile numbers = device;
  visit(writer, numbers);
  return writer.written;
}

std::string to_yaml(const Cluster& cluster, const std::string& device) {
  Writer writer;
  Cluster numbers = cluster;
  writer.put("name", cluster.name);
  writer.put("device", device);
  writer.whole("nodes", 1, 0, cluster.nodes);
  if (cluster.price_per_gpu_hour > 0) writer.number("price_per_gpu_hour", 0, 0, cluster.price_per_gpu_hour);
  writer.inside("node", true, [&] {
    writer.whole("gpus", 1, 0, cluster.node.gpus);
    writer.put("link", to_text(cluster.node.link));
    visit(writer, numbers.node);
    std::vector<std::string> rows;
    for (const auto& row : cluster.node.mesh_links) rows.push_back(fmt::format("[{}]", fmt::join(row, ", ")));
    if (!rows.empty()) writer.put("mesh_links", fmt::format("[{}]", fmt::join(rows, ", ")));
  });
  writer.inside("fabric", true, [&] {
    writer.put("kind", to_text(cluster.fabric.kind));
    visit(writer, numbers.fabric);
    if (cluster.fabric.nodes_per_leaf > 0)
      writer.whole("nodes_per_leaf", 1, 0, cluster.fabric.nodes_per_leaf);
    if (!cluster.fabric.dims.empty())
      writer.put("dims", fmt::format("[{}]", fmt::join(cluster.fabric.dims, ", ")));
  });
  writer.inside("collective", true, [&] { visit(writer, numbers.collective); });
  writer.inside("slowdown", !cluster.slowdown.empty(), [&] {
    for (const auto& [rank, factor] : cluster.slowdown) writer.number(fmt::format("{}", rank), 1, 0, factor);
  });
  return writer.written;
}

}  // namespace boxcar::backends

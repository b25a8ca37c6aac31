// Descriptions of clusters. Written ones name their device, so only those of a preset are read again.
#include "backends/machines/cluster.h"

#include <algorithm>

#include "backends/machines/device_profile.h"
#include "harness.h"

namespace boxcar::fuzz {
namespace {

backends::Cluster parse(std::string_view text) {
  return backends::parse_cluster(std::string(text), "cluster.yaml");
}

bool is_preset(const backends::DeviceProfile& device) {
  const std::vector<std::string> names = backends::device_presets();
  return std::find(names.begin(), names.end(), device.name) != names.end();
}

}  // namespace

void fuzz_cluster(std::string_view input) {
  const auto cluster = allowed([&] { return parse(input); });
  if (!cluster) return;
  backends::describe(*cluster);
  if (input.size() % 4 == 0)  // only sometimes, since each reads everything again
    for (const int gpus : {1, 16, 1000})
      ends([&] { backends::parse_cluster(std::string(input), "c.yaml", gpus); });
  if (is_preset(cluster->device) && cluster->device == backends::load_device(cluster->device->name))
    reads_back(input, parse, [](const backends::Cluster& c) { return backends::to_yaml(c, c.device->name); });
}

}  // namespace boxcar::fuzz

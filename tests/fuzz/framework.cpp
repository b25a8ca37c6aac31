// Descriptions of software frameworks, and clusters that run them.
#include "backends/machines/framework.h"

#include "backends/machines/cluster.h"
#include "harness.h"

namespace boxcar::fuzz {

void fuzz_framework(std::string_view input) {
  const auto framework =
      allowed([&] { return backends::parse_framework(std::string(input), "framework.yaml"); });
  if (!framework) return;
  static const backends::Cluster described = backends::load_cluster("dgx-a100-80g", 16);
  backends::Cluster cluster = described;
  backends::put_framework(cluster, *framework);
  backends::library_workspaces(cluster);
}

}  // namespace boxcar::fuzz

// Descriptions of software stacks, and clusters that run them.
#include "backends/machines/stack.h"

#include "backends/machines/cluster.h"
#include "harness.h"

namespace boxcar::fuzz {

void fuzz_stack(std::string_view input) {
  const auto stack = allowed([&] { return backends::parse_stack(std::string(input), "stack.yaml"); });
  if (!stack) return;
  static const backends::Cluster described = backends::load_cluster("dgx-a100-80g", 16);
  backends::Cluster cluster = described;
  backends::put_stack(cluster, *stack);
  backends::library_workspaces(cluster);
}

}  // namespace boxcar::fuzz

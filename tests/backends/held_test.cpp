// A cluster holds descriptions whose fields its header hides, yet it is a value.
#include "backends/machines/held.h"

#include <gtest/gtest.h>

#include <functional>
#include <utility>

#include "backends/machines/cluster.h"
#include "backends/machines/device_profile.h"
#include "backends/machines/framework.h"

namespace boxcar::backends {
namespace {

TEST(Held, CopiesAreOfWhatIsHeld) {
  const Cluster described = load_cluster("dgx-a100-80g");
  Cluster copy = described;
  EXPECT_EQ(copy, described);
  copy.device->memory_bytes = 7;
  EXPECT_NE(copy.device->memory_bytes, described.device->memory_bytes);
  const Cluster moved = std::move(copy);
  EXPECT_EQ(moved.device->memory_bytes, 7);
  copy = described;  // a moved-from object accepts a value again
  EXPECT_EQ(copy, described);
}

TEST(Held, EveryFieldOfAClusterCounts) {
  const Cluster described = load_cluster("dgx-a100-80g");
  const std::function<void(Cluster&)> changes[] = {
      [](Cluster& c) { c.name = "other"; },
      [](Cluster& c) { c.device->memory_bytes = 7; },
      [](Cluster& c) { c.node.gpus = 3; },
      [](Cluster& c) { c.fabric.hop_latency = 1; },
      [](Cluster& c) { c.nodes = 3; },
      [](Cluster& c) { c.slowdown[0] = 2; },
      [](Cluster& c) { c.collective->gather_loss = 0.1; },
      [](Cluster& c) { c.framework->fragmentation = 0.1; },
      [](Cluster& c) { c.price_per_gpu_hour = 3; },
  };
  for (const auto& change : changes) {
    Cluster other = described;
    change(other);
    EXPECT_FALSE(other == described) << &change - changes;
  }
}

}  // namespace
}  // namespace boxcar::backends

#include "backends/machines/constant_unit.h"

#include <gtest/gtest.h>

#include "backends/machines/cluster.h"
#include "backends/machines/constants.h"
#include "backends/machines/named_constants.h"

namespace boxcar::backends {
namespace {

// The bounds of a constant also determine its unit, unless a share has bounds of seconds.
TEST(ConstantUnit, AgreesWithTheBoundsOfEveryConstant) {
  int checked = 0;
  for (const std::string& preset : cluster_presets()) {
    Cluster cluster = load_cluster(preset, 0);
    for (const std::string& name : constant_names(cluster))
      for (const NamedConstant& constant : find_constants(cluster, name)) {
        const ir::Unit unit = unit_of(constant.name);
        EXPECT_TRUE(unit != ir::Unit::seconds || constant.most == most_latency) << constant.name;
        const bool per_second = constant.name.ends_with("load_rate");  // samples
        EXPECT_EQ(unit == ir::Unit::bytes_per_second, constant.most == most_rate && !per_second)
            << constant.name;
        EXPECT_EQ(unit == ir::Unit::flops_per_second, constant.most == most_flops) << constant.name;
        ++checked;
      }
  }
  EXPECT_GT(checked, 500);
}

TEST(ConstantUnit, AWrongUnitIsNoNumber) {
  EXPECT_EQ(read_constant("node.nic_bandwidth", "400Gbit/s"), 50e9);
  EXPECT_EQ(read_constant("node.nic_bandwidth", "5e10"), 5e10);
  EXPECT_EQ(read_constant("node.nic_bandwidth", "3us"), std::nullopt);
  EXPECT_EQ(read_constant("node.nic_latency", "3us"), 3e-6);
  EXPECT_EQ(read_constant("matmul.wave_overlap", "1s"), std::nullopt);
  EXPECT_EQ(read_constant("op_seconds.adam", "3us"), 3e-6);
  EXPECT_EQ(read_constant("sustained_flops", "769TFLOP/s"), 769e12);
}

}  // namespace
}  // namespace boxcar::backends

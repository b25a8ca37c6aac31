#include "backends/machines/cluster.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <numeric>

#include "backends/machines/collective_model.h"
#include "backends/machines/device_profile.h"
#include "sbp/error.h"
#include "support/error_of.h"

namespace boxcar::backends {
namespace {

using support::error_of;

const char* const device_yaml = R"(name: toy
memory_bytes: 1000000000
memory_bandwidth: 1e12
peak_flops: {float32: 1e13, tf32: 4e13}
multiprocessors: 10
matmul_efficiency: [[1e6, 0.5], [1e8, 0.7]]
)";

const char* const cluster_yaml = R"(name: two
device: a100-sxm-80g
nodes: 2
node: {gpus: 4, link: nvswitch, link_bandwidth: 300e9, nics: 1, nic_bandwidth: 25e9}
)";

// The message of parse_cluster for cluster_yaml with `from` replaced by `to`.
std::string cluster_message(const std::string& from, const std::string& to, int gpus = 0) {
  std::string text = cluster_yaml;
  size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
  return error_of([&] { parse_cluster(text, "c.yaml", gpus); });
}

std::string device_message(const std::string& from, const std::string& to) {
  std::string text = device_yaml;
  size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
  return error_of([&] { parse_device(text, "d.yaml"); });
}

TEST(Curve, InterpolatesInLogXAndClamps) {
  Curve curve{{10, 1000}, {0.2, 0.6}};
  EXPECT_DOUBLE_EQ(curve.at(1), 0.2);
  EXPECT_NEAR(curve.at(100), 0.4, 1e-12);
  EXPECT_DOUBLE_EQ(curve.at(1e6), 0.6);
  EXPECT_DOUBLE_EQ(Curve{}.at(5), 1);
}

TEST(Presets, AllLoadAndAreWhole) {
  EXPECT_THAT(cluster_presets(),
              testing::IsSupersetOf({"dgx-1-v100-16g", "dgx-1-v100-32g", "dgx-a100-40g", "dgx-a100-80g",
                                     "dgx-h100", "hgx-h200", "hgx-h800", "pcie-a100-80g"}));
  for (const std::string& name : cluster_presets()) {
    Cluster cluster = load_cluster(name, 16);
    EXPECT_EQ(cluster.name, name);
    EXPECT_EQ(cluster.devices(), 16) << name;
    EXPECT_EQ(cluster.nodes * cluster.node.gpus, 16) << name;
    EXPECT_GT(cluster.node.pcie_bandwidth, 0) << name;
  }
  for (const std::string& name : device_presets()) {
    DeviceProfile device = load_device(name);
    EXPECT_EQ(device.name, name);
    EXPECT_GE(device.peak_flops.at(ir::DType::float16), device.peak_flops.at(ir::DType::float32)) << name;
  }
}

TEST(Presets, EveryV100HasSixLinks) {
  for (const auto& row : load_cluster("dgx-1-v100-16g").node.mesh_links) {
    EXPECT_EQ(std::accumulate(row.begin(), row.end(), 0), 6);
  }
}

TEST(Presets, UnknownNameSuggests) {
  EXPECT_THAT(error_of([] { load_cluster("dgx-a100-80"); }),
              testing::StartsWith("cluster: no preset dgx-a100-80 (did you mean dgx-a100-80g?); known: "
                                  "a100-80g-400g, a100-80g-800g, "));
  EXPECT_THAT(error_of([] { load_device("h100-sxn"); }), testing::HasSubstr("(did you mean h100-sxm?)"));
}

TEST(LoadCluster, FewerGpusThanANodeShrinkIt) {
  Cluster cluster = load_cluster("dgx-1-v100-32g", 4);
  EXPECT_EQ(cluster.nodes, 1);
  EXPECT_EQ(cluster.node.gpus, 4);
  EXPECT_EQ(cluster.node.mesh_links,
            (std::vector<std::vector<int>>{{0, 1, 1, 2}, {1, 0, 2, 1}, {1, 2, 0, 2}, {2, 1, 2, 0}}));
}

TEST(LoadCluster, GpusFillNodes) {
  EXPECT_EQ(load_cluster("dgx-a100-80g", 1024).nodes, 128);
  EXPECT_EQ(error_of([] { load_cluster("dgx-a100-80g", 12); }),
            "gpus: 12 is not a multiple of the 8 GPUs of a node of dgx-a100-80g (use 8 or 16)");
  EXPECT_EQ(error_of([] { load_cluster("dgx-a100-80g", -8); }), "gpus: -8 is outside 1 to 1048576");
  EXPECT_EQ(error_of([] { load_cluster("dgx-a100-80g", 2000000000); }),
            "gpus: 2000000000 is outside 1 to 1048576");
}

TEST(LoadCluster, TakesSoManyOfEachNode) {
  Cluster racks = load_cluster("gb200-nvl72");
  take_of_each_node(racks, 64);
  resize(racks, 256);
  EXPECT_EQ(racks.nodes, 4);
  EXPECT_EQ(racks.node.gpus, 64);
  EXPECT_EQ(racks.node.nics, 64);
  Cluster mesh = load_cluster("dgx-1-v100-32g");
  take_of_each_node(mesh, 4);
  EXPECT_EQ(mesh.node.mesh_links.size(), 4u);
  EXPECT_EQ(error_of([&] { take_of_each_node(racks, 65); }),
            "gpus_per_node: 65 is outside 1 to 64, the GPUs of a node of gb200-nvl72");
  EXPECT_EQ(error_of([&] { take_of_each_node(racks, 0); }),
            "gpus_per_node: 0 is outside 1 to 64, the GPUs of a node of gb200-nvl72");
}

TEST(ParseCluster, IsLikeAnotherButForWhatItSays) {
  Cluster wanted = load_cluster("hgx-b200");
  const Cluster faster =
      parse_cluster("name: mine\nlike: hgx-b200\nnode: {nic_bandwidth: 100e9}\n", "c.yaml");
  EXPECT_EQ(faster.node.nic_bandwidth, 100e9);
  EXPECT_EQ(faster.node.gpus, 8);
  EXPECT_EQ(faster.device->name, "b200-sxm");
  EXPECT_EQ(faster.collective, wanted.collective);
  EXPECT_EQ(parse_cluster("name: mine\nlike: hgx-b200\ndevice: b300-sxm\n", "c.yaml").device->name,
            "b300-sxm");
  EXPECT_EQ(
      error_of([] { parse_cluster("name: mine\nlike: hgx-b20\n", "c.yaml"); }),
      "c.yaml:2:7: like: no cluster of boxcar's is named \"hgx-b20\" (did you mean hgx-b200?); known are " +
          fmt::format("{}", fmt::join(cluster_presets(), ", ")));
  EXPECT_EQ(error_of([] { parse_cluster("name: mine\nlike: hgx-b200\nnode: {gpus: 4}\n", "c.yaml"); }),
            "c.yaml:3:8: node: unknown key gpus");
}

TEST(ParseDevice, IsLikeAnotherButForWhatItSays) {
  DeviceProfile wanted = load_device("h100-sxm");
  wanted.name = "mine";
  wanted.under_load = 0.8;
  wanted.matmul.tiles = {{128, 128, 0.5}};
  EXPECT_EQ(parse_device("name: mine\nlike: h100-sxm\nunder_load: 0.8\nmatmul: {tiles: [[128, 128, 0.5]]}\n",
                         "d.yaml"),
            wanted);
  EXPECT_EQ(error_of([] { parse_device("name: mine\nlike: h10\n", "d.yaml"); }),
            "d.yaml:2:7: like: no device of boxcar's is named \"h10\" (did you mean h100-sxm?); known are " +
                fmt::format("{}", fmt::join(device_presets(), ", ")));
}

TEST(LoadCluster, FilesNameDevicesBesideThem) {
  auto folder = std::filesystem::temp_directory_path() / ("boxcar_cluster_" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "toy.yaml") << device_yaml;
  std::ofstream(folder / "c.yaml") << "name: mine\ndevice: toy.yaml\nnode: {gpus: 1}\n";
  EXPECT_EQ(load_cluster((folder / "c.yaml").string()).device->name, "toy");
  EXPECT_EQ(error_of([&] { load_cluster((folder / "none.yaml").string()); }),
            (folder / "none.yaml").string() + ": cannot be read");
  EXPECT_EQ(error_of([&] { load_cluster(folder.string()); }),
            folder.string() + ": is a directory, not a file");
  EXPECT_EQ(error_of([&] { load_cluster("/dev/zero"); }), "/dev/zero: cannot be read: it is not a file");
  std::filesystem::remove_all(folder);
}

TEST(ParseCluster, Reads) {
  Cluster cluster = parse_cluster(std::string(cluster_yaml) +
                                      "slowdown: {3: 1.5}\n"
                                      "fabric: {kind: leaf-spine, nodes_per_leaf: 1, oversubscription: 2}\n",
                                  "c.yaml");
  EXPECT_EQ(cluster.devices(), 8);
  EXPECT_EQ(cluster.node_of(5), 1);
  EXPECT_EQ(cluster.device->name, "a100-sxm-80g");
  EXPECT_DOUBLE_EQ(cluster.slowdown.at(3), 1.5);
  EXPECT_EQ(cluster.fabric.kind, FabricKind::leaf_spine);
  EXPECT_DOUBLE_EQ(cluster.fabric.oversubscription, 2);
}

TEST(ParseCluster, Refuses) {
  EXPECT_EQ(cluster_message("nic_bandwidth", "nic_bandwith"),
            "c.yaml:4:65: node: unknown key nic_bandwith (did you mean nic_bandwidth?)");
  EXPECT_EQ(cluster_message("gpus: 4", "gpus: 0"), "c.yaml:4:14: node.gpus: 0 is outside 1 to 1024");
  EXPECT_EQ(cluster_message("gpus: 4", "gpus: 4.5"), "c.yaml:4:14: node.gpus: 4.5 is not a whole number");
  EXPECT_EQ(cluster_message("gpus: 4", "gpus: four"), "c.yaml:4:14: node.gpus: four is not a number");
  EXPECT_EQ(cluster_message("gpus: 4", "gpus: [4]"),
            "c.yaml:4:14: node.gpus: a list where a number is expected");
  EXPECT_EQ(cluster_message("300e9", "-300e9"),
            "c.yaml:4:49: node.link_bandwidth: -300e9 is outside 1e+06 to 1e+15");
  EXPECT_EQ(cluster_message("300e9", ".nan"),
            "c.yaml:4:49: node.link_bandwidth: .nan is not a number, as 450GB/s is");
  EXPECT_EQ(
      cluster_message("nvswitch", "nvswich"),
      "c.yaml:4:23: node.link: unknown kind nvswich (did you mean nvswitch?); known: nvswitch, nvlink-mesh, "
      "pcie, none");
  EXPECT_EQ(cluster_message("nvswitch", "nvlink-mesh"), "c.yaml:4:7: node: missing key mesh_links");
  EXPECT_EQ(cluster_message("nvswitch", "none"), "c.yaml:4:7: node: missing key pcie_bandwidth");
  EXPECT_EQ(cluster_message("nics: 1, ", ""), "c.yaml:4:7: node: 2 nodes without nics cannot talk");
  EXPECT_EQ(cluster_message("link_bandwidth: 300e9, ", ""), "c.yaml:4:7: node: missing key link_bandwidth");
  EXPECT_EQ(cluster_message("nodes: 2", "nodes: 0"), "c.yaml:3:8: nodes: 0 is outside 1 to 262144");
  EXPECT_EQ(cluster_message("nodes: 2", "nodes: 2\nnodes: 3"), "c.yaml:4:1: nodes: given twice");
  EXPECT_EQ(cluster_message("nodes: 2", "slowdown: {4: 2}"),
            "c.yaml:3:11: slowdown: no device 4; they are 0 to 3");
  EXPECT_EQ(cluster_message("nodes: 2", "slowdown: {0: 0.5}"),
            "c.yaml:3:15: slowdown.0: 0.5 is outside 1 to 1000");
  EXPECT_EQ(cluster_message("nodes: 2", "fabric: {kind: leaf-spine}"),
            "c.yaml:3:9: fabric: missing key nodes_per_leaf");
  EXPECT_THAT(
      cluster_message("device: a100-sxm-80g", "device: a100-sxm-80"),
      testing::StartsWith("c.yaml:2:9: device: no preset a100-sxm-80 (did you mean a100-sxm-80g?); known: "));
  EXPECT_EQ(cluster_message("name: two\n", ""), "c.yaml:1:1: missing key name");
}

TEST(ParseCluster, RefusesWhatIsNotYamlOrNoMapping) {
  EXPECT_EQ(error_of([] { parse_cluster("", "c.yaml"); }), "c.yaml: the file is empty");
  EXPECT_EQ(error_of([] { parse_cluster("- 1\n", "c.yaml"); }),
            "c.yaml:1:1: a list where a mapping is expected");
  EXPECT_EQ(error_of([] { parse_cluster("name: [1\n", "c.yaml"); }),
            "c.yaml:2:1: end of sequence flow not found");
}

TEST(ParseCluster, RefusesUnevenMeshes) {
  std::string head =
      "name: m\ndevice: a100-sxm-80g\nnode: {gpus: 2, link: nvlink-mesh, link_bandwidth: 1e9, mesh_links: ";
  auto says = [&](const std::string& links) {
    return error_of([&] { parse_cluster(head + links + "}\n", "c.yaml"); });
  };
  EXPECT_EQ(says("[[0, 1], [1, 0]]"), "no error");
  EXPECT_THAT(says("[[0, 1]]"), testing::EndsWith("node.mesh_links: 1 rows for 2 gpus"));
  EXPECT_THAT(says("[[0, 1], [1]]"), testing::EndsWith("node.mesh_links: row 1 has 1 entries for 2 gpus"));
  EXPECT_THAT(says("[[0, 1], [2, 0]]"), testing::EndsWith("node.mesh_links: 1-0 has 2 links but 0-1 has 1"));
  EXPECT_THAT(says("[[0, 0], [0, 0]]"), testing::EndsWith("node: missing key pcie_bandwidth"));
  EXPECT_THAT(says("[[1, 1], [1, 0]]"), testing::EndsWith("node.mesh_links: 0 is linked to itself"));
}

TEST(ParseDevice, ReadsAndUsesTf32) {
  DeviceProfile device = parse_device(device_yaml, "d.yaml");
  EXPECT_EQ(device.memory_bytes, 1000000000);
  EXPECT_DOUBLE_EQ(device.peak_flops.at(ir::DType::float32), 1e13);
  use_tf32(device);
  EXPECT_DOUBLE_EQ(device.peak_flops.at(ir::DType::float32), 4e13);
  DeviceProfile v100 = load_device("v100-sxm2-16g");
  use_tf32(v100);
  EXPECT_DOUBLE_EQ(v100.peak_flops.at(ir::DType::float32), 15.7e12);
}

TEST(ParseDevice, Refuses) {
  EXPECT_EQ(device_message("memory_bytes: 1000000000", "memory_bytes: -1"),
            "d.yaml:2:15: memory_bytes: -1 is outside 1.04858e+06 to 1.1259e+15");
  EXPECT_EQ(device_message("tf32", "tf23"), "d.yaml:4:29: peak_flops: unknown key tf23 (did you mean tf32?)");
  EXPECT_EQ(device_message("[1e8, 0.7]", "[1e5, 0.7]"),
            "d.yaml:6:33: matmul_efficiency: x must ascend from point to point");
  EXPECT_EQ(device_message("[1e8, 0.7]", "[1e8, 7]"),
            "d.yaml:6:39: matmul_efficiency: 7 is outside 1e-06 to 1.5");
  EXPECT_EQ(device_message("multiprocessors: 10\n", ""), "d.yaml:1:1: missing key multiprocessors");
  const auto with_convolutions = [](const std::string& types) {
    return device_message("multiprocessors: 10\n", "multiprocessors: 10\nconvolution: " + types + "\n");
  };
  EXPECT_EQ(with_convolutions("{float16: {winograd: 1}}"),
            "d.yaml:6:24: convolution.float16: missing key tiles");
  EXPECT_EQ(with_convolutions("{float16: {tiles: [[64, 64, 2]]}}"),
            "d.yaml:6:32: convolution.float16.tiles: a tile is [rows, columns, share of peak]");
  EXPECT_EQ(with_convolutions("{float61: {}}"),
            "d.yaml:6:15: convolution: unknown key float61 (did you mean float64?)");
}

TEST(Describe, Table) {
  EXPECT_EQ(describe(load_cluster("dgx-a100-80g", 1024)),
            R"(dgx-a100-80g: 1024 x a100-sxm-80g (128 nodes of 8)
  memory        85.1 GB, 2039 GB/s
  peak          float32 19.5, tf32 156, float16 312, bfloat16 312 TFLOP/s
  in a node     nvswitch, 300 GB/s per GPU one way, 0.6 us
  to the host   31 GB/s per GPU one way
  host memory   409.6 GB/s, shared by the GPUs of a node
  host          50 us to launch an op
  between nodes 8 x 200 Gbit/s per node, 2.7 us
  fabric        leaf-spine, 20 nodes per leaf, 1:1, 0.6 us per hop
)");
}

const char* const host_yaml = R"(host:
  cores: 1.5
  link_bandwidth: 8e9
  collective:
    simple: {base: 2e-5, hop: 1e-6, share: 1}
    few_ranks_loss: {all_reduce: 0.5, gather: 0.25, exchange: 0}
)";

TEST(Device, ReadsBackWhatIsWritten) {
  for (const std::string& name : device_presets()) {
    const DeviceProfile device = load_device(name);
    EXPECT_EQ(parse_device(to_yaml(device), name), device) << to_yaml(device);
  }
  const DeviceProfile device = parse_device(std::string(device_yaml) + host_yaml, "d.yaml");
  EXPECT_EQ(parse_device(to_yaml(device), "d.yaml"), device);
}

TEST(Device, SaysWhatItsHostIs) {
  Cluster cluster = load_cluster("dgx-a100-80g");
  put_device(cluster, parse_device(device_yaml, "d.yaml"));
  EXPECT_EQ(cluster.device->name, "toy");
  EXPECT_EQ(cluster.node.cores, 0);
  EXPECT_EQ(cluster.node.link_bandwidth, load_cluster("dgx-a100-80g").node.link_bandwidth);
  put_device(cluster, parse_device(std::string(device_yaml) + host_yaml, "d.yaml"));
  EXPECT_EQ(cluster.node.cores, 1.5);
  EXPECT_EQ(cluster.node.link_bandwidth, 8e9);
  EXPECT_EQ(cluster.node.pcie_bandwidth, 8e9);
  EXPECT_EQ(cluster.collective->node[2].base, 2e-5);
  EXPECT_EQ(cluster.collective->gather_loss, 0.25);
}

TEST(Device, LeavesWhatWasNotMeasuredToTheCluster) {
  Cluster cluster = load_cluster("dgx-a100-80g");
  const Cluster before = cluster;
  const DeviceProfile device =
      parse_device(std::string(device_yaml) + "host: {pcie_bandwidth: 5e10, per_op: 4e-6}\n", "d.yaml");
  EXPECT_EQ(parse_device(to_yaml(device), "d.yaml"), device) << to_yaml(device);
  put_device(cluster, device);
  EXPECT_EQ(cluster.node.pcie_bandwidth, 5e10);
  EXPECT_EQ(cluster.node.host_per_op, 4e-6);
  EXPECT_EQ(cluster.node.link_bandwidth, before.node.link_bandwidth);
  EXPECT_EQ(cluster.collective, before.collective);
}

TEST(Device, HostErrorsSayWhere) {
  const auto message = [](const std::string& from, const std::string& to) {
    std::string text = std::string(device_yaml) + host_yaml;
    text.replace(text.find(from), from.size(), to);
    return error_of([&] { parse_device(text, "d.yaml"); });
  };
  EXPECT_EQ(message("cores: 1.5", "cores: 0"), "d.yaml:8:10: host.cores: 0 is outside 0.1 to 4096");
  EXPECT_EQ(message("cores", "core"), "d.yaml:8:3: host: unknown key core (did you mean cores?)");
  EXPECT_EQ(cluster_message("gpus: 4", "gpus: 4, cores: 5000"),
            "c.yaml:4:24: node.cores: 5000 is outside 0.1 to 4096");
}

}  // namespace
}  // namespace boxcar::backends

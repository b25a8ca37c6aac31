#include "backends/machines/framework.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backends/machines/cluster.h"
#include "backends/machines/device_profile.h"
#include "sbp/error.h"
#include "support/error_of.h"

namespace boxcar::backends {
namespace {

TEST(Frameworks, AreThose) {
  EXPECT_THAT(framework_names(),
              testing::ElementsAre("boxcar", "composer", "deepspeed", "fsdp", "hai-llm", "internevo", "jax",
                                   "megatron", "megatron-fused-loss", "megatron-nondeterministic", "mxnet",
                                   "nemo", "nemo-24", "ngc", "oneflow", "oneflow-ops", "pytorch",
                                   "pytorch-compiled", "scaling", "scaling-rms", "tensorflow", "torchtitan"));
  for (const std::string& name : framework_names()) EXPECT_EQ(load_framework(name).name, name);
}

TEST(Frameworks, BoxcarsOwnAddsNothing) {
  EXPECT_EQ(load_framework("boxcar"), Framework());
  Cluster cluster = load_cluster("dgx-a100-80g", 8);
  const Cluster before = cluster;
  put_framework(cluster, Framework());
  EXPECT_EQ(cluster.device, before.device);
  EXPECT_EQ(cluster.node.host_per_op, before.node.host_per_op);
}

TEST(Frameworks, GiveAClusterTheirHostTimeAndBytes) {
  Cluster cluster = load_cluster("dgx-a100-80g", 8);
  cluster.device->op_share = {{"gelu", 0.5}};
  Framework framework;
  framework.host_per_op = 7e-6;
  framework.op_bytes = {{"gelu", 2.0}, {"adam", 4.0}};
  framework.half_op_bytes = {{"relu", 0.25}};
  framework.pads_channels = true;
  put_framework(cluster, framework);
  EXPECT_EQ(cluster.node.host_per_op, 7e-6);
  EXPECT_EQ(cluster.device->op_share.at("gelu"), 0.25);
  EXPECT_EQ(cluster.device->op_share.at("adam"), 0.25);
  EXPECT_EQ(cluster.device->half_op_share.at("relu"), 4);
  EXPECT_TRUE(cluster.device->pads_channels);
}

// Memory that no tensor holds: the framework's, and the node's.
TEST(Frameworks, TakeWhatNoTensorHasFromADevicesMemory) {
  for (const double of_node : {0.0, 1e9}) {
    Cluster cluster = load_cluster("dgx-a100-80g", 8);
    const auto whole = static_cast<double>(cluster.device->memory_bytes);
    cluster.node.outside_bytes = of_node;
    Framework framework;
    framework.outside_bytes = 2e9;
    put_framework(cluster, framework);
    EXPECT_NEAR(static_cast<double>(cluster.device->memory_bytes), whole - 2e9 - of_node, 1);
    EXPECT_EQ(outside_bytes(cluster), 2e9 + of_node);
  }
}

TEST(Frameworks, AreLikeOthersButForWhatTheySay) {
  const Framework megatron = load_framework("megatron");
  EXPECT_EQ(parse_framework("like: megatron\nname: megatron\n", "m.yaml"), megatron);
  const Framework framework = parse_framework(
      "name: mine\nlike: megatron\nretained_bytes: {cross_entropy_grad: 3, gelu: 2}\npass_launches: 1\n"
      "defaults: {parallel.zero: 1}\n",
      "m.yaml");
  Framework wanted = megatron;
  wanted.name = "mine";
  wanted.retained_bytes["cross_entropy_grad"] = 3;
  wanted.retained_bytes["gelu"] = 2;
  wanted.pass_launches = 1;
  wanted.defaults["parallel.zero"] = "1";
  EXPECT_EQ(framework, wanted);
}

// The framework's workspace size overrides the device's. A framework based on another keeps the rest.
TEST(Frameworks, AnAllocatorGivesLibrariesWorkspaces) {
  Cluster cluster = load_cluster("dgx-a100-80g", 8);
  EXPECT_EQ(library_workspaces(cluster), 0);
  put_framework(cluster, parse_framework("name: s\nallocator: {workspaces: 2}\n", "s.yaml"));
  EXPECT_EQ(library_workspaces(cluster), 2 * 8519680);
  put_framework(cluster, load_framework("megatron"));
  EXPECT_EQ(library_workspaces(cluster), 3 * 33554432);
  put_framework(cluster, load_framework("megatron-nondeterministic"));
  EXPECT_EQ(library_workspaces(cluster), 3 * 8519680);
  EXPECT_TRUE(cluster.framework->allocator->gradients_stay);
}

TEST(Frameworks, AreReadFromText) {
  const Framework framework = parse_framework(
      "name: mine\nhost_per_op: 5e-6\none_process: true\nupdate_in_one: true\npiece_seconds: "
      "1e-6\napart_elements: 10\n"
      "op_bytes: {adam: 2}\nhalf_op_bytes: {add_relu: 0.5}\npads_channels: true\ndefaults: {parallel.zero: "
      "3}\n"
      "all_reduces: {ln2.grad: 2}\nbatch_copies: {merge_heads: 3}\ngather_copies: {head: 2}\nreduce_whole: "
      "true\nreduce_in_float32: true\nring_attention: true\n"
      "fused_softmax: {multiple: 4, longest: 2048, forward: 9, backward: 7, kernels: 5}\n"
      "pass_launches: 7\nsums_in_products: true\nsums_half_in_products: true\nfloat8_fuses: "
      "norms\nfloat8_weights_stay: "
      "false\nexperts_by_node: true\nfloat8_dispatch: true\nexchanges_beside_passes: "
      "true\nexchange_multiprocessors: 20\nop_launches: {top_k: 9}\nop_waits: {softmax: 6}\n"
      "retained_bytes: {dropout: 1.5, cross_entropy_grad: 0}\noutside_bytes: 1e9\nfragmentation: 0.1\n",
      "mine.yaml");
  EXPECT_EQ(framework.all_reduces.at("ln2.grad"), 2);
  EXPECT_EQ(framework.batch_copies.at("merge_heads"), 3);
  EXPECT_EQ(framework.gather_copies.at("head"), 2);
  EXPECT_TRUE(framework.reduce_whole);
  EXPECT_TRUE(framework.reduce_in_float32);
  EXPECT_TRUE(framework.ring_attention);
  EXPECT_EQ(framework.fused_softmax, (FusedSoftmax{4, 2048, 9, 7, 5}));
  EXPECT_EQ(framework.retained_bytes.at("dropout"), 1.5);
  EXPECT_EQ(framework.retained_bytes.at("cross_entropy_grad"), 0);
  EXPECT_EQ(framework.pass_launches, 7);
  EXPECT_TRUE(framework.sums_in_products);
  EXPECT_TRUE(framework.sums_half_in_products);
  EXPECT_EQ(framework.float8_fuses, Float8Fuses::norms);
  EXPECT_FALSE(framework.float8_weights_stay);
  EXPECT_TRUE(framework.experts_by_node);
  EXPECT_TRUE(framework.float8_dispatch);
  EXPECT_TRUE(framework.exchanges_beside_passes);
  EXPECT_EQ(framework.exchange_multiprocessors, 20);
  EXPECT_EQ(framework.op_launches.at("top_k"), 9);
  EXPECT_EQ(framework.op_waits.at("softmax"), 6);
  EXPECT_EQ(framework.outside_bytes, 1e9);
  EXPECT_EQ(framework.fragmentation, 0.1);
  EXPECT_EQ(framework.host_per_op, 5e-6);
  EXPECT_TRUE(framework.one_process);
  EXPECT_TRUE(framework.update_in_one);
  EXPECT_EQ(framework.piece_seconds, 1e-6);
  EXPECT_EQ(framework.apart_elements, 10);
  EXPECT_EQ(framework.op_bytes.at("adam"), 2);
  EXPECT_EQ(framework.half_op_bytes.at("add_relu"), 0.5);
  EXPECT_TRUE(framework.pads_channels);
  EXPECT_EQ(framework.defaults.at("parallel.zero"), "3");
}

TEST(Frameworks, RefuseWhatTheyDoNotKnow) {
  const auto said = [](const std::string& yaml) {
    try {
      parse_framework(yaml, "s.yaml");
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("accepted");
  };
  EXPECT_EQ(said("name: s\nupdate_in_one: maybe\n"),
            "s.yaml:2:16: update_in_one: maybe is not true or false");
  EXPECT_EQ(said("name: s\nfused_softmax: {multiple: 4}\n"),
            "s.yaml:2:16: fused_softmax: missing key longest");
  EXPECT_EQ(said("name: s\nretained_bytes: {all_gather: 1}\n"),
            "s.yaml: retained_bytes: all_gather is no op; write gathered_stay: true");
  EXPECT_EQ(said("name: s\nretained_bytes: {dropout: -1}\n"),
            "s.yaml:2:27: retained_bytes.dropout: -1 is outside 0 to 100");
  EXPECT_THAT(said("name: s\nhost_per_ops: 1\n"),
              testing::StartsWith("s.yaml:2:1: unknown key host_per_ops"));
  EXPECT_EQ(said("host_per_op: 1\n"), "s.yaml:1:1: missing key name");
  EXPECT_EQ(said("name: s\none_process: 2\n"), "s.yaml:2:14: one_process: 2 is not true or false");
  EXPECT_EQ(
      said("name: s\nlike: megatrom\n"),
      "s.yaml:2:7: like: no framework of boxcar's is named \"megatrom\" (did you mean megatron?); known "
      "are boxcar, "
      "composer, deepspeed, fsdp, hai-llm, internevo, jax, megatron, megatron-fused-loss, "
      "megatron-nondeterministic, mxnet, nemo, nemo-24, ngc, oneflow, "
      "oneflow-ops, "
      "pytorch, "
      "pytorch-compiled, scaling, scaling-rms, tensorflow, torchtitan");
  EXPECT_EQ(said("name: s\nfloat8_fuses: norm\n"),
            "s.yaml:2:15: float8_fuses: is \"norm\", expected kernels, norms, nothing");
  EXPECT_EQ(said("name: s\nhost_per_op: 2\n"), "s.yaml:2:14: host_per_op: 2 is outside 0 to 1");
}

TEST(AttentionKernel, TheFirstFlashAttentionIsSlowerByHeadSize) {
  DeviceProfile device = load_device("a100-sxm-80g");
  const DeviceProfile second = device;
  use_attention_kernel(device, "flash2");
  EXPECT_EQ(device, second);
  use_attention_kernel(device, "flash1");
  EXPECT_EQ(device.attention_kernel, "flash1");
  EXPECT_DOUBLE_EQ(device.attention.head_share.at(64), 0.60 * second.attention.head_share.at(64));
  EXPECT_DOUBLE_EQ(device.attention.head_share.at(128), 0.45 * second.attention.head_share.at(128));
  // Both passes of one attention, 3.5 times the forward flops, take as long as at one speed.
  const auto both = [](const DeviceProfile& d, double share) {
    return 1 / (d.attention.forward.at(2048) * share) + 2.5 / (d.attention.backward.at(2048) * share);
  };
  EXPECT_NEAR(both(device, 1), both(second, 1), 0.01 * both(second, 1));
  EXPECT_LT(device.attention.backward.at(2048), 0.76 * device.attention.forward.at(2048));
}

TEST(AttentionKernel, ADeviceHasThoseOfItsDescription) {
  DeviceProfile device = load_device("h100-sxm");
  EXPECT_EQ(attention_kernels(device), (std::vector<std::string>{"cudnn", "flash1", "flash2"}));
  const DeviceProfile before = device;
  use_attention_kernel(device, "cudnn");
  EXPECT_EQ(device.attention, before.attention_kernels.at("cudnn"));
  EXPECT_GT(device.attention.forward.at(8192), 1.5 * before.attention.forward.at(8192));
  EXPECT_EQ(attention_kernels(device), (std::vector<std::string>{"cudnn", "flash1", "flash2"}));
  use_attention_kernel(device, "flash2");
  EXPECT_EQ(device.attention, before.attention);
  EXPECT_EQ(
      error_of([&] { use_attention_kernel(device, "cuDNN"); }),
      "attention_kernel: device h100-sxm has no speed of \"cuDNN\" (did you mean cudnn?); it has cudnn, "
      "flash1, flash2");
  DeviceProfile plain;
  plain.name = "mine";
  EXPECT_EQ(error_of([&] { use_attention_kernel(plain, "flash1"); }),
            "attention_kernel: device mine names no kernel of fused attention");
}

TEST(Frameworks, ProductsIn8BitsKeepLess) {
  Cluster cluster = load_cluster("dgx-h100", 8);
  put_framework(cluster, load_framework("nemo-24"));
  EXPECT_FALSE(keeps_float8(cluster));
  use_float8(cluster.device, float8_recipe("delayed"));
  EXPECT_TRUE(keeps_float8(cluster));
  EXPECT_FALSE(keeps_float8_of_experts(cluster));
  put_framework(cluster, load_framework("torchtitan"));
  EXPECT_FALSE(keeps_float8(cluster));
  put_framework(cluster, load_framework("hai-llm"));
  EXPECT_TRUE(keeps_float8_of_experts(cluster));
}

}  // namespace
}  // namespace boxcar::backends

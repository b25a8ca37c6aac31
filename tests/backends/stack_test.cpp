#include "backends/machines/stack.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backends/machines/cluster.h"
#include "backends/machines/device_profile.h"
#include "sbp/error.h"

namespace boxcar::backends {
namespace {

TEST(Stacks, AreThose) {
  EXPECT_THAT(stack_names(), testing::ElementsAre(
                                 "boxcar", "composer", "deepspeed", "fsdp", "internevo", "jax", "megatron",
                                 "megatron-fused-loss", "megatron-nondeterministic", "nemo", "ngc", "oneflow",
                                 "oneflow-ops", "pytorch", "pytorch-compiled", "scaling", "scaling-rms"));
  for (const std::string& name : stack_names()) EXPECT_EQ(load_stack(name).name, name);
}

TEST(Stacks, BoxcarsOwnAddsNothing) {
  EXPECT_EQ(load_stack("boxcar"), Stack());
  Cluster cluster = load_cluster("dgx-a100-80g", 8);
  const Cluster before = cluster;
  put_stack(cluster, Stack());
  EXPECT_EQ(cluster.device, before.device);
  EXPECT_EQ(cluster.node.host_per_op, before.node.host_per_op);
}

TEST(Stacks, GiveAClusterTheirHostTimeAndBytes) {
  Cluster cluster = load_cluster("dgx-a100-80g", 8);
  cluster.device->op_share = {{"gelu", 0.5}};
  Stack stack;
  stack.host_per_op = 7e-6;
  stack.op_bytes = {{"gelu", 2.0}, {"adam", 4.0}};
  stack.half_op_bytes = {{"relu", 0.25}};
  stack.pads_channels = true;
  put_stack(cluster, stack);
  EXPECT_EQ(cluster.node.host_per_op, 7e-6);
  EXPECT_EQ(cluster.device->op_share.at("gelu"), 0.25);
  EXPECT_EQ(cluster.device->op_share.at("adam"), 0.25);
  EXPECT_EQ(cluster.device->half_op_share.at("relu"), 4);
  EXPECT_TRUE(cluster.device->pads_channels);
}

TEST(Stacks, TakeWhatNoTensorHasFromADevicesMemory) {
  Cluster cluster = load_cluster("dgx-a100-80g", 8);
  const auto whole = static_cast<double>(cluster.device->memory_bytes);
  Stack stack;
  stack.outside_bytes = 2e9;
  put_stack(cluster, stack);
  EXPECT_NEAR(static_cast<double>(cluster.device->memory_bytes), whole - 2e9, 1);
  EXPECT_EQ(outside_bytes(cluster), 2e9);
}

TEST(Stacks, WhatNoTensorHasOnSuchNodesIsTakenToo) {
  Cluster cluster = load_cluster("dgx-a100-80g", 8);
  const auto whole = static_cast<double>(cluster.device->memory_bytes);
  cluster.node.outside_bytes = 1e9;
  Stack stack;
  stack.outside_bytes = 2e9;
  put_stack(cluster, stack);
  EXPECT_NEAR(static_cast<double>(cluster.device->memory_bytes), whole - 3e9, 1);
  EXPECT_EQ(outside_bytes(cluster), 3e9);
}

TEST(Stacks, AreLikeOthersButForWhatTheySay) {
  const Stack megatron = load_stack("megatron");
  EXPECT_EQ(parse_stack("like: megatron\nname: megatron\n", "m.yaml"), megatron);
  const Stack stack = parse_stack(
      "name: mine\nlike: megatron\nop_kept: {cross_entropy_grad: 3, gelu: 2}\npass_launches: 1\n"
      "defaults: {parallel.zero: 1}\n",
      "m.yaml");
  Stack wanted = megatron;
  wanted.name = "mine";
  wanted.op_kept["cross_entropy_grad"] = 3;
  wanted.op_kept["gelu"] = 2;
  wanted.pass_launches = 1;
  wanted.defaults["parallel.zero"] = "1";
  EXPECT_EQ(stack, wanted);
}

// What the stack says of a workspace goes before what the device does; a stack like another keeps the rest.
TEST(Stacks, AnAllocatorGivesLibrariesWorkspaces) {
  Cluster cluster = load_cluster("dgx-a100-80g", 8);
  EXPECT_EQ(library_workspaces(cluster), 0);
  put_stack(cluster, parse_stack("name: s\nallocator: {workspaces: 2}\n", "s.yaml"));
  EXPECT_EQ(library_workspaces(cluster), 2 * 8519680);
  put_stack(cluster, load_stack("megatron"));
  EXPECT_EQ(library_workspaces(cluster), 3 * 33554432);
  put_stack(cluster, load_stack("megatron-nondeterministic"));
  EXPECT_EQ(library_workspaces(cluster), 3 * 8519680);
  EXPECT_TRUE(cluster.stack->allocator->gradients_stay);
}

TEST(Stacks, AreReadFromText) {
  const Stack stack = parse_stack(
      "name: mine\nhost_per_op: 5e-6\none_process: true\nupdate_in_one: true\npiece_seconds: "
      "1e-6\napart_elements: 10\n"
      "op_bytes: {adam: 2}\nhalf_op_bytes: {add_relu: 0.5}\npads_channels: true\ndefaults: {parallel.zero: "
      "3}\n"
      "all_reduces: {ln2.grad: 2}\nbatch_copies: {merge_heads: 3}\ngather_copies: {head: 2}\nreduce_whole: "
      "true\nreduce_in_float32: true\nring_attention: true\n"
      "fused_softmax: {multiple: 4, longest: 2048, forward: 9, backward: 7, kernels: 5}\n"
      "pass_launches: 7\nsums_in_products: true\nop_launches: {top_k: 9}\nop_waits: {softmax: 6}\n"
      "op_kept: {dropout: 1.5, cross_entropy_grad: 0}\noutside_bytes: 1e9\nfragmentation: 0.1\n",
      "mine.yaml");
  EXPECT_EQ(stack.all_reduces.at("ln2.grad"), 2);
  EXPECT_EQ(stack.batch_copies.at("merge_heads"), 3);
  EXPECT_EQ(stack.gather_copies.at("head"), 2);
  EXPECT_TRUE(stack.reduce_whole);
  EXPECT_TRUE(stack.reduce_in_float32);
  EXPECT_TRUE(stack.ring_attention);
  EXPECT_EQ(stack.fused_softmax, (FusedSoftmax{4, 2048, 9, 7, 5}));
  EXPECT_EQ(stack.op_kept.at("dropout"), 1.5);
  EXPECT_EQ(stack.op_kept.at("cross_entropy_grad"), 0);
  EXPECT_EQ(stack.pass_launches, 7);
  EXPECT_TRUE(stack.sums_in_products);
  EXPECT_EQ(stack.op_launches.at("top_k"), 9);
  EXPECT_EQ(stack.op_waits.at("softmax"), 6);
  EXPECT_EQ(stack.outside_bytes, 1e9);
  EXPECT_EQ(stack.fragmentation, 0.1);
  EXPECT_EQ(stack.host_per_op, 5e-6);
  EXPECT_TRUE(stack.one_process);
  EXPECT_TRUE(stack.update_in_one);
  EXPECT_EQ(stack.piece_seconds, 1e-6);
  EXPECT_EQ(stack.apart_elements, 10);
  EXPECT_EQ(stack.op_bytes.at("adam"), 2);
  EXPECT_EQ(stack.half_op_bytes.at("add_relu"), 0.5);
  EXPECT_TRUE(stack.pads_channels);
  EXPECT_EQ(stack.defaults.at("parallel.zero"), "3");
}

TEST(Stacks, RefuseWhatTheyDoNotKnow) {
  const auto said = [](const std::string& yaml) {
    try {
      parse_stack(yaml, "s.yaml");
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("accepted");
  };
  EXPECT_EQ(said("name: s\nupdate_in_one: maybe\n"),
            "s.yaml:2:16: update_in_one: maybe is not true or false");
  EXPECT_EQ(said("name: s\nfused_softmax: {multiple: 4}\n"),
            "s.yaml:2:16: fused_softmax: missing key longest");
  EXPECT_EQ(said("name: s\nop_kept: {dropout: -1}\n"),
            "s.yaml:2:20: op_kept.dropout: -1 is outside 0 to 100");
  EXPECT_THAT(said("name: s\nhost_per_ops: 1\n"),
              testing::StartsWith("s.yaml:2:1: unknown key host_per_ops"));
  EXPECT_EQ(said("host_per_op: 1\n"), "s.yaml:1:1: missing key name");
  EXPECT_EQ(said("name: s\none_process: 2\n"), "s.yaml:2:14: one_process: 2 is not true or false");
  EXPECT_EQ(said("name: s\nlike: megatrom\n"),
            "s.yaml:2:7: like: no stack of boxcar's is named \"megatrom\" (did you mean megatron?); known "
            "are boxcar, "
            "composer, deepspeed, fsdp, internevo, jax, megatron, megatron-fused-loss, "
            "megatron-nondeterministic, nemo, ngc, oneflow, "
            "oneflow-ops, "
            "pytorch, "
            "pytorch-compiled, scaling, scaling-rms");
  EXPECT_EQ(said("name: s\nhost_per_op: 2\n"), "s.yaml:2:14: host_per_op: 2 is outside 0 to 1");
}

TEST(FlashVersion, TheFirstIsSlowerByHeadSize) {
  DeviceProfile device = load_device("a100-sxm-80g");
  const DeviceProfile second = device;
  use_flash_version(device, 2);
  EXPECT_EQ(device, second);
  use_flash_version(device, 1);
  EXPECT_DOUBLE_EQ(device.attention_head_share.at(64), 0.60 * second.attention_head_share.at(64));
  EXPECT_DOUBLE_EQ(device.attention_head_share.at(128), 0.45 * second.attention_head_share.at(128));
  // Both passes of one attention, 3.5 times the forward pass's flops, take as long as with one speed.
  const auto both = [](const DeviceProfile& d, double share) {
    return 1 / (d.attention_forward_efficiency.at(2048) * share) +
           2.5 / (d.attention_backward_efficiency.at(2048) * share);
  };
  EXPECT_NEAR(both(device, 1), both(second, 1), 0.01 * both(second, 1));
  EXPECT_LT(device.attention_backward_efficiency.at(2048),
            0.76 * device.attention_forward_efficiency.at(2048));
  DeviceProfile plain;
  use_flash_version(plain, 1);
  EXPECT_DOUBLE_EQ(plain.attention_head_share.at(128), 0.45);
}

}  // namespace
}  // namespace boxcar::backends

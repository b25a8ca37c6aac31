#include <gtest/gtest.h>

#include <algorithm>

#include "backends/machines/cluster.h"
#include "backends/machines/device_profile.h"
#include "backends/machines/framework.h"
#include "sbp/at.h"
#include "sim/models/collective_time.h"
#include "sim/simulate.h"

namespace boxcar::sim {
namespace {

// One device; two kernels in a forward phase, one in the update.
ir::Plan three_kernels() {
  ir::Plan plan;
  plan.name = "three";
  plan.devices = 1;
  plan.classes = {{0, {0}}};
  ir::Program program;
  program.name = "all";
  program.phases = {"F0", "U"};
  program.schedule = {{0, 0}, {1, 0}};
  program.queues = {{"compute", ir::QueueKind::compute, true}};
  ir::TensorType type{{1000, 1000}, ir::DType::float32};
  for (int i = 0; i < 3; ++i) {
    ir::Register reg;
    reg.name = "r" + std::to_string(i);
    reg.type = type;
    reg.bytes = type.bytes();
    reg.producer = i;
    program.registers.push_back(reg);
    ir::Actor actor;
    actor.name = "k" + std::to_string(i);
    actor.op = "relu";
    ir::Input input;
    input.reg = (i + 2) % 3;  // the first reads the last step's output
    actor.inputs = {input};
    actor.outputs = {i};
    actor.phase = i < 2 ? 0 : 1;
    program.actors.push_back(actor);
  }
  program.registers[2].initial = 1;
  plan.programs = {program};
  return plan;
}

TEST(HostTime, ShortKernelsOfAPassWaitForTheirLaunch) {
  backends::Cluster cluster = backends::load_cluster("dgx-a100-80g", 1);
  cluster.node.host_per_op = 0;
  std::vector<double> alone = act_seconds(three_kernels(), cluster, 0);
  ASSERT_GT(alone[0], 0);
  cluster.node.host_per_op = 1e-3;
  std::vector<double> eager = act_seconds(three_kernels(), cluster, 0);
  EXPECT_NEAR(eager[0] + eager[1], 2e-3, 1e-12);
  EXPECT_DOUBLE_EQ(eager[2], alone[2]);  // an update is one launch for all parameters
  cluster.node.host_speed = 2;
  eager = act_seconds(three_kernels(), cluster, 0);
  EXPECT_NEAR(eager[0] + eager[1], 1e-3, 1e-12);
}

// Two loads of a thousand samples each, tokens and labels, on all four devices of a node that prepares 8,000
// per second: half a second for both.
TEST(HostTime, LoadsWaitForTheSamplesOfTheirNode) {
  backends::Cluster cluster = backends::load_cluster("dgx-a100-80g", 4);
  ir::Plan plan = three_kernels();
  plan.devices = 4;
  plan.classes = {{0, {0, 1, 2, 3}}};
  for (int load : {0, 1}) {
    at(plan.programs[0].actors, load).kind = ir::ActorKind::copy;
    at(plan.programs[0].actors, load).op = "load";
  }
  const std::vector<double> copied = act_seconds(plan, cluster, 0);
  EXPECT_DOUBLE_EQ(copied[0], 4e6 / cluster.node.pcie_bandwidth);
  cluster.node.load_rate = 8000;
  const std::vector<double> prepared = act_seconds(plan, cluster, 0);
  EXPECT_DOUBLE_EQ(prepared[0] + prepared[1], 0.5);
  EXPECT_DOUBLE_EQ(prepared[2], copied[2]);
  cluster.node.load_rate = 1e12;  // the copy takes longer
  EXPECT_EQ(act_seconds(plan, cluster, 0), copied);
}

// Products in layers read half the bytes at twice the rate behind the casts of their operands; those of the
// head do not.
TEST(HostTime, ProductsOfLayersRunInFloat8BehindTheirCasts) {
  backends::Cluster cluster = backends::load_cluster("dgx-h100", 1);
  ir::Plan plan = three_kernels();
  ir::Program& program = plan.programs[0];
  for (ir::Register& reg : program.registers) {
    reg.type = {{8192, 8192}, ir::DType::bfloat16};
    reg.bytes = reg.type.bytes();
  }
  for (size_t a : {0u, 1u}) {
    program.actors[a].op = "matmul";
    program.actors[a].inputs.push_back(program.actors[a].inputs[0]);
  }
  program.actors[0].layer = 3;  // the other belongs to the head
  cluster.device->matmul.type_share = {};
  const std::vector<double> half = act_seconds(plan, cluster, 0);
  backends::use_float8(cluster.device, backends::float8_recipe("delayed"));
  cluster.framework->float8_fuses = backends::Float8Fuses::nothing;
  const std::vector<double> eight = act_seconds(plan, cluster, 0);
  const double casts = (4 + 4) * 8192.0 * 8192 / cluster.device->memory_bandwidth;
  EXPECT_GT(eight[0], half[0] / 2 + casts);
  EXPECT_LT(eight[0], half[0] / 2 + 1.5 * casts);
  EXPECT_EQ(eight[1], half[1]);
  EXPECT_EQ(eight[2], half[2]);
}

TEST(HostTime, ProductsWaitForTheSlowestDeviceAndWhatMemoryBoundsDoesNot) {
  backends::Cluster cluster = backends::load_cluster("dgx-a100-80g", 8);
  cluster.device->speed_spread = 0;
  ir::Plan plan = three_kernels();
  ir::Actor& product = plan.programs[0].actors[0];
  product.op = "matmul";
  product.inputs.push_back(product.inputs[0]);
  plan.devices = 8;
  plan.classes = {{0, {0, 1, 2, 3, 4, 5, 6, 7}}};
  const std::vector<double> alike = act_seconds(plan, cluster, 0);
  cluster.device->speed_spread = 0.02;
  const std::vector<double> apart = act_seconds(plan, cluster, 0);
  EXPECT_NEAR(apart[0] / alike[0], 1 + 0.02 * 1.4236, 1e-6);
  EXPECT_EQ(apart[1], alike[1]);
  EXPECT_EQ(apart[2], alike[2]);
  plan.devices = 1;
  plan.classes = {{0, {0}}};
  EXPECT_NEAR(act_seconds(plan, cluster, 0)[0], alike[0], 1e-9);
}

TEST(HostTime, SlowKernelsDoNotWait) {
  backends::Cluster cluster = backends::load_cluster("dgx-a100-80g", 1);
  cluster.node.host_per_op = 0;
  std::vector<double> alone = act_seconds(three_kernels(), cluster, 0);
  cluster.node.host_per_op = alone[0] / 2;
  EXPECT_EQ(act_seconds(three_kernels(), cluster, 0), alone);
}

// k0, an all-reduce of its output over two devices, and k1, which reads the sum.
ir::Plan with_collective(int64_t bytes) {
  ir::Plan plan = three_kernels();
  plan.devices = 2;
  plan.classes = {{0, {0, 1}}};
  plan.comms = {{"dp", {{0, 1}}}};
  ir::Program& program = plan.programs[0];
  program.queues.push_back({"net", ir::QueueKind::network, true});
  ir::Register sum = program.registers[0];
  sum.name = "sum";
  sum.producer = 1;
  ir::Actor collective;
  collective.name = "sum";
  collective.kind = ir::ActorKind::collective;
  collective.op = "all_reduce";
  collective.collective = sbp::Collective::all_reduce;
  collective.comm = 0;
  collective.comm_bytes = bytes;
  collective.queue = 1;
  collective.inputs = {ir::Input{}};
  collective.inputs[0].reg = 0;
  collective.outputs = {3};
  program.registers.push_back(sum);
  program.actors.insert(program.actors.begin() + 1, collective);
  program.registers[1].producer = 2;
  program.registers[2].producer = 3;
  program.actors[2].inputs[0].reg = 3;
  return plan;
}

// The host goes on launching while the device waits for a collective.
TEST(HostTime, WaitingForACollectiveCoversLaunches) {
  backends::Cluster cluster = backends::load_cluster("dgx-a100-80g", 2);
  for (int64_t bytes : {int64_t{1} << 10, int64_t{1} << 24, int64_t{1} << 30}) {
    const ir::Plan plan = with_collective(bytes);
    cluster.node.host_per_op = 0;
    const std::vector<double> alone = act_seconds(plan, cluster, 0);
    cluster.node.host_per_op = 1e-4;
    const std::vector<double> eager = act_seconds(plan, cluster, 0);
    const double device = alone[0] + alone[1] + alone[2];
    EXPECT_NEAR(eager[0] + eager[1] + eager[2], std::max(device, 3e-4), 1e-12);
    EXPECT_DOUBLE_EQ(eager[1], alone[1]);
  }
}

// Four devices whose launches take turns: four times as long, and the optimizer waits for its own.
TEST(Framework, OneProcessLaunchesForTheDevicesOfANodeInTurn) {
  backends::Cluster cluster = backends::load_cluster("dgx-a100-80g", 16);
  ir::Plan plan = three_kernels();
  plan.devices = 4;
  plan.classes = {{0, {0, 1, 2, 3}}};
  cluster.node.host_per_op = 0;
  const std::vector<double> alone = act_seconds(plan, cluster, 0);
  cluster.node.host_per_op = 1e-3;
  cluster.framework->one_process = true;
  std::vector<double> eager = act_seconds(plan, cluster, 0);
  EXPECT_NEAR(eager[0] + eager[1], 8e-3, 1e-12);
  EXPECT_NEAR(eager[2], 4e-3, 1e-12);
  plan.devices = 16;  // a node has eight of them
  plan.classes[0].devices = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  eager = act_seconds(plan, cluster, 0);
  EXPECT_NEAR(eager[2], 8e-3, 1e-12);
  cluster.framework->update_in_one = true;
  eager = act_seconds(plan, cluster, 0);
  EXPECT_LT(eager[2], alone[2]);
  EXPECT_NEAR(eager[0] + eager[1], 16e-3, 1e-12);
}

TEST(Framework, AnUpdateInOneLaunchesNothingForEachTensor) {
  backends::Cluster cluster = backends::load_cluster("dgx-a100-80g", 1);
  cluster.node.host_per_op = 0;
  const std::vector<double> each = act_seconds(three_kernels(), cluster, 0);
  cluster.framework->update_in_one = true;
  const std::vector<double> in_one = act_seconds(three_kernels(), cluster, 0);
  EXPECT_EQ(in_one[0], each[0]);
  EXPECT_NEAR(each[2] - in_one[2], cluster.device->launch_latency + cluster.device->kernel_floor, 1e-15);
}

ir::Plan with_gather() {
  ir::Plan plan = with_collective(1 << 20);
  plan.programs[0].actors[1].op = "all_gather";
  plan.programs[0].actors[1].collective = sbp::Collective::all_gather;
  return plan;
}

// Two of four tensors in a bucket are large enough to go alone: twice the latency, and a piece of each rank.
TEST(Framework, LargeTensorsAreGatheredApartRankByRank) {
  backends::Cluster cluster = backends::load_cluster("dgx-a100-80g", 2);
  cluster.node.host_per_op = 0;
  ir::Plan plan = with_gather();
  ir::Actor& gather = plan.programs[0].actors[1];
  for (int64_t rows : {1000, 10, 10}) {
    ir::Register reg = plan.programs[0].registers[3];
    reg.name = "more" + std::to_string(plan.programs[0].registers.size());
    reg.type.shape = {rows, 1000};
    gather.outputs.push_back(static_cast<int>(plan.programs[0].registers.size()));
    plan.programs[0].registers.push_back(reg);
  }
  const CommTime flat = collective_time(cluster, sbp::Collective::all_gather, 1 << 20, {2, 1, 2, 1});
  EXPECT_NEAR(act_seconds(plan, cluster, 0)[1], flat.seconds(), 1e-15);
  cluster.framework->apart_elements = 100000;
  cluster.framework->piece_seconds = 1e-4;
  EXPECT_NEAR(act_seconds(plan, cluster, 0)[1], flat.seconds() + flat.latency + 2 * 2 * 1e-4, 1e-12);
}

// After an update, owners broadcast four tensors.
TEST(Framework, UpdatedTensorsAreBroadcastOneByOne) {
  backends::Cluster cluster = backends::load_cluster("dgx-a100-80g", 2);
  cluster.node.host_per_op = 0;
  ir::Plan plan = with_gather();
  ir::Actor& gather = plan.programs[0].actors[1];
  cluster.framework->gather_by_broadcast = true;
  const Span span{2, 1, 2, 1};
  const CommTime flat = collective_time(cluster, sbp::Collective::all_gather, 1 << 20, span);
  EXPECT_NEAR(act_seconds(plan, cluster, 0)[1], flat.seconds(), 1e-15);  // in a forward pass
  plan.programs[0].phases = {"U0", "U"};
  const ir::Register reg = plan.programs[0].registers[3];
  for (int i = 0; i < 3; ++i) {
    gather.outputs.push_back(static_cast<int>(plan.programs[0].registers.size()));
    plan.programs[0].registers.push_back(reg);
  }
  const CommTime one = collective_time(cluster, sbp::Collective::broadcast, 1 << 20, span);
  EXPECT_NEAR(act_seconds(plan, cluster, 0)[1], one.seconds() + 3 * one.latency, 1e-12);
}

// The first layer's kernels are short, the second's long: the first waits for its launches although the
// device has work for longer than all launches take.
TEST(HostTime, ALayerDoesNotWaitBehindAnother) {
  ir::Plan plan = three_kernels();
  ir::Program& program = plan.programs[0];
  program.actors[0].layer = 0;
  program.actors[1].layer = 1;
  program.registers[1].type.shape = {1000, 100000};
  program.registers[1].bytes = program.registers[1].type.bytes();
  backends::Cluster cluster = backends::load_cluster("dgx-a100-80g", 1);
  cluster.node.host_per_op = 0;
  const std::vector<double> alone = act_seconds(plan, cluster, 0);
  ASSERT_GT(alone[1], 10 * alone[0]);
  cluster.node.host_per_op = 2 * alone[0];
  const std::vector<double> eager = act_seconds(plan, cluster, 0);
  EXPECT_NEAR(eager[0], 2 * alone[0], 1e-12);
  EXPECT_EQ(eager[1], alone[1]);
}

// A softmax of three squares where the framework's kernel needs multiples of two, and of four.
TEST(Framework, AFusedSoftmaxFallsBack) {
  backends::Cluster cluster = backends::load_cluster("dgx-a100-80g", 1);
  cluster.node.host_per_op = 0;
  const auto seconds = [&](int64_t heads) {
    ir::Plan plan = three_kernels();
    ir::Program& program = plan.programs[0];
    for (ir::Register& reg : program.registers) reg.type = {{1, heads, 512, 512}, ir::DType::float16};
    program.actors[0].op = "scale_mask_softmax";
    program.actors[0].attrs = {{"factor", 1.0}};
    return act_seconds(plan, cluster, 0)[0];
  };
  const double three = seconds(3), four = seconds(4);
  cluster.framework->fused_softmax = {2, 512, 9, 7, 5};
  EXPECT_NEAR(seconds(3), 9 * three, 1e-12);
  EXPECT_EQ(seconds(4), four);
  cluster.framework->fused_softmax.longest = 511;
  EXPECT_NEAR(seconds(4), 9 * four, 1e-12);
  cluster.node.host_per_op = 1e-3;  // five launches of the softmax, one of the next kernel
  ir::Plan plan = three_kernels();
  for (ir::Register& reg : plan.programs[0].registers) reg.type = {{1, 3, 512, 512}, ir::DType::float16};
  plan.programs[0].actors[0].op = "scale_mask_softmax";
  plan.programs[0].actors[0].attrs = {{"factor", 1.0}};
  const std::vector<double> eager = act_seconds(plan, cluster, 0);
  EXPECT_NEAR(eager[0] + eager[1], 6e-3, 1e-9);
}

// Two kernels of a pass at 1 ms per launch: 7 more launches for the pass, 4 for the first op.
TEST(Framework, PassesAndOpsHaveLaunchesOfTheirOwn) {
  backends::Cluster cluster = backends::load_cluster("dgx-a100-80g", 1);
  cluster.node.host_per_op = 1e-3;
  const auto pass = [&] {
    const std::vector<double> eager = act_seconds(three_kernels(), cluster, 0);
    return eager[0] + eager[1];
  };
  EXPECT_NEAR(pass(), 2e-3, 1e-12);
  cluster.framework->pass_launches = 7;
  EXPECT_NEAR(pass(), 9e-3, 1e-12);
  cluster.framework->op_launches = {{three_kernels().programs[0].actors[0].op, 5}};  // both kernels' op
  EXPECT_NEAR(pass(), 17e-3, 1e-12);
  cluster.framework->op_waits = {
      {three_kernels().programs[0].actors[0].op, 3}};  // before each, regardless of the host's lead
  EXPECT_NEAR(pass(), 23e-3, 1e-12);
}

TEST(Framework, ATensorOfALayerIsReducedSeveralTimes) {
  backends::Cluster cluster = backends::load_cluster("dgx-a100-80g", 2);
  cluster.node.host_per_op = 0;
  ir::Plan plan = with_collective(1 << 20);
  plan.programs[0].actors[1].layer = 3;
  plan.programs[0].actors[1].moves = "ln2.grad";
  const double once = act_seconds(plan, cluster, 0)[1];
  cluster.framework->all_reduces = {{"ln2.grad", 2}};
  EXPECT_NEAR(act_seconds(plan, cluster, 0)[1], 2 * once, 1e-12);
  plan.programs[0].actors[1].moves = "ln1.grad";
  EXPECT_EQ(act_seconds(plan, cluster, 0)[1], once);
}

// A kernel on a thousand sequences reads and writes 4 MB three times; one on a single sequence does not.
TEST(Framework, ResultsAreCopiedWhereThereAreSeveralSequences) {
  backends::Cluster cluster = backends::load_cluster("dgx-a100-80g", 1);
  cluster.node.host_per_op = 0;
  ir::Plan plan = three_kernels();
  const double alone = act_seconds(plan, cluster, 0)[0];
  cluster.framework->batch_copies = {{plan.programs[0].actors[0].op, 3}};
  const backends::DeviceProfile& device = cluster.device;
  const double copy = 8e6 / (device.memory_bandwidth * device.memory_efficiency.at(8e6)) +
                      device.launch_latency + device.kernel_floor;
  EXPECT_NEAR(act_seconds(plan, cluster, 0)[0], alone + 3 * copy, 1e-12);
  for (ir::Register& reg : plan.programs[0].registers) reg.type.shape = {1, 1000000};
  EXPECT_NEAR(act_seconds(plan, cluster, 0)[0], alone, 1e-12);
}

TEST(Framework, TensorsGatheredInPartsAreJoined) {
  backends::Cluster cluster = backends::load_cluster("dgx-a100-80g", 2);
  cluster.node.host_per_op = 0;
  ir::Plan plan = with_gather();
  plan.programs[0].actors[1].moves = "head";
  const double once = act_seconds(plan, cluster, 0)[1];
  cluster.framework->gather_copies = {{"head", 2}};
  const backends::DeviceProfile& device = cluster.device;
  const double copy = 8e6 / (device.memory_bandwidth * device.memory_efficiency.at(8e6)) +
                      device.launch_latency + device.kernel_floor;
  EXPECT_NEAR(act_seconds(plan, cluster, 0)[1], once + 2 * copy, 1e-12);
  plan.programs[0].actors[1].moves = "ln1";
  EXPECT_EQ(act_seconds(plan, cluster, 0)[1], once);
}

// A bucket of half gradients that belong to sharded states, a million of them.
TEST(Framework, ShardedGradientsAreReducedWhole) {
  backends::Cluster cluster = backends::load_cluster("dgx-a100-80g", 2);
  cluster.node.host_per_op = 0;
  cluster.framework->reduce_whole = true;
  ir::Plan plan = with_collective(2000000);
  plan.programs[0].registers[0].type.dtype = ir::DType::float16;
  ir::Actor& reduce = plan.programs[0].actors[1];
  reduce.op = "reduce_scatter";
  reduce.collective = sbp::Collective::reduce_scatter;
  const Span span{2, 1, 2, 1};
  EXPECT_NEAR(act_seconds(plan, cluster, 0)[1],
              collective_time(cluster, sbp::Collective::reduce_scatter, 2000000, span).seconds(), 1e-12);
  plan.programs[0].phases = {"G", "U"};
  EXPECT_NEAR(act_seconds(plan, cluster, 0)[1],
              collective_time(cluster, sbp::Collective::all_reduce, 2000000, span).seconds(), 1e-12);
  cluster.framework->reduce_in_float32 = true;
  EXPECT_NEAR(act_seconds(plan, cluster, 0)[1],
              collective_time(cluster, sbp::Collective::all_reduce, 4000000, span).seconds(), 1e-12);
}

}  // namespace
}  // namespace boxcar::sim

#include "sim/ring_attention.h"

#include <gtest/gtest.h>

#include "backends/machines/cluster.h"
#include "backends/machines/device_profile.h"
#include "backends/machines/framework.h"
#include "ir/op.h"
#include "sim/models/collective_time.h"
#include "sim/models/kernel_time.h"
#include "sim/models/slowest.h"
#include "sim/simulate.h"

namespace boxcar::sim {
namespace {

constexpr int64_t heads = 8, width = 64, ranks = 4;

ir::TensorType tokens(int64_t count) { return {{1, heads, count, width}, ir::DType::float16}; }

// Four devices gather keys and values, and a rank's queries attend to all of them.
//
//   k (relu) -> all_gather -> attention -> x        attention reads q, keys, values
//   v (relu) -> all_gather ->
ir::Plan gathered(int64_t sequence) {
  ir::Plan plan;
  plan.name = "gathered", plan.devices = ranks, plan.classes = {{0, {0, 1, 2, 3}}};
  plan.comms = {{"cp", {{0, 1, 2, 3}}}};
  ir::Program program;
  program.name = "all", program.phases = {"F0"}, program.schedule = {{0, 0}};
  program.queues = {{"compute", ir::QueueKind::compute, true}, {"comm", ir::QueueKind::network, true}};
  const auto add = [&](const char* name, const char* op, std::vector<int> reads,
                       std::vector<ir::TensorType> makes) {
    ir::Actor actor;
    actor.name = name, actor.op = op;
    for (int reg : reads) {
      ir::Input input;
      input.reg = reg;
      actor.inputs.push_back(input);
    }
    for (const ir::TensorType& type : makes) {
      ir::Register reg;
      reg.name = name + std::to_string(program.registers.size());
      reg.type = type, reg.bytes = type.bytes(), reg.producer = static_cast<int>(program.actors.size());
      actor.outputs.push_back(static_cast<int>(program.registers.size()));
      program.registers.push_back(reg);
    }
    if (actor.op == "all_gather") {
      actor.kind = ir::ActorKind::collective, actor.collective = sbp::Collective::all_gather;
      actor.comm = 0, actor.queue = 1, actor.comm_bytes = makes[0].bytes();
    }
    program.actors.push_back(actor);
    return actor.outputs[0];
  };
  const ir::TensorType part = tokens(sequence / ranks), whole = tokens(sequence);
  const int x = add("x", "relu", {0}, {part});
  program.registers[0].initial = 1;
  const int k = add("k", "relu", {x}, {part}), v = add("v", "relu", {x}, {part});
  const int keys = add("k.all_gather", "all_gather", {k}, {whole});
  const int values = add("v.all_gather", "all_gather", {v}, {whole});
  add("attention", "scaled_dot_product_attention", {x, keys, values},
      {part, {{1, heads, sequence / ranks}, ir::DType::float32}});
  program.actors.back().attrs = ir::complete(ir::op("scaled_dot_product_attention"), {{"causal", true}});
  plan.programs = {program};
  return plan;
}

struct Times {
  double gathers, attention;
};

Times times_of(const ir::Plan& plan, const backends::Cluster& cluster) {
  const std::vector<double> seconds = act_seconds(plan, cluster, 0);
  return {seconds[3] + seconds[4], seconds[5]};
}

TEST(RingAttention, IsFoundWhereAttentionReadsWhatWasGathered) {
  const ir::Program program = gathered(4096).programs[0];
  KernelRings found(program);
  add_attention_rings(program, found);
  ASSERT_EQ(found.rings.size(), 1u);
  EXPECT_EQ(found.rings[0].kernel, 5u);
  EXPECT_EQ(found.rings[0].exchanges, (std::vector<size_t>{3, 4}));
  EXPECT_EQ(found.of_actor, (std::vector<int>{-1, -1, -1, 0, 0, 0}));
}

// Short sequences exchange longer than they attend, long ones do not. Parts take as long as kernels over
// them, however much of the exchange is exposed.
TEST(RingAttention, ExchangesShowWhereTheyAreSlowerThanWhatTheyStandBeside) {
  backends::Cluster cluster = backends::load_cluster("dgx-a100-80g", 1);
  cluster.node.host_per_op = 0;
  const double behind = 1 + cluster.device->speed_spread * slowest_of(ranks);
  bool hidden = false, shown = false;
  for (int64_t sequence : {256, 2048, 16384, 131072}) {
    const ir::Plan plan = gathered(sequence);
    cluster.framework->ring_attention = false;
    const Times alone = times_of(plan, cluster);
    cluster.framework->ring_attention = true;
    const Times ring = times_of(plan, cluster);
    const ir::TensorType part = tokens(sequence / ranks);
    const ir::Actor& attention = plan.programs[0].actors[5];
    const ir::Types reads{part, part, part}, makes{part, {{1, heads, sequence / ranks}, ir::DType::float32}};
    const double own = kernel_seconds(cluster.device, ir::op(attention.op), reads, makes, attention.attrs);
    ir::Attrs whole = attention.attrs;
    whole["causal"] = false;
    const double other = kernel_seconds(cluster.device, ir::op(attention.op), reads, makes, whole) / 2;
    EXPECT_NEAR(ring.attention, behind * (own + (ranks - 1) * other), 1e-12);
    EXPECT_NEAR(ring.gathers, std::max(0.0, alone.gathers - (ranks - 1) * behind * other), 1e-12);
    (ring.gathers > 0 ? shown : hidden) = true;
  }
  EXPECT_TRUE(shown);
  EXPECT_TRUE(hidden);
}

TEST(RingAttention, APartHasItsShareOfKeysAndOfTheirGradients) {
  const ir::TensorType q = tokens(256), k = tokens(1024), lse{{1, heads, 256}, ir::DType::float32};
  ir::Types inputs{q, k, k}, outputs{q, lse};
  take_part(false, ranks, inputs, outputs);
  EXPECT_EQ(inputs, (ir::Types{q, q, q}));
  EXPECT_EQ(outputs, (ir::Types{q, lse}));
  inputs = {q, q, k, k, q, lse}, outputs = {q, k, k};
  take_part(true, ranks, inputs, outputs);
  EXPECT_EQ(inputs, (ir::Types{q, q, q, q, q, lse}));
  EXPECT_EQ(outputs, (ir::Types{q, q, q}));
}

TEST(RingAttention, TheShownShareIsOfTheSlower) {
  EXPECT_DOUBLE_EQ(shown_share(4, 0), 1);
  EXPECT_DOUBLE_EQ(shown_share(4, 3), 0.25);
  EXPECT_DOUBLE_EQ(shown_share(3, 3), 0);
  EXPECT_DOUBLE_EQ(shown_share(1, 3), 0);
  EXPECT_DOUBLE_EQ(shown_share(0, 3), 1);
}

// A window that ends inside the device's own part leaves nothing of the others.
TEST(RingAttention, PartsBeyondAWindowAreLeftOut) {
  const backends::Cluster cluster = backends::load_cluster("dgx-a100-80g", 1);
  ir::Actor attention = gathered(65536).programs[0].actors[5];
  const ir::TensorType q = tokens(16384), k = tokens(65536), lse{{1, heads, 16384}, ir::DType::float32};
  const auto others = [&](int64_t window) {
    attention.attrs["window"] = window;
    return part_seconds(cluster.device, attention, ranks, {q, k, k}, {q, lse}).others;
  };
  EXPECT_GT(others(0), others(32768));
  EXPECT_GT(others(32768), 10 * others(64));
}

// Documents shorter than the device's own part likewise.
TEST(RingAttention, PartsOfOtherDocumentsAreLeftOut) {
  const backends::Cluster cluster = backends::load_cluster("dgx-a100-80g", 1);
  ir::Actor attention = gathered(65536).programs[0].actors[5];
  const ir::TensorType q = tokens(16384), k = tokens(65536), lse{{1, heads, 16384}, ir::DType::float32};
  const auto parts = [&](int64_t document) {
    attention.attrs["document"] = document;
    return part_seconds(cluster.device, attention, ranks, {q, k, k}, {q, lse});
  };
  EXPECT_GT(parts(0).others, parts(32768).others);
  EXPECT_LT(parts(2048).others, 0.01 * parts(2048).own);
  EXPECT_EQ(parts(65536).own, parts(0).own);
  EXPECT_EQ(parts(65536).others, parts(0).others);
}

// Without a mask every part takes as long as the device's own.
TEST(RingAttention, PartsWithoutAMaskAreAlike) {
  const backends::Cluster cluster = backends::load_cluster("dgx-a100-80g", 1);
  ir::Actor attention = gathered(4096).programs[0].actors[5];
  attention.attrs["causal"] = false;
  const ir::TensorType q = tokens(1024), k = tokens(4096), lse{{1, heads, 1024}, ir::DType::float32};
  const PartSeconds parts = part_seconds(cluster.device, attention, ranks, {q, k, k}, {q, lse});
  EXPECT_GT(parts.own, 0);
  EXPECT_DOUBLE_EQ(parts.others, 3 * parts.own);
}

}  // namespace
}  // namespace boxcar::sim

#include "sim/models/float8_casts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "backends/machines/cluster.h"
#include "backends/machines/device_profile.h"
#include "backends/machines/framework.h"
#include "ir/plan.h"
#include "sbp/at.h"
#include "sbp/error.h"
#include "sim/float8_operands.h"
#include "sim/models/kernel_time.h"
#include "sim/simulate.h"

namespace boxcar::sim {
namespace {

using Operands = std::array<Float8Operand, 2>;
constexpr ProductRole roles[] = {ProductRole::forward, ProductRole::input_grad, ProductRole::weight_grad};

// 1 TB/s, 1 us a launch.
backends::DeviceProfile device_with(const std::string& recipe) {
  backends::DeviceProfile device;
  device.memory_bandwidth = 1e12;
  device.launch_latency = 0.4e-6, device.kernel_floor = 0.6e-6;
  backends::use_float8(device, backends::float8_recipe(recipe));
  return device;
}

TEST(Float8Casts, AreCountedByRecipe) {
  const auto us = [](const std::string& recipe, ProductRole role, const Operands& operands) {
    return float8_casts(device_with(recipe), role, operands).seconds * 1e6;
  };
  const Operands whole = {{{.elements = 1e6}, {.elements = 2e6, .serves = 8}}};
  EXPECT_NEAR(us("delayed", ProductRole::forward, whole), (4 + 1) + (8 + 1) / 8.0, 1e-9);
  EXPECT_NEAR(us("delayed", ProductRole::input_grad, whole), 4 + 1, 1e-9);
  EXPECT_NEAR(us("delayed", ProductRole::weight_grad, whole), 0, 1e-9);
  EXPECT_NEAR(us("current", ProductRole::forward, whole), (6 + 3) + (12 + 3) / 8.0, 1e-9);
  EXPECT_NEAR(us("mxfp8", ProductRole::weight_grad, whole), 3 / 16.0 + 2, 1e-9);
  const Operands gathered = {{{.elements = 1e6, .own = 0.25e6, .fused = true}, {}}};
  EXPECT_NEAR(us("delayed", ProductRole::forward, gathered), -0.25 + 1, 1e-9);  // the empty weight's launch
  EXPECT_NEAR(us("delayed", ProductRole::weight_grad, gathered), 2 + 1, 1e-9);
  EXPECT_NEAR(us("delayed", ProductRole::input_grad, {{{.elements = 1e6, .own = 0.25e6}, {}}}),
              (0.75 + 1) + (2 + 1), 1e-9);
}

// Fast sums are given up in the backward pass, and by blocks in every product.
TEST(Float8Products, SumInFullWhereTheRecipeDoes) {
  const ir::OpDef& product = ir::op("matmul");
  const ir::Types operands(2, {{8192, 8192}, ir::DType::bfloat16});
  const ir::Types result(1, {{8192, 8192}, ir::DType::bfloat16});
  const auto slower = [&](const char* recipe, bool backward) {
    const backends::Cluster cluster = backends::load_cluster("dgx-h100", 8);
    backends::DeviceProfile device = cluster.device;
    backends::use_float8(device, backends::float8_recipe(recipe));
    const ir::Attrs attrs = backward ? ir::Attrs{{"transpose_b", true}} : ir::Attrs{};
    const double with = float8_product_seconds(device, product, operands, result, attrs);
    device.matmul.full_sum_share = 1;
    return with / float8_product_seconds(device, product, operands, result, attrs);
  };
  EXPECT_EQ(slower("delayed", false), 1);
  EXPECT_GT(slower("delayed", true), 1.1);
  EXPECT_GT(slower("blocks", false), 1.1);
}

// Casts that a kernel is fused with, and weights that serve more products, never take longer; and no recipe
// moves less in all than a tensor's bytes in 8 bits.
TEST(Float8Casts, OrderThemselves) {
  std::mt19937 random(5);
  std::uniform_real_distribution<double> size(1e3, 1e8), part(0, 1);
  for (const std::string& recipe : backends::float8_recipe_names()) {
    const backends::DeviceProfile device = device_with(recipe);
    for (int i = 0; i < 100; ++i) {
      Operands operands = {{{.elements = size(random)}, {.elements = size(random)}}};
      if (i % 2 == 1) operands[0].own = part(random) * operands[0].elements;
      Operands fused = operands, served = operands;
      fused[0].fused = true, served[1].serves = 4;
      double all = 0;
      for (const ProductRole role : roles) {
        const Float8Casts casts = float8_casts(device, role, operands);
        EXPECT_LE(float8_casts(device, role, fused).seconds, casts.seconds) << recipe;
        EXPECT_LE(float8_casts(device, role, served).seconds, casts.seconds) << recipe;
        EXPECT_LE(float8_casts(device, role, served).launches, casts.launches) << recipe;
        all += casts.seconds;
      }
      EXPECT_GT(all, operands[1].elements / device.memory_bandwidth) << recipe;
    }
  }
}

// Half the time of 8 bits, less what the measured share takes.
TEST(Float8Recipes, OneOfFourBitsHasAPeakOfItsOwn) {
  const auto seconds = [](const char* recipe) {
    backends::DeviceProfile device = backends::load_device("b200-sxm");
    backends::use_float8(device, backends::float8_recipe(recipe));
    const ir::OpDef& def = ir::op("matmul");
    const ir::Types inputs{{{8192, 8192}, ir::DType::bfloat16}, {{8192, 8192}, ir::DType::bfloat16}};
    const ir::Attrs attrs = ir::complete(def, {});
    return float8_product_seconds(device, def, inputs, def.infer(inputs, attrs), attrs);
  };
  EXPECT_LT(seconds("nvfp4"), 0.75 * seconds("mxfp8"));
  EXPECT_GT(seconds("nvfp4"), 0.5 * seconds("mxfp8"));
}

TEST(Float8Recipes, RefuseOthers) {
  try {
    backends::float8_recipe("curent");
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(),
                 "fp8_recipe: \"curent\": no such recipe (did you mean current?); known are delayed, "
                 "current, blocks, mxfp8, nvfp4");
  }
}

// A norm, a gather of its result over two devices, and a product with a weight that eight micro-batches read.
ir::Plan gathered_product() {
  ir::Plan plan;
  plan.name = "gathered";
  plan.devices = 2;
  plan.classes = {{0, {0, 1}}};
  plan.comms = {{"tp", {{0, 1}}}};
  ir::Program program;
  program.name = "all";
  program.phases = {"F0"};
  program.schedule = {{0, 0}};
  program.queues = {{"compute", ir::QueueKind::compute, true}, {"net", ir::QueueKind::network, true}};
  const auto add = [&](const std::string& name, ir::Shape shape, int producer) {
    ir::Register reg;
    reg.name = name, reg.type = {std::move(shape), ir::DType::bfloat16};
    reg.bytes = reg.type.bytes(), reg.producer = producer;
    program.registers.push_back(reg);
  };
  add("x", {4096, 4096}, 0), add("part", {4096, 4096}, 1), add("whole", {8192, 4096}, 2);
  add("w", {4096, 1024}, 0), add("y", {8192, 1024}, 3);
  const auto act = [&](const std::string& op, const std::map<int, int>& read, std::vector<int> outputs) {
    ir::Actor actor;
    actor.name = actor.op = op, actor.layer = 0;
    for (const auto& [reg, repeat] : read) actor.inputs.push_back({reg, repeat, -1, -1, {}});
    actor.outputs = std::move(outputs);
    program.actors.push_back(actor);
  };
  act("load", {}, {0, 3}), act("rms_norm", {{0, 1}}, {1}), act("all_gather", {{1, 1}}, {2});
  act("matmul", {{2, 1}, {3, 8}}, {4});
  program.actors[0].kind = ir::ActorKind::copy;
  ir::Actor& gather = program.actors[2];
  gather.kind = ir::ActorKind::collective, gather.collective = sbp::Collective::all_gather;
  gather.comm = 0, gather.queue = 1, gather.comm_bytes = program.registers[2].bytes;
  plan.programs = {program};
  return plan;
}

TEST(Float8Operands, AreAsThePlanMakesThem) {
  const ir::Plan plan = gathered_product();
  const ir::Program& program = plan.programs[0];
  backends::Framework framework;
  framework.float8_fuses = backends::Float8Fuses::norms;
  const auto of = [&] { return float8_operands(framework, program, program.actors[3]); };
  EXPECT_EQ(of()[0].elements, 8192 * 4096);
  EXPECT_EQ(of()[0].own, 4096 * 4096);
  EXPECT_TRUE(of()[0].fused);
  EXPECT_EQ(of()[1].elements, 4096 * 1024);
  EXPECT_EQ(of()[1].serves, 8);
  framework.float8_fuses = backends::Float8Fuses::nothing, framework.float8_weights_stay = false;
  EXPECT_FALSE(of()[0].fused);
  EXPECT_EQ(of()[1].serves, 1);
}

// A batch of products runs in 8 bits where it reads experts' weights or makes their gradients.
TEST(Float8Operands, ProductsOfExpertsRunIn8Bits) {
  backends::Cluster cluster = backends::load_cluster("dgx-h100", 1);
  backends::use_float8(cluster.device, backends::float8_recipe("delayed"));
  const ir::Plan plan = ir::parse_plan(R"(plan experts
devices 1
micro_batches 1
class 0: p

program p
  phases F, B
  schedule F[0] B[0]
  queue compute: compute
  %x: bfloat16[4, 64, 8] x1 activations
  %w: bfloat16[4, 8, 16] x1 parameters
  %y: bfloat16[4, 64, 16] x1 activations
  %dw: bfloat16[4, 8, 16] x1 gradients
  %keys: bfloat16[4, 16, 64] x1 activations
  %scores: bfloat16[4, 64, 64] x1 activations
  %dkeys: bfloat16[4, 16, 64] x1 activations
  load host test() -> %x, %w, %keys on compute in F
  product batch_matmul(%x, %w) -> %y on compute in F layer 0
  scores batch_matmul(%y, %keys) -> %scores on compute in F layer 0
  gradient batch_matmul(%x, %y) {transpose_a=true} -> %dw on compute in B layer 0
  of_keys batch_matmul(%y, %scores) {transpose_a=true} -> %dkeys on compute in B layer 0
  end host test(%dw, %dkeys) on compute in B
)");
  std::vector<std::string> names;
  for (const ir::Actor& actor : plan.programs[0].actors)
    if (runs_in_float8(cluster, plan.programs[0], actor)) names.push_back(actor.name);
  EXPECT_THAT(names, testing::ElementsAre("product", "gradient"));
}

// A tensor that is gathered for products of 8 bits alone has half the bytes; not one that another kernel
// reads too.
TEST(Float8Operands, TravelIn8Bits) {
  backends::Cluster cluster = backends::load_cluster("dgx-h100", 2);
  ir::Plan plan = gathered_product();
  const double whole = act_seconds(plan, cluster, 0)[2];
  backends::use_float8(cluster.device, backends::float8_recipe("delayed"));
  EXPECT_TRUE(gathers_in_float8(cluster, plan.programs[0], plan.programs[0].actors[2]));
  EXPECT_LT(act_seconds(plan, cluster, 0)[2], 0.6 * whole);
  at(plan.programs[0].actors, 3).op = "rms_norm";
  at(plan.programs[0].actors, 3).inputs.resize(1);
  EXPECT_EQ(act_seconds(plan, cluster, 0)[2], whole);
}

}  // namespace
}  // namespace boxcar::sim

// Steps as CUDA graphs equal the steps from which they were recorded, bit for bit, each with different data,
// learning rates, Adam corrections and dropped elements, whole or in several calls. Skipped if there is no
// GPU.
#include <gtest/gtest.h>

#include <cstring>

#include "actors/runtime.h"
#include "gpu.h"
#include "loading_plan.h"
#include "plans.h"
#include "support/error_of.h"
#include "trainer.h"

namespace boxcar::tests {
namespace {

const char* const step_names[] = {
    "alone",     "cp4_flash",    "dp2",         "fused_optimizer",   "pp2",
    "gpipe_dp2", "zero1_uneven", "zero3",       "dp2_tp2_pp2_zero1", "cp2_tp2_llama",
    "zb_h1",     "interleaved",  "experts_tp2", "resnet_pp2"};

class GpuGraphs : public testing::TestWithParam<const char*> {};

TEST_P(GpuGraphs, IsTheStepItWasRecordedFrom) {
  std::string why;
  if (!gpus(1, why)) GTEST_SKIP() << why;
  const auto on_gpus = [&](int devices) { return gpus(devices, why); };
  const TransformerRow& row = plan_named(GetParam());
  ir::TrainOptions options;
  options.optimizer = ir::Optimizer::adam;
  options.weight_decay = 0.01, options.clip_norm = 0.5;
  options.precision = ir::Precision::fp32;
  const planner::LaidOut laid = planner::lay_out(job_of(row, plan_batch, options));
  const Start start = transformer_start(job_of(row, plan_batch, options));
  Running running;
  running.learning_rate = [](int64_t step) { return 0.01 / static_cast<double>(1 + step); };
  constexpr int steps = 7;
  const Outcome plain = train(laid, start, steps, on_gpus, running);
  running.graphs = true;
  const Outcome recorded = train(laid, start, steps, on_gpus, running);
  expect_same(recorded, plain, 0);
  EXPECT_NE(plain.losses[0], plain.losses[steps - 1]);
  running.chunk = 2;
  expect_same(train(laid, start, steps, on_gpus, running), plain, 0);
}
INSTANTIATE_TEST_SUITE_P(Plans, GpuGraphs, testing::ValuesIn(step_names),
                         [](const auto& info) { return std::string(info.param); });

// acc has three slots and lies in another one after every step. So six steps are recorded, two at least, and
// the sum of all loads is in the slot that the last of fourteen steps wrote. x has three slots for the two of
// a step, and each step begins at the first.
TEST(GpuGraph, TurnsThroughTheSlotsOfRegisters) {
  std::string why;
  const auto backend = gpus(1, why);
  if (!backend) GTEST_SKIP() << why;
  const ir::Plan plan = loading_plan(3,
                                     "  %new: float32[3] x1 gradients bytes 512 @2048\n"
                                     "  %acc: float32[3] x3 optimizer bytes 512 initial 1 @2560\n",
                                     "  next add(%y, %acc) -> %new on compute in U\n"
                                     "  keep relu(%new) -> %acc on compute in U\n");
  const auto cpu = cpu_devices(1);
  EXPECT_EQ(support::error_of([&] { actors::Runtime(plan, *cpu, {}, {.graphs = true}); }),
            "graphs of steps: this backend has none");
  actors::Hooks hooks;
  hooks.fill = [](int, const ir::Register& reg, const backends::Moment& moment, std::span<std::byte> bytes) {
    const auto value = static_cast<float>(moment.step * 10 + moment.micro_batch);
    const std::vector<float> values(3, reg.name == "x" ? value : 0);
    std::memcpy(bytes.data(), values.data(), bytes.size());
  };
  hooks.watch = {"new"};
  std::vector<float> watched;
  hooks.watched = [&](int, const ir::Register&, const backends::Moment&, std::span<const std::byte> bytes) {
    watched.push_back(0);
    std::memcpy(&watched.back(), bytes.data(), sizeof(float));
  };
  actors::Runtime run(plan, *backend, hooks, {.graphs = true});
  float sum = 0;
  std::vector<float> sums;
  for (int64_t step = 0; step < 14; ++step) sums.push_back(sum += static_cast<float>(20 * step + 1));
  run.steps(7, 0);
  run.steps(7, 7);
  EXPECT_EQ(watched, sums);
  float last = 0;
  std::memcpy(&last, run.read(0, "acc").data(), sizeof last);
  EXPECT_EQ(last, sum);
  std::memcpy(&last, run.read(0, "x").data(), sizeof last);
  EXPECT_EQ(last, 131);
}

}  // namespace
}  // namespace boxcar::tests

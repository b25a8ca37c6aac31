// Law 4 on GPUs: plans whose devices share the GPUs there are train as on the CPU backend. Skipped where
// there is no GPU.
#include <gtest/gtest.h>

#include "gpu.h"
#include "models.h"
#include "trainer.h"

namespace boxcar::tests {
namespace {

using planner::Job;

constexpr int64_t batch = 12;
constexpr int steps = 10;

const TransformerRow rows[] = {
    {"alone", "gpt", 0.1, 2, [](Job&) {}},
    {"llama", "llama", 0, 1, [](Job&) {}},
    {"fused_loss", "llama", 0, 1, [](Job& j) { j.train.fused_loss = true; }},
    {"fused_loss_tp2", "gpt", 0, 1, [](Job& j) { j.parallel.tp = 2, j.train.fused_loss = true; }},
    {"dp2", "gpt", 0.1, 3, [](Job& j) { j.parallel.dp = 2; }},
    {"tp2_flash", "gpt", 0.1, 1, [](Job& j) { j.parallel.tp = 2, j.train.flash = true; }},
    {"tp2_epilogues", "gpt", 0.1, 1, [](Job& j) { j.parallel.tp = 2, j.train.epilogues = true; }},
    {"sp2", "llama", 0, 1, [](Job& j) { j.parallel.tp = 2, j.parallel.sequence_parallel = true; }},
    {"fused_optimizer_zero1", "gpt", 0.1, 3,
     [](Job& j) { j.parallel.dp = 2, j.parallel.zero = 1, j.parallel.fused_optimizer = true; }},
    {"residual_epilogues", "llama", 0, 2, [](Job& j) { j.parallel.dp = 2, j.train.epilogues = true; }},
    {"tp2_gelu_epilogues", "gpt", 0.1, 1,
     [](Job& j) { j.model.gelu = "tanh", j.parallel.tp = 2, j.train.epilogues = true; }},
    {"pp2", "gpt", 0.1, 4, [](Job& j) { j.parallel.pp = 2; }},
    {"gpipe_dp2", "llama", 0, 3,
     [](Job& j) { j.parallel.pp = j.parallel.dp = 2, j.parallel.schedule = "gpipe"; }},
    {"zero1_uneven", "gpt", 0, 1, [](Job& j) { j.parallel.dp = 3, j.parallel.zero = 1; }},
    {"zero3", "gpt", 0.1, 1, [](Job& j) { j.parallel.dp = 4, j.parallel.zero = 3; }},
    {"dp2_tp2_pp2_zero1", "gpt", 0.1, 3,
     [](Job& j) { j.parallel.dp = j.parallel.tp = j.parallel.pp = 2, j.parallel.zero = 1; }},
    {"cp2_tp2_llama", "llama", 0, 2, [](Job& j) { j.parallel.cp = j.parallel.tp = 2, j.train.flash = true; }},
};

ir::TrainOptions options_of(ir::Precision precision) {
  ir::TrainOptions options;
  options.optimizer = ir::Optimizer::adam;
  options.learning_rate = 0.01;
  options.weight_decay = 0.01;
  options.clip_norm = 0.5;
  options.precision = precision;
  return options;
}

class GpuLaw4 : public testing::TestWithParam<TransformerRow> {};

TEST_P(GpuLaw4, TrainsAsOnTheCpu) {
  std::string why;
  if (!gpus(1, why)) GTEST_SKIP() << why;
  const auto on_gpus = [&](int devices) { return gpus(devices, why); };
  for (const ir::Precision precision : {ir::Precision::fp64, ir::Precision::fp32}) {
    const Job job = job_of(GetParam(), batch, options_of(precision));
    const planner::LaidOut laid = planner::lay_out(job);
    const Start start = transformer_start(job);
    const Outcome here = train(laid, start, steps), there = train(laid, start, steps, on_gpus);
    SCOPED_TRACE(precision == ir::Precision::fp64 ? "float64" : "float32");
    if (precision == ir::Precision::fp64)
      expect_same(there, here, 1e-8);
    else
      EXPECT_LE(loss_distance(there, here),
                1e-3);  // Adam's weights move by rounding alone where gradients are zero
  }
}
INSTANTIATE_TEST_SUITE_P(Plans, GpuLaw4, testing::ValuesIn(rows),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace boxcar::tests

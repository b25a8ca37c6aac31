// Jobs of many layouts: each compiles to a plan that ends and whose memory is sound.
#include <gtest/gtest.h>

#include "planner/verify.h"
#include "small_jobs.h"

namespace boxcar::planner {
namespace {

struct Layout {
  const char* name;
  std::function<void(Job&)> change;
};

class Layouts : public testing::TestWithParam<Layout> {};

TEST_P(Layouts, compile_and_are_proved_to_end) {
  Job job = small_job(1, 1, 1, 4, 4);
  job.gpus = job.parallel.dp = 0;
  job.global_batch = 0;
  GetParam().change(job);
  Hints& h = job.parallel;
  job.gpus = std::max(h.dp, 1) * h.tp * h.pp * h.cp;
  if (job.global_batch == 0) job.global_batch = 4 * std::max(h.dp, 1);
  const ir::Plan plan = compile(resolve(job));
  EXPECT_NO_THROW(verify(plan));
  EXPECT_EQ(ir::to_text(ir::parse_plan(ir::to_text(plan))), ir::to_text(plan));
}

void llama(Job& j) {
  const ir::models::Transformer small = j.model;
  j.model = ir::models::defaults("llama");
  j.model.layers = small.layers, j.model.hidden = 32, j.model.heads = 8, j.model.kv_heads = 4,
  j.model.seq = small.seq;
  j.model.vocab = small.vocab, j.model.pad_vocab_to = 8, j.model.ffn = 64;
}

const Layout layouts[] = {
    {"one_device", [](Job&) {}},
    {"dp", [](Job& j) { j.parallel.dp = 8; }},
    {"dp_uneven_shards", [](Job& j) { j.parallel.dp = 3, j.parallel.zero = 1; }},
    {"tp", [](Job& j) { j.parallel.tp = 4; }},
    {"pp", [](Job& j) { j.parallel.pp = 4; }},
    {"pp_uneven", [](Job& j) { j.parallel.pp = 3; }},
    {"pp_given",
     [](Job& j) {
       j.parallel.pp = 2, j.parallel.stage_layers = {1, 3};
     }},
    {"gpipe", [](Job& j) { j.parallel.pp = 4, j.parallel.schedule = "gpipe"; }},
    {"interleaved", [](Job& j) { j.parallel.pp = 2, j.parallel.virtual_stages = 2; }},
    {"interleaved_full",
     [](Job& j) {
       j.parallel.pp = 2, j.parallel.virtual_stages = 2, j.parallel.dp = 2, j.parallel.tp = 2,
       j.parallel.zero = 1;
       j.train.recompute = ir::Recompute::full;
     }},
    {"hybrid", [](Job& j) { j.parallel.dp = 2, j.parallel.tp = 2, j.parallel.pp = 2; }},
    {"zero1", [](Job& j) { j.parallel.dp = 2, j.parallel.tp = 2, j.parallel.pp = 2, j.parallel.zero = 1; }},
    {"zero2", [](Job& j) { j.parallel.dp = 2, j.parallel.tp = 2, j.parallel.pp = 2, j.parallel.zero = 2; }},
    {"zero3", [](Job& j) { j.parallel.dp = 4, j.parallel.tp = 2, j.parallel.zero = 3; }},
    {"zero3_recompute",
     [](Job& j) { j.parallel.dp = 4, j.parallel.zero = 3, j.train.recompute = ir::Recompute::full; }},
    {"zero3_pp", [](Job& j) { j.parallel.dp = 2, j.parallel.pp = 2, j.parallel.zero = 3; }},
    {"hybrid_shards", [](Job& j) { j.parallel.dp = 4, j.parallel.fsdp_group = 2, j.parallel.zero = 3; }},
    {"fp32_zero1",
     [](Job& j) { j.parallel.dp = 2, j.parallel.zero = 1, j.train.precision = ir::Precision::fp32; }},
    {"fp32_zero3_one_micro_batch",
     [](Job& j) {
       j.parallel.dp = 2, j.parallel.zero = 3, j.global_batch = 2, j.train.precision = ir::Precision::fp32;
     }},
    {"bf16_selective",
     [](Job& j) {
       j.parallel.tp = 2, j.train.precision = ir::Precision::bf16,
       j.train.recompute = ir::Recompute::selective;
     }},
    {"sequence_parallel",
     [](Job& j) { j.parallel.dp = 2, j.parallel.tp = 2, j.parallel.sequence_parallel = true; }},
    {"context_parallel", [](Job& j) { j.parallel.dp = 2, j.parallel.cp = 2; }},
    {"context_and_sequence",
     [](Job& j) {
       j.parallel.cp = 2, j.parallel.tp = 2, j.parallel.sequence_parallel = true, j.train.flash = true;
     }},
    {"late_reduction",
     [](Job& j) {
       j.parallel.dp = 2, j.parallel.pp = 2, j.parallel.zero = 1,
       j.parallel.overlap_grad = j.parallel.overlap_param = false;
     }},
    {"untied_llama",
     [](Job& j) { llama(j), j.parallel.dp = 2, j.parallel.tp = 2, j.parallel.pp = 2, j.parallel.zero = 1; }},
    {"llama_flash", [](Job& j) { llama(j), j.parallel.tp = 4, j.parallel.cp = 2, j.train.flash = true; }},
    {"sgd", [](Job& j) { j.parallel.dp = 2, j.train.optimizer = ir::Optimizer::sgd; }},
    {"momentum_no_clip",
     [](Job& j) { j.parallel.dp = 2, j.train.optimizer = ir::Optimizer::momentum, j.train.clip_norm = 0; }},
};
INSTANTIATE_TEST_SUITE_P(Jobs, Layouts, testing::ValuesIn(layouts),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace boxcar::planner

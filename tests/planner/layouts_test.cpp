// Jobs of many layouts: each compiles to a plan that ends and has sound memory.
#include <gtest/gtest.h>

#include <ostream>
#include <random>

#include "planner/verify.h"
#include "small_jobs.h"

namespace boxcar::planner {
namespace {

class Layouts : public testing::TestWithParam<NamedChange> {};

TEST_P(Layouts, CompileAndAreProvedToEnd) {
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

void grouped_llama(Job& j) {
  const ir::models::Transformer small = transformer_of(j.model);
  j.model = ir::models::defaults("llama");
  j.model->layers = small.layers, j.model->hidden = 32, j.model->heads = 8, j.model->kv_heads = 4,
  j.model->seq = small.seq;
  j.model->vocab = small.vocab, j.model->pad_vocab_to = 8, j.model->ffn = 64;
}

const NamedChange compiled_layouts[] = {
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
    {"gpipe", [](Job& j) { j.parallel.pp = 4, j.parallel.schedule = Schedule::gpipe; }},
    {"zb_h1", [](Job& j) { j.parallel.pp = 4, j.parallel.schedule = Schedule::zb_h1, j.global_batch = 9; }},
    {"zb_h2", [](Job& j) { j.parallel.pp = 4, j.parallel.schedule = Schedule::zb_h2, j.global_batch = 9; }},
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
    // enough tokens that a weight's gradient is cheapest with the sequence split, as a partial sum
    {"sequence_parallel_many_tokens",
     [](Job& j) {
       j.parallel.tp = 4, j.parallel.sequence_parallel = true, j.parallel.micro_batch = 32,
       j.global_batch = 64;
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
     [](Job& j) {
       grouped_llama(j), j.parallel.dp = 2, j.parallel.tp = 2, j.parallel.pp = 2, j.parallel.zero = 1;
     }},
    {"llama_flash",
     [](Job& j) { grouped_llama(j), j.parallel.tp = 4, j.parallel.cp = 2, j.train.flash = true; }},
    {"experts",
     [](Job& j) {
       grouped_llama(j), j.model->experts = 8, j.model->top_k = 2, j.parallel.dp = 4, j.parallel.ep = 2;
     }},
    {"experts_hybrid",
     [](Job& j) {
       j.model->experts = 8, j.model->top_k = 2, j.parallel.dp = 4, j.parallel.ep = 4, j.parallel.tp = 2;
       j.parallel.pp = 2, j.parallel.zero = 1, j.parallel.sequence_parallel = true;
     }},
    {"sgd", [](Job& j) { j.parallel.dp = 2, j.train.optimizer = ir::Optimizer::sgd; }},
    {"momentum_no_clip",
     [](Job& j) { j.parallel.dp = 2, j.train.optimizer = ir::Optimizer::momentum, j.train.clip_norm = 0; }},
};
INSTANTIATE_TEST_SUITE_P(Jobs, Layouts, testing::ValuesIn(compiled_layouts),
                         [](const auto& info) { return std::string(info.param.name); });

Job random_wide_job(std::mt19937& r) {
  Job job = small_job(pick(r, {1, 2, 3, 4}), pick(r, {1, 2, 4, 8}), pick(r, {1, 2}), 4, pick(r, {2, 4}));
  const bool llama = pick(r, {false, true});
  job.model = ir::models::defaults(llama ? "llama" : "gpt");
  job.model->layers = 4, job.model->heads = 16, job.model->hidden = pick(r, {64, 256, 1024, 4096});
  job.model->kv_heads = pick(r, {8, 16}), job.model->ffn = 4 * job.model->hidden;
  job.model->seq = pick(r, {64, 512, 4096}), job.model->vocab = pick(r, {1000, 50000});
  Hints& h = job.parallel;
  h.cp = pick(r, {1, 1, 2}), h.zero = pick(r, {0, 1, 2, 3}), h.micro_batch = pick(r, {1, 2, 8});
  h.sequence_parallel = pick(r, {false, true});
  h.virtual_stages = h.pp > 1 ? pick(r, {1, 2}) : 1;
  h.overlap_grad = pick(r, {false, true}), h.overlap_param = pick(r, {false, true});
  h.fsdp_group = h.dp == 4 ? pick(r, {0, 2}) : 0;
  if (pick(r, {false, false, true})) {
    job.model->experts = 8, job.model->top_k = pick(r, {1, 2});
    h.ep = h.fsdp_group > 0 || h.dp % 2 == 0 ? pick(r, {1, 2}) : 1;
  }
  job.global_batch *= h.micro_batch;
  job.gpus *= h.cp;
  job.train.flash = pick(r, {false, true});
  job.train.recompute = pick(r, {ir::Recompute::none, ir::Recompute::selective, ir::Recompute::full});
  job.train.precision = pick(r, {ir::Precision::fp16, ir::Precision::bf16, ir::Precision::fp32});
  return job;
}

std::string text(const Job& j) {
  const Hints& h = j.parallel;
  return fmt::format(
      "{} experts {} ep {} hidden {} seq {} dp {} tp {} pp {} cp {} v {} zero {} sp {} mb {} gb {} fsdp {} "
      "flash {} "
      "recompute {} precision {}",
      j.model.family(), j.model->experts, h.ep, j.model->hidden, j.model->seq, h.dp, h.tp, h.pp, h.cp,
      h.virtual_stages, h.zero, h.sequence_parallel, h.micro_batch, j.global_batch, h.fsdp_group,
      j.train.flash, static_cast<int>(j.train.recompute), static_cast<int>(j.train.precision));
}

void compile_random_jobs(unsigned seed, int count) {
  std::mt19937 random(seed);
  for (int i = 0; i < count; ++i) {
    const Job job = random_wide_job(random);
    EXPECT_NO_THROW(verify(compile(resolve(job)))) << "seed " << seed << ": " << text(job);
  }
}

TEST(RandomJobs, CompileAndAreProvedToEnd) { compile_random_jobs(1, 30); }
TEST(RandomJobs, LongCompileAndAreProvedToEnd) { compile_random_jobs(2, 1000); }

}  // namespace
}  // namespace boxcar::planner

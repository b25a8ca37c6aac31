// Law 4 for transformers under plans that hints decide.
#include <gtest/gtest.h>

#include "law4.h"
#include "models.h"

namespace boxcar::tests {
namespace {

using planner::Job;

constexpr int64_t batch = 12;

const TransformerRow rows[] = {
    {"dp2", "gpt", 0.1, 1, [](Job& j) { j.parallel.dp = 2; }},
    {"dp3", "gpt", 0, 1, [](Job& j) { j.parallel.dp = 3; }},
    {"dp4", "llama", 0, 1, [](Job& j) { j.parallel.dp = 4; }},
    {"accumulation", "gpt", 0.1, 6, [](Job&) {}},
    {"dp2_accumulation", "gpt", 0.1, 3, [](Job& j) { j.parallel.dp = 2; }},
    {"dp2_late_reduction", "gpt", 0, 2,
     [](Job& j) { j.parallel.dp = 2, j.parallel.overlap_grad = j.parallel.overlap_param = false; }},
    {"tp2", "gpt", 0.1, 1, [](Job& j) { j.parallel.tp = 2; }},
    {"tp4", "gpt", 0, 1, [](Job& j) { j.parallel.tp = 4; }},
    {"tp2_llama", "llama", 0, 1, [](Job& j) { j.parallel.tp = 2; }},
    {"tp2_bert", "bert", 0.1, 2, [](Job& j) { j.parallel.tp = 2; }},
    {"tp2_flash", "gpt", 0.1, 1, [](Job& j) { j.parallel.tp = 2, j.train.flash = true; }},
    {"sp2", "gpt", 0.1, 1, [](Job& j) { j.parallel.tp = 2, j.parallel.sequence_parallel = true; }},
    {"sp4", "gpt", 0, 2, [](Job& j) { j.parallel.tp = 4, j.parallel.sequence_parallel = true; }},
    {"sp2_llama", "llama", 0, 1, [](Job& j) { j.parallel.tp = 2, j.parallel.sequence_parallel = true; }},
    {"dp2_tp2", "gpt", 0.1, 3, [](Job& j) { j.parallel.dp = j.parallel.tp = 2; }},
    {"pp2", "gpt", 0.1, 4, [](Job& j) { j.parallel.pp = 2; }},
    {"pp2_llama", "llama", 0, 3, [](Job& j) { j.parallel.pp = 2; }},
    {"pp2_bert", "bert", 0.1, 2, [](Job& j) { j.parallel.pp = 2; }},
    {"pp3_uneven", "gpt", 0, 6,
     [](Job& j) {
       j.model.layers = 4, j.parallel.pp = 3, j.parallel.stage_layers = {1, 2, 1};
     }},
    {"gpipe", "gpt", 0.1, 4, [](Job& j) { j.parallel.pp = 2, j.parallel.schedule = "gpipe"; }},
    {"gpipe_dp2", "llama", 0, 3,
     [](Job& j) { j.parallel.pp = j.parallel.dp = 2, j.parallel.schedule = "gpipe"; }},
    {"zb_h1", "gpt", 0.1, 4, [](Job& j) { j.parallel.pp = 2, j.parallel.schedule = "zb-h1"; }},
    {"zb_h1_dp2_tp2", "llama", 0, 3,
     [](Job& j) {
       j.parallel.pp = j.parallel.dp = j.parallel.tp = 2, j.parallel.zero = 1, j.parallel.schedule = "zb-h1";
     }},
    {"zb_h2", "gpt", 0, 6,
     [](Job& j) { j.model.layers = 4, j.parallel.pp = 3, j.parallel.schedule = "zb-h2"; }},
    {"interleaved", "gpt", 0.1, 4,
     [](Job& j) { j.model.layers = 4, j.parallel.pp = j.parallel.virtual_stages = 2; }},
    {"interleaved_tp2", "llama", 0, 2,
     [](Job& j) { j.model.layers = 4, j.parallel.pp = j.parallel.virtual_stages = j.parallel.tp = 2; }},
    {"zero1", "gpt", 0.1, 1, [](Job& j) { j.parallel.dp = 2, j.parallel.zero = 1; }},
    {"zero1_uneven", "gpt", 0, 1, [](Job& j) { j.parallel.dp = 3, j.parallel.zero = 1; }},
    {"zero1_tp2", "gpt", 0, 3, [](Job& j) { j.parallel.dp = j.parallel.tp = 2, j.parallel.zero = 1; }},
    {"zero2", "gpt", 0.1, 3, [](Job& j) { j.parallel.dp = 2, j.parallel.zero = 2; }},
    {"zero2_tp2", "llama", 0, 2, [](Job& j) { j.parallel.dp = 3, j.parallel.tp = j.parallel.zero = 2; }},
    {"zero3", "gpt", 0.1, 1, [](Job& j) { j.parallel.dp = 4, j.parallel.zero = 3; }},
    {"zero3_accumulation", "llama", 0, 3, [](Job& j) { j.parallel.dp = 2, j.parallel.zero = 3; }},
    {"zero3_tp2", "gpt", 0, 1, [](Job& j) { j.parallel.dp = j.parallel.tp = 2, j.parallel.zero = 3; }},
    {"hybrid_shards1", "gpt", 0, 1,
     [](Job& j) { j.parallel.dp = 4, j.parallel.fsdp_group = 2, j.parallel.zero = 1; }},
    {"hybrid_shards3", "gpt", 0.1, 1,
     [](Job& j) { j.parallel.dp = 4, j.parallel.fsdp_group = 2, j.parallel.zero = 3; }},
    {"recompute_full", "gpt", 0.1, 2,
     [](Job& j) { j.parallel.tp = j.parallel.pp = 2, j.train.recompute = ir::Recompute::full; }},
    {"recompute_selective", "gpt", 0.1, 1,
     [](Job& j) { j.parallel.tp = 2, j.train.recompute = ir::Recompute::selective; }},
    {"recompute_one_layer", "llama", 0, 2,
     [](Job& j) {
       j.parallel.dp = 2, j.train.recompute = ir::Recompute::full, j.train.recompute_layers = 1;
     }},
    {"gelu_tanh_tp2", "gpt", 0.1, 1, [](Job& j) { j.model.gelu = "tanh", j.parallel.tp = 2; }},
    {"residual_epilogues", "llama", 0, 2, [](Job& j) { j.parallel.dp = 2, j.train.epilogues = true; }},
    {"gelu_epilogues", "gpt", 0.1, 3, [](Job& j) { j.model.gelu = "tanh", j.train.epilogues = true; }},
    {"gelu_epilogues_sp2_dp2", "gpt", 0.1, 2,
     [](Job& j) {
       j.model.gelu = "tanh", j.train.epilogues = j.parallel.sequence_parallel = true;
       j.parallel.tp = j.parallel.dp = 2, j.train.recompute = ir::Recompute::full;
     }},
    {"gelu_epilogues_zb_h1", "gpt", 0.1, 4,
     [](Job& j) {
       j.model.gelu = "tanh", j.train.epilogues = true;
       j.parallel.pp = 2, j.parallel.schedule = "zb-h1";
     }},
    {"fused_loss", "bert", 0.1, 2, [](Job& j) { j.train.fused_loss = true; }},
    {"fused_loss_tp4", "gpt", 0, 1, [](Job& j) { j.parallel.tp = 4, j.train.fused_loss = true; }},
    {"fused_loss_gathered", "llama", 0, 1,
     [](Job& j) { j.parallel.tp = 2, j.parallel.gather_logits = j.train.fused_loss = true; }},
    {"fused_optimizer", "gpt", 0.1, 2, [](Job& j) { j.parallel.fused_optimizer = true; }},
    {"fused_optimizer_pp2_zero1", "gpt", 0.1, 3,
     [](Job& j) {
       j.parallel.dp = j.parallel.pp = 2, j.parallel.zero = 1, j.parallel.fused_optimizer = true;
     }},
    {"fused_optimizer_zero2_tp2", "llama", 0, 2,
     [](Job& j) {
       j.parallel.dp = 3, j.parallel.tp = j.parallel.zero = 2, j.parallel.fused_optimizer = true;
     }},
    {"fused_optimizer_zero3", "gpt", 0, 1,
     [](Job& j) { j.parallel.dp = 4, j.parallel.zero = 3, j.parallel.fused_optimizer = true; }},
    {"cp2", "gpt", 0.1, 1, [](Job& j) { j.parallel.cp = 2; }},
    {"cp4_flash", "gpt", 0.1, 1, [](Job& j) { j.parallel.cp = 4, j.train.flash = true; }},
    {"cp2_tp2_llama", "llama", 0, 2, [](Job& j) { j.parallel.cp = j.parallel.tp = 2, j.train.flash = true; }},
    {"cp2_sp2_dp2", "gpt", 0, 1,
     [](Job& j) { j.parallel.cp = j.parallel.tp = j.parallel.dp = 2, j.parallel.sequence_parallel = true; }},
    {"dp2_tp2_pp2_zero1", "gpt", 0.1, 3,
     [](Job& j) { j.parallel.dp = j.parallel.tp = j.parallel.pp = 2, j.parallel.zero = 1; }},
    {"dp2_tp2_pp2_zero3", "llama", 0, 2,
     [](Job& j) {
       j.parallel.dp = j.parallel.tp = j.parallel.pp = 2, j.parallel.zero = 3,
       j.parallel.sequence_parallel = true;
     }},
    {"experts_ep2", "gpt", 0.1, 1,
     [](Job& j) { j.model.experts = 4, j.model.top_k = 2, j.parallel.dp = 4, j.parallel.ep = 2; }},
    {"experts_tp2", "llama", 0, 1, [](Job& j) { j.model.experts = 3, j.model.top_k = 1, j.parallel.tp = 2; }},
    {"experts_ep2_zero1", "llama", 0, 3,
     [](Job& j) {
       j.model.experts = 4, j.model.top_k = 2, j.parallel.dp = j.parallel.ep = 2, j.parallel.zero = 1;
     }},
};

// The row's model on one device in one micro-batch, op by op as it is written.
Job alone_of(const TransformerRow& row, const ir::TrainOptions& options) {
  Job job = transformer(row.family, row.dropout, batch);
  row.change(job);
  job.parallel = transformer(row.family, row.dropout, batch).parallel;
  job.train = options;
  job.train.off = {"fuse_patterns", "fuse_elementwise"};
  return planner::resolve(job);
}

class TransformerLaw4 : public testing::TestWithParam<TransformerRow> {};

TEST_P(TransformerLaw4, trains_as_one_device_does) {
  const TransformerRow& row = GetParam();
  ASSERT_EQ(job_of(row, batch, {}).train.micro_batches, row.micro_batches);
  expect_law_4([&](const ir::TrainOptions& options) { return planner::lay_out(job_of(row, batch, options)); },
               [&](const ir::TrainOptions& options) { return planner::lay_out(alone_of(row, options)); },
               transformer_start(alone_of(row, {})));
}
INSTANTIATE_TEST_SUITE_P(Plans, TransformerLaw4, testing::ValuesIn(rows),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace boxcar::tests

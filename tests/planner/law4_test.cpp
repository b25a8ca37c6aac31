// Law 4 on the reference kernels: a step under any plan leaves the weights and moments of the single-device
// step.
#include "law4.h"

#include <gtest/gtest.h>

#include <functional>
#include <ostream>
#include <random>

#include "ir/ops/optimizers.h"
#include "sbp/at.h"
#include "small_jobs.h"

namespace boxcar::planner {
namespace {

class Law4 : public testing::TestWithParam<NamedChange> {};

TEST_P(Law4, AStepIsTheSingleDevices) {
  Job job = small_job(1, 1, 1, 2, 1);
  job.gpus = job.parallel.dp = 0;
  job.global_batch = 0;
  GetParam().change(job);
  Hints& h = job.parallel;
  job.gpus = std::max(h.dp, 1) * h.tp * h.pp * h.cp;
  if (job.global_batch > 1 && job.model.transformer())
    job.model->dropout = 0;  // otherwise micro-batches differ
  job.global_batch = std::max<int64_t>(job.global_batch, 1) * std::max(h.dp, 1) * h.micro_batch;
  expect_law_4(job);
}

void llama(Job& j) {
  j.model->family = "llama", j.model->bias = j.model->tied = false, j.model->dropout = 0,
  j.model->kv_heads = 2, j.model->ffn = 24;
}

void queries_in_groups(Job& j, int64_t heads, int64_t kv_heads) {
  llama(j), j.model->hidden = 2 * heads, j.model->heads = heads, j.model->kv_heads = kv_heads;
}

void t5(Job& j) { j.model->family = "t5", j.model->layers = 6, j.model->decoder_seq = j.model->seq / 2; }

void conv_net(Job& j, const char* family, int64_t layers, int64_t image) {
  j.model = ir::models::ConvNet{family, layers, 2, 1, image, 3};
}

const NamedChange run_layouts[] = {
    {"one_device", [](Job&) {}},
    {"dp", [](Job& j) { j.parallel.dp = 4; }},
    {"dp_micro_batches", [](Job& j) { j.parallel.dp = 2, j.global_batch = 3; }},
    {"tp", [](Job& j) { j.parallel.tp = 4; }},
    {"pp", [](Job& j) { j.parallel.pp = 2, j.global_batch = 4; }},
    {"interleaved",
     [](Job& j) {
       j.model->layers = 4, j.parallel.pp = 2, j.parallel.virtual_stages = 2, j.global_batch = 4;
     }},
    {"gpipe", [](Job& j) { j.parallel.pp = 2, j.parallel.schedule = Schedule::gpipe, j.global_batch = 3; }},
    {"sequence_parallel", [](Job& j) { j.parallel.tp = 2, j.parallel.sequence_parallel = true; }},
    {"context_parallel", [](Job& j) { j.parallel.cp = 2; }},
    {"context_flash", [](Job& j) { j.parallel.cp = 2, j.parallel.tp = 2, j.train.flash = true; }},
    {"context_sequence_flash",
     [](Job& j) {
       j.parallel.cp = 2, j.parallel.tp = 2, j.parallel.sequence_parallel = true, j.train.flash = true;
     }},
    {"zero1", [](Job& j) { j.parallel.dp = 2, j.parallel.tp = 2, j.parallel.zero = 1; }},
    {"zero1_uneven", [](Job& j) { j.parallel.dp = 3, j.parallel.zero = 1; }},
    {"zero2", [](Job& j) { j.parallel.dp = 2, j.parallel.tp = 2, j.parallel.zero = 2, j.global_batch = 2; }},
    {"zero3", [](Job& j) { j.parallel.dp = 4, j.parallel.zero = 3; }},
    {"zero3_no_overlap",
     [](Job& j) {
       j.parallel.dp = 4, j.parallel.zero = 3;
       j.parallel.overlap_grad = j.parallel.overlap_param = false;
     }},
    {"zero1_context", [](Job& j) { j.parallel.cp = 2, j.parallel.zero = 1; }},
    {"zero2_context",
     [](Job& j) {
       j.parallel.dp = 2, j.parallel.cp = 2, j.parallel.tp = 2, j.parallel.zero = 2, j.global_batch = 4;
     }},
    {"zero3_context",
     [](Job& j) { j.parallel.dp = 2, j.parallel.cp = 4, j.parallel.zero = 3, j.train.flash = true; }},
    {"zero1_context_in_groups",
     [](Job& j) {
       j.parallel.dp = 4, j.parallel.cp = 2, j.parallel.zero = 1, j.parallel.fsdp_group = 2;
       j.global_batch = 4;
     }},
    {"half_gradients_and_logits",
     [](Job& j) {
       j.parallel.dp = 2, j.parallel.tp = 2, j.parallel.zero = 2, j.global_batch = 4;
       j.train.gradients = ir::Gradients::half, j.train.half_logits = true;
     }},
    {"half_gradients_but_tables",
     [](Job& j) {
       j.parallel.dp = 2, j.parallel.pp = 2, j.parallel.zero = 1, j.global_batch = 4;
       j.train.gradients = ir::Gradients::half_but_tables;
     }},
    {"zero1_half_reduction",
     [](Job& j) {
       j.parallel.dp = 2, j.parallel.pp = 2, j.parallel.zero = 1, j.global_batch = 4;
       j.parallel.grad_reduction = Reduction::half;
     }},
    {"half_reduction_context",
     [](Job& j) { j.parallel.cp = 2, j.parallel.tp = 2, j.parallel.grad_reduction = Reduction::half; }},
    {"zero2_half_reduction",
     [](Job& j) {
       j.parallel.dp = j.parallel.tp = 2, j.parallel.zero = 2, j.global_batch = 4;
       j.parallel.sequence_parallel = true, j.parallel.grad_reduction = Reduction::half;
     }},
    {"zero3_half_gradients_float_reduction",
     [](Job& j) {
       j.parallel.dp = 2, j.parallel.pp = 2, j.parallel.zero = 3, j.global_batch = 4;
       j.train.gradients = ir::Gradients::half, j.parallel.grad_reduction = Reduction::float32;
     }},
    {"half_gradients_float_reduction",
     [](Job& j) {
       j.parallel.dp = j.parallel.tp = 2, j.global_batch = 2;
       j.train.gradients = ir::Gradients::half, j.parallel.grad_reduction = Reduction::float32;
     }},
    {"hybrid_shards", [](Job& j) { j.parallel.dp = 4, j.parallel.fsdp_group = 2, j.parallel.zero = 3; }},
    {"servers", [](Job& j) { j.parallel.dp = 4, j.parallel.servers = 2, j.global_batch = 2; }},
    {"servers_uneven",
     [](Job& j) {
       j.parallel.dp = j.parallel.servers = 3, j.train.precision = ir::Precision::fp32;
       j.train.clip_norm = 0;
     }},
    {"servers_add_up",
     [](Job& j) { j.parallel.dp = 4, j.parallel.servers = 2, j.parallel.servers_update = false; }},
    {"fp32_zero1",
     [](Job& j) { j.parallel.dp = 2, j.parallel.zero = 1, j.train.precision = ir::Precision::fp32; }},
    {"fp32_sgd",
     [](Job& j) {
       j.parallel.dp = 2, j.train.precision = ir::Precision::fp32, j.train.optimizer = ir::Optimizer::sgd;
     }},
    {"lamb_zero3",
     [](Job& j) {
       j.parallel.dp = j.parallel.tp = j.parallel.pp = 2, j.parallel.zero = 3, j.global_batch = 4;
       j.train.optimizer = ir::Optimizer::lamb, j.train.weight_decay = 0.1;
     }},
    {"lamb_fp32_tied_on_two_stages",
     [](Job& j) {
       j.parallel.dp = j.parallel.pp = 2, j.parallel.zero = 1, j.parallel.fused_optimizer = true;
       j.model->tied = true, j.train.precision = ir::Precision::fp32;
       j.train.optimizer = ir::Optimizer::lamb, j.train.weight_decay = 0.1;
     }},
    {"lars_together",
     [](Job& j) {
       j.parallel.dp = 3, j.parallel.zero = 1, j.parallel.fused_optimizer = true;
       j.train.optimizer = ir::Optimizer::lars, j.train.weight_decay = 0.1;
     }},
    {"full_recompute",
     [](Job& j) { j.parallel.tp = 2, j.parallel.pp = 2, j.train.recompute = ir::Recompute::full; }},
    {"op_recompute",
     [](Job& j) { j.parallel.tp = 2, j.parallel.pp = 2, j.train.recompute = ir::Recompute::ops; }},
    {"op_recompute_flash",
     [](Job& j) {
       llama(j), j.parallel.zero = 3, j.train.flash = true, j.train.recompute = ir::Recompute::ops;
     }},
    {"selective_recompute", [](Job& j) { j.parallel.tp = 2, j.train.recompute = ir::Recompute::selective; }},
    {"recompute_by_stage",
     [](Job& j) {
       j.model->layers = 5, j.parallel.tp = 2, j.parallel.pp = 3, j.global_batch = 4;
       j.train.recompute = ir::Recompute::full, j.train.recompute_layers = {2, 1, 0};
       j.train.recompute_others = ir::Recompute::selective;
     }},
    {"vocab_uneven", [](Job& j) { j.parallel.tp = 4, j.model->vocab = 10, j.model->pad_vocab_to = 1; }},
    {"vocab_uneven_zero3",
     [](Job& j) {
       j.parallel.dp = 2, j.parallel.tp = 4, j.parallel.zero = 3, j.model->vocab = 9,
       j.model->pad_vocab_to = 1;
     }},
    {"hybrid",
     [](Job& j) {
       j.parallel.dp = 2, j.parallel.tp = 2, j.parallel.pp = 2, j.parallel.zero = 1, j.global_batch = 2;
     }},
    {"llama",
     [](Job& j) { llama(j), j.parallel.dp = 2, j.parallel.tp = 2, j.parallel.cp = 2, j.train.flash = true; }},
    // Query heads are cut twice, key heads once or not at all.
    {"grouped_queries", [](Job& j) { llama(j), j.parallel.cp = j.parallel.tp = 2; }},
    {"grouped_queries_flash",
     [](Job& j) { queries_in_groups(j, 8, 4), j.parallel.cp = 2, j.parallel.tp = 4, j.train.flash = true; }},
    {"grouped_queries_more_context",
     [](Job& j) { queries_in_groups(j, 8, 2), j.parallel.cp = 4, j.parallel.tp = 2, j.train.flash = true; }},
    {"grouped_queries_gathered_keys",
     [](Job& j) {
       queries_in_groups(j, 8, 4), j.parallel.cp = 2, j.parallel.tp = 4, j.train.flash = true;
       j.parallel.gather_keys = true;
     }},
    {"grouped_queries_across_groups",  // a part's queries belong to two groups
     [](Job& j) {
       queries_in_groups(j, 12, 4), j.parallel.cp = 3, j.parallel.tp = 2, j.train.flash = true;
       j.model->seq = 6;
     }},
    {"masks_in_chains", [](Job& j) { j.parallel.cp = 2, j.train.off = {"fuse_patterns"}; }},
    {"masks_in_chains_tp",
     [](Job& j) {
       j.parallel.cp = 3, j.parallel.tp = 2, j.model->seq = 9;
       j.train.off = {"fuse_patterns"};
     }},
    {"epilogues_and_op_recompute",
     [](Job& j) {
       j.parallel.tp = j.parallel.pp = 2, j.train.epilogues = true, j.train.recompute = ir::Recompute::ops;
     }},
    {"biases_of_products_of_rows",
     [](Job& j) {
       j.parallel.tp = 2, j.model->heads = 2, j.train.epilogues = true;
       j.train.off = {"fuse_patterns", "fuse_elementwise"};
     }},
    {"biases_of_products_of_rows_zero3",
     [](Job& j) {
       j.parallel.tp = j.parallel.dp = 2, j.parallel.zero = 3, j.train.epilogues = true;
       j.train.off = {"fuse_patterns", "fuse_elementwise"}, j.parallel.sequence_parallel = true;
     }},
    {"moments_in_bf16",
     [](Job& j) {
       j.parallel.dp = j.parallel.pp = 2, j.parallel.zero = 1, j.train.moments = ir::Moments::bf16;
     }},
    {"sparse_tables",
     [](Job& j) {
       llama(j), j.parallel.dp = j.parallel.tp = 2, j.parallel.zero = 1, j.parallel.fused_optimizer = true;
       j.train.sparse_tables = true, j.train.clip_norm = 0, j.train.weight_decay = 0.1;
       j.train.precision = ir::Precision::fp32;
     }},
    {"sparse_tables_in_bf16",
     [](Job& j) {
       llama(j), j.parallel.dp = j.parallel.cp = j.parallel.pp = 2, j.parallel.zero = 3;
       j.train.sparse_tables = true, j.train.clip_norm = 0, j.train.moments = ir::Moments::bf16;
       j.train.precision = ir::Precision::bf16;
     }},
    {"llama_pp",
     [](Job& j) { llama(j), j.parallel.tp = 2, j.parallel.pp = 2, j.parallel.sequence_parallel = true; }},
    {"experts",
     [](Job& j) {
       llama(j), j.model->experts = 4, j.model->top_k = 2, j.parallel.dp = 4, j.parallel.ep = 2,
                 j.parallel.zero = 1;
     }},
    {"experts_weighed_inside",
     [](Job& j) {
       llama(j), j.model->experts = 4, j.model->top_k = 2, j.model->weigh_inside = j.model->bias = true;
       j.parallel.dp = 4, j.parallel.ep = j.parallel.tp = 2, j.parallel.sequence_parallel = true;
     }},
    {"experts_weighed_inside_context",
     [](Job& j) {
       llama(j), j.model->experts = 4, j.model->top_k = 3, j.model->weigh_inside = true;
       j.model->shared_experts = 1, j.parallel.cp = j.parallel.dp = j.parallel.ep = 2, j.parallel.zero = 2;
       j.train.recompute = ir::Recompute::selective;
       j.train.recompute_modules = {ir::Module::layernorm, ir::Module::moe_act, ir::Module::core_attn,
                                    ir::Module::shared_experts};
     }},
    {"experts_dealt_out_over_tp",
     [](Job& j) {
       llama(j), j.model->experts = 8, j.model->top_k = 2, j.model->bias = true, j.parallel.zero = 1;
       j.parallel.dp = j.parallel.tp = 2, j.parallel.ep = 4, j.parallel.etp = 1;
       j.parallel.sequence_parallel = true;
     }},
    {"experts_dealt_out_over_tp_context",
     [](Job& j) {
       llama(j), j.model->experts = 8, j.model->top_k = 3, j.model->weigh_inside = j.model->bias = true;
       j.parallel.cp = j.parallel.dp = j.parallel.tp = 2, j.parallel.ep = 4, j.parallel.etp = 1;
       j.parallel.zero = 2;
     }},
    {"experts_dealt_out_over_tp_alone",
     [](Job& j) {
       j.model->experts = 4, j.model->top_k = 1, j.parallel.dp = 2, j.parallel.zero = 3;
       j.parallel.tp = j.parallel.ep = 4, j.parallel.etp = 1;
     }},
    {"experts_in_groups_by_sigmoid",
     [](Job& j) {
       llama(j), j.model->experts = 8, j.model->top_k = 3, j.model->expert_groups = 4,
                 j.model->top_groups = 2;
       j.model->router_scores = "sigmoid", j.model->expert_scale = 2.5, j.model->weigh_inside = true;
       j.parallel.dp = j.parallel.cp = j.parallel.tp = j.parallel.ep = 2, j.parallel.zero = 1;
     }},
    {"experts_of_every_other_layer",
     [](Job& j) {
       j.model->layers = 4, j.model->experts = 4, j.model->expert_every = 2;
       j.parallel.dp = 2, j.parallel.ep = 2, j.parallel.pp = 2, j.parallel.zero = 1;
     }},
    // Word embeddings are on three stages, and the decoder's read the encoder's final output.
    {"t5_pp", [](Job& j) { t5(j), j.parallel.pp = 6, j.global_batch = 4; }},
    {"t5_two_layers_on_a_stage",
     [](Job& j) { t5(j), j.parallel.pp = 3, j.parallel.tp = 2, j.global_batch = 3; }},
    {"t5_recompute",
     [](Job& j) {
       t5(j), j.parallel.pp = 3, j.parallel.dp = 2, j.parallel.zero = 1;
       j.train.recompute = ir::Recompute::full, j.global_batch = 3;
     }},
    {"t5_sequence_parallel",
     [](Job& j) {
       t5(j), j.parallel.tp = 2, j.parallel.pp = 2, j.parallel.sequence_parallel = true;
       j.train.recompute = ir::Recompute::selective, j.global_batch = 2;
     }},
    {"t5_context_flash", [](Job& j) { t5(j), j.parallel.cp = 2, j.parallel.tp = 2, j.train.flash = true; }},
    {"t5_zb_h1",
     [](Job& j) {
       t5(j), j.parallel.pp = 3, j.parallel.schedule = Schedule::zb_h1, j.global_batch = 5,
              j.model->kv_heads = 2;
     }},
    // With one layer per stage, the first stage's output skips three stages.
    {"unet_pp", [](Job& j) { conv_net(j, "unet", 5, 8), j.parallel.pp = 5, j.global_batch = 4; }},
    {"unet_tp",
     [](Job& j) { conv_net(j, "unet", 3, 4), j.model.conv_net()->classes = 4, j.parallel.tp = 2; }},
    {"unet_recompute",
     [](Job& j) { conv_net(j, "unet", 3, 4), j.parallel.pp = 2, j.train.recompute = ir::Recompute::full; }},
    // Skips, the time step's embedding and the context go to most stages.
    {"diffusion_unet_pp",
     [](Job& j) {
       conv_net(j, "diffusion_unet", 5, 4), j.model.conv_net()->channels = 8, j.parallel.pp = 5,
                                            j.global_batch = 3;
       j.train.recompute = ir::Recompute::full;
     }},
    {"diffusion_unet_two_stages",  // both load the context
     [](Job& j) {
       conv_net(j, "diffusion_unet", 5, 4), j.model.conv_net()->channels = 8, j.parallel.pp = 2,
                                            j.global_batch = 2;
       j.train.recompute = ir::Recompute::selective;
     }},
    {"alexnet_pp", [](Job& j) { conv_net(j, "alexnet", 8, 63), j.parallel.pp = 4, j.global_batch = 2; }},
    {"wide_resnet_pp",
     [](Job& j) { conv_net(j, "wide_resnet", 16, 32), j.parallel.pp = 4, j.global_batch = 2; }},
    {"scatter_gather",
     [](Job& j) {
       j.parallel.dp = j.parallel.tp = j.parallel.pp = 2, j.parallel.scatter_gather = true;
       j.global_batch = 2;
     }},
    {"t5_scatter_gather",  // stages other than its consumers' read the encoder's output
     [](Job& j) {
       t5(j), j.parallel.pp = 3, j.parallel.tp = 2, j.parallel.scatter_gather = true, j.global_batch = 3;
     }},
    {"more_in_flight",
     [](Job& j) { j.parallel.pp = 2, j.parallel.schedule = parse_schedule("3,1"), j.global_batch = 4; }},
    {"zb_h1",
     [](Job& j) {
       j.model->layers = 3, j.parallel.pp = 3, j.parallel.schedule = Schedule::zb_h1, j.global_batch = 5;
     }},
    {"zb_h2",
     [](Job& j) {
       j.model->layers = 3, j.parallel.pp = 3, j.parallel.schedule = Schedule::zb_h2, j.global_batch = 7;
     }},
    {"head_deferred", [](Job& j) { j.parallel.pp = 2, j.parallel.defer_head_grad = 2, j.global_batch = 4; }},
    {"head_deferred_tied_hybrid",
     [](Job& j) {
       j.parallel.dp = j.parallel.tp = 2, j.parallel.zero = 2, j.parallel.defer_head_grad = 9;
       j.global_batch = 6;
     }},
    {"head_deferred_interleaved",
     [](Job& j) {
       llama(j), j.model->layers = 4, j.parallel.pp = j.parallel.virtual_stages = 2;
       j.parallel.defer_head_grad = 1, j.global_batch = 4;
     }},
    {"zb_v",
     [](Job& j) {
       j.model->layers = 6, j.parallel.pp = 3, j.parallel.virtual_stages = 2, j.global_batch = 7;
       j.parallel.schedule = Schedule::zb_v;
     }},
    {"dualpipe_v_untied_hybrid",
     [](Job& j) {
       llama(j), j.model->layers = 4, j.parallel.dp = j.parallel.tp = j.parallel.pp = 2;
       j.parallel.virtual_stages = 2, j.parallel.zero = 2, j.parallel.schedule = Schedule::dualpipe_v;
       j.global_batch = 10;
     }},
    {"zb_v_zero3_recompute",
     [](Job& j) {
       j.model->layers = 4, j.parallel.dp = j.parallel.pp = j.parallel.virtual_stages = 2;
       j.parallel.zero = 3, j.parallel.schedule = Schedule::zb_v;
       j.train.recompute = ir::Recompute::full, j.global_batch = 3;
     }},
    {"dualpipe_v_unet",
     [](Job& j) {
       conv_net(j, "unet", 5, 8), j.parallel.pp = j.parallel.virtual_stages = 2;
       j.parallel.schedule = Schedule::dualpipe_v, j.global_batch = 5;
     }},
    {"zb_h1_one_micro_batch", [](Job& j) { j.parallel.pp = 2, j.parallel.schedule = Schedule::zb_h1; }},
    {"zb_h1_hybrid",
     [](Job& j) {
       j.parallel.dp = j.parallel.tp = j.parallel.pp = 2, j.parallel.zero = 1,
       j.parallel.schedule = Schedule::zb_h1;
       j.parallel.sequence_parallel = true, j.global_batch = 4;
     }},
    {"zb_h1_zero3_recompute",
     [](Job& j) {
       llama(j), j.parallel.dp = j.parallel.pp = 2, j.parallel.zero = 3,
                 j.parallel.schedule = Schedule::zb_h1;
       j.train.recompute = ir::Recompute::full, j.global_batch = 3;
     }},
    {"zb_h2_unet",
     [](Job& j) {
       conv_net(j, "unet", 5, 8), j.parallel.pp = 5, j.parallel.schedule = Schedule::zb_h2,
                                  j.global_batch = 4;
     }},
    {"experts_cp",  // tokens of a sequence on two devices, those of a group on four
     [](Job& j) {
       llama(j), j.model->experts = 4, j.model->top_k = 2, j.parallel.dp = 4, j.parallel.ep = 4;
       j.parallel.cp = 2, j.parallel.micro_batch = 2;
     }},
    {"zero2_experts_cp",  // two ranks have each expert, of one replica
     [](Job& j) {
       llama(j), j.model->experts = 4, j.model->top_k = 2, j.parallel.dp = j.parallel.ep = 4;
       j.parallel.cp = 2, j.parallel.micro_batch = 2, j.parallel.zero = 2;
     }},
    {"other_order",
     [](Job& j) {
       j.parallel.dp = 2, j.parallel.tp = 2, j.parallel.pp = 2, j.parallel.zero = 1, j.global_batch = 2;
       j.parallel.mesh_order = parse_mesh_order("tp,pp,cp,dp");
     }},
    {"other_stage_order",
     [](Job& j) {
       j.parallel.dp = 2, j.parallel.pp = 3, j.parallel.zero = 1, j.global_batch = 4, j.model->layers = 3;
       j.model->tied = true, j.parallel.stage_order = {2, 0, 1};
     }},
    {"other_order_uneven",
     [](Job& j) {
       j.parallel.dp = 2, j.parallel.tp = 3, j.model->heads = 6, j.model->hidden = 18, j.model->vocab = 10;
       j.model->pad_vocab_to = 1, j.model->ffn = 72, j.parallel.pp = 2,
       j.parallel.mesh_order = parse_mesh_order("tp,dp,cp,pp");
     }},
    {"other_order_experts",
     [](Job& j) {
       llama(j), j.model->experts = 4, j.parallel.dp = 4, j.parallel.ep = 2, j.parallel.tp = 2;
       j.parallel.mesh_order = parse_mesh_order("dp,tp,pp,cp");
     }},
    {"experts_tp",
     [](Job& j) {
       j.model->experts = 4, j.model->top_k = 1, j.parallel.dp = 2, j.parallel.ep = 2, j.parallel.tp = 2;
     }},
};
INSTANTIATE_TEST_SUITE_P(Jobs, Law4, testing::ValuesIn(run_layouts),
                         [](const auto& info) { return std::string(info.param.name); });

// The cast takes a slice of the new weight, whose old value the norms read before; the slices are gathered.
TEST(Law4, CastsMayReadOtherPartsOfAWeightThanAreKept) {
  for (const ir::Optimizer optimizer : {ir::Optimizer::adam, ir::Optimizer::lars, ir::Optimizer::lamb})
    for (const bool together : {false, true}) {
      SCOPED_TRACE(fmt::format("{} {}", ir::row_of(optimizer).name, together));
      Job job = small_job(2, 2, 1, 2, 1);
      ir::set_optimizer(job.train, optimizer);
      job.train.weight_decay = 0.1, job.parallel.fused_optimizer = together;
      LaidOut laid = lay_out(resolve(job));
      const ir::TensorId half = ir::find_tensor(laid.graph, "h0.mlp.fc1.weight.half");
      OpLayout& cast = at(laid.layouts.ops, laid.graph.tensor(half).producer);
      for (sbp::NdSbp* layout : {&cast.inputs[0], &cast.outputs[0]}) {
        sbp::Sbp& over_dp = (*layout)[static_cast<size_t>(laid.mesh.dim(MeshDim::dp))];
        ASSERT_TRUE(over_dp.is_broadcast());
        over_dp = sbp::Sbp::S(0);
      }
      expect_law_4(job, laid);
    }
}

Job random_job(std::mt19937& r) {
  const int micro_batches = pick(r, {1, 2, 4});
  Job job = small_job(pick(r, {1, 2, 3}), pick(r, {1, 2, 4}), pick(r, {1, 2}), 2, micro_batches);
  Hints& h = job.parallel;
  if (pick(r, {false, true})) llama(job), job.model->kv_heads = 4;
  if (micro_batches > 1) job.model->dropout = 0;
  h.cp = pick(r, {1, 1, 2}), h.zero = pick(r, {0, 1, 2, 3}), h.micro_batch = pick(r, {1, 2});
  h.sequence_parallel = pick(r, {false, true}) && 8 % (h.tp * h.cp) == 0;
  if (pick(r, {false, false, true}))
    job.model->experts = 8, job.model->top_k = 1, h.ep = h.dp == 2 ? pick(r, {1, 2}) : 1;
  if (job.model->experts > 0 && h.tp > 1 && pick(r, {false, true})) h.etp = 1, h.ep *= h.tp;
  if (h.pp > 1 && micro_batches > 1 && pick(r, {false, true})) job.model->layers = 4, h.virtual_stages = 2;
  h.schedule = h.virtual_stages == 1
                   ? pick(r, {Schedule::one_f_one_b, Schedule::gpipe, Schedule::zb_h1, Schedule::zb_h2})
                   : pick(r, {Schedule::one_f_one_b, Schedule::zb_v, Schedule::dualpipe_v});
  if (!splits_backward(h.schedule.kind)) h.defer_head_grad = pick(r, {0, 0, 1, 3});
  h.scatter_gather = pick(r, {false, true});
  h.mesh_order = parse_mesh_order(pick(r, {"pp,dp,cp,tp", "dp,pp,tp,cp", "cp,tp,dp,pp", "tp,cp,pp,dp"}));
  if (h.pp == 2) h.stage_order = pick<std::vector<int>>(r, {{}, {1, 0}});
  job.train.flash = pick(r, {false, true});
  job.train.recompute =
      pick(r, {ir::Recompute::none, ir::Recompute::selective, ir::Recompute::full, ir::Recompute::ops});
  job.train.recompute_others = pick(r, {ir::Recompute::none, ir::Recompute::selective});
  if (job.train.recompute != ir::Recompute::none && pick(r, {false, true}))
    for (int stage = 0; stage < h.pp * h.virtual_stages; ++stage)
      job.train.recompute_layers.push_back(pick(r, {0, 1, 2}));
  job.train.precision = pick(r, {ir::Precision::fp16, ir::Precision::fp32});
  h.gather_keys = pick(r, {false, true});
  h.offload_activations = pick(r, {false, true}), h.offload_optimizer = pick(r, {false, true});
  h.grad_reduction = pick(r, {Reduction::sums, Reduction::sums, Reduction::float32, Reduction::half});
  job.train.gradients =
      pick(r, {ir::Gradients::float32, ir::Gradients::half, ir::Gradients::half_but_tables});
  job.global_batch *= h.micro_batch;
  job.gpus *= h.cp;
  return job;
}

void try_random_jobs(unsigned seed, int count) {
  std::mt19937 random(seed);
  for (int i = 0; i < count; ++i) {
    const Job job = random_job(random);
    const Hints& h = job.parallel;
    SCOPED_TRACE(fmt::format(
        "seed {} job {}: {} experts {} dp {} tp {} pp {} cp {} ep {} etp {} v {} {} head {} zero {} sp {} sg "
        "{} mb "
        "{} gb {} "
        "flash {} gk {} offload {} {} recompute {} layers {} others {} precision {} order {} {} reduction {} "
        "gradients {}",
        seed, i, job.model.family(), job.model->experts, h.dp, h.tp, h.pp, h.cp, h.ep, h.etp,
        h.virtual_stages, to_text(h.schedule), h.defer_head_grad, h.zero, h.sequence_parallel,
        h.scatter_gather, h.micro_batch, job.global_batch, job.train.flash, h.gather_keys,
        h.offload_activations, h.offload_optimizer, static_cast<int>(job.train.recompute),
        fmt::join(job.train.recompute_layers, ","), static_cast<int>(job.train.recompute_others),
        static_cast<int>(job.train.precision), to_text(h.mesh_order), fmt::join(h.stage_order, ","),
        static_cast<int>(h.grad_reduction), static_cast<int>(job.train.gradients)));
    ASSERT_NO_THROW(expect_law_4(job));
    if (testing::Test::HasFatalFailure() || testing::Test::HasNonfatalFailure()) return;
  }
}

TEST(Law4Random, AStepIsTheSingleDevices) { try_random_jobs(3, 20); }
TEST(Law4Random, LongAStepIsTheSingleDevices) { try_random_jobs(4, 500); }

}  // namespace
}  // namespace boxcar::planner

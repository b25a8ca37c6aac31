#include "plans.h"

#include <ostream>
#include <stdexcept>

namespace boxcar::tests {
namespace {

using planner::Hints;
using planner::Job;

void of_latents(Job& j) {
  j.model->kv_heads = 4, j.model->q_lora_rank = 6, j.model->kv_lora_rank = 5;
  j.model->qk_nope_head_dim = 3, j.model->qk_rope_head_dim = 2, j.model->v_head_dim = 4;
}

void of_adapters(Job& j) { j.model->lora_rank = 2, j.model->lora_alpha = 3, j.model->lora_mlp = true; }

const TransformerRow transformers[] = {
    {"alone", "gpt", 0.1, 1, [](Job&) {}},
    {"alone_llama", "llama", 0, 1, [](Job&) {}},
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
    {"sp2_wide_heads", "llama", 0, 1,
     [](Job& j) {
       j.model->head_dim = 6, j.model->norm_epsilon = 1e-3, j.model->rotary_base = 50;
       j.parallel.tp = 2, j.parallel.sequence_parallel = true;
     }},
    {"sp2_qk_norm", "llama", 0, 2,
     [](Job& j) {
       j.model->qk_norm = true, j.model->head_dim = 6;
       j.parallel.dp = j.parallel.tp = 2, j.parallel.zero = 2, j.parallel.sequence_parallel = true;
     }},
    {"cp2_tp2_qk_norm", "gpt", 0.1, 1,
     [](Job& j) { j.model->qk_norm = true, j.parallel.cp = j.parallel.tp = 2, j.train.flash = true; }},
    {"tp2_window", "gpt", 0.1, 1,
     [](Job& j) { j.model->attention_window = 3, j.model->full_attention_every = 2, j.parallel.tp = 2; }},
    {"cp2_window", "llama", 0, 2,
     [](Job& j) { j.model->attention_window = 3, j.parallel.cp = 2, j.train.flash = true; }},
    {"cp4_window_gathered_keys", "llama", 0, 1,
     [](Job& j) {
       j.model->attention_window = 2, j.parallel.cp = 4, j.train.flash = true, j.parallel.gather_keys = true;
     }},
    {"documents", "gpt", 0.1, 1, [](Job& j) { j.model->document_length = 3, j.train.flash = true; }},
    {"documents_pp2_tp2_window", "llama", 0, 2,
     [](Job& j) {
       j.model->document_length = 3, j.model->attention_window = 4, j.train.flash = true;
       j.parallel.pp = j.parallel.tp = 2, j.parallel.sequence_parallel = true;
     }},
    {"documents_cp2_dp2", "llama", 0, 1,
     [](Job& j) { j.model->document_length = 3, j.parallel.cp = j.parallel.dp = 2, j.train.flash = true; }},
    {"documents_cp4_gathered_keys", "llama", 0, 2,
     [](Job& j) {
       j.model->document_length = 3, j.parallel.cp = 4, j.train.flash = true, j.parallel.gather_keys = true;
     }},
    {"documents_interleaved_recomputed", "gpt", 0.1, 4,
     [](Job& j) {
       j.model->document_length = 3, j.train.flash = true, j.train.recompute = ir::Recompute::full;
       j.model->layers = 4, j.parallel.pp = j.parallel.virtual_stages = 2;
     }},
    {"documents_zb_h1_zero1", "llama", 0, 3,
     [](Job& j) {
       j.model->document_length = 3, j.train.flash = true, j.parallel.pp = j.parallel.dp = 2,
       j.parallel.zero = 1, j.parallel.schedule = planner::Schedule::zb_h1;
     }},
    {"window_recomputed", "llama", 0, 1,
     [](Job& j) {
       j.model->attention_window = 5, j.parallel.dp = j.parallel.tp = 2;
       j.train.recompute = ir::Recompute::selective;
     }},
    {"sp4", "gpt", 0, 2, [](Job& j) { j.parallel.tp = 4, j.parallel.sequence_parallel = true; }},
    {"sp2_llama", "llama", 0, 1, [](Job& j) { j.parallel.tp = 2, j.parallel.sequence_parallel = true; }},
    {"dp2_tp2", "gpt", 0.1, 3, [](Job& j) { j.parallel.dp = j.parallel.tp = 2; }},
    {"pp2", "gpt", 0.1, 4, [](Job& j) { j.parallel.pp = 2; }},
    {"pp2_llama", "llama", 0, 3, [](Job& j) { j.parallel.pp = 2; }},
    {"pp2_bert", "bert", 0.1, 2, [](Job& j) { j.parallel.pp = 2; }},
    {"pp3_uneven", "gpt", 0, 6,
     [](Job& j) {
       j.model->layers = 4, j.parallel.pp = 3, j.parallel.stage_layers = {1, 2, 1};
     }},
    {"gpipe", "gpt", 0.1, 4,
     [](Job& j) { j.parallel.pp = 2, j.parallel.schedule = planner::Schedule::gpipe; }},
    {"gpipe_dp2", "llama", 0, 3,
     [](Job& j) { j.parallel.pp = j.parallel.dp = 2, j.parallel.schedule = planner::Schedule::gpipe; }},
    {"zb_h1", "gpt", 0.1, 4,
     [](Job& j) { j.parallel.pp = 2, j.parallel.schedule = planner::Schedule::zb_h1; }},
    {"zb_h1_dp2_tp2", "llama", 0, 3,
     [](Job& j) {
       j.parallel.pp = j.parallel.dp = j.parallel.tp = 2, j.parallel.zero = 1,
       j.parallel.schedule = planner::Schedule::zb_h1;
     }},
    {"zb_h2", "gpt", 0, 6,
     [](Job& j) { j.model->layers = 4, j.parallel.pp = 3, j.parallel.schedule = planner::Schedule::zb_h2; }},
    {"zb_v", "gpt", 0.1, 3,
     [](Job& j) {
       j.model->layers = 4, j.parallel.pp = j.parallel.virtual_stages = 2,
       j.parallel.schedule = planner::Schedule::zb_v;
     }},
    {"dualpipe_v_dp2_zero1", "llama", 0, 6,
     [](Job& j) {
       j.model->layers = 4, j.parallel.pp = j.parallel.virtual_stages = j.parallel.dp = 2, j.parallel.zero = 1,
       j.parallel.schedule = planner::Schedule::dualpipe_v;
     }},
    {"interleaved", "gpt", 0.1, 4,
     [](Job& j) { j.model->layers = 4, j.parallel.pp = j.parallel.virtual_stages = 2; }},
    {"interleaved_tp2", "llama", 0, 2,
     [](Job& j) { j.model->layers = 4, j.parallel.pp = j.parallel.virtual_stages = j.parallel.tp = 2; }},
    {"interleaved_uneven", "gpt", 0.1, 6,
     [](Job& j) {
       j.model->layers = 5, j.parallel.pp = j.parallel.virtual_stages = 2;
       j.parallel.stage_layers = {1, 2, 1, 1};
     }},
    {"interleaved_by_threes", "llama", 0, 3,
     [](Job& j) { j.model->layers = 4, j.parallel.pp = j.parallel.virtual_stages = 2; }},
    {"interleaved_empty_ends", "gpt", 0.1, 4,
     [](Job& j) {
       j.model->layers = 2, j.parallel.pp = j.parallel.virtual_stages = 2;
       j.parallel.stage_layers = {0, 1, 1, 0};
     }},
    {"pp3_empty_ends_zero1", "llama", 0, 3,
     [](Job& j) {
       j.parallel.pp = 3, j.parallel.dp = 2, j.parallel.zero = 1;
       j.parallel.stage_layers = {0, 2, 0};
     }},
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
    {"servers2", "gpt", 0.1, 1, [](Job& j) { j.parallel.dp = j.parallel.servers = 2; }},
    {"servers2_of_2_accumulation", "llama", 0, 3, [](Job& j) { j.parallel.dp = 4, j.parallel.servers = 2; }},
    {"servers3_uneven_late", "gpt", 0, 2,
     [](Job& j) {
       j.parallel.dp = 6, j.parallel.servers = 3, j.parallel.fused_optimizer = true;
       j.parallel.overlap_grad = j.parallel.overlap_param = false;
     }},
    {"servers2_of_2_add_up", "gpt", 0.1, 1,
     [](Job& j) { j.parallel.dp = 4, j.parallel.servers = 2, j.parallel.servers_update = false; }},
    {"servers3_add_up", "llama", 0, 2,
     [](Job& j) { j.parallel.dp = j.parallel.servers = 3, j.parallel.servers_update = false; }},
    {"recompute_full", "gpt", 0.1, 2,
     [](Job& j) { j.parallel.tp = j.parallel.pp = 2, j.train.recompute = ir::Recompute::full; }},
    {"recompute_selective", "gpt", 0.1, 1,
     [](Job& j) { j.parallel.tp = 2, j.train.recompute = ir::Recompute::selective; }},
    {"offloaded", "gpt", 0.1, 2,
     [](Job& j) {
       j.model->layers = 4, j.parallel.dp = j.parallel.tp = 2, j.parallel.offload_activations = true;
       j.parallel.sequence_parallel = true;
     }},
    {"offloaded_zero3", "llama", 0, 3,
     [](Job& j) {
       j.model->layers = 3, j.parallel.dp = 2, j.parallel.zero = 3, j.train.flash = true;
       j.parallel.offload_activations = true;
     }},
    {"offloaded_interleaved_recompute", "gpt", 0.1, 4,
     [](Job& j) {
       j.model->layers = 10, j.parallel.pp = j.parallel.virtual_stages = 2;
       j.train.recompute = ir::Recompute::full, j.parallel.offload_activations = true;
     }},
    {"offloaded_zb_h1", "llama", 0, 4,
     [](Job& j) {
       j.model->layers = 6, j.parallel.pp = 2, j.parallel.schedule = planner::Schedule::zb_h1;
       j.train.recompute = ir::Recompute::selective, j.parallel.offload_activations = true;
     }},
    {"recompute_one_layer", "llama", 0, 2,
     [](Job& j) {
       j.parallel.dp = 2, j.train.recompute = ir::Recompute::full, j.train.recompute_layers = {1};
     }},
    {"recompute_by_stage", "gpt", 0.1, 4,
     [](Job& j) {
       j.model->layers = 4, j.parallel.pp = j.parallel.tp = 2, j.train.recompute = ir::Recompute::full;
       j.train.recompute_layers = {2, 1}, j.train.recompute_others = ir::Recompute::selective;
     }},
    {"recompute_selective_by_stage", "llama", 0, 4,
     [](Job& j) {
       j.model->layers = 4, j.parallel.pp = j.parallel.virtual_stages = 2;
       j.train.recompute = ir::Recompute::selective, j.train.recompute_layers = {1, 1, 0, 1};
     }},
    {"epilogues_tp2", "gpt", 0.1, 1, [](Job& j) { j.parallel.tp = 2, j.train.epilogues = true; }},
    {"gelu_tanh_tp2", "gpt", 0.1, 1, [](Job& j) { j.model->gelu = "tanh", j.parallel.tp = 2; }},
    {"residual_epilogues", "llama", 0, 2, [](Job& j) { j.parallel.dp = 2, j.train.epilogues = true; }},
    {"gelu_epilogues", "gpt", 0.1, 3, [](Job& j) { j.model->gelu = "tanh", j.train.epilogues = true; }},
    {"gelu_epilogues_sp2_dp2", "gpt", 0.1, 2,
     [](Job& j) {
       j.model->gelu = "tanh", j.train.epilogues = j.parallel.sequence_parallel = true;
       j.parallel.tp = j.parallel.dp = 2, j.train.recompute = ir::Recompute::full;
     }},
    {"gelu_epilogues_zb_h1", "gpt", 0.1, 4,
     [](Job& j) {
       j.model->gelu = "tanh", j.train.epilogues = true;
       j.parallel.pp = 2, j.parallel.schedule = planner::Schedule::zb_h1;
     }},
    {"lora", "gpt", 0.1, 2, of_adapters},
    {"lora_tp2", "llama", 0, 1, [](Job& j) { of_adapters(j), j.parallel.tp = 2; }},
    {"lora_dropout_sp2_dp2_zero2", "llama", 0, 2,
     [](Job& j) {
       of_adapters(j), j.model->lora_dropout = 0.2, j.train.flash = true;
       j.parallel.tp = j.parallel.dp = 2, j.parallel.zero = 2, j.parallel.sequence_parallel = true;
     }},
    {"lora_cp2_tp2", "gpt", 0, 1,
     [](Job& j) { of_adapters(j), j.parallel.cp = j.parallel.tp = 2, j.train.flash = true; }},
    {"lora_pp2_dp2_zero1", "gpt", 0.1, 3,
     [](Job& j) { of_adapters(j), j.parallel.pp = j.parallel.dp = 2, j.parallel.zero = 1; }},
    {"lora_zero3_recompute", "llama", 0, 2,
     [](Job& j) {
       of_adapters(j), j.parallel.dp = 2, j.parallel.zero = 3, j.train.recompute = ir::Recompute::full;
     }},
    {"lora_zb_h1_epilogues", "gpt", 0, 4,
     [](Job& j) {
       of_adapters(j), j.model->lora_mlp = false, j.train.epilogues = true;
       j.parallel.pp = 2, j.parallel.schedule = planner::Schedule::zb_h1;
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
    {"cp2_flash_gathered_keys", "gpt", 0.1, 2,
     [](Job& j) { j.parallel.cp = 2, j.parallel.gather_keys = j.train.flash = true; }},
    {"cp4_llama_gathered_keys", "llama", 0, 1,
     [](Job& j) { j.parallel.cp = 4, j.parallel.gather_keys = j.train.flash = true; }},
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
     [](Job& j) { j.model->experts = 4, j.model->top_k = 2, j.parallel.dp = 4, j.parallel.ep = 2; }},
    {"experts_tp2", "llama", 0, 1,
     [](Job& j) { j.model->experts = 3, j.model->top_k = 1, j.parallel.tp = 2; }},
    {"experts_ep2_zero1", "llama", 0, 3,
     [](Job& j) {
       j.model->experts = 4, j.model->top_k = 2, j.parallel.dp = j.parallel.ep = 2, j.parallel.zero = 1;
     }},
    {"experts_shared_tp2", "llama", 0, 2,
     [](Job& j) {
       j.model->experts = 4, j.model->top_k = 2, j.model->expert_ffn = 6, j.model->shared_experts = 2;
       j.model->dense_layers = 1, j.parallel.tp = 2, j.parallel.sequence_parallel = true;
     }},
    {"experts_shared_ep2_pp2", "gpt", 0.1, 2,
     [](Job& j) {
       j.model->experts = 4, j.model->top_k = 2, j.model->shared_experts = 1;
       j.model->dense_layers = 1, j.parallel.dp = j.parallel.ep = j.parallel.pp = 2, j.parallel.zero = 1;
     }},
    {"latent_tp2_sp", "llama", 0, 2,
     [](Job& j) {
       of_latents(j), j.parallel.dp = j.parallel.tp = 2, j.parallel.sequence_parallel = true, j.parallel.zero = 1;
     }},
    {"latent_cp2_tp2", "llama", 0, 1,
     [](Job& j) { of_latents(j), j.parallel.cp = j.parallel.tp = 2, j.train.flash = true; }},
    {"latent_pp2_experts", "llama", 0, 2,
     [](Job& j) {
       of_latents(j), j.model->q_lora_rank = 0, j.model->experts = 4, j.model->top_k = 2;
       j.model->shared_experts = 1, j.parallel.pp = j.parallel.tp = 2;
     }},
    {"experts_ep2_weighed_inside", "llama", 0, 2,
     [](Job& j) {
       j.model->experts = 4, j.model->top_k = 2, j.model->weigh_inside = true, j.parallel.zero = 1;
       j.train.recompute = ir::Recompute::selective;
       j.train.recompute_modules = {ir::Module::layernorm, ir::Module::moe};
       j.parallel.dp = j.parallel.tp = j.parallel.ep = 2;
     }},
    {"experts_etp1_sp", "llama", 0, 2,
     [](Job& j) {
       j.model->experts = 8, j.model->top_k = 2, j.model->expert_ffn = 6, j.parallel.zero = 1;
       j.parallel.dp = j.parallel.tp = 2, j.parallel.ep = 4, j.parallel.etp = 1;
       j.parallel.sequence_parallel = true;
     }},
    {"experts_etp1_cp2_pp2", "gpt", 0.1, 1,
     [](Job& j) {
       j.model->experts = 4, j.model->top_k = 2, j.model->shared_experts = 1, j.parallel.zero = 2;
       j.parallel.tp = j.parallel.cp = j.parallel.pp = j.parallel.ep = 2, j.parallel.etp = 1;
       j.model->weigh_inside = true;
     }},
    {"experts_in_groups_etp1", "llama", 0, 2,
     [](Job& j) {
       j.model->experts = 8, j.model->top_k = 2, j.model->expert_groups = 4, j.model->top_groups = 2;
       j.model->router_scores = "sigmoid", j.model->expert_scale = 2.5;
       j.parallel.dp = j.parallel.tp = 2, j.parallel.ep = 4, j.parallel.etp = 1;
     }},
    {"experts_ep2_in_groups", "gpt", 0.1, 1,
     [](Job& j) {
       j.model->experts = 8, j.model->top_k = 3, j.model->expert_groups = 2, j.model->top_groups = 1;
       j.parallel.dp = j.parallel.ep = j.parallel.pp = 2, j.parallel.zero = 1;
     }},
    {"experts_ep2_narrow", "llama", 0, 1,
     [](Job& j) {
       j.model->experts = 8, j.model->top_k = 3, j.model->expert_ffn = 6, j.model->expert_every = 2;
       j.model->qk_norm = true, j.parallel.dp = j.parallel.tp = j.parallel.ep = 2;
     }},
};

// Batch norm takes its mean and deviation from a device's micro-batch: 6 images, or 12.
const TransformerRow images[] = {
    {"resnet", "resnet", 0, 2, [](Job&) {}},
    {"resnet_dp2_zero1", "resnet", 0, 1, [](Job& j) { j.parallel.dp = 2, j.parallel.zero = 1; }},
    {"resnet_pp2", "resnet", 0, 2, [](Job& j) { j.parallel.pp = 2; }},
    {"resnet_servers2", "resnet", 0, 1, [](Job& j) { j.parallel.dp = j.parallel.servers = 2; }},
    {"alexnet_dp2_zero3", "alexnet", 0, 1, [](Job& j) { j.parallel.dp = 2, j.parallel.zero = 3; }},
    {"alexnet_pp2_fused", "alexnet", 0, 3,
     [](Job& j) { j.parallel.pp = 2, j.parallel.fused_optimizer = j.train.fused_loss = true; }},
};

const NetRow nets[] = {
    {"dp2", 1, [](Hints& h) { h.dp = 2; }},
    {"dp5_uneven_accumulation", 2, [](Hints& h) { h.dp = 5; }},
    {"zero1", 1, [](Hints& h) { h.dp = 3, h.zero = 1; }},
    {"zero2", 2, [](Hints& h) { h.dp = 2, h.zero = 2; }},
    {"zero3", 2, [](Hints& h) { h.dp = 4, h.zero = 3; }},
    {"servers2_of_2_add_up", 2, [](Hints& h) { h.dp = 4, h.servers = 2, h.servers_update = false; }},
    {"pp2", 3,
     [](Hints& h) {
       h.pp = 2, h.stage_layers = {2, 1};
     }},
    {"pp3_dp2", 4,
     [](Hints& h) {
       h.pp = 3, h.dp = 2, h.stage_layers = {1, 1, 1};
     }},
    {"gpipe_zero1", 3,
     [](Hints& h) {
       h.pp = 2, h.dp = 2, h.zero = 1, h.schedule = planner::Schedule::gpipe, h.stage_layers = {1, 2};
     }},
    {"pp2_zero3", 2,
     [](Hints& h) {
       h.pp = 2, h.dp = 2, h.zero = 3, h.stage_layers = {1, 2};
     }},
};

const NarrowRow narrow[] = {
    {ir::Precision::bf16,
     {"bf16_dp2_zero1", "gpt", 0.1, 1, [](Job& j) { j.parallel.dp = 2, j.parallel.zero = 1; }}},
    {ir::Precision::bf16,
     {"bf16_updated_on_host", "gpt", 0.1, 2,
      [](Job& j) {
        j.parallel.offload_optimizer = true, j.parallel.dp = j.parallel.tp = j.parallel.zero = 2;
      }}},
    {ir::Precision::bf16,
     {"bf16_updated_on_host_zero3_fused", "llama", 0, 1,
      [](Job& j) {
        j.parallel.fused_optimizer = j.parallel.offload_optimizer = true;
        j.parallel.dp = 2, j.parallel.zero = 3;
      }}},
    {ir::Precision::fp16,
     {"fp16_updated_on_host", "llama", 0, 2,
      [](Job& j) {
        j.parallel.offload_optimizer = j.parallel.offload_activations = true;
        j.parallel.dp = 2, j.parallel.zero = 1;
      }}},
    {ir::Precision::bf16,
     {"bf16_servers2_of_2", "gpt", 0.1, 1, [](Job& j) { j.parallel.dp = 4, j.parallel.servers = 2; }}},
    {ir::Precision::fp16,
     {"fp16_servers2_fused", "llama", 0, 2,
      [](Job& j) { j.parallel.dp = j.parallel.servers = 2, j.parallel.fused_optimizer = true; }}},
    {ir::Precision::bf16,
     {"bf16_sp2", "llama", 0.1, 2, [](Job& j) { j.parallel.tp = 2, j.parallel.sequence_parallel = true; }}},
    {ir::Precision::bf16,
     {"bf16_zero3", "llama", 0.1, 2, [](Job& j) { j.parallel.dp = 2, j.parallel.zero = 3; }}},
    {ir::Precision::bf16,
     {"bf16_fused_optimizer", "gpt", 0.1, 3,
      [](Job& j) { j.parallel.dp = 2, j.parallel.zero = 1, j.parallel.fused_optimizer = true; }}},
    {ir::Precision::fp16,
     {"fp16_fused_optimizer", "llama", 0.1, 2,
      [](Job& j) { j.parallel.tp = 2, j.parallel.fused_optimizer = true; }}},
    {ir::Precision::fp16, {"fp16_tp2_pp2", "gpt", 0.1, 3, [](Job& j) { j.parallel.tp = j.parallel.pp = 2; }}},
    {ir::Precision::bf16,
     {"bf16_zero1_half_reduction", "gpt", 0.1, 3,
      [](Job& j) {
        j.parallel.dp = 2, j.parallel.zero = 1, j.parallel.grad_reduction = planner::Reduction::half;
      }}},
    {ir::Precision::bf16,
     {"bf16_zero2_half_reduction", "llama", 0.1, 2,
      [](Job& j) {
        j.parallel.dp = j.parallel.tp = j.parallel.zero = 2;
        j.parallel.grad_reduction = planner::Reduction::half;
      }}},
    {ir::Precision::fp16,
     {"fp16_dp2_zero2", "gpt", 0.1, 3, [](Job& j) { j.parallel.dp = 2, j.parallel.zero = 2; }}},
};

Hints one_device() {
  Hints hints;
  hints.dp = 1, hints.stage_layers = {3};
  return hints;
}

planner::LaidOut lay_out_under(Net net, const Hints& hints, int micro_batches, ir::TrainOptions options) {
  options.micro_batches = micro_batches;
  const ir::Graph forward = net(plan_batch / micro_batches);
  return planner::lay_out(ir::training_step(forward, ir::find_tensor(forward, "loss"), options), hints,
                          micro_batches);
}

}  // namespace

std::span<const TransformerRow> transformer_plans() { return transformers; }
std::span<const TransformerRow> image_plans() { return images; }
std::span<const NarrowRow> narrow_plans() { return narrow; }
std::span<const NetRow> net_plans() { return nets; }

const TransformerRow& plan_named(const std::string& name) {
  for (const auto& plans : {transformer_plans(), image_plans()})
    for (const TransformerRow& row : plans)
      if (row.name == name) return row;
  throw std::out_of_range("no plan " + name);
}

std::ostream& operator<<(std::ostream& out, const NarrowRow& narrow) { return out << narrow.row; }
std::ostream& operator<<(std::ostream& out, const NetRow& row) { return out << row.name; }

planner::LaidOut lay_out_net(Net net, const NetRow& row, ir::TrainOptions options) {
  Hints hints = one_device();
  row.change(hints);
  return lay_out_under(net, hints, row.micro_batches, std::move(options));
}
planner::LaidOut lay_out_net_alone(Net net, const NetRow& row, ir::TrainOptions options) {
  return lay_out_under(net, one_device(), row.micro_batches, std::move(options));
}

}  // namespace boxcar::tests

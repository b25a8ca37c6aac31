// NeMo 2: a Python recipe of Megatron Core's configurations, which torchrun starts.
//
// GPTConfig and MegatronStrategy: nemo/collections/llm/gpt/model/base.py
// (bb86ba5d755650c3c11338c7c2915ec3ada04f9a) and nemo/lightning/pytorch/strategies/megatron_strategy.py
// (1daff4235b65434a51d1d55b2d85b662de587436) of github.com/NVIDIA-NeMo/Speech, which was NVIDIA/NeMo; the
// version is 2.x of 2025. The classes that they inherit and take are Megatron Core's. All files are listed in
// the table at the end.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "cli/export/export.h"
#include "cli/export/pipeline_layout.h"
#include "planner/mesh.h"
#include "sbp/words.h"

namespace boxcar::cli::exports {
namespace {
namespace of_nemo {

using ir::Precision;
using ir::Recompute;

bool is_off(const Source& from, const char* pass) { return from.train().off.contains(pass); }
bool is_fsdp(const Source& from) { return from.sharded() && from.parallel().zero >= 2; }

// torch.float16 of fp16, torch.bfloat16 of bf16 and fp8, torch.float32 of the others.
Json dtype(const Source& from) {
  if (!from.mixed()) return python("torch.float32");
  return python(from.train().precision == Precision::fp16 ? "torch.float16" : "torch.bfloat16");
}

void write_activation(Writer& w) {
  const ir::models::Transformer& m = w.from.model();
  const bool fuses = !is_off(w.from, "fuse_patterns");
  if (m.mlp == "swiglu") {
    w.set("GPTConfig.gated_linear_unit", true);
    w.set("GPTConfig.activation_func", python("F.silu"));
    return w.set("GPTConfig.bias_activation_fusion", fuses);
  }
  // GELU fused with its bias is the one by tanh.
  const bool fused = m.gelu == "tanh" && m.bias && fuses;
  w.set("GPTConfig.activation_func",
        python(m.gelu == "tanh" && !fused ? "functools.partial(F.gelu, approximate=\"tanh\")" : "F.gelu"));
  w.set("GPTConfig.bias_activation_fusion", fused);
}

void write_experts(Writer& w) {
  const ir::models::Transformer& m = w.from.model();
  if (m.experts == 0) return;
  w.set("GPTConfig.num_moe_experts", m.experts);
  if (m.dense_layers > 0)
    w.set("GPTConfig.moe_layer_freq",
          python(fmt::format("[0] * {} + [1] * {}", m.dense_layers, m.layers - m.dense_layers)));
  if (m.expert_every > 1)
    w.set("GPTConfig.moe_layer_freq",
          python(fmt::format("([0] * {} + [1]) * {}", m.expert_every - 1, m.layers / m.expert_every)));
  write_expert_tokens(w, [](const std::string& field) { return "GPTConfig." + field; });
}

void write_context_parallelism(Writer& w) {
  const planner::Hints& h = w.from.parallel();
  if (h.cp == 1) return;
  w.set("MegatronStrategy.context_parallel_size", h.cp);
  if (w.from.model().seq % (2 * h.cp) != 0)
    w.cannot("seq_length has to be a multiple of 2 x context_parallel");
  write_comm_type(w, "GPTConfig.cp_comm_type");
}

void write_stages(Writer& w) {
  const planner::Hints& h = w.from.parallel();
  if (!w.from.pipelined()) return;
  w.set("MegatronStrategy.pipeline_dtype", dtype(w.from));
  if (w.from.other_groups())
    w.cannot("parallel.virtual_stages", "interleaved stages take micro-batches in groups of pp");
  if (h.virtual_stages > 1) w.set("MegatronStrategy.virtual_pipeline_model_parallel_size", h.virtual_stages);
  if (!w.from.even_stages())
    w.set("MegatronStrategy.pipeline_model_parallel_layout", pipeline_layout(h.stage_layers));
}

void write_zero(Writer& w) {
  const planner::Hints& h = w.from.parallel();
  w.set("OptimizerConfig.use_distributed_optimizer", w.from.sharded());
  w.set("DistributedDataParallelConfig.use_distributed_optimizer", w.from.sharded());
  if (!w.from.sharded()) return;
  if (h.fsdp_group > 0 && h.fsdp_group < h.dp)
    w.set("MegatronStrategy.num_distributed_optimizer_instances", h.dp / h.fsdp_group);
  if (h.zero == 1) return;
  w.set("MegatronStrategy.fsdp", "megatron");
  w.set("DistributedDataParallelConfig.data_parallel_sharding_strategy",
        h.zero == 2 ? "optim_grads" : "optim_grads_params");
}

void write_recompute(Writer& w) {
  const ir::TrainOptions& t = w.from.train();
  if (!w.from.recomputes()) return;
  const std::vector<int>& layers = t.recompute_layers;
  if (t.recompute == Recompute::ops)
    return w.cannot("layers are recomputed whole or by named modules; nothing is written");
  if (t.recompute == Recompute::selective) {
    w.set("GPTConfig.recompute_granularity", "selective");
    w.set("GPTConfig.recompute_modules", words(t.recompute_modules));
    if (!layers.empty())
      w.cannot("parallel.recompute_layers", "selective recomputation is that of all layers");
    return;
  }
  w.set("GPTConfig.recompute_granularity", "full");
  w.set("GPTConfig.recompute_method", layers.empty() ? "uniform" : "block");
  w.set("GPTConfig.recompute_num_layers",
        layers.empty() ? 1 : *std::max_element(layers.begin(), layers.end()));
  if (std::adjacent_find(layers.begin(), layers.end(), std::not_equal_to<>()) != layers.end())
    w.cannot("parallel.recompute_layers",
             "all stages recompute as many layers; the largest number is written");
  if (t.recompute_others != Recompute::none)
    w.cannot("parallel.recompute_others", "the other layers recompute nothing");
  if (t.recompute_stop) w.cannot("parallel.recompute_stop", "a layer is recomputed as a whole");
}

void write_offload(Writer& w) {
  if (!w.from.parallel().offload_activations) return;
  w.set("GPTConfig.cpu_offloading", true);
  w.set("GPTConfig.cpu_offloading_num_layers", w.from.model().layers - 1);
  w.set("GPTConfig.cpu_offloading_weights", false);
  tell_limits_of_offload(w);
}

void write_overlap(Writer& w) {
  const planner::Hints& h = w.from.parallel();
  if (!w.from.replicated()) return;
  w.set("DistributedDataParallelConfig.overlap_grad_reduce", h.overlap_grad);
  if (h.overlap_grad && !is_fsdp(w.from))
    w.set("DistributedDataParallelConfig.bucket_size",
          w.from.bucket_elements(w.from.mixed() && w.from.reduces_half()));
  if (!h.overlap_grad && h.zero < 3)
    w.cannot("parallel.grad_bucket_mb",
             "gradients are reduced as one buffer unless overlap_grad_reduce is true");
  if (!w.from.sharded()) return;
  w.set("DistributedDataParallelConfig.overlap_param_gather", h.overlap_grad && h.overlap_param);
  if (h.overlap_param && !h.overlap_grad)
    w.cannot("parallel.overlap_param", "overlap_param_gather wants overlap_grad_reduce");
}

void write_precision(Writer& w) {
  const ir::TrainOptions& t = w.from.train();
  const bool half = t.precision == Precision::fp16;
  w.set("MegatronMixedPrecision.precision", !w.from.mixed() ? "32" : half ? "16-mixed" : "bf16-mixed");
  w.set("MegatronMixedPrecision.params_dtype", dtype(w.from));
  w.set("MegatronMixedPrecision.autocast_enabled", false);
  if (half) w.set("MegatronMixedPrecision.fp16_loss_scale", t.loss_scale);
  if (t.precision == Precision::fp8) {
    w.set("MegatronMixedPrecision.fp8", "hybrid");
    w.set("MegatronMixedPrecision.fp8_recipe", recipe_in_megatron(w.from.request.fp8_recipe));
  }
  if (half) w.set("OptimizerConfig.fp16", true);
  if (w.from.mixed() && !half) w.set("OptimizerConfig.bf16", true);
  if (t.precision == Precision::tf32 || t.precision == Precision::fp64)
    w.cannot("32, 16-mixed and bf16-mixed are all; 32 is written");
}

void write_gradients(Writer& w) {
  const ir::TrainOptions& t = w.from.train();
  if (!w.from.mixed()) return;
  const bool full = t.gradients == ir::Gradients::float32;
  w.set("MegatronMixedPrecision.grad_reduce_in_fp32", full);
  if (t.gradients == ir::Gradients::half_but_tables)
    w.cannot("tables have gradients of the same type as all");
  if (w.from.reduces_half() == full)
    w.cannot("train.grad_reduction", "gradients are reduced in the type of their sums");
}

void write_loss(Writer& w) {
  const ir::TrainOptions& t = w.from.train();
  const bool half = w.from.mixed() && t.half_logits;
  w.set("GPTConfig.cross_entropy_loss_fusion", t.fused_loss);
  if (t.fused_loss) return w.set("GPTConfig.cross_entropy_fusion_impl", half ? "te" : "native");
  if (half && t.precision == Precision::fp16) return w.set("GPTConfig.fp16_lm_cross_entropy", true);
  if (half) w.cannot("train.logits", "with bf16 only a fused loss reads logits of 16 bits");
}

void write_optimizer(Writer& w) {
  const ir::TrainOptions& t = w.from.train();
  const bool adam = t.optimizer == ir::Optimizer::adam, momentum = t.optimizer == ir::Optimizer::momentum;
  w.set("OptimizerConfig.optimizer", adam ? "adam" : "sgd");
  if (!adam && !is_sgd(t.optimizer)) w.cannot("NeMo has no such optimizer; sgd is written");
  if (!adam) {
    w.set("OptimizerConfig.sgd_momentum", momentum ? t.momentum : 0.0);
    if (momentum && t.weight_decay > 0)
      w.cannot("train.weight_decay", "with sgd the decay is added to the gradient, and so to the momentum");
    return;
  }
  w.set("OptimizerConfig.adam_beta1", t.beta1);
  w.set("OptimizerConfig.adam_beta2", t.beta2);
  w.set("OptimizerConfig.adam_eps", t.eps);
}

void write_off(Writer& w) {
  const bool fuses = !is_off(w.from, "fuse_patterns");
  w.set("GPTConfig.masked_softmax_fusion", fuses);
  w.set("GPTConfig.bias_dropout_fusion", fuses);
  std::vector<std::string> others;
  for (const std::string& pass : w.from.train().off)
    if (pass != "fuse_patterns" && pass != "fuse_elementwise") others.push_back(pass);
  if (!others.empty()) w.cannot(fmt::format("{} cannot be switched off", fmt::join(others, ", ")));
}

constexpr const char* no_documents =
    "packed sequences are of the data for fine-tuning, and MockDataModule is written";

std::vector<Row> make_rows() {
  return {
      {{"model.family"}, {}, "GPTModel is for gpt and llama, and others are refused"},
      {{"cluster.gpus", "cluster.gpus_per_node", "parallel.dp"},
       {"Trainer.devices", "Trainer.num_nodes", "Trainer.accelerator", "Trainer.accumulate_grad_batches",
        "Trainer.use_distributed_sampler"},
       "",
       [](Writer& w) {
         w.set("Trainer.accelerator", "gpu");
         w.set("Trainer.devices", w.from.gpus_per_node());
         w.set("Trainer.num_nodes", w.from.nodes());
         w.set("Trainer.accumulate_grad_batches", 1);  // micro-batches are the strategy's
         w.set("Trainer.use_distributed_sampler", false);
       }},
      {{"model.layers"},
       {"GPTConfig.num_layers"},
       "",
       [](Writer& w) { w.set("GPTConfig.num_layers", w.from.model().layers); }},
      {{"model.hidden"},
       {"GPTConfig.hidden_size"},
       "",
       [](Writer& w) { w.set("GPTConfig.hidden_size", w.from.model().hidden); }},
      {{"model.ffn"},
       {"GPTConfig.ffn_hidden_size"},
       "",
       [](Writer& w) { w.set("GPTConfig.ffn_hidden_size", w.from.model().ffn); }},
      {{"model.heads"},
       {"GPTConfig.num_attention_heads"},
       "",
       [](Writer& w) { w.set("GPTConfig.num_attention_heads", w.from.model().heads); }},
      {{"model.kv_heads"},
       {"GPTConfig.num_query_groups"},
       "",
       [](Writer& w) {
         if (w.from.model().kv_heads != w.from.model().heads)
           w.set("GPTConfig.num_query_groups", w.from.model().kv_heads);
       }},
      {{"model.head_dim"},
       {"GPTConfig.kv_channels"},
       "",
       [](Writer& w) { write_head_dim(w, "GPTConfig.kv_channels"); }},
      {{"model.qk_norm"},
       {"GPTConfig.qk_layernorm"},
       qk_norm_limits,
       [](Writer& w) {
         if (w.from.model().qk_norm) write_qk_norm(w, "GPTConfig.qk_layernorm");
       }},
      {{"model.attention_window", "model.full_attention_every"},
       {"GPTConfig.window_size", "GPTConfig.window_attn_skip_freq"},
       "",
       [](Writer& w) {
         const ir::models::Transformer& m = w.from.model();
         if (m.attention_window == 0) return;
         w.set("GPTConfig.window_size", python(fmt::format("({}, 0)", m.attention_window - 1)));
         if (m.full_attention_every > 0) w.set("GPTConfig.window_attn_skip_freq", m.full_attention_every);
       }},
      {{"model.q_lora_rank", "model.kv_lora_rank", "model.qk_nope_head_dim", "model.qk_rope_head_dim",
        "model.v_head_dim"},
       {},
       "latent attention is of DeepSeekConfig, and what GPTConfig has is written",
       [](Writer& w) {
         if (is_latent(w.from.model()))
           w.cannot("model.kv_lora_rank", "latent attention is of DeepSeekConfig; GPTConfig's is written");
       }},
      {{"model.lora_rank", "model.lora_alpha", "model.lora_dropout", "model.lora_mlp"},
       {},
       "adapters are a transform of llm.peft, and what GPTConfig has is written",
       [](Writer& w) {
         if (w.from.model().lora_rank > 0)
           w.cannot("model.lora_rank", "adapters are a transform of llm.peft; GPTConfig's is written");
       }},
      {{"model.document_length"},
       {},
       no_documents,
       [](Writer& w) {
         if (w.from.model().document_length > 0) w.cannot("model.document_length", no_documents);
       }},
      {{"model.seq"},
       {"GPTConfig.seq_length", "MockDataModule.seq_length"},
       "",
       [](Writer& w) {
         w.set("GPTConfig.seq_length", w.from.model().seq);
         w.set("MockDataModule.seq_length", w.from.model().seq);
       }},
      {{"model.vocab", "model.pad_vocab"},
       {"GPTConfig.vocab_size", "GPTConfig.make_vocab_size_divisible_by"},
       "a vocabulary that tp does not divide",
       [](Writer& w) {
         w.set("GPTConfig.vocab_size", w.from.padded_vocab());  // unchanged: padded before
         w.set("GPTConfig.make_vocab_size_divisible_by", w.from.model().pad_vocab_to);
         if (w.from.padded_vocab() % w.from.parallel().tp != 0)
           w.cannot("model.pad_vocab", "the vocabulary has to be a multiple of tp");
       }},
      {{"model.mlp", "model.gelu"},
       {"GPTConfig.gated_linear_unit", "GPTConfig.activation_func", "GPTConfig.bias_activation_fusion"},
       "",
       write_activation},
      {{"model.norm", "model.norm_epsilon"},
       {"GPTConfig.normalization", "GPTConfig.layernorm_epsilon"},
       "",
       [](Writer& w) {
         w.set("GPTConfig.normalization", w.from.model().norm == "rms" ? "RMSNorm" : "LayerNorm");
         w.set("GPTConfig.layernorm_epsilon", w.from.model().norm_epsilon);
       }},
      {{"model.position", "model.rotary_base"},
       {"GPTConfig.position_embedding_type", "GPTConfig.rotary_base"},
       "",
       [](Writer& w) {
         const bool rotary = w.from.model().position == "rotary";
         w.set("GPTConfig.position_embedding_type", rotary ? "rope" : "learned_absolute");
         if (rotary) w.set("GPTConfig.rotary_base", number(w.from.model().rotary_base));
       }},
      {{"model.tied"},
       {"GPTConfig.share_embeddings_and_output_weights"},
       "",
       [](Writer& w) { w.set("GPTConfig.share_embeddings_and_output_weights", w.from.model().tied); }},
      {{"model.bias", "model.qkv_bias"},
       {"GPTConfig.add_bias_linear", "GPTConfig.add_qkv_bias"},
       "",
       [](Writer& w) {
         w.set("GPTConfig.add_bias_linear", w.from.model().bias);
         if (!w.from.model().bias && w.from.model().qkv_bias) w.set("GPTConfig.add_qkv_bias", true);
       }},
      {{"model.dropout"},
       {"GPTConfig.hidden_dropout", "GPTConfig.attention_dropout"},
       "",
       [](Writer& w) {
         w.set("GPTConfig.hidden_dropout", w.from.model().dropout);
         w.set("GPTConfig.attention_dropout", w.from.model().dropout);
       }},
      {{"model.experts", "model.top_k", "model.expert_groups", "model.top_groups", "model.router_scores",
        "model.expert_scale", "model.expert_ffn", "model.shared_experts", "model.dense_layers",
        "model.expert_every", "model.weigh_inside"},
       {"GPTConfig.num_moe_experts", "GPTConfig.moe_router_topk", "GPTConfig.moe_ffn_hidden_size",
        "GPTConfig.moe_shared_expert_intermediate_size", "GPTConfig.moe_layer_freq",
        "GPTConfig.moe_router_num_groups", "GPTConfig.moe_router_group_topk",
        "GPTConfig.moe_router_score_function", "GPTConfig.moe_router_topk_scaling_factor",
        "GPTConfig.moe_router_load_balancing_type", "GPTConfig.moe_token_dispatcher_type",
        "GPTConfig.moe_expert_capacity_factor", "GPTConfig.moe_pad_expert_input_to_capacity",
        "GPTConfig.moe_token_drop_policy"},
       "a capacity of each sequence; weights after the experts' second product",
       write_experts},
      {{"model.masked", "model.decoder_layers", "model.decoder_seq"},
       {},
       "of bert and t5, which are refused"},
      {{"parallel.tp"},
       {"MegatronStrategy.tensor_model_parallel_size"},
       "",
       [](Writer& w) { w.set("MegatronStrategy.tensor_model_parallel_size", w.from.parallel().tp); }},
      {{"parallel.pp"},
       {"MegatronStrategy.pipeline_model_parallel_size"},
       "",
       [](Writer& w) { w.set("MegatronStrategy.pipeline_model_parallel_size", w.from.parallel().pp); }},
      {{"parallel.stage_layers", "parallel.virtual_stages"},
       {"MegatronStrategy.pipeline_dtype", "MegatronStrategy.virtual_pipeline_model_parallel_size",
        "MegatronStrategy.pipeline_model_parallel_layout"},
       "virtual ones where pp does not divide the micro-batches",
       write_stages},
      {{"parallel.context_parallel", "parallel.gather_keys"},
       {"MegatronStrategy.context_parallel_size", "GPTConfig.cp_comm_type"},
       "a choice op by op",
       write_context_parallelism},
      {{"parallel.ep", "parallel.etp"},
       {"MegatronStrategy.expert_model_parallel_size", "MegatronStrategy.expert_tensor_parallel_size"},
       "",
       [](Writer& w) {
         const planner::Hints& h = w.from.parallel();
         if (h.ep > 1) w.set("MegatronStrategy.expert_model_parallel_size", h.ep);
         if (planner::deals_experts_over_tp(h)) w.set("MegatronStrategy.expert_tensor_parallel_size", 1);
       }},
      {{"parallel.sequence_parallel"},
       {"MegatronStrategy.sequence_parallel"},
       "false with experts and tp",
       [](Writer& w) {
         const planner::Hints& h = w.from.parallel();
         if (h.tp == 1) return;
         w.set("MegatronStrategy.sequence_parallel", h.sequence_parallel);
         if (!h.sequence_parallel && w.from.model().experts > 0)
           w.cannot("experts with tensor parallelism want sequence_parallel there");
       }},
      {{"parallel.zero", "parallel.fsdp_group"},
       {"OptimizerConfig.use_distributed_optimizer",
        "DistributedDataParallelConfig.use_distributed_optimizer",
        "MegatronStrategy.num_distributed_optimizer_instances", "MegatronStrategy.fsdp",
        "DistributedDataParallelConfig.data_parallel_sharding_strategy"},
       "",
       write_zero},
      {{"parallel.micro_batch"},
       {"MockDataModule.micro_batch_size"},
       "",
       [](Writer& w) { w.set("MockDataModule.micro_batch_size", w.from.parallel().micro_batch); }},
      {{"train.global_batch"},
       {"MockDataModule.global_batch_size"},
       "",
       [](Writer& w) { w.set("MockDataModule.global_batch_size", w.from.job().global_batch); }},
      {{"parallel.recompute", "parallel.recompute_modules", "parallel.recompute_layers",
        "parallel.recompute_others", "parallel.recompute_stop"},
       {"GPTConfig.recompute_granularity", "GPTConfig.recompute_modules", "GPTConfig.recompute_method",
        "GPTConfig.recompute_num_layers"},
       "ops; other numbers of layers on each stage; what the other layers do; an early stop",
       write_recompute},
      {{"parallel.offload_activations"},
       {"GPTConfig.cpu_offloading", "GPTConfig.cpu_offloading_num_layers",
        "GPTConfig.cpu_offloading_weights"},
       "with pipelines or recomputation",
       write_offload},
      {{"parallel.attention"},
       {"GPTConfig.attention_backend"},
       "",
       [](Writer& w) {
         w.set("GPTConfig.attention_backend",
               python(w.from.train().flash ? "AttnBackend.flash" : "AttnBackend.unfused"));
       }},
      {{"parallel.overlap_grad", "parallel.overlap_param", "parallel.grad_bucket_mb"},
       {"DistributedDataParallelConfig.overlap_grad_reduce", "DistributedDataParallelConfig.bucket_size",
        "DistributedDataParallelConfig.overlap_param_gather"},
       "buckets without overlap_grad; overlap_param without it",
       write_overlap},
      {{"parallel.scatter_gather"},
       {},
       "true",
       [](Writer& w) {
         const planner::Hints& h = w.from.parallel();
         if (w.from.pipelined() && h.tp > 1 && !h.sequence_parallel && h.scatter_gather)
           w.cannot("stages send whole tensors unless sequence_parallel splits them");
       }},
      {{"parallel.defer_head_grad"},
       {"GPTConfig.defer_embedding_wgrad_compute", "GPTConfig.wgrad_deferral_limit"},
       "",
       [](Writer& w) {
         const int deferred = w.from.parallel().defer_head_grad;
         if (deferred == 0 || !w.from.pipelined()) return;
         w.set("GPTConfig.defer_embedding_wgrad_compute", true);
         w.set("GPTConfig.wgrad_deferral_limit", deferred >= w.from.micro_batches() ? 0 : deferred);
       }},
      {{"parallel.mesh_order"},
       {"MegatronStrategy.use_tp_pp_dp_mapping"},
       "other orders than pp,dp,cp,tp and dp,pp,cp,tp",
       [](Writer& w) {
         if (w.from.stands_as("pp,dp,cp,tp")) return;
         if (w.from.stands_as("dp,pp,cp,tp")) return w.set("MegatronStrategy.use_tp_pp_dp_mapping", true);
         w.cannot("the orders are pp,dp,cp,tp, which is written, and dp,pp,cp,tp");
       }},
      {{"train.precision", "train.fp8_recipe"},
       {"MegatronMixedPrecision.precision", "MegatronMixedPrecision.params_dtype",
        "MegatronMixedPrecision.autocast_enabled", "MegatronMixedPrecision.fp16_loss_scale",
        "MegatronMixedPrecision.fp8", "MegatronMixedPrecision.fp8_recipe", "OptimizerConfig.fp16",
        "OptimizerConfig.bf16"},
       "tf32 and fp64",
       write_precision},
      {{"train.gradients", "train.grad_reduction"},
       {"MegatronMixedPrecision.grad_reduce_in_fp32"},
       "half-but-tables; a reduction in another type than the sums",
       write_gradients},
      {{"train.moments", "parallel.offload_optimizer"},
       {"OptimizerConfig.use_precision_aware_optimizer", "OptimizerConfig.exp_avg_dtype",
        "OptimizerConfig.exp_avg_sq_dtype", "OptimizerConfig.optimizer_cpu_offload",
        "OptimizerConfig.optimizer_offload_fraction", "OptimizerConfig.overlap_cpu_optimizer_d2h_h2d"},
       "without ZeRO, without 16-bit precision, or with another optimizer than adam",
       [](Writer& w) {
         write_moments(
             w, [](const std::string& field) { return "OptimizerConfig." + field; },
             python("torch.bfloat16"));
       }},
      {{"train.fused_loss", "train.logits"},
       {"GPTConfig.cross_entropy_loss_fusion", "GPTConfig.cross_entropy_fusion_impl",
        "GPTConfig.fp16_lm_cross_entropy"},
       "logits of half with bf16 and no fused loss",
       write_loss},
      {{"train.optimizer", "train.momentum", "train.beta1", "train.beta2", "train.eps",
        "train.trust_coefficient"},
       {"OptimizerConfig.optimizer", "OptimizerConfig.sgd_momentum", "OptimizerConfig.adam_beta1",
        "OptimizerConfig.adam_beta2", "OptimizerConfig.adam_eps"},
       "adagrad, lion, lars, lamb and adafactor",
       write_optimizer},
      {{"train.learning_rate"},
       {"OptimizerConfig.lr"},
       "",
       [](Writer& w) { w.set("OptimizerConfig.lr", w.from.train().learning_rate); }},
      {{"train.weight_decay"},
       {"OptimizerConfig.weight_decay"},
       "apart from the gradient with momentum",
       [](Writer& w) { w.set("OptimizerConfig.weight_decay", w.from.train().weight_decay); }},
      {{"train.clip_norm"},
       {"OptimizerConfig.clip_grad"},
       "",
       [](Writer& w) { w.set("OptimizerConfig.clip_grad", w.from.train().clip_norm); }},
      {{"train.off"},
       {"GPTConfig.masked_softmax_fusion", "GPTConfig.bias_dropout_fusion"},
       "passes other than fuse_patterns and fuse_elementwise",
       write_off},
  };
}

// As Python writes it.
std::string literal(const Json& value) {
  if (value.is_object()) return value.at("python").get<std::string>();
  if (value.is_boolean()) return value.get<bool>() ? "True" : "False";
  return value.dump();
}

std::string call(const std::string& name, const std::vector<Setting>& settings, const std::string& class_name,
                 const std::string& more = "") {
  std::string text = name + "(\n";
  for (const Setting& s : with_prefix(settings, class_name + "."))
    text += fmt::format("    {}={},\n", s.name, literal(s.value));
  return text + more + ")\n";
}

std::string render(const Source&, const std::vector<Setting>& settings) {
  std::string text =
      "import functools  # noqa: F401\n\n"
      "import torch\n"
      "import torch.nn.functional as F\n"
      "from megatron.core.distributed import DistributedDataParallelConfig\n"
      "from megatron.core.optimizer import OptimizerConfig\n"
      "from megatron.core.transformer.enums import AttnBackend\n"
      "from nemo import lightning as nl\n"
      "from nemo.collections import llm\n\n";
  text += "config = " + call("llm.GPTConfig", settings, "GPTConfig");
  text += "ddp = " + call("DistributedDataParallelConfig", settings, "DistributedDataParallelConfig");
  text += "strategy = " + call("nl.MegatronStrategy", settings, "MegatronStrategy", "    ddp=ddp,\n");
  text += "precision = " + call("nl.MegatronMixedPrecision", settings, "MegatronMixedPrecision");
  text += "optimizer = " + call("OptimizerConfig", settings, "OptimizerConfig");
  text += "data = " + call("llm.MockDataModule", settings, "MockDataModule");
  text += "trainer = " +
          call("nl.Trainer", settings, "Trainer", "    strategy=strategy,\n    plugins=precision,\n");
  return text +
         "\nif __name__ == \"__main__\":\n"
         "    llm.pretrain(\n"
         "        model=llm.GPTModel(config),\n"
         "        data=data,\n"
         "        trainer=trainer,\n"
         "        optim=nl.MegatronOptimizerModule(config=optimizer),\n"
         "    )\n";
}

std::vector<std::string> preface(const Source& from) {
  std::vector<std::string> lines{
      fmt::format(
          "torchrun --nproc-per-node {} --nnodes {} THIS_FILE: data are random until `data` is a module of",
          from.gpus_per_node(), from.nodes()),
      "yours; steps, the course of the learning rate and checkpoints are yours too."};
  for (std::string& line : megatron_core_preface(from, "moe_aux_loss_coeff"))
    lines.push_back(std::move(line));
  return lines;
}

}  // namespace of_nemo
}  // namespace

Framework nemo() {
  return {
      "nemo",
      "NeMo 2 (nemo_toolkit 2.x of 2025)",
      "#",
      {"gpt", "llama"},
      {{"github.com/NVIDIA-NeMo/Speech nemo/collections/llm/gpt/model/base.py",
        "bb86ba5d755650c3c11338c7c2915ec3ada04f9a"},
       {"github.com/NVIDIA-NeMo/Speech nemo/lightning/pytorch/strategies/megatron_strategy.py",
        "1daff4235b65434a51d1d55b2d85b662de587436"},
       {"github.com/NVIDIA-NeMo/Speech nemo/collections/llm/api.py",
        "48a7b830c0c4d951a9865b37d6b40355de1a26ff"},
       {"github.com/WanZzzzzz/NeMo nemo/lightning/pytorch/plugins/mixed_precision.py (a fork of NVIDIA/NeMo)",
        "203b34ff01297faaafb5164a0e5f59d3228aac95"},
       {"github.com/NVIDIA/NeMo nemo/collections/llm/gpt/data/mock.py",
        "0275b81eae857f7bcfa4ac2cd77edd3359afb4bf"},
       {"github.com/NVIDIA/NeMo nemo/collections/llm/recipes/gpt3_175b.py",
        "0175f4c6c8005588f42b6077a4e00ca31b4d479c"},
       {"github.com/NVIDIA/Megatron-LM megatron/core/transformer/transformer_config.py",
        "002526d81b81f6ab534e93844f9a228709887494"},
       {"github.com/NVIDIA/Megatron-LM megatron/core/model_parallel_config.py",
        "02aa3ee454b5ff16b1bf356ec36fa0cc1c26858f"},
       {"github.com/NVIDIA/Megatron-LM megatron/core/distributed/distributed_data_parallel_config.py",
        "001199898c4badd01eaf0785c212d8ed7ce83042"},
       {"github.com/NVIDIA/Megatron-LM megatron/core/optimizer/optimizer_config.py",
        "0075637cdbb05f45fe6f7a96e008d64237698907"}},
      with_megatron_core(of_nemo::make_rows()),
      of_nemo::render,
      of_nemo::preface};
}

}  // namespace boxcar::cli::exports

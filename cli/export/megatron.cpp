// Megatron-LM: command-line arguments of pretrain_gpt.py, pretrain_bert.py and pretrain_t5.py.
//
// Names and their meaning: megatron/training/arguments.py of github.com/NVIDIA/Megatron-LM at commit
// 000c4ac24f61159c138b0975def722c65245983c (after Megatron Core 0.14). GELU: its fused form is the
// one by a hyperbolic tangent (megatron/core/fusions/fused_bias_gelu.py, 19d6aace), unfused it is exact.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "cli/export/export.h"
#include "cli/export/pipeline_layout.h"
#include "planner/mesh.h"
#include "sbp/words.h"

namespace boxcar::cli::exports {
namespace {
namespace of_megatron {

using ir::Precision;
using ir::Recompute;

bool is_t5(const Source& from) { return from.model().family == "t5"; }
bool is_off(const Source& from, const char* pass) { return from.train().off.contains(pass); }
// Optimizer states, gradients and parameters in shards by Megatron FSDP, whose collectives need several
// hardware queues; tensor and context parallelism need one.
bool is_fsdp(const Source& from) { return from.sharded() && from.parallel().zero >= 2; }

void write_layers(Writer& w) {
  const ir::models::Transformer& m = w.from.model();
  if (!is_t5(w.from)) return w.set("--num-layers", m.layers);
  w.set("--encoder-num-layers", m.layers - m.decoder_layers);
  w.set("--decoder-num-layers", m.decoder_layers);
  if (m.layers != 2 * m.decoder_layers)
    w.cannot("model.decoder_layers", "pretrain_t5.py gives the decoder as many layers as the encoder");
}

void write_lengths(Writer& w) {
  const ir::models::Transformer& m = w.from.model();
  if (!is_t5(w.from)) {
    w.set("--seq-length", m.seq);
    return w.set("--max-position-embeddings", m.seq);
  }
  w.set("--encoder-seq-length", m.seq);
  w.set("--decoder-seq-length", m.decoder_seq);
  w.set("--max-position-embeddings", std::max(m.seq, m.decoder_seq));
}

void write_vocabulary(Writer& w) {
  const ir::models::Transformer& m = w.from.model();
  w.set("--vocab-size", m.vocab);
  w.set("--make-vocab-size-divisible-by", m.pad_vocab_to);
  w.set("--padded-vocab-size", w.from.padded_vocab());
  if (w.from.padded_vocab() % w.from.parallel().tp != 0)
    w.cannot("model.pad_vocab", "the vocabulary has to be a multiple of tp");
}

void write_gelu(Writer& w) {
  const ir::models::Transformer& m = w.from.model();
  if (m.mlp != "gelu") return;
  if (m.gelu == "erf" && m.bias) w.set("--no-bias-gelu-fusion", true);
  if (m.gelu == "tanh" && !m.bias) w.cannot("without biases GELU is exact there");
  if (m.gelu == "tanh" && m.bias && is_off(w.from, "fuse_patterns"))
    w.cannot("only GELU fused with its bias is computed by tanh, and it is fused");
}

void write_positions(Writer& w) {
  const bool rotary = w.from.model().position == "rotary";
  w.set("--position-embedding-type", rotary ? "rope" : "learned_absolute");
  const double base = w.from.model().rotary_base;
  if (rotary) w.set("--rotary-base", number(std::round(base)));
  if (rotary && base != std::round(base)) w.cannot("model.rotary_base", "--rotary-base is a whole number");
  if (!rotary && is_t5(w.from)) w.cannot("encoder and decoder share one table of positions");
}

// "--moe-router-topk" of "moe_router_topk"
std::string argument(const std::string& field) {
  std::string name = "--" + field;
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

void write_experts(Writer& w) {
  const ir::models::Transformer& m = w.from.model();
  if (m.experts == 0) return;
  w.set("--num-experts", m.experts);
  if (m.expert_every > 1)
    w.set("--moe-layer-freq", fmt::format("([0]*{}+[1])*{}", m.expert_every - 1, m.layers / m.expert_every));
  if (m.dense_layers > 0)
    w.set("--moe-layer-freq", fmt::format("[0]*{}+[1]*{}", m.dense_layers, m.layers - m.dense_layers));
  write_expert_tokens(w, argument);
}

void write_latents(Writer& w) {
  const ir::models::Transformer& m = w.from.model();
  if (!is_latent(m)) return;
  w.set("--multi-latent-attention", true);
  if (m.q_lora_rank > 0) w.set("--q-lora-rank", m.q_lora_rank);
  w.set("--kv-lora-rank", m.kv_lora_rank);
  w.set("--qk-head-dim", m.qk_nope_head_dim);
  w.set("--qk-pos-emb-head-dim", m.qk_rope_head_dim);
  w.set("--v-head-dim", m.v_head_dim);
}

void write_masked(Writer& w) {
  const ir::models::Transformer& m = w.from.model();
  if (m.family != "bert") return;
  if (m.masked == 0) {
    w.set("--bert-no-binary-head", true);
    return w.cannot("the loss is one over all tokens here; there a head of its own comes before the logits");
  }
  w.set("--mask-prob", static_cast<double>(m.masked) / static_cast<double>(m.seq));
  w.cannot(
      "norms stand after the residual sums here, before the halves of a layer there; logits of all tokens "
      "are computed");
}

void write_expert_parallelism(Writer& w) {
  const planner::Hints& h = w.from.parallel();
  if (h.ep > 1) w.set("--expert-model-parallel-size", h.ep);
  if (planner::deals_experts_over_tp(h)) w.set("--expert-tensor-parallel-size", 1);
  if (h.ep > 1 && w.from.train().precision == Precision::fp16)
    w.cannot("expert parallelism is refused with --fp16");
}

void write_context_parallelism(Writer& w) {
  const planner::Hints& h = w.from.parallel();
  if (h.cp == 1) return;
  w.set("--context-parallel-size", h.cp);
  if (w.from.model().seq % (2 * h.cp) != 0)
    w.cannot("--seq-length has to be a multiple of 2 x context_parallel");
  write_comm_type(w, "--cp-comm-type");
}

void write_stages(Writer& w) {
  const planner::Hints& h = w.from.parallel();
  if (!w.from.pipelined()) return;
  if (is_t5(w.from)) return w.cannot("parallel.pp", "pretrain_t5.py refuses pipelines");
  if (w.from.other_groups())
    w.cannot("parallel.virtual_stages", "interleaved stages take micro-batches in groups of pp");
  const bool layout = !w.from.even_stages();
  if (layout)
    w.set("--pipeline-model-parallel-layout", pipeline_layout(h.stage_layers));
  else if (h.virtual_stages > 1)
    w.set("--num-virtual-stages-per-pipeline-rank", h.virtual_stages);
}

void write_zero(Writer& w) {
  const planner::Hints& h = w.from.parallel();
  if (!w.from.sharded()) return;
  w.set("--use-distributed-optimizer", true);
  if (h.fsdp_group > 0 && h.fsdp_group < h.dp)
    w.set("--num-distributed-optimizer-instances", h.dp / h.fsdp_group);
  if (h.zero == 1) return;
  w.set("--use-megatron-fsdp", true);
  w.set("--data-parallel-sharding-strategy", h.zero == 2 ? "optim_grads" : "optim_grads_params");
  w.set("--ckpt-format", "fsdp_dtensor");
}

void write_sequence_parallel(Writer& w) {
  const planner::Hints& h = w.from.parallel();
  if (h.tp == 1) return;
  if (h.sequence_parallel) return w.set("--sequence-parallel", true);
  if (w.from.model().experts > 0) w.cannot("experts with tensor parallelism want --sequence-parallel there");
}

void write_recompute(Writer& w) {
  const ir::TrainOptions& t = w.from.train();
  if (!w.from.recomputes()) return;
  const std::vector<int>& layers = t.recompute_layers;
  const bool alike = std::all_of(layers.begin(), layers.end(), [&](int n) { return n == layers.front(); });
  if (t.recompute == Recompute::ops)
    return w.cannot("layers are recomputed whole or by named modules; nothing is written");
  if (t.recompute == Recompute::selective) {
    w.set("--recompute-granularity", "selective");
    w.set("--recompute-modules", fmt::format("{}", fmt::join(words(t.recompute_modules), " ")));
    if (!layers.empty())
      w.cannot("parallel.recompute_layers", "selective recomputation is that of all layers");
    return;
  }
  w.set("--recompute-granularity", "full");
  w.set("--recompute-method", layers.empty() ? "uniform" : "block");
  w.set("--recompute-num-layers", layers.empty() ? 1 : *std::max_element(layers.begin(), layers.end()));
  if (!alike)
    w.cannot("parallel.recompute_layers",
             "all stages recompute as many layers; the largest number is written");
  if (t.recompute_others != Recompute::none)
    w.cannot("parallel.recompute_others", "the other layers recompute nothing");
  if (t.recompute_stop) w.cannot("parallel.recompute_stop", "a layer is recomputed as a whole");
}

void write_offload(Writer& w) {
  if (!w.from.parallel().offload_activations) return;
  w.set("--cpu-offloading-num-layers", w.from.model().layers - 1);
  tell_limits_of_offload(w);
}

void write_overlap(Writer& w) {
  const planner::Hints& h = w.from.parallel();
  if (!w.from.replicated()) return;
  if (h.overlap_grad) {
    w.set("--overlap-grad-reduce", true);
    if (!is_fsdp(w.from))
      w.set("--ddp-bucket-size", w.from.bucket_elements(w.from.mixed() && w.from.reduces_half()));
  } else if (h.zero < 3) {
    w.cannot("parallel.grad_bucket_mb",
             "gradients are reduced as one buffer unless --overlap-grad-reduce is given");
  }
  if (!w.from.sharded() || !h.overlap_param) return;
  if (h.overlap_grad)
    w.set("--overlap-param-gather", true);
  else
    w.cannot("parallel.overlap_param", "--overlap-param-gather wants --overlap-grad-reduce");
}

void write_defer_head_grad(Writer& w) {
  const int deferred = w.from.parallel().defer_head_grad;
  if (deferred == 0 || !w.from.pipelined()) return;
  w.set("--defer-embedding-wgrad-compute", true);
  w.set("--wgrad-deferral-limit", deferred >= w.from.micro_batches() ? 0 : deferred);
}

void write_mesh_order(Writer& w) {
  if (w.from.stands_as("pp,dp,cp,tp")) return;
  if (w.from.stands_as("dp,pp,cp,tp")) return w.set("--use-tp-pp-dp-mapping", true);
  w.cannot("the orders are pp,dp,cp,tp, which is written, and dp,pp,cp,tp");
}

void write_precision(Writer& w) {
  switch (w.from.train().precision) {
    case Precision::fp16:
      w.set("--fp16", true);
      return w.set("--loss-scale", w.from.train().loss_scale);
    case Precision::bf16:
      return w.set("--bf16", true);
    case Precision::fp8:
      w.set("--bf16", true);
      w.set("--fp8-recipe", recipe_in_megatron(w.from.request.fp8_recipe));
      return w.set("--fp8-format", "hybrid");
    case Precision::fp32:
      return;
    case Precision::tf32:
    case Precision::fp64:
      return w.cannot("float32 is what is left without --fp16 and --bf16");
  }
}

void write_gradients(Writer& w) {
  const ir::TrainOptions& t = w.from.train();
  if (!w.from.mixed()) return;
  if (t.gradients == ir::Gradients::float32)
    w.set("--accumulate-allreduce-grads-in-fp32", true);
  else if (t.precision != Precision::fp16)
    w.set("--grad-reduce-in-bf16", true);
  if (t.gradients == ir::Gradients::half_but_tables)
    w.cannot("tables have gradients of the same type as all");
  if (w.from.reduces_half() == (t.gradients == ir::Gradients::float32))
    w.cannot("train.grad_reduction", "gradients are reduced in the type of their sums");
}

void write_loss(Writer& w) {
  const ir::TrainOptions& t = w.from.train();
  const bool half = w.from.mixed() && t.half_logits;
  if (t.fused_loss) {
    w.set("--cross-entropy-loss-fusion", true);
    w.set("--cross-entropy-fusion-impl", half ? "te" : "native");
  } else if (half && t.precision == Precision::fp16) {
    w.set("--fp16-lm-cross-entropy", true);
  } else if (half) {
    w.cannot("train.logits", "with --bf16 only a fused loss reads logits of 16 bits");
  }
}

void write_optimizer(Writer& w) {
  const ir::TrainOptions& t = w.from.train();
  const bool adam = t.optimizer == ir::Optimizer::adam;
  w.set("--optimizer", adam ? "adam" : "sgd");
  if (!adam && !is_sgd(t.optimizer)) w.cannot("Megatron-LM has no such optimizer; sgd is written");
  if (!adam) {
    w.set("--sgd-momentum", t.optimizer == ir::Optimizer::momentum ? t.momentum : 0.0);
    if (t.optimizer == ir::Optimizer::momentum && t.weight_decay > 0)
      w.cannot("train.weight_decay", "with sgd the decay is added to the gradient, and so to the momentum");
    return;
  }
  w.set("--adam-beta1", t.beta1);
  w.set("--adam-beta2", t.beta2);
  w.set("--adam-eps", t.eps);
}

void write_off(Writer& w) {
  if (is_off(w.from, "fuse_patterns")) {
    w.set("--no-masked-softmax-fusion", true);
    w.set("--no-bias-dropout-fusion", true);
    if (w.from.model().mlp == "swiglu") w.set("--no-bias-swiglu-fusion", true);
  }
  std::vector<std::string> others;
  for (const std::string& pass : w.from.train().off)
    if (pass != "fuse_patterns" && pass != "fuse_elementwise") others.push_back(pass);
  if (!others.empty()) w.cannot(fmt::format("{} cannot be switched off", fmt::join(others, ", ")));
}

constexpr const char* no_documents = "fused attention reads no mask of documents";

std::vector<Row> make_rows() {
  return {
      {{"model.family"},
       {"pretrain_gpt.py", "pretrain_bert.py", "pretrain_t5.py"},
       "models of images, which are refused",
       [](Writer& w) {
         const std::string& family = w.from.model().family;
         w.set(family == "llama" ? "pretrain_gpt.py" : "pretrain_" + family + ".py", true);
       }},
      {{"cluster.gpus", "cluster.gpus_per_node", "parallel.dp"},
       {"--nproc-per-node", "--nnodes"},
       "",
       [](Writer& w) {
         w.set("--nproc-per-node", w.from.gpus_per_node());
         w.set("--nnodes", w.from.nodes());
       }},
      {{"model.layers", "model.decoder_layers"},
       {"--num-layers", "--encoder-num-layers", "--decoder-num-layers"},
       "halves of t5 with different numbers of layers",
       write_layers},
      {{"model.hidden"},
       {"--hidden-size"},
       "",
       [](Writer& w) { w.set("--hidden-size", w.from.model().hidden); }},
      {{"model.ffn"},
       {"--ffn-hidden-size"},
       "",
       [](Writer& w) { w.set("--ffn-hidden-size", w.from.model().ffn); }},
      {{"model.heads"},
       {"--num-attention-heads"},
       "",
       [](Writer& w) { w.set("--num-attention-heads", w.from.model().heads); }},
      {{"model.kv_heads"},
       {"--group-query-attention", "--num-query-groups"},
       "",
       [](Writer& w) {
         if (w.from.model().kv_heads == w.from.model().heads) return;
         w.set("--group-query-attention", true);
         w.set("--num-query-groups", w.from.model().kv_heads);
       }},
      {{"model.head_dim"}, {"--kv-channels"}, "", [](Writer& w) { write_head_dim(w, "--kv-channels"); }},
      {{"model.qk_norm"},
       {"--qk-layernorm"},
       qk_norm_limits,
       [](Writer& w) { write_qk_norm(w, "--qk-layernorm"); }},
      {{"model.q_lora_rank", "model.kv_lora_rank", "model.qk_nope_head_dim", "model.qk_rope_head_dim",
        "model.v_head_dim"},
       {"--multi-latent-attention", "--q-lora-rank", "--kv-lora-rank", "--qk-head-dim",
        "--qk-pos-emb-head-dim", "--v-head-dim"},
       "",
       write_latents},
      {{"model.lora_rank", "model.lora_alpha", "model.lora_dropout", "model.lora_mlp"},
       {},
       "pretrain_gpt.py has no adapters",
       [](Writer& w) {
         if (w.from.model().lora_rank > 0)
           w.cannot("model.lora_rank", "pretrain_gpt.py has no adapters; all weights are trained");
       }},
      {{"model.attention_window", "model.full_attention_every"},
       {"--window-size", "--window-attn-skip-freq"},
       "",
       [](Writer& w) {
         const ir::models::Transformer& m = w.from.model();
         if (m.attention_window == 0) return;
         w.set("--window-size", fmt::format("({},0)", m.attention_window - 1));  // besides the query's own
                                                                                 // key
         if (m.full_attention_every > 0) w.set("--window-attn-skip-freq", m.full_attention_every);
       }},
      {{"model.document_length"},
       {},
       no_documents,
       [](Writer& w) {
         if (w.from.model().document_length > 0) w.cannot("model.document_length", no_documents);
       }},
      {{"model.seq", "model.decoder_seq"},
       {"--seq-length", "--encoder-seq-length", "--decoder-seq-length", "--max-position-embeddings"},
       "",
       write_lengths},
      {{"model.vocab", "model.pad_vocab"},
       {"--vocab-size", "--make-vocab-size-divisible-by", "--padded-vocab-size"},
       "a vocabulary that tp does not divide",
       write_vocabulary},
      {{"model.mlp"},
       {"--swiglu"},
       "",
       [](Writer& w) {
         if (w.from.model().mlp == "swiglu") w.set("--swiglu", true);
       }},
      {{"model.gelu"}, {"--no-bias-gelu-fusion"}, "tanh without biases, or not fused", write_gelu},
      {{"model.norm", "model.norm_epsilon"},
       {"--normalization", "--norm-epsilon"},
       "",
       [](Writer& w) {
         w.set("--normalization", w.from.model().norm == "rms" ? "RMSNorm" : "LayerNorm");
         w.set("--norm-epsilon", w.from.model().norm_epsilon);
       }},
      {{"model.position", "model.rotary_base"},
       {"--position-embedding-type", "--rotary-base"},
       "learned positions of each half of t5; a base that is no whole number",
       write_positions},
      {{"model.tied"},
       {"--untie-embeddings-and-output-weights"},
       "",
       [](Writer& w) {
         if (!w.from.model().tied) w.set("--untie-embeddings-and-output-weights", true);
       }},
      {{"model.bias", "model.qkv_bias"},
       {"--disable-bias-linear", "--add-qkv-bias"},
       "",
       [](Writer& w) {
         if (w.from.model().bias) return;
         w.set("--disable-bias-linear", true);
         if (w.from.model().qkv_bias) w.set("--add-qkv-bias", true);
       }},
      {{"model.dropout"},
       {"--attention-dropout", "--hidden-dropout"},
       "",
       [](Writer& w) {
         w.set("--attention-dropout", w.from.model().dropout);
         w.set("--hidden-dropout", w.from.model().dropout);
       }},
      {{"model.experts", "model.top_k", "model.expert_groups", "model.top_groups", "model.router_scores",
        "model.expert_scale", "model.expert_ffn", "model.shared_experts", "model.dense_layers",
        "model.expert_every", "model.weigh_inside"},
       {"--num-experts", "--moe-router-topk", "--moe-ffn-hidden-size",
        "--moe-shared-expert-intermediate-size", "--moe-layer-freq", "--moe-router-num-groups",
        "--moe-router-group-topk", "--moe-router-score-function", "--moe-router-topk-scaling-factor",
        "--moe-router-load-balancing-type", "--moe-token-dispatcher-type", "--moe-expert-capacity-factor",
        "--moe-pad-expert-input-to-capacity", "--moe-token-drop-policy"},
       "a capacity of each sequence; weights after the experts' second product",
       write_experts},
      {{"model.masked"},
       {"--mask-prob", "--bert-no-binary-head"},
       "norms and heads of bert as published",
       write_masked},
      {{"parallel.tp"},
       {"--tensor-model-parallel-size"},
       "",
       [](Writer& w) { w.set("--tensor-model-parallel-size", w.from.parallel().tp); }},
      {{"parallel.pp"},
       {"--pipeline-model-parallel-size"},
       "pipelines of t5",
       [](Writer& w) { w.set("--pipeline-model-parallel-size", w.from.parallel().pp); }},
      {{"parallel.stage_layers", "parallel.virtual_stages"},
       {"--pipeline-model-parallel-layout", "--num-virtual-stages-per-pipeline-rank"},
       "stages of t5; virtual ones where pp does not divide the micro-batches",
       write_stages},
      {{"parallel.context_parallel", "parallel.gather_keys"},
       {"--context-parallel-size", "--cp-comm-type"},
       "a choice op by op",
       write_context_parallelism},
      {{"parallel.ep", "parallel.etp"},
       {"--expert-model-parallel-size", "--expert-tensor-parallel-size"},
       "with fp16",
       write_expert_parallelism},
      {{"parallel.sequence_parallel"},
       {"--sequence-parallel"},
       "false with experts and tp",
       write_sequence_parallel},
      {{"parallel.zero", "parallel.fsdp_group"},
       {"--use-distributed-optimizer", "--num-distributed-optimizer-instances", "--use-megatron-fsdp",
        "--data-parallel-sharding-strategy", "--ckpt-format"},
       "",
       write_zero},
      {{"parallel.micro_batch"},
       {"--micro-batch-size"},
       "",
       [](Writer& w) { w.set("--micro-batch-size", w.from.parallel().micro_batch); }},
      {{"train.global_batch"},
       {"--global-batch-size"},
       "",
       [](Writer& w) { w.set("--global-batch-size", w.from.job().global_batch); }},
      {{"parallel.recompute", "parallel.recompute_modules", "parallel.recompute_layers",
        "parallel.recompute_others", "parallel.recompute_stop"},
       {"--recompute-granularity", "--recompute-modules", "--recompute-method", "--recompute-num-layers"},
       "ops; other numbers of layers on each stage; what the other layers do; an early stop",
       write_recompute},
      {{"parallel.offload_activations"},
       {"--cpu-offloading-num-layers"},
       "with pipelines or recomputation",
       write_offload},
      {{"parallel.attention"},
       {"--attention-backend"},
       "",
       [](Writer& w) { w.set("--attention-backend", w.from.train().flash ? "flash" : "unfused"); }},
      {{"parallel.overlap_grad", "parallel.overlap_param", "parallel.grad_bucket_mb"},
       {"--overlap-grad-reduce", "--overlap-param-gather", "--ddp-bucket-size"},
       "buckets without overlap_grad; overlap_param without it",
       write_overlap},
      {{"parallel.scatter_gather"},
       {"--no-scatter-gather-tensors-in-pipeline"},
       "",
       [](Writer& w) {
         const planner::Hints& h = w.from.parallel();
         if (w.from.pipelined() && h.tp > 1 && !h.sequence_parallel && !h.scatter_gather)
           w.set("--no-scatter-gather-tensors-in-pipeline", true);
       }},
      {{"parallel.defer_head_grad"},
       {"--defer-embedding-wgrad-compute", "--wgrad-deferral-limit"},
       "",
       write_defer_head_grad},
      {{"parallel.mesh_order"},
       {"--use-tp-pp-dp-mapping"},
       "other orders than pp,dp,cp,tp and dp,pp,cp,tp",
       write_mesh_order},
      {{"train.precision", "train.fp8_recipe"},
       {"--fp16", "--bf16", "--loss-scale", "--fp8-format", "--fp8-recipe"},
       "tf32 and fp64",
       write_precision},
      {{"train.gradients", "train.grad_reduction"},
       {"--accumulate-allreduce-grads-in-fp32", "--grad-reduce-in-bf16"},
       "half-but-tables; a reduction in another type than the sums",
       write_gradients},
      {{"train.moments", "parallel.offload_optimizer"},
       {"--use-precision-aware-optimizer", "--exp-avg-dtype", "--exp-avg-sq-dtype", "--optimizer-cpu-offload",
        "--optimizer-offload-fraction", "--overlap-cpu-optimizer-d2h-h2d"},
       "without ZeRO, without 16-bit precision, or with another optimizer than adam",
       [](Writer& w) { write_moments(w, argument, "bf16"); }},
      {{"train.fused_loss", "train.logits"},
       {"--cross-entropy-loss-fusion", "--cross-entropy-fusion-impl", "--fp16-lm-cross-entropy"},
       "logits of half with bf16 and no fused loss",
       write_loss},
      {{"train.optimizer", "train.momentum", "train.beta1", "train.beta2", "train.eps",
        "train.trust_coefficient"},
       {"--optimizer", "--sgd-momentum", "--adam-beta1", "--adam-beta2", "--adam-eps"},
       "adagrad, lion, lars, lamb and adafactor",
       write_optimizer},
      {{"train.learning_rate"}, {"--lr"}, "", [](Writer& w) { w.set("--lr", w.from.train().learning_rate); }},
      {{"train.weight_decay"},
       {"--weight-decay"},
       "apart from the gradient with momentum",
       [](Writer& w) { w.set("--weight-decay", w.from.train().weight_decay); }},
      {{"train.clip_norm"},
       {"--clip-grad"},
       "",
       [](Writer& w) { w.set("--clip-grad", w.from.train().clip_norm); }},
      {{"train.off"},
       {"--no-masked-softmax-fusion", "--no-bias-dropout-fusion", "--no-bias-swiglu-fusion"},
       "passes other than fuse_patterns and fuse_elementwise",
       write_off},
  };
}

std::string word(const Json& value) {
  const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
  return text.find_first_of("|()*[") == std::string::npos ? text : "'" + text + "'";  // for the shell
}

std::string render(const Source& from, const std::vector<Setting>& settings) {
  const planner::Hints& h = from.parallel();
  std::string text;
  if ((h.tp > 1 || h.cp > 1) && !is_fsdp(from)) text += "export CUDA_DEVICE_MAX_CONNECTIONS=1\n";
  std::string script, launch, arguments;
  for (const Setting& s : settings) {
    if (s.name.ends_with(".py"))
      script = s.name;
    else if (s.name == "--nproc-per-node" || s.name == "--nnodes")
      launch += fmt::format(" {} {}", s.name, word(s.value));
    else
      arguments += fmt::format("    {}{} \\\n", s.name, s.value == true ? "" : " " + word(s.value));
  }
  return text + fmt::format("torchrun{} {} \\\n{}    \"$@\"\n", launch, script, arguments);
}

std::vector<std::string> preface(const Source& from) {
  std::vector<std::string> lines{
      "sh THIS_FILE --train-iters ... --data-path ... --tokenizer-type ...: steps, data, the tokenizer, the",
      "course of the learning rate and checkpoints are yours."};
  if (from.nodes() > 1)
    lines.emplace_back(
        "On several nodes torchrun wants a rendezvous too: --rdzv-endpoint, or --node-rank and "
        "--master-addr.");
  for (std::string& line : megatron_core_preface(from, "--moe-aux-loss-coeff"))
    lines.push_back(std::move(line));
  return lines;
}

}  // namespace of_megatron
}  // namespace

Framework megatron() {
  return {"megatron",
          "Megatron-LM (as of commit 000c4ac, after Megatron Core 0.14)",
          "#",
          {"gpt", "bert", "llama", "t5"},
          {{"github.com/NVIDIA/Megatron-LM megatron/training/arguments.py",
            "000c4ac24f61159c138b0975def722c65245983c"},
           {"github.com/NVIDIA/Megatron-LM pretrain_t5.py", "00caa53af30912914981c86f39db123961678bbd"}},
          with_megatron_core(of_megatron::make_rows()),
          of_megatron::render,
          of_megatron::preface};
}

}  // namespace boxcar::cli::exports

// DeepSpeed: ds_config.json, which DeepSpeed reads by hjson, so with comments, and how to launch the program.
//
// Names and their meaning: docs/_pages/config-json.md of github.com/deepspeedai/DeepSpeed at commit
// 00376da49967bc6a15d70a550200ac67277b1fb4; the accumulation type and optimizers of PyTorch:
// deepspeed/runtime/constants.py (088be892c7499b4f4925d6a31da1e399a19aec20); shards over a part of the
// replicas, what stages send: deepspeed/runtime/config.py (029f12b3c6b94750ff9d93c5d7e6e98b603cf78e); the
// launcher: docs/_tutorials/getting-started.md (a0186adf5de980486759a4aa429e10f28b6f79aa). The model is the
// program's own.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/export/export.h"

namespace boxcar::cli::exports {
namespace {
namespace of_deepspeed {

using ir::Precision;
using ir::Recompute;

// Tells the program what to build: keys of the model that plans have, without those that few models have.
void write_model(Writer& w) {
  std::vector<std::string> values;
  for (const Key& key : keys())
    if (key.section == "model" && key.name != "family" && w.from.labels.contains(key.path()))
      values.push_back(fmt::format("{} {}", key.name, w.from.label(key.path())));
  w.leave(fmt::format("the program builds the model: {}", fmt::join(values, ", ")));
}

void write_attention(Writer& w) {
  if (!w.from.job().model.transformer()) return;
  w.leave("the model's code decides");
  if (w.from.train().flash && w.from.request.attention_kernel == "flash1")
    w.leave("parallel.attention_kernel", "the model's code decides");
}

void write_batches(Writer& w) {
  w.set("train_batch_size", w.from.job().global_batch);
  w.set("train_micro_batch_size_per_gpu", w.from.parallel().micro_batch);
  w.set("gradient_accumulation_steps", w.from.micro_batches());
}

void write_zero(Writer& w) {
  const planner::Hints& h = w.from.parallel();
  const int zero = h.dp > 1 ? h.zero : 0;
  w.set("zero_optimization.stage", zero);
  if (zero >= 2 && w.from.pipelined()) w.cannot("DeepSpeed's pipelines go with zero 0 and 1");
  if (zero == 0 || h.fsdp_group == 0 || h.fsdp_group == h.dp) return;
  if (zero == 3) return w.set("zero_optimization.mics_shard_size", h.fsdp_group);
  w.cannot("parallel.fsdp_group", "only stage 3 shards over a part of the replicas");
}

void write_overlap(Writer& w) {
  const planner::Hints& h = w.from.parallel();
  if (!w.from.replicated()) return;
  if (!w.from.sharded()) {
    if (h.overlap_grad) w.cannot("without ZeRO gradients are reduced after the last micro-batch");
    return;
  }
  w.set("zero_optimization.overlap_comm", h.overlap_grad);
  if (h.zero < 3)
    w.set("zero_optimization.reduce_bucket_size",
          w.from.bucket_elements(w.from.mixed() && w.from.reduces_half()));
  if (h.zero < 3 && h.overlap_param)
    w.cannot("parallel.overlap_param", "updated parameters are gathered at the end of a step");
  if (h.zero == 3 && !h.overlap_param) w.set("zero_optimization.stage3_prefetch_bucket_size", 0);
}

void write_tensor_parallelism(Writer& w) {
  const planner::Hints& h = w.from.parallel();
  if (h.tp == 1) return;
  w.set("tensor_parallel.autotp_size", h.tp);
  w.set("tensor_parallel.tp_overlap_comm", h.overlap_tp);
  if (h.sequence_parallel)
    w.cannot("parallel.sequence_parallel", "the residual stream stays whole on each rank");
  const bool untied = !ir::models::has_tied_head(w.from.job().model);
  if (untied) w.set("tensor_parallel.vocab_parallel_lm_head", !h.gather_logits);
  if (!untied && !h.gather_logits) w.cannot("parallel.gather_logits", "logits of a tied head are gathered");
}

void write_pipeline(Writer& w) {
  const planner::Hints& h = w.from.parallel();
  if (!w.from.pipelined()) return;
  w.leave(fmt::format("the program builds PipelineModule(num_stages={})", h.pp));
  if (h.virtual_stages > 1) w.cannot("parallel.virtual_stages", "a device has one stage");
  if (!w.from.even_stages())
    w.leave("parallel.stage_layers", "the program's partition_method divides the layers");
  if (w.from.parallel().schedule != planner::Schedule::one_f_one_b)
    w.cannot("parallel.schedule", "pipelines run 1F1B");
}

void write_experts(Writer& w) {
  const int64_t experts = ir::models::experts(w.from.job().model);
  if (experts == 0) return;
  w.set("expert_parallel.enabled", true);
  w.set("expert_parallel.autoep_size", w.from.parallel().ep);
  w.set("expert_parallel.top_k", w.from.model().top_k);
  w.cannot("experts take all their tokens there; here those beyond a capacity are dropped");
  if (w.from.parallel().tp > 1) w.cannot("expert_parallel does not go with tensor_parallel");
}

void write_context_parallelism(Writer& w) {
  if (w.from.parallel().cp == 1) return;
  w.leave("the program sets up sequence parallelism (DeepSpeed-Ulysses), which is left out");
  if (w.from.parallel().gather_keys) w.cannot("parallel.gather_keys", "DeepSpeed-Ulysses exchanges heads");
}

void write_recompute(Writer& w) {
  const ir::TrainOptions& t = w.from.train();
  if (!w.from.recomputes()) return;
  w.leave("the model's code says what is recomputed, by deepspeed.checkpointing.checkpoint");
  if (!t.recompute_layers.empty()) w.leave("parallel.recompute_layers", "the model's code says which");
  if (t.recompute_others != Recompute::none)
    w.leave("parallel.recompute_others", "the model's code says which");
  if (t.recompute_stop) w.cannot("parallel.recompute_stop", "a checkpointed layer is recomputed as a whole");
}

void write_offload(Writer& w) {
  if (!w.from.parallel().offload_activations) return;
  w.set("activation_checkpointing.cpu_checkpointing", true);
  if (w.from.train().recompute != Recompute::full)
    w.cannot("the host holds what checkpointing keeps, the inputs of layers");
}

void write_optimizer_offload(Writer& w) {
  if (!w.from.parallel().offload_optimizer) return;
  w.set("zero_optimization.offload_optimizer.device", "cpu");
  w.set("zero_optimization.offload_optimizer.pin_memory", true);
  if (w.from.parallel().zero == 0) w.cannot("only sharded optimizer states are offloaded");
}

void write_precision(Writer& w) {
  const Precision precision = w.from.train().precision;
  if (precision == Precision::fp16) {
    w.set("fp16.enabled", true);
    w.set("fp16.loss_scale", w.from.train().loss_scale);
  } else if (w.from.mixed()) {
    w.set("bf16.enabled", true);
    if (precision == Precision::fp8) w.leave("the model's code has 8-bit products; bf16 is written");
  } else if (precision != Precision::fp32) {
    w.cannot("float32 is what is left without fp16 and bf16");
  }
}

void write_gradients(Writer& w) {
  const ir::TrainOptions& t = w.from.train();
  if (!w.from.mixed()) return;
  const bool fp16 = t.precision == Precision::fp16, full = t.gradients == ir::Gradients::float32;
  const char* half = fp16 ? "fp16" : "bf16";
  w.set("communication_data_type", w.from.reduces_half() ? half : "fp32");
  if (t.gradients == ir::Gradients::half_but_tables)
    w.cannot("tables have gradients of the same type as all");
  if (!w.from.sharded() && fp16 == full) {  // neither goes without ZeRO
    w.set("data_types.grad_accum_dtype", fp16 ? "fp16" : "fp32");
    return w.cannot(fmt::format("without ZeRO gradients of {} are kept in {}, which is written", half,
                                fp16 ? "fp16" : "fp32"));
  }
  w.set("data_types.grad_accum_dtype", full ? "fp32" : half);
}

void write_optimizer(Writer& w) {
  const ir::TrainOptions& t = w.from.train();
  const bool adam = t.optimizer == ir::Optimizer::adam, momentum = t.optimizer == ir::Optimizer::momentum;
  const bool lion = t.optimizer == ir::Optimizer::lion, adagrad = t.optimizer == ir::Optimizer::adagrad;
  const bool lamb = t.optimizer == ir::Optimizer::lamb, known = adam || lion || adagrad || lamb;
  w.set("optimizer.type", adam ? "AdamW" : lion ? "Lion" : adagrad ? "Adagrad" : lamb ? "Lamb" : "SGD");
  if (lamb) w.cannot("DeepSpeed's trust ratio is from 0.01 to 10, and vectors have one too");
  if (lamb && w.from.sharded()) w.cannot("with ZeRO DeepSpeed's trust ratio is of a shard of all tensors");
  if (!known && !is_sgd(t.optimizer)) w.cannot("DeepSpeed has no such optimizer; SGD is written");
  w.set("optimizer.params.lr", t.learning_rate);
  if (adam || lion || lamb) w.set("optimizer.params.betas", Json::array({t.beta1, t.beta2}));
  if (adam || adagrad || lamb) w.set("optimizer.params.eps", t.eps);
  if (!known) w.set("optimizer.params.momentum", momentum ? t.momentum : 0.0);
  if ((!known || lamb) && w.from.sharded()) w.set("zero_allow_untested_optimizer", true);
  w.set("optimizer.params.weight_decay", t.weight_decay);
  if (t.weight_decay > 0 && momentum)
    w.cannot("train.weight_decay", "SGD adds the decay to the gradient, and so to the momentum");
  if (t.weight_decay > 0)
    w.leave("train.weight_decay", "biases and norms decay unless the program makes groups of parameters");
}

// The tensors that stages send each other, forward and back.
void write_sends(Writer& w) {
  const planner::Hints& h = w.from.parallel();
  if (!w.from.pipelined() || h.tp == 1) return;
  w.set("pipeline.pipe_partitioned", h.scatter_gather);
  w.set("pipeline.grad_partitioned", h.scatter_gather);
}

// Keys that the model's code decides, if they differ from their defaults.
void write_code(Writer& w) {
  const planner::Hints& h = w.from.parallel();
  const ir::TrainOptions& t = w.from.train();
  if (h.defer_head_grad > 0 && w.from.pipelined()) w.cannot("parallel.defer_head_grad", "no gradient waits");
  if (w.from.mixed() && t.half_logits) w.leave("train.logits", "the model's code decides");
  if (t.fused_loss) w.leave("train.fused_loss", "the model's code decides");
  if (t.epilogues) w.leave("train.epilogues", "the model's code decides");
  if (!t.off.empty()) w.leave("train.off", "the model's code decides what is fused; other passes stay");
}

std::vector<Row> make_rows() {
  return {
      {{"model.family",
        "model.layers",
        "model.hidden",
        "model.heads",
        "model.seq",
        "model.vocab",
        "model.ffn",
        "model.kv_heads",
        "model.head_dim",
        "model.qk_norm",
        "model.attention_window",
        "model.full_attention_every",
        "model.document_length",
        "model.mlp",
        "model.gelu",
        "model.norm",
        "model.position",
        "model.norm_epsilon",
        "model.rotary_base",
        "model.tied",
        "model.bias",
        "model.qkv_bias",
        "model.dropout",
        "model.pad_vocab",
        "model.experts",
        "model.top_k",
        "model.expert_groups",
        "model.top_groups",
        "model.router_scores",
        "model.expert_scale",
        "model.expert_ffn",
        "model.shared_experts",
        "model.dense_layers",
        "model.q_lora_rank",
        "model.kv_lora_rank",
        "model.qk_nope_head_dim",
        "model.qk_rope_head_dim",
        "model.v_head_dim",
        "model.lora_rank",
        "model.lora_alpha",
        "model.lora_dropout",
        "model.lora_mlp",
        "model.expert_every",
        "model.weigh_inside",
        "model.masked",
        "model.decoder_layers",
        "model.decoder_seq"},
       {},
       "the model is the program's own; a comment lists its sizes",
       write_model},
      {{"parallel.attention", "parallel.attention_kernel"}, {}, "the model's code decides", write_attention},
      {{"train.global_batch", "parallel.micro_batch"},
       {"train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps"},
       "",
       write_batches},
      {{"cluster.gpus", "cluster.gpus_per_node", "parallel.dp"},
       {"--num_nodes", "--num_gpus"},
       "",
       [](Writer& w) {
         w.set("--num_nodes", w.from.nodes());
         w.set("--num_gpus", w.from.gpus_per_node());
       }},
      {{"train.precision", "train.fp8_recipe"},
       {"fp16.enabled", "fp16.loss_scale", "bf16.enabled"},
       "fp8, tf32 and fp64",
       write_precision},
      {{"train.gradients", "train.grad_reduction"},
       {"communication_data_type", "data_types.grad_accum_dtype"},
       "half-but-tables; without ZeRO float32 with fp16 and half with bf16",
       write_gradients},
      {{"parallel.zero", "parallel.fsdp_group"},
       {"zero_optimization.stage", "zero_optimization.mics_shard_size"},
       "2 and 3 with pipelines; fsdp_group below zero 3",
       write_zero},
      {{"parallel.overlap_grad", "parallel.overlap_param", "parallel.grad_bucket_mb"},
       {"zero_optimization.overlap_comm", "zero_optimization.reduce_bucket_size",
        "zero_optimization.stage3_prefetch_bucket_size"},
       "overlap_grad and buckets without ZeRO; overlap_param below zero 3",
       write_overlap},
      {{"parallel.tp", "parallel.overlap_tp", "parallel.sequence_parallel", "parallel.gather_logits"},
       {"tensor_parallel.autotp_size", "tensor_parallel.tp_overlap_comm",
        "tensor_parallel.vocab_parallel_lm_head"},
       "sequence_parallel; a tied head split by vocabulary",
       write_tensor_parallelism},
      {{"parallel.pp", "parallel.virtual_stages", "parallel.stage_layers", "parallel.schedule"},
       {},
       "the program's PipelineModule has the stages; virtual ones and schedules other than 1f1b it has not",
       write_pipeline},
      {{"parallel.ep", "parallel.etp"},
       {"expert_parallel.enabled", "expert_parallel.autoep_size", "expert_parallel.top_k"},
       "a capacity; with tp",
       write_experts},
      {{"parallel.context_parallel", "parallel.gather_keys"},
       {},
       "the program sets it up",
       write_context_parallelism},
      {{"parallel.recompute", "parallel.recompute_modules", "parallel.recompute_layers",
        "parallel.recompute_others", "parallel.recompute_stop"},
       {},
       "the model's code decides",
       write_recompute},
      {{"parallel.offload_activations"},
       {"activation_checkpointing.cpu_checkpointing"},
       "without recompute full",
       write_offload},
      {{"parallel.offload_optimizer"},
       {"zero_optimization.offload_optimizer.device", "zero_optimization.offload_optimizer.pin_memory"},
       "without ZeRO",
       write_optimizer_offload},
      {{"parallel.mesh_order"},
       {},
       "other orders than pp,dp,tp",
       [](Writer& w) {
         if (!w.from.stands_as("pp,dp,cp,tp")) w.cannot("ranks stand as in pp,dp,tp");
       }},
      {{"parallel.scatter_gather"},
       {"pipeline.pipe_partitioned", "pipeline.grad_partitioned"},
       "",
       write_sends},
      {{"parallel.defer_head_grad", "train.logits", "train.fused_loss", "train.epilogues", "train.off"},
       {},
       "the model's code decides",
       write_code},
      {{"train.optimizer", "train.learning_rate", "train.momentum", "train.beta1", "train.beta2", "train.eps",
        "train.trust_coefficient", "train.weight_decay"},
       {"optimizer.type", "optimizer.params.lr", "optimizer.params.betas", "optimizer.params.eps",
        "optimizer.params.momentum", "optimizer.params.weight_decay", "zero_allow_untested_optimizer"},
       "lars and adafactor; lamb's ratio; decay of matrices alone, which the program's groups of parameters "
       "are for",
       write_optimizer},
      {{"train.moments"},
       {},
       "bf16",
       [](Writer& w) {
         if (w.from.half_moments()) w.cannot("moments are float32");
       }},
      {{"train.fused_optimizer"}, {}, "its AdamW always updates many tensors at once"},
      {{"train.clip_norm"},
       {"gradient_clipping"},
       "",
       [](Writer& w) { w.set("gradient_clipping", w.from.train().clip_norm); }},
  };
}

std::string render(const Source& from, const std::vector<Setting>& settings) {
  Json document = Json::object();
  for (const Setting& s : settings) {
    if (s.name.starts_with("--")) continue;
    Json* place = &document;
    size_t start = 0;
    for (size_t dot = s.name.find('.'); dot != std::string::npos; dot = s.name.find('.', start)) {
      place = &(*place)[s.name.substr(start, dot - start)];
      start = dot + 1;
    }
    (*place)[s.name.substr(start)] = s.value;
  }
  return document.dump(2) + "\n" +
         fmt::format(
             "// deepspeed --num_nodes={} --num_gpus={} PROGRAM.py --deepspeed --deepspeed_config "
             "THIS_FILE\n",
             from.nodes(), from.gpus_per_node());
}

std::vector<std::string> preface(const Source& from) {
  std::vector<std::string> lines{
      "DeepSpeed reads JSON with comments. A reader of plain JSON wants the lines that begin with // taken "
      "out."};
  if (from.replicated() && !from.sharded())
    lines.push_back(
        fmt::format("Without ZeRO buckets of gradients have a size of their own; the plan's have {} MB.",
                    from.parallel().grad_bucket_mb));
  return lines;
}

}  // namespace of_deepspeed
}  // namespace

Framework deepspeed() {
  return {"deepspeed",
          "DeepSpeed (as documented at commit 00376da)",
          "//",
          {},
          {{"github.com/deepspeedai/DeepSpeed docs/_pages/config-json.md",
            "00376da49967bc6a15d70a550200ac67277b1fb4"},
           {"github.com/deepspeedai/DeepSpeed deepspeed/runtime/constants.py",
            "088be892c7499b4f4925d6a31da1e399a19aec20"},
           {"github.com/deepspeedai/DeepSpeed deepspeed/runtime/config.py",
            "029f12b3c6b94750ff9d93c5d7e6e98b603cf78e"},
           {"github.com/deepspeedai/DeepSpeed docs/_tutorials/getting-started.md",
            "a0186adf5de980486759a4aa429e10f28b6f79aa"}},
          of_deepspeed::make_rows(),
          of_deepspeed::render,
          of_deepspeed::preface};
}

}  // namespace boxcar::cli::exports

// torchtitan: the TOML file that `torchrun -m torchtitan.train --job.config_file FILE` reads. (Version 0.2
// moved training.compile to a section of its own; from 0.3 on configurations are Python.)
//
// Names and their meaning: torchtitan/config/job_config.py of github.com/pytorch/torchtitan at commit
// 6404b932421f5ce382e7dac5ad381b2c17b1373c. Micro-batches, stages and names of modules:
// torchtitan/distributed/pipeline_parallel.py (02ef790c79614758f85880e173d2338d7de502a3). The loss, which
// training.compile compiles too: torchtitan/components/loss.py. Its models have sizes in Python, as flavors:
// torchtitan/models/llama3/__init__.py.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "cli/export/export.h"
#include "planner/sharding.h"

namespace boxcar::cli::exports {
namespace {
namespace of_torchtitan {

using ir::Precision;
using ir::Recompute;

// Flavors of llama3 that torchtitan has, and the numbers of all of them.
constexpr double flavor_epsilon = 1e-5, flavor_base = 500'000;
struct Flavor {
  const char* name;
  int64_t hidden, layers, heads, kv_heads, ffn;
};
constexpr Flavor flavors[] = {
    {"8B", 4096, 32, 32, 8, 14336}, {"70B", 8192, 80, 64, 8, 28672}, {"405B", 16384, 126, 128, 8, 53248}};

const Flavor* flavor_of(const ir::models::Transformer& m) {
  const auto* const found = std::find_if(std::begin(flavors), std::end(flavors), [&](const Flavor& f) {
    return f.hidden == m.hidden && f.layers == m.layers && f.heads == m.heads && f.kv_heads == m.kv_heads &&
           f.ffn == m.ffn;
  });
  return found == std::end(flavors) ? nullptr : found;
}

// The width of the feed-forward layer is 8/3 x dim x ffn_dim_multiplier, rounded up to a multiple of
// multiple_of.
std::string new_flavor(const ir::models::Transformer& m) {
  const double usual = 8.0 / 3 * static_cast<double>(m.hidden);
  const double multiplier = std::floor(1e4 * static_cast<double>(m.ffn) / usual) / 1e4;
  return fmt::format(
      "\"boxcar\": TransformerModelArgs(dim={}, n_layers={}, n_heads={}, n_kv_heads={}, vocab_size={}, "
      "multiple_of={}, "
      "ffn_dim_multiplier={}, norm_eps={}, rope_theta={}, max_seq_len={})",
      m.hidden, m.layers, m.heads, m.kv_heads, m.vocab, m.ffn, std::max(1e-4, multiplier), m.norm_epsilon,
      number(m.rotary_base).dump(), m.seq);
}

// ZeRO: FSDP shards parameters, gradients and states; kept whole after the forward pass ("never") it is
// ZeRO 2. DDP, which replicates, is for data parallelism alone.
bool only_replicates(const Source& from) {
  const planner::Hints& h = from.parallel();
  return h.zero == 0 && h.tp == 1 && h.pp == 1 && h.cp == 1;
}

void write_model(Writer& w) {
  const ir::models::Transformer& m = w.from.model();
  const Flavor* flavor = flavor_of(m);
  w.set("model.name", "llama3");
  w.set("model.flavor", flavor ? flavor->name : "boxcar");
  if (!flavor)
    w.leave("model.layers",
            "sizes are a flavor in torchtitan/models/llama3/__init__.py; add " + new_flavor(m));
  if (m.family != "llama" && m.family != "gpt") w.cannot("the models are decoders; llama3 is written");
}

void write_vocabulary(Writer& w) {
  constexpr int64_t of_llama3 = 128256;
  const ir::models::Transformer& m = w.from.model();
  if (flavor_of(m) && m.vocab != of_llama3)
    w.leave("model.vocab", fmt::format("the vocabulary is the tokenizer's; give one of {} words", m.vocab));
  if (w.from.padded_vocab() != w.from.model().vocab)
    w.cannot("model.pad_vocab", "the vocabulary is the tokenizer's, and is not padded");
}

void write_structure(Writer& w) {
  const ir::models::Transformer& m = w.from.model();
  if (!w.from.divides_hidden() && !is_latent(m))
    w.cannot("model.head_dim", "heads of llama3 are dim / n_heads wide");
  if (m.qk_norm) w.cannot("model.qk_norm", "llama3 has none");
  if (is_latent(m)) w.cannot("model.kv_lora_rank", "llama3 makes keys from the stream");
  if (m.lora_rank > 0) w.cannot("model.lora_rank", "llama3 has no adapters");
  if (m.attention_window > 0) w.cannot("model.attention_window", "llama3 sees all tokens");
  if (m.full_attention_every > 0) w.cannot("model.full_attention_every", "llama3 sees all tokens");
  if (m.document_length > 0)
    w.leave("model.document_length",
            "give the flavor attn_mask_type=\"block_causal\" and use_flex_attn=True");
  if (m.mlp != "swiglu") w.cannot("model.mlp", "llama3 has swiglu");
  if (m.mlp == "gelu" && m.gelu != "erf") w.cannot("model.gelu", "llama3 has swiglu");
  if (m.norm != "rms") w.cannot("model.norm", "llama3 has rms");
  if (m.position != "rotary") w.cannot("model.position", "llama3 has rotary positions");
  if (m.position == "rotary" && flavor_of(m) && m.rotary_base != flavor_base)
    w.cannot("model.rotary_base", "rope_theta of the flavor is 500,000");
  if (flavor_of(m) && m.norm_epsilon != flavor_epsilon)
    w.cannot("model.norm_epsilon", "norm_eps of the flavor is 1e-5");
  if (m.tied) w.cannot("model.tied", "llama3 has a head of its own");
  if (m.bias) w.cannot("model.bias", "llama3 has none");
  if (!m.bias && m.qkv_bias) w.cannot("model.qkv_bias", "llama3 has none");
  if (m.dropout > 0) w.cannot("model.dropout", "llama3 has none");
  if (m.experts > 0) w.cannot("model.experts", "llama3 is dense, and is written");
  if (m.experts > 0 && m.top_k != 2) w.cannot("model.top_k", "llama3 is dense");
  if (m.experts > 0 && m.expert_ffn != m.ffn) w.cannot("model.expert_ffn", "llama3 is dense");
  if (m.expert_groups > 0) w.cannot("model.expert_groups", "llama3 is dense");
  if (m.top_groups > 0) w.cannot("model.top_groups", "llama3 is dense");
  if (m.router_scores != "softmax") w.cannot("model.router_scores", "llama3 is dense");
  if (m.expert_scale != 1) w.cannot("model.expert_scale", "llama3 is dense");
  if (m.shared_experts > 0) w.cannot("model.shared_experts", "llama3 is dense");
  if (m.dense_layers > 0) w.cannot("model.dense_layers", "llama3 is dense");
  if (m.expert_every > 1) w.cannot("model.expert_every", "llama3 is dense");
  if (m.weigh_inside) w.cannot("model.weigh_inside", "llama3 is dense");
  if (m.masked > 0) w.cannot("model.masked", "the loss is that of all tokens");
  if (m.family == "t5") w.cannot("model.decoder_layers", "llama3 is a decoder alone");
  if (m.family == "t5" && m.decoder_seq != m.seq) w.cannot("model.decoder_seq", "llama3 is a decoder alone");
}

void write_replicas(Writer& w) {
  const planner::Hints& h = w.from.parallel();
  if (only_replicates(w.from)) {
    w.set("parallelism.data_parallel_replicate_degree", h.dp);
    return w.set("parallelism.data_parallel_shard_degree", 1);
  }
  const int shards = planner::sharing_replicas(h);
  w.set("parallelism.data_parallel_replicate_degree", h.dp / shards);
  w.set("parallelism.data_parallel_shard_degree", shards);
  if (h.dp == 1 && h.cp == 1) return;
  w.set("parallelism.fsdp_reshard_after_forward", h.zero == 3 ? "always" : "never");
  if (h.zero == 1) w.cannot("parallel.zero", "FSDP shards gradients too, as zero 2, which is written");
  if (h.zero == 0)
    w.cannot("parallel.zero", "replicas go with no other parallelism; FSDP as of zero 2 is written");
}

// Null if it has no schedule like ours.
const char* pipeline_name(const planner::Hints& h) {
  switch (h.schedule.kind) {
    case planner::Schedule::one_f_one_b:
      if (!h.schedule.in_flight.empty()) return nullptr;
      return h.virtual_stages > 1 ? "Interleaved1F1B" : "1F1B";
    case planner::Schedule::gpipe:
      return "GPipe";
    case planner::Schedule::zb_v:
      return "ZBVZeroBubble";
    case planner::Schedule::dualpipe_v:
      return "DualPipeV";
    case planner::Schedule::zb_h1:
    case planner::Schedule::zb_h2:
      break;
  }
  return nullptr;
}

void write_pipeline(Writer& w) {
  const planner::Hints& h = w.from.parallel();
  w.set("parallelism.pipeline_parallel_degree", h.pp);
  if (!w.from.pipelined()) return;
  const char* const name = pipeline_name(h);
  w.set("parallelism.pipeline_parallel_schedule", name ? name : "1F1B");
  w.set("parallelism.pipeline_parallel_microbatch_size", h.micro_batch);
  if (!name)
    w.cannot("parallel.schedule",
             "1F1B, GPipe, interleaved ones and those in a V are like ours; 1F1B is written");
  if (h.schedule == planner::Schedule::dualpipe_v && w.from.micro_batches() < 2 * h.pp)
    w.cannot("parallel.schedule", "DualPipeV takes a micro-batch for each of 2 x pp stages at least");
  const planner::Groups groups(planner::pipeline_of(h, static_cast<int>(w.from.micro_batches())));
  if (h.schedule == planner::Schedule::one_f_one_b && w.from.micro_batches() % groups.count != 0)
    w.cannot("parallel.virtual_stages", "interleaved stages take micro-batches in groups of one size");
  Json parts = Json::array();
  int layer = 0;
  for (size_t stage = 0; stage < h.stage_layers.size(); ++stage) {
    Json part = Json::array();
    if (stage == 0) part.push_back("tok_embeddings");
    for (int i = 0; i < h.stage_layers[stage]; ++i) part.push_back(fmt::format("layers.{}", layer++));
    if (stage + 1 == h.stage_layers.size()) {
      part.push_back("norm");
      part.push_back("output");
    }
    parts.push_back(std::move(part));
  }
  w.set("parallelism.module_fqns_per_model_part", std::move(parts));
}

void write_batches(Writer& w) {
  const planner::Hints& h = w.from.parallel();
  // A pipeline takes all micro-batches of a step at once.
  w.set("training.local_batch_size", w.from.pipelined() ? w.from.job().global_batch / h.dp : h.micro_batch);
  w.set("training.global_batch_size", w.from.job().global_batch);
}

void write_context_parallelism(Writer& w) {
  const planner::Hints& h = w.from.parallel();
  w.set("parallelism.context_parallel_degree", h.cp);
  if (h.cp == 1) return;
  w.set("parallelism.context_parallel_rotate_method", w.from.rings() ? "alltoall" : "allgather");
  if (!h.gather_keys) w.cannot("parallel.gather_keys", "queries stay, and keys and values are gathered");
}

void write_recompute(Writer& w) {
  const ir::TrainOptions& t = w.from.train();
  const bool ops = t.recompute == Recompute::ops, full = t.recompute == Recompute::full;
  w.set("activation_checkpoint.mode", full ? "full" : ops ? "selective" : "none");
  if (ops) w.set("activation_checkpoint.selective_ac_option", "op");
  if (!w.from.recomputes()) return;
  if (t.recompute == Recompute::selective)
    w.cannot("attention's core has no mode of its own; none is written");
  if (!t.recompute_layers.empty()) w.cannot("parallel.recompute_layers", "all layers are recomputed alike");
  if (t.recompute_others != Recompute::none)
    w.cannot("parallel.recompute_others", "all layers are recomputed alike");
  if (full && !t.recompute_stop)
    w.cannot("parallel.recompute_stop", "PyTorch stops at the last result that the backward pass reads");
}

void write_overlap(Writer& w) {
  const planner::Hints& h = w.from.parallel();
  if (!w.from.replicated()) return;
  if (!h.overlap_grad) w.cannot("gradients are reduced behind the backward pass");
  if (only_replicates(w.from) && h.grad_bucket_mb != 100)
    w.cannot("parallel.grad_bucket_mb", "buckets of 100 MB are written in apply_ddp");
  if (!only_replicates(w.from) && !h.overlap_param)
    w.cannot("parallel.overlap_param", "the next layer is gathered ahead");
}

// torch.compile fuses elementwise chains, patterns and the loss among them; without it nothing is fused.
bool compiles(const Source& from) { return !from.train().off.contains("fuse_elementwise"); }

void write_logits(Writer& w) {
  if (w.from.mixed() && w.from.train().half_logits && !compiles(w.from))
    w.cannot("the loss reads float32 unless torch.compile makes the cast a part of it");
}

void write_fused_loss(Writer& w) {
  if (w.from.train().fused_loss && !compiles(w.from))
    w.cannot("the loss is fused only where torch.compile does so");
}

void write_precision(Writer& w) {
  const Precision precision = w.from.train().precision;
  const planner::Hints& h = w.from.parallel();
  const bool half = w.from.mixed();
  w.set("training.mixed_precision_param", half ? "bfloat16" : "float32");
  w.set("training.mixed_precision_reduce", "float32");
  if (precision == Precision::fp8) {
    w.set("model.converters", Json::array({"float8"}));
    w.set("float8.recipe_name", "tensorwise");
    if (w.from.request.fp8_recipe != "current")
      w.cannot("train.fp8_recipe", "tensors are scaled as they are; tensorwise is written");
  }
  if (precision == Precision::fp16) w.cannot("bfloat16 and float32 are all; bfloat16 is written");
  if (precision == Precision::tf32 || precision == Precision::fp64)
    w.cannot("bfloat16 and float32 are all; float32 is written");
  if (half && h.dp == 1 && h.cp == 1 && (h.tp > 1 || h.pp > 1))
    w.cannot("tensor and pipeline parallelism without FSDP run in float32 there");
}

void write_gradients(Writer& w) {
  if (!w.from.mixed()) return;
  if (w.from.train().gradients != ir::Gradients::float32) w.cannot("gradients are float32");
  if (w.from.reduces_half()) w.cannot("train.grad_reduction", "gradients are reduced in float32");
}

void write_optimizer(Writer& w) {
  const ir::TrainOptions& t = w.from.train();
  w.set("optimizer.name", "AdamW");
  w.set("optimizer.beta1", t.beta1);
  w.set("optimizer.beta2", t.beta2);
  w.set("optimizer.eps", t.eps);
  if (t.optimizer == ir::Optimizer::adam) return;
  w.cannot("Adam and AdamW are all; AdamW is written");
  if (t.optimizer == ir::Optimizer::momentum) w.cannot("train.momentum", "AdamW has none");
}

void write_off(Writer& w) {
  const std::set<std::string>& off = w.from.train().off;
  const bool patterns = !off.contains("fuse_patterns"), elementwise = compiles(w.from);
  w.set("training.compile", elementwise);
  if (patterns && !elementwise) w.cannot("without torch.compile patterns are not fused either");
  if (!patterns && elementwise) w.cannot("torch.compile fuses patterns too");
  std::vector<std::string> others;
  for (const std::string& pass : off)
    if (pass != "fuse_patterns" && pass != "fuse_elementwise") others.push_back(pass);
  if (!others.empty()) w.cannot(fmt::format("{} cannot be switched off", fmt::join(others, ", ")));
}

std::vector<Row> make_rows() {
  return {
      {{"model.family", "model.layers", "model.hidden", "model.heads", "model.kv_heads", "model.ffn"},
       {"model.name", "model.flavor"},
       "sizes that no flavor has; families other than llama",
       write_model},
      {{"model.vocab", "model.pad_vocab"}, {}, "the vocabulary, which is the tokenizer's", write_vocabulary},
      {{"model.head_dim",
        "model.qk_norm",
        "model.attention_window",
        "model.full_attention_every",
        "model.document_length",
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
        "model.mlp",
        "model.gelu",
        "model.norm",
        "model.position",
        "model.tied",
        "model.bias",
        "model.norm_epsilon",
        "model.rotary_base",
        "model.qkv_bias",
        "model.dropout",
        "model.experts",
        "model.top_k",
        "model.expert_groups",
        "model.top_groups",
        "model.router_scores",
        "model.expert_scale",
        "model.expert_every",
        "model.weigh_inside",
        "model.masked",
        "model.decoder_layers",
        "model.decoder_seq"},
       {},
       "it is as in Llama, and what differs is noted",
       write_structure},
      {{"model.seq"},
       {"training.seq_len"},
       "",
       [](Writer& w) { w.set("training.seq_len", w.from.model().seq); }},
      {{"train.global_batch", "parallel.micro_batch"},
       {"training.local_batch_size", "training.global_batch_size"},
       "",
       write_batches},
      {{"train.clip_norm"},
       {"training.max_norm"},
       "",
       [](Writer& w) {
         const double norm = w.from.train().clip_norm;
         w.set("training.max_norm", norm > 0 ? Json(norm) : python("inf"));
       }},
      {{"train.precision", "train.fp8_recipe"},
       {"training.mixed_precision_param", "training.mixed_precision_reduce", "model.converters",
        "float8.recipe_name"},
       "fp16, tf32 and fp64; 16 bits without FSDP; other recipes than current",
       write_precision},
      {{"train.gradients", "train.grad_reduction"}, {}, "half", write_gradients},
      {{"cluster.gpus", "cluster.gpus_per_node"}, {}, "GPUs are those of torchrun, which a comment gives"},
      {{"parallel.dp", "parallel.zero", "parallel.fsdp_group"},
       {"parallelism.data_parallel_replicate_degree", "parallelism.data_parallel_shard_degree",
        "parallelism.fsdp_reshard_after_forward"},
       "zero 1; zero 0 with other parallelism",
       write_replicas},
      {{"parallel.tp"},
       {"parallelism.tensor_parallel_degree"},
       "",
       [](Writer& w) { w.set("parallelism.tensor_parallel_degree", w.from.parallel().tp); }},
      {{"parallel.sequence_parallel"},
       {},
       "false",
       [](Writer& w) {
         if (w.from.parallel().tp > 1 && !w.from.parallel().sequence_parallel)
           w.cannot("tensor parallelism always splits the residual stream by sequence");
       }},
      {{"parallel.overlap_tp"},
       {"parallelism.enable_async_tensor_parallel"},
       "true",
       [](Writer& w) {
         if (w.from.parallel().tp == 1) return;
         w.set("parallelism.enable_async_tensor_parallel", false);
         if (w.from.parallel().overlap_tp)
           w.cannot("only asynchronous tensor parallelism, which wants torch.compile, overlaps collectives");
       }},
      {{"parallel.gather_logits"},
       {"parallelism.disable_loss_parallel"},
       "",
       [](Writer& w) {
         if (w.from.parallel().tp > 1)
           w.set("parallelism.disable_loss_parallel", w.from.parallel().gather_logits);
       }},
      {{"parallel.pp", "parallel.virtual_stages", "parallel.stage_layers", "parallel.schedule"},
       {"parallelism.pipeline_parallel_degree", "parallelism.pipeline_parallel_schedule",
        "parallelism.pipeline_parallel_microbatch_size", "parallelism.module_fqns_per_model_part"},
       "zb-h1, zb-h2, and numbers in flight; virtual stages with groups of several sizes",
       write_pipeline},
      {{"parallel.context_parallel", "parallel.gather_keys"},
       {"parallelism.context_parallel_degree", "parallelism.context_parallel_rotate_method"},
       "an exchange of heads",
       write_context_parallelism},
      {{"parallel.ep", "parallel.etp"},
       {"parallelism.expert_parallel_degree"},
       "llama3 has no experts",
       [](Writer& w) {
         w.set("parallelism.expert_parallel_degree", 1);
         if (w.from.parallel().ep > 1) w.cannot("llama3 has no experts");
       }},
      {{"parallel.recompute", "parallel.recompute_modules", "parallel.recompute_layers",
        "parallel.recompute_others", "parallel.recompute_stop"},
       {"activation_checkpoint.mode", "activation_checkpoint.selective_ac_option"},
       "selective; numbers of layers; full without recompute_stop",
       write_recompute},
      {{"parallel.offload_activations"},
       {},
       "true",
       [](Writer& w) {
         if (w.from.parallel().offload_activations) w.cannot("activations stay on the device");
       }},
      {{"parallel.offload_optimizer"},
       {},
       "true",
       [](Writer& w) {
         if (w.from.parallel().offload_optimizer)
           w.cannot("parameters and gradients would be offloaded too (training.enable_cpu_offload)");
       }},
      {{"parallel.attention"},
       {},
       "unfused",
       [](Writer& w) {
         if (!w.from.train().flash) w.cannot("attention is one fused kernel");
       }},
      {{"parallel.attention_kernel"},
       {},
       "another kernel than the one that is installed",
       [](Writer& w) {
         if (w.from.train().flash && w.from.request.attention_kernel == "flash1")
           w.cannot("the kernel is the one that is installed");
       }},
      {{"parallel.overlap_grad", "parallel.overlap_param", "parallel.grad_bucket_mb"},
       {},
       "false; buckets of other sizes than 100 MB with zero 0",
       write_overlap},
      {{"parallel.scatter_gather"},
       {},
       "true",
       [](Writer& w) {
         if (w.from.parallel().scatter_gather && w.from.pipelined() && w.from.parallel().tp > 1)
           w.cannot("stages send what each rank holds");
       }},
      {{"parallel.defer_head_grad"},
       {},
       "above 0",
       [](Writer& w) {
         if (w.from.parallel().defer_head_grad > 0 && w.from.pipelined()) w.cannot("no gradient waits");
       }},
      {{"parallel.mesh_order"},
       {},
       "other orders than pp,dp,cp,tp",
       [](Writer& w) {
         if (!w.from.stands_as("pp,dp,cp,tp")) w.cannot("ranks stand as in pp,dp,cp,tp");
       }},
      {{"train.logits"}, {}, "half without torch.compile", write_logits},
      {{"train.fused_loss"}, {}, "true without torch.compile", write_fused_loss},
      {{"train.epilogues"},
       {},
       "true",
       [](Writer& w) {
         if (w.from.train().epilogues) w.cannot("products are kernels of their own");
       }},
      {{"train.optimizer", "train.momentum", "train.beta1", "train.beta2", "train.eps",
        "train.trust_coefficient"},
       {"optimizer.name", "optimizer.beta1", "optimizer.beta2", "optimizer.eps"},
       "optimizers other than adam",
       write_optimizer},
      {{"train.moments"},
       {},
       "bf16",
       [](Writer& w) {
         if (w.from.half_moments()) w.cannot("moments are float32");
       }},
      {{"train.fused_optimizer"},
       {"optimizer.implementation"},
       "",
       [](Writer& w) {
         if (w.from.parallel().fused_optimizer) w.set("optimizer.implementation", "fused");
       }},
      {{"train.learning_rate"},
       {"optimizer.lr"},
       "",
       [](Writer& w) { w.set("optimizer.lr", w.from.train().learning_rate); }},
      {{"train.weight_decay"},
       {"optimizer.weight_decay"},
       "of matrices alone",
       [](Writer& w) {
         w.set("optimizer.weight_decay", w.from.train().weight_decay);
         if (w.from.train().weight_decay > 0) w.cannot("norms decay too");
       }},
      {{"train.off"},
       {"training.compile"},
       "one of fuse_patterns and fuse_elementwise alone; other passes",
       write_off},
  };
}

// As TOML writes it: JSON, except for infinity.
std::string literal(const Json& value) {
  return value.is_object() ? value.at("python").get<std::string>() : value.dump();
}

std::string render(const Source&, const std::vector<Setting>& settings) {
  std::string text;
  for (const char* section :
       {"model", "optimizer", "training", "parallelism", "activation_checkpoint", "float8"}) {
    const std::vector<Setting> written = with_prefix(settings, std::string(section) + ".");
    if (written.empty()) continue;
    text += fmt::format("{}[{}]\n", text.empty() ? "" : "\n", section);
    for (const Setting& s : written) text += fmt::format("{} = {}\n", s.name, literal(s.value));
  }
  return text;
}

std::vector<std::string> preface(const Source& from) {
  std::vector<std::string> lines{
      fmt::format(
          "torchrun --nproc-per-node {} --nnodes {} -m torchtitan.train --job.config_file THIS_FILE: steps,",
          from.gpus_per_node(), from.nodes()),
      "data, the tokenizer, the course of the learning rate and checkpoints are yours. torchtitan 0.2 has",
      "enable of a section [compile] in place of training.compile."};
  std::vector<std::string> apart;
  if (from.mixed() && !from.train().half_logits) apart.emplace_back("logits in float32");
  if (!from.train().fused_loss) apart.emplace_back("single kernels");
  if (compiles(from) && !apart.empty())
    lines.push_back(fmt::format("torch.compile fuses the loss, and the cast of its logits; the plan has {}.",
                                fmt::join(apart, " and ")));
  if (from.replicated() && !only_replicates(from) && from.parallel().zero < 3)
    lines.push_back(fmt::format("Gradients are reduced layer by layer; the plan has buckets of {} MB.",
                                from.parallel().grad_bucket_mb));
  return lines;
}

}  // namespace of_torchtitan
}  // namespace

Framework torchtitan() {
  return {"torchtitan",
          "torchtitan (as of commit 6404b93, before 0.2), whose configuration is TOML",
          "#",
          {"gpt", "bert", "llama", "t5"},
          {{"github.com/pytorch/torchtitan torchtitan/config/job_config.py",
            "6404b932421f5ce382e7dac5ad381b2c17b1373c"},
           {"github.com/pytorch/torchtitan torchtitan/distributed/pipeline_parallel.py",
            "02ef790c79614758f85880e173d2338d7de502a3"}},
          of_torchtitan::make_rows(),
          of_torchtitan::render,
          of_torchtitan::preface};
}

}  // namespace boxcar::cli::exports

#include "cli/keys.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "backends/machines/float8_recipe.h"
#include "cli/backend_rows.h"
#include "cli/job_presets.h"
#include "cli/quantities.h"
#include "ir/ops/optimizers.h"
#include "planner/search/dimensions.h"
#include "sbp/error.h"
#include "sbp/words.h"

namespace boxcar::cli {
namespace {

template <typename T>
std::function<Field(Request&)> field(T& (*member)(Request&)) {
  return [member](Request& request) { return Field(&member(request)); };
}

ir::models::ConvNet& net_of(Request& request) {
  if (ir::models::ConvNet* net = request.job.model.conv_net()) return *net;
  throw Error::fault(
      "model", fmt::format("a model of family {} is no convolutional network", request.job.model.family()));
}

#define MODEL(m) field(+[](Request & r) -> auto& { return r.job.model->m; })
#define NET(m) field(+[](Request & r) -> auto& { return net_of(r).m; })
#define PARALLEL(m) field(+[](Request & r) -> auto& { return r.job.parallel.m; })
#define TRAIN(m) field(+[](Request & r) -> auto& { return r.job.train.m; })
#define RUN(m) field(+[](Request & r) -> auto& { return r.run.m; })
#define JOB(m) field(+[](Request & r) -> auto& { return r.job.m; })

constexpr double million = 1e6;

// The help of a key that only one backend has.
std::string of_backend(const std::string& key, const char* help) {
  for (const BackendRow& row : backend_rows())
    if (std::count(row.keys.begin(), row.keys.end(), key) > 0)
      return fmt::format("of backend {}: {}", row.name, help);
  throw Error::fault(key, "is no backend's");
}

// The words of an enum; empty for other fields.
std::vector<std::string> own_words(const Field& field) {
  return std::visit(
      [](auto* p) -> std::vector<std::string> {
        if constexpr (std::is_enum_v<std::remove_pointer_t<decltype(p)>>)
          return words_of(*p);
        else
          return {};
      },
      field);
}

// A request for a model that has keys of `families`.
Request request_of(const std::vector<std::string>& families) {
  Request request;
  if (!families.empty()) request.job.model = ir::models::default_model(families.front());
  return request;
}

Key entry(std::string section, std::string name, std::function<Field(Request&)> field, double least,
          double most, std::string help, std::vector<std::string> families = {}) {
  std::string flag = "--" + name;
  std::replace(flag.begin(), flag.end(), '_', '-');
  Request request = request_of(families);
  std::vector<std::string> words = own_words(field(request));
  return {std::move(section),
          std::move(name),
          std::move(flag),
          "",
          std::move(field),
          least,
          most,
          std::move(words),
          false,
          std::move(help),
          std::move(families),
          ""};
}
Key otherwise(std::string fallback, Key key) {
  key.fallback = std::move(fallback);
  return key;
}
Key rare(Key key) {
  key.rare = true;
  return key;
}
Key modules(Key key) {  // all but none
  key.words = words_of(ir::Module());
  key.words.erase(key.words.begin());
  return key;
}
Key needed(Key key) {
  key.required = true;
  return key;
}
Key known_as(Key key, std::string flag) {
  key.alias = std::exchange(key.flag, std::move(flag));
  return key;
}
Key choice(std::string section, std::string name, std::function<Field(Request&)> field,
           std::vector<std::string> words, std::string help) {
  Key key = entry(std::move(section), std::move(name), std::move(field), 0, 0, std::move(help));
  key.words = std::move(words);
  return key;
}

// A key that is searched, from its row.
Key searched(const search::Dimension& d) {
  const auto field = [](auto member) -> std::function<Field(Request&)> {
    return [member](Request& request) { return Field(&search::field(request.job, member)); };
  };
  Key key = entry("parallel", d.name_in_file(), std::visit(field, d.field), d.least, d.most, d.flag.help);
  if (!d.flag.words.empty()) key.words = d.flag.words;
  key.fallback = d.flag.fallback, key.alias = d.flag.alias;
  return key;
}

// Keys of section parallel that are not searched.
void add_not_searched(std::vector<Key>& k) {
  k.push_back(rare(otherwise(
      "core_attn",
      modules(entry("parallel", "recompute_modules", TRAIN(recompute_modules), 0, 0,
                    "with selective: parts of a layer computed again, such as core_attn,moe_act")))));
  k.push_back(entry("parallel", "recompute_stop", TRAIN(recompute_stop), 0, 1,
                    "with full: a layer runs again only as far as its backward pass needs"));
  k.push_back(otherwise(
      "flash if the device has a kernel for it and precision is in 16 or 8 bits, or with document_length",
      choice("parallel", "attention", TRAIN(flash), {"unfused", "flash"},
             "attention as one kernel, or as products and softmax")));
  k.push_back(otherwise(
      "the framework's, or the device's",
      entry("parallel", "attention_kernel", field(+[](Request & r) -> auto& { return r.attention_kernel; }),
            0, 0, "with attention flash: the kernel that is simulated, as the device names it")));
  k.push_back(entry("parallel", "grad_bucket_mb", PARALLEL(grad_bucket_mb), 1, million,
                    "gradients reduced together, in MB"));
  k.push_back(entry("parallel", "overlap_grad", PARALLEL(overlap_grad), 0, 1,
                    "reduce gradients behind the backward pass"));
  k.push_back(entry("parallel", "overlap_param", PARALLEL(overlap_param), 0, 1,
                    "gather sharded parameters ahead of their use"));
  k.push_back(entry("parallel", "overlap_tp", PARALLEL(overlap_tp), 0, 1,
                    "run weight gradients beside tensor parallelism's collectives"));
  k.push_back(entry("parallel", "scatter_gather", PARALLEL(scatter_gather), 0, 1,
                    "ranks of tp each send a part to the next stage, gathered there"));
  k.push_back(entry("parallel", "defer_head_grad", PARALLEL(defer_head_grad), 0, million,
                    "micro-batches whose gradient of the head's weight waits for the last of them"));
  k.push_back(entry("parallel", "gather_logits", PARALLEL(gather_logits), 0, 1,
                    "gather logits over tp: each rank computes the loss on the whole vocabulary"));
  k.push_back(entry("parallel", "gather_keys", PARALLEL(gather_keys), 0, 1,
                    "with context parallelism fused attention gathers keys and values, queries stay"));
  k.push_back(rare(entry("parallel", "offload_optimizer", PARALLEL(offload_optimizer), 0, 1,
                         "keep master weights and moments in memory of the host, and update them there")));
  k.push_back(rare(entry("parallel", "servers", PARALLEL(servers), 0, million,
                         "parameter servers, each on the hosts of as many replicas; 0: none")));
  k.push_back(rare(entry("parallel", "servers_update", PARALLEL(servers_update), 0, 1,
                         "parameter servers update what they hold; false: they only add up gradients")));
  k.push_back(otherwise("dp", entry("parallel", "fsdp_group", PARALLEL(fsdp_group), 1, million,
                                    "ranks that share one copy of sharded states")));
}

std::vector<std::string> families() {
  std::vector<std::string> all = ir::models::transformer_families();
  const std::vector<std::string>& nets = ir::models::conv_net_families();
  all.insert(all.end(), nets.begin(), nets.end());
  return all;
}

const std::vector<std::string> graph_family{ir::models::GraphModel().family};

void add_transformer_keys(std::vector<Key>& k) {
  const size_t first = k.size();
  k.push_back(needed(entry("model", "hidden", MODEL(hidden), 1, million, "width of the residual stream")));
  k.push_back(needed(entry("model", "heads", MODEL(heads), 1, 10000, "attention heads")));
  k.push_back(needed(entry("model", "seq", MODEL(seq), 1, 100 * million, "tokens in a sequence")));
  k.push_back(needed(entry("model", "vocab", MODEL(vocab), 1, 100 * million, "words of the vocabulary")));
  k.push_back(
      otherwise("4 x hidden; llama: 8/3 x hidden, rounded up to a multiple of 256",
                entry("model", "ffn", MODEL(ffn), 1, 10 * million, "width of the feed-forward layer")));
  k.push_back(
      otherwise("heads", entry("model", "kv_heads", MODEL(kv_heads), 1, 10000, "key and value heads")));
  k.push_back(otherwise("hidden / heads", entry("model", "head_dim", MODEL(head_dim), 1, million,
                                                "width of a head of queries, keys and values")));
  k.push_back(rare(entry("model", "qk_norm", MODEL(qk_norm), 0, 1,
                         "each head's queries and keys go through an RMS norm before positions")));
  k.push_back(rare(entry("model", "attention_window", MODEL(attention_window), 0, 100 * million,
                         "keys that a query sees up to its own, 0: all")));
  k.push_back(rare(entry("model", "full_attention_every", MODEL(full_attention_every), 0, 2000,
                         "with attention_window: layers from one without a window to the next, 0: none")));
  k.push_back(rare(entry("model", "document_length", MODEL(document_length), 0, 100 * million,
                         "mean tokens of the documents that attention stays within, 0: a sequence is one")));
  k.push_back(rare(entry("model", "q_lora_rank", MODEL(q_lora_rank), 0, million,
                         "of latent attention: width that queries are made from, 0: hidden")));
  k.push_back(rare(entry("model", "kv_lora_rank", MODEL(kv_lora_rank), 0, million,
                         "width that keys and values are made from (latent attention), 0: hidden")));
  k.push_back(rare(entry("model", "qk_nope_head_dim", MODEL(qk_nope_head_dim), 0, million,
                         "of latent attention: elements of a head of queries and keys without positions")));
  k.push_back(
      rare(entry("model", "qk_rope_head_dim", MODEL(qk_rope_head_dim), 0, million,
                 "of latent attention: elements with rotary positions, which all heads of keys share")));
  k.push_back(rare(entry("model", "v_head_dim", MODEL(v_head_dim), 0, million,
                         "of latent attention: width of a head of values")));
  k.push_back(rare(entry("model", "lora_rank", MODEL(lora_rank), 0, million,
                         "width of low-rank adapters, which alone are trained, 0: none, all is trained")));
  k.push_back(rare(otherwise("2 x lora_rank", entry("model", "lora_alpha", MODEL(lora_alpha), 0, million,
                                                    "adapters are scaled by lora_alpha / lora_rank"))));
  k.push_back(
      rare(entry("model", "lora_dropout", MODEL(lora_dropout), 0, 1, "dropout of what adapters read")));
  k.push_back(rare(entry("model", "lora_mlp", MODEL(lora_mlp), 0, 1,
                         "adapters in feed-forward layers too, beside attention's")));
  k.push_back(choice("model", "mlp", MODEL(mlp), {"gelu", "swiglu"}, "activation of the feed-forward layer"));
  k.push_back(choice("model", "gelu", MODEL(gelu), {"erf", "tanh"},
                     "of mlp gelu: exact, or as GPT-2 has it, by a hyperbolic tangent"));
  k.push_back(choice("model", "norm", MODEL(norm), {"layer", "rms"}, "normalisation"));
  k.push_back(rare(entry("model", "norm_epsilon", MODEL(norm_epsilon), 1e-12, 1,
                         "added to the variance, or to the mean square, before its root is taken")));
  k.push_back(choice("model", "position", MODEL(position), {"learned", "rotary"}, "positions"));
  k.push_back(rare(entry("model", "rotary_base", MODEL(rotary_base), 1, million * million,
                         "of position rotary: base of the angles (rope_theta)")));
  k.push_back(entry("model", "tied", MODEL(tied), 0, 1, "output head shares the word embedding"));
  k.push_back(entry("model", "bias", MODEL(bias), 0, 1, "linear layers have biases"));
  k.push_back(rare(entry("model", "qkv_bias", MODEL(qkv_bias), 0, 1,
                         "without bias: queries, keys and values have biases all the same, as in Qwen2")));
  k.push_back(entry("model", "dropout", MODEL(dropout), 0, 0.99, "dropout probability"));
  k.push_back(entry("model", "pad_vocab", MODEL(pad_vocab_to), 1, million,
                    "tables have a multiple of this x tp words (1: the vocabulary's)"));
  k.push_back(
      entry("model", "experts", MODEL(experts), 0, 100000, "experts of each feed-forward layer, 0: dense"));
  k.push_back(otherwise("2 where there are experts",
                        entry("model", "top_k", MODEL(top_k), 0, 1000, "experts that each token goes to")));
  k.push_back(rare(entry("model", "expert_groups", MODEL(expert_groups), 0, 100000,
                         "groups of experts, of which a token's come from the best top_groups, 0: any")));
  k.push_back(rare(entry("model", "top_groups", MODEL(top_groups), 0, 100000,
                         "with expert_groups: groups that a token's experts come from")));
  k.push_back(rare(choice("model", "router_scores", MODEL(router_scores), {"softmax", "sigmoid"},
                          "what weighs a token's experts, by their scores")));
  k.push_back(rare(entry("model", "expert_scale", MODEL(expert_scale), 1e-6, million,
                         "factor of the weights of a token's experts")));
  k.push_back(otherwise("ffn", entry("model", "expert_ffn", MODEL(expert_ffn), 0, 10 * million,
                                     "width of an expert's feed-forward layer")));
  k.push_back(rare(entry("model", "shared_experts", MODEL(shared_experts), 0, 1000,
                         "experts that every token goes to, beside those")));
  k.push_back(
      rare(entry("model", "dense_layers", MODEL(dense_layers), 0, 2000, "first layers without experts")));
  k.push_back(entry("model", "expert_every", MODEL(expert_every), 1, 1000,
                    "layers from one with experts to the next"));
  k.push_back(rare(entry("model", "weigh_inside", MODEL(weigh_inside), 0, 1,
                         "weigh a token's experts before their second product")));
  for (size_t i = first; i < k.size(); ++i) k[i].families = ir::models::transformer_families();
  k.push_back(entry("model", "masked", MODEL(masked), 0, 100 * million,
                    "pre-training heads over so many tokens of a sequence, 0: a loss over all", {"bert"}));
  k.push_back(
      otherwise("half of layers", entry("model", "decoder_layers", MODEL(decoder_layers), 1, 2000,
                                        "of layers, which count both halves, the decoder's", {"t5"})));
  k.push_back(otherwise("seq", entry("model", "decoder_seq", MODEL(decoder_seq), 1, 100 * million,
                                     "tokens that the decoder reads", {"t5"})));
}

void add_conv_net_keys(std::vector<Key>& k) {
  const std::vector<std::string>& nets = ir::models::conv_net_families();
  k.push_back(needed(
      entry("model", "channels", NET(channels), 1, million, "channels of the first convolution", nets)));
  k.push_back(needed(entry("model", "classes", NET(classes), 1, 100 * million,
                           "classes of images, or of pixels; diffusion_unet: channels of a pixel", nets)));
  k.push_back(entry("model", "width", NET(width), 1, 1000,
                    "how many times as wide blocks are inside (wide_resnet: their 3x3 alone)",
                    {"resnet", "wide_resnet"}));
  k.push_back(entry("model", "image", NET(image), 1, 100000, "rows and columns of an image", nets));
  k.push_back(entry("model", "channels_last", NET(channels_last), 0, 1,
                    "an image's channels beside each other, as tensor cores read them", nets));
}

// Bounds are those of any possible machine, to catch slips; planner::resolve decides what a job allows.
std::vector<Key> make_keys() {
  std::vector<Key> k;
  k.push_back(
      known_as(choice(
                   "model", "family", field(+[](Request & r) -> auto& { return r.job.model.family(); }),
                   [] {
                     std::vector<std::string> all = families();
                     all.insert(all.end(), graph_family.begin(), graph_family.end());
                     return all;
                   }(),
                   "or a name that `boxcar models` lists, or a config.json"),
               "--model"));
  k.push_back(
      needed(entry("model", "layers", field(+[](Request & r) -> auto& { return r.job.model.layers(); }), 1,
                   2000, "transformer or residual blocks, levels of a U-Net", families())));
  add_transformer_keys(k);
  add_conv_net_keys(k);
  k.push_back(needed(entry("model", "graph", field(+[](Request & r) -> auto& { return r.graph; }), 0, 0,
                           "a file with a forward pass as text, and no --model", graph_family)));

  Key cluster = needed(entry(
      "cluster", "preset", [](Request& r) { return Field(&r.cluster); }, 0, 0,
      "a preset that `boxcar clusters` lists, or a YAML file"));
  cluster.flag = "--cluster";  // --preset is train.preset
  k.push_back(cluster);
  k.push_back(
      otherwise("the cluster's own",
                entry(
                    "cluster", "device", [](Request& r) { return Field(&r.device); }, 0, 0,
                    "other devices in its nodes: a preset, or a YAML file as `boxcar profile` writes")));
  k.push_back(otherwise("dp x tp x pp x context_parallel",
                        entry("cluster", "gpus", JOB(gpus), 1, million, "devices to use")));
  k.push_back(otherwise(
      "all of them",
      entry("cluster", "gpus_per_node", field(+[](Request & r) -> auto& { return r.gpus_per_node; }), 1,
            10000, "GPUs of each node that the job takes: 64 of the 72 of a rack")));
  k.push_back(entry("cluster", "memory_margin", field(+[](Request & r) -> auto& { return r.memory_margin; }),
                    0, 0.9, "share of a device's memory that stays free: 0.08 or 8%"));

  for (const search::Dimension& d : search::dimensions()) {
    if (d.key == "mesh_order") add_not_searched(k);  // the places of ranks and stages come last
    k.push_back(searched(d));
  }

  k.push_back(
      otherwise("dp x micro_batch", entry("train", "global_batch", JOB(global_batch), 1, 1000 * million,
                                          "sequences in an optimizer step, or 4M-tokens")));
  k.push_back(choice("train", "preset", field(+[](Request & r) -> auto& { return r.preset; }), preset_names(),
                     "what is not given is as runs of today have it: see docs/jobs.md"));
  k.push_back(entry("train", "precision", TRAIN(precision), 0, 0,
                    "type of the products; fp64: of everything; fp8: of those in layers, simulated alone"));
  k.push_back(choice("train", "fp8_recipe", field(+[](Request & r) -> auto& { return r.fp8_recipe; }),
                     backends::float8_recipe_names(),
                     "with fp8: how operands of products are scaled and cast"));
  k.push_back(entry("train", "gradients", TRAIN(gradients), 0, 0,
                    "with fp16 and bf16: type of gradients, of embeddings float32 where tables are but"));
  k.push_back(
      rare(entry("train", "moments", TRAIN(moments), 0, 0, "type in which the optimizer keeps its moments")));
  k.push_back(
      entry("train", "grad_reduction", PARALLEL(grad_reduction), 0, 0,
            "with fp16 and bf16: type in which gradients are reduced; sums: that of train.gradients"));
  k.push_back(choice("train", "logits", TRAIN(half_logits), {"float32", "half"},
                     "with fp16 and bf16: type in which the loss reads logits"));
  k.push_back(entry("train", "epilogues", TRAIN(epilogues), 0, 1,
                    "biases, their gradients, GELU by tanh and residuals in the kernels of products"));
  k.push_back(entry("train", "fused_loss", TRAIN(fused_loss), 0, 1,
                    "maximum, sum and pick of the loss in one kernel; where tp splits classes, the sums"));
  k.push_back(entry("train", "optimizer", TRAIN(optimizer), 0, 0, "optimizer"));
  k.push_back(entry("train", "fused_optimizer", PARALLEL(fused_optimizer), 0, 1,
                    "one act updates all tensors of a device and writes their 16-bit copies"));
  k.push_back(rare(entry("train", "sparse_tables", TRAIN(sparse_tables), 0, 1,
                         "a step updates only the rows that it read of a look-up table")));
  k.push_back(entry("train", "clip_norm", TRAIN(clip_norm), 0, million,
                    "gradients clipped to this global norm, 0: not"));
  k.push_back(entry("train", "learning_rate", TRAIN(learning_rate), 0, million, "learning rate"));
  k.push_back(entry("train", "weight_decay", TRAIN(weight_decay), 0, million,
                    "decay of matrices, times the learning rate"));
  k.push_back(entry("train", "momentum", TRAIN(momentum), 0, 0.999999, "of momentum and lars"));
  k.push_back(entry("train", "beta1", TRAIN(beta1), 0, 0.999999,
                    "of adam, lion and lamb: what remains of the mean gradient"));
  k.push_back(entry("train", "beta2", TRAIN(beta2), 0, 0.999999,
                    "of adam and lamb: what remains of the mean square; of lion: of the moment"));
  k.push_back(
      entry("train", "eps", TRAIN(eps), 0, million,
            "of adam, adagrad and lamb: added to the root of squares; of lars: to the gradient's norm"));
  k.push_back(entry("train", "trust_coefficient", TRAIN(trust_coefficient), 0, million,
                    "of lars: the length of a step as a share of the weights' norm"));
  k.push_back(otherwise("none", entry("train", "off", TRAIN(off), 0, 0,
                                      "graph passes switched off: fuse_patterns,fuse_elementwise")));

  k.push_back(entry("train", "routing_skew", JOB(routing_skew), 1, 100000,
                    "simulated: the fullest expert gets so many times the mean of tokens"));
  k.push_back(entry(
      "train", "stack", field(+[](Request & r) -> auto& { return r.framework; }), 0, 0,
      "the framework that is simulated: its kernels, launches, buckets, memory; a name, or a YAML file"));

  k.push_back(choice("run", "backend", RUN(backend), backend_names(), "what executes the plan"));
  for (const BackendRow& row : backend_rows())
    for (const std::string& name : row.meant) k.back().meant[name] = row.name;
  k.push_back(entry("run", "share_gpus", RUN(share_gpus), 0, 1,
                    of_backend("share_gpus", "more devices than GPUs, several on one")));
  k.push_back(entry("run", "fast", RUN(fast), 0, 1,
                    of_backend("fast", "the quickest kernels by timing them; bits differ from run to run")));
  k.push_back(
      entry("run", "require_fast", RUN(require_fast), 0, 1,
            of_backend("require_fast", "refuse to train where an op has no fast kernel, saying why")));
  k.push_back(entry("run", "algorithms", RUN(algorithms), 0, 0,
                    "of fast: a file where what was timed is kept, so that the next run takes the same"));
  k.push_back(entry("run", "cuda_graph", RUN(cuda_graph), 0, 1,
                    of_backend("cuda_graph", "each step as one CUDA graph, recorded once")));
  k.push_back(
      entry("run", "collective_timeout", RUN(collective_timeout), 1, million,
            of_backend("collective_timeout", "seconds after which a collective between GPUs ends the run")));
  k.push_back(entry(
      "run", "library_memory", RUN(library_memory), 0, million * million,
      of_backend("library_memory", "bytes of a device kept free for libraries, beside NCCL's buffers")));
  k.push_back(entry("run", "data", RUN(data), 0, 0,
                    "text files, .bin files of uint16 tokens or images, a folder or .tar files of JPEG "
                    "images: a.txt,b.txt; random: drawn"));
  k.push_back(entry("run", "decoders", RUN(decoders), 1, 1024,
                    "of JPEG images: threads of each device that decode them"));
  k.push_back(entry("run", "prefetch", RUN(prefetch), 1, 1024,
                    "of JPEG images: micro-batches that are read, and that are decoded, ahead"));
  k.push_back(entry("run", "augment", RUN(augment), 0, 1,
                    "of JPEG images: crop and mirror them at random for training"));
  k.push_back(choice("run", "objective", RUN(spans), {"continuation", "spans"},
                     "of T5 on text: what the decoder writes, the text's continuation or its missing spans"));
  k.push_back(otherwise("vocab - 1", entry("run", "document_end", RUN(document_end), 0, 100 * million,
                                           "with document_length: the token that ends a document")));
  k.push_back(entry("run", "steps", RUN(steps), 1, 1000 * million, "optimizer steps in all"));
  k.push_back(entry("run", "seed", RUN(seed), 0, 1000 * million, "of weights, dropout and the data's order"));
  k.push_back(
      choice("run", "lr_schedule", RUN(lr_schedule), {"cosine", "constant"}, "course of the learning rate"));
  k.push_back(entry("run", "warmup_steps", RUN(warmup_steps), 0, 1000 * million, "steps of linear warm-up"));
  k.push_back(entry("run", "min_learning_rate", RUN(min_learning_rate), 0, million, "where the cosine ends"));
  k.push_back(entry("run", "validate_every", RUN(validate_every), 0, 1000 * million,
                    "steps from one validation to the next (0: none)"));
  k.push_back(entry("run", "validation_fraction", RUN(validation_fraction), 0.0001, 0.9,
                    "share of the data, at its end, kept for validation"));
  k.push_back(entry("run", "validation_batches", RUN(validation_batches), 1, million,
                    "global batches in a validation"));
  k.push_back(entry("run", "log_every", RUN(log_every), 1, million, "steps from one line to the next"));
  k.push_back(entry("run", "checkpoint_dir", RUN(checkpoint_dir), 0, 0, "folder of checkpoints"));
  k.push_back(entry("run", "checkpoint_every", RUN(checkpoint_every), 0, 1000 * million,
                    "steps from one checkpoint to the next (0: at the end alone)"));
  k.push_back(
      entry("run", "keep_checkpoints", RUN(keep_checkpoints), 0, million, "newest ones kept (0: all)"));
  k.push_back(entry("run", "resume", RUN(resume), 0, 1, "go on from the newest checkpoint, if there is one"));
  k.push_back(entry("run", "init_from", RUN(init_from), 0, 0,
                    "model.safetensors of GPT-2, Llama, Mistral or Qwen3, config.json beside it; of other "
                    "models by their names"));
  return k;
}

// A request whose keys have the family's defaults.
Request complete_request(const char* family) {
  Request request = request_of({family});
  if (request.job.model.transformer()) {  // sizes are needed, but irrelevant here
    ir::models::Transformer& model = *request.job.model.operator->();
    model.layers = model.heads = model.seq = model.vocab = 1, model.hidden = 2;
    request.job.model = ir::models::complete(model);
  }
  return request;
}

}  // namespace

bool Key::is_of(const std::string& model_family) const {
  return families.empty() || std::find(families.begin(), families.end(), model_family) != families.end();
}

bool Key::is_switch() const {
  Request request = request_of(families);
  return words.empty() && std::holds_alternative<bool*>(field(request));
}

std::string Key::values() const {
  Request request = request_of(families);
  const Field set = field(request);
  if (std::holds_alternative<std::set<ir::Module>*>(set)) return fmt::format("{},...", fmt::join(words, "|"));
  if (!words.empty()) return fmt::format("{}", fmt::join(words, "|"));
  if (is_switch()) return "true|false";
  if (std::holds_alternative<std::set<std::string>*>(set)) return "PASS,...";
  if (std::holds_alternative<std::vector<int>*>(set)) return "N,N,...";
  return most > 0 ? fmt::format("{}..{}", plain_number(least), plain_number(most)) : "NAME";
}

std::string Key::default_text() const {
  if (required) return "needed";
  if (!fallback.empty()) return fallback;
  static const Request gpt = complete_request("gpt"), llama = complete_request("llama"),
                       resnet = complete_request("resnet");
  if (!is_of("gpt")) return text_of(*this, is_of("resnet") ? resnet : request_of(families));
  const std::string text = text_of(*this, gpt), other = is_of("llama") ? text_of(*this, llama) : text;
  return text == other || name == "family" ? text : fmt::format("{}; llama: {}", text, other);
}

const std::vector<Key>& keys() {
  static const std::vector<Key> table = make_keys();
  return table;
}

std::vector<std::string> sections() { return {"model", "cluster", "parallel", "train", run_section}; }

const Key* find_key(std::string_view section, std::string_view name) {
  for (const Key& key : keys()) {
    if (key.section == section && key.name == name) return &key;
  }
  return nullptr;
}

const Key& key_at(std::string_view path) {
  const size_t dot = path.find('.');
  return *find_key(path.substr(0, dot), path.substr(dot + 1));
}

std::vector<std::string> key_names(std::string_view section) {
  std::vector<std::string> names;
  for (const Key& key : keys())
    if (key.section == section) names.push_back(key.name);
  return names;
}

const Key* key_called(std::string_view name) {
  std::string flag = fmt::format("--{}", name);
  std::replace(flag.begin(), flag.end(), '_', '-');
  for (const Key& key : keys())
    if (key.flag == flag || key.alias == flag) return &key;
  return nullptr;
}

}  // namespace boxcar::cli

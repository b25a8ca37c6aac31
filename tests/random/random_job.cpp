#include "random_job.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <sstream>
#include <stdexcept>

#include "ir/models/conv_net.h"

namespace boxcar::tests {
namespace {

std::vector<std::string> passes() {
  std::vector<std::string> values{"[]"};
  for (const std::string& name : ir::pass_names()) values.push_back(name);
  values.push_back("fuse_patterns,fuse_elementwise");
  values.push_back("fuse_patterns,fuse_loss,fuse_products");
  return values;
}

// Sizes are the smallest that can be split in every way.
std::vector<Dimension> make_dimensions() {
  const std::vector<std::string> no_yes{"false", "true"}, yes_no{"true", "false"};
  return {
      {"model.family",
       {"gpt", "bert", "llama", "t5", "resnet", "wide_resnet", "alexnet", "unet", "diffusion_unet"}},
      {"model.layers", {"2", "1", "3", "4", "5", "6", "8", "16"}},
      {"model.hidden", {"8", "2", "12", "16", "24"}},
      {"model.heads", {"4", "1", "2", "3", "6", "8"}},
      {"model.seq", {"4", "6", "8"}},
      {"model.vocab", {"10", "16", "17"}},
      {"model.ffn", {"16", "", "6", "24"}},
      {"model.kv_heads", {"", "1", "2", "3", "4"}},
      {"model.head_dim", {"", "4", "6"}},
      {"model.qk_norm", no_yes},
      {"model.attention_window", {"0", "1", "3"}},
      {"model.full_attention_every", {"0", "2", "1"}},
      {"model.document_length", {"0", "3"}},
      {"model.q_lora_rank", {"0", "6"}},
      {"model.kv_lora_rank", {"0", "4"}},
      {"model.qk_nope_head_dim", {"0", "3"}},
      {"model.qk_rope_head_dim", {"0", "2"}},
      {"model.v_head_dim", {"0", "5"}},
      {"model.lora_rank", {"0", "2"}},
      {"model.lora_alpha", {"", "3"}},
      {"model.lora_dropout", {"0", "0.1"}},
      {"model.lora_mlp", no_yes},
      {"model.mlp", {"", "gelu", "swiglu"}},
      {"model.gelu", {"erf", "tanh"}},
      {"model.norm", {"", "layer", "rms"}},
      {"model.norm_epsilon", {"1e-05", "0.01"}},
      {"model.position", {"", "learned", "rotary"}},
      {"model.rotary_base", {"10000", "100"}},
      {"model.tied", {"", "true", "false"}},
      {"model.bias", {"", "true", "false"}},
      {"model.qkv_bias", no_yes},
      {"model.dropout", {"0", "0.1"}},
      {"model.pad_vocab", {"1", "8"}},
      {"model.experts", {"0", "2", "4"}},
      {"model.top_k", {"", "1", "2"}},
      {"model.expert_groups", {"0", "2"}},
      {"model.top_groups", {"0", "1", "2"}},
      {"model.router_scores", {"softmax", "sigmoid"}},
      {"model.expert_scale", {"1", "2.5"}},
      {"model.expert_ffn", {"", "4", "12"}},
      {"model.shared_experts", {"0", "1", "2"}},
      {"model.dense_layers", {"0", "1"}},
      {"model.expert_every", {"1", "2"}},
      {"model.weigh_inside", no_yes},
      {"model.masked", {"0", "1"}},
      {"model.decoder_layers", {"", "1", "2"}},
      {"model.decoder_seq", {"", "2", "4"}},
      {"model.channels", {"8", "2", "12", "16"}},
      {"model.classes", {"10", "16"}},
      {"model.width", {"1", "2"}},
      {"model.image", {"32", "4", "8", "63"}},
      {"model.channels_last", no_yes},
      {"cluster.preset",
       {"dgx-a100-80g", "local", "alps-gh200", "dgx-1-v100-16g", "dgx-h100", "hgx-b200",
        "clusters/leaves.yaml", "clusters/torus.yaml"}},
      {"cluster.device", {"", "a100-sxm-40g", "h100-sxm"}},
      {"cluster.gpus", {"", "given"}},
      {"parallel.dp", {"1", "2", "3", "4"}},
      {"parallel.tp", {"1", "2", "3", "4"}},
      {"parallel.pp", {"1", "2", "3", "4"}},
      {"parallel.context_parallel", {"1", "2", "3", "4"}},
      {"parallel.ep", {"1", "2", "4"}},
      {"parallel.etp", {"", "1"}},
      {"parallel.virtual_stages", {"1", "2", "3"}},
      {"parallel.stage_layers", {"", "first", "last", "inside"}},
      {"parallel.micro_batch", {"1", "2", "3"}},
      {"parallel.schedule", {"1f1b", "gpipe", "zb-h1", "zb-h2", "zb-v", "dualpipe-v", "list"}},
      {"parallel.zero", {"0", "1", "2", "3"}},
      {"parallel.sequence_parallel", no_yes},
      {"parallel.recompute", {"none", "selective", "full", "ops"}},
      {"parallel.recompute_modules",
       {"core_attn", "layernorm", "mlp,moe", "moe_act,shared_experts", "mla_up_proj,core_attn"}},
      {"parallel.recompute_stop", no_yes},
      {"parallel.recompute_layers", {"all", "1", "falling", "rising"}},
      {"parallel.recompute_others", {"none", "selective"}},
      {"parallel.attention", {"unfused", "flash"}},
      {"parallel.attention_kernel", {"", "flash2", "flash1"}},
      {"parallel.grad_bucket_mb", {"25", "1"}},
      {"parallel.overlap_grad", yes_no},
      {"parallel.overlap_param", yes_no},
      {"parallel.overlap_tp", yes_no},
      {"parallel.scatter_gather", no_yes},
      {"parallel.defer_head_grad", {"0", "1", "3"}},
      {"parallel.gather_logits", no_yes},
      {"parallel.gather_keys", no_yes},
      {"parallel.offload_activations", no_yes},
      {"parallel.offload_optimizer", no_yes},
      {"parallel.fsdp_group", {"", "2"}},
      {"parallel.servers", {"0", "2", "4"}},
      {"parallel.servers_update", yes_no},
      {"parallel.mesh_order", {"pp,dp,cp,tp", "dp,pp,tp,cp", "cp,tp,dp,pp", "tp,cp,pp,dp"}},
      {"parallel.stage_order", {"", "turned", "reversed"}},
      {"train.global_batch", {"x1", "", "x2", "x3", "x4", "x6"}},
      {"train.precision", {"fp32", "tf32", "fp16", "bf16", "fp64", "fp8"}},
      {"train.fp8_recipe", {"delayed", "current", "blocks", "mxfp8", "nvfp4"}},
      {"train.gradients", {"float32", "half", "half-but-tables"}},
      {"train.moments", {"float32", "bf16"}},
      {"train.grad_reduction", {"sums", "float32", "half"}},
      {"train.logits", {"float32", "half"}},
      {"train.epilogues", no_yes},
      {"train.fused_loss", no_yes},
      {"train.optimizer", {"adam", "sgd", "momentum", "adamw", "adagrad", "lars", "lamb", "adafactor"}},
      {"train.fused_optimizer", no_yes},
      {"train.sparse_tables", no_yes},
      {"train.clip_norm", {"1", "0", "0.01"}},
      {"train.learning_rate", {"0.01", "0.02"}},
      {"train.weight_decay", {"0", "0.1"}},
      {"train.momentum", {"0.9", "0.5"}},
      {"train.beta1", {"0.9", "0.8"}},
      {"train.beta2", {"0.999", "0.95"}},
      {"train.eps", {"1e-08", "0.0001"}},
      {"train.trust_coefficient", {"0.001", "0.01"}},
      {"train.off", passes()},
      {"train.routing_skew", {"1", "1.5"}},
      {"train.stack",
       {"boxcar", "megatron", "deepspeed", "pytorch", "pytorch-compiled", "fsdp", "oneflow", "ngc", "nemo"}},
      {"run.document_end", {"", "2"}},
      {"run.lr_schedule", {"cosine", "constant"}},
      {"run.warmup_steps", {"0", "1"}},
      {"run.min_learning_rate", {"0", "0.001"}},
      {"run.validate_every", {"0", "1"}},
      {"run.validation_fraction", {"0.05", "0.5"}},
      {"run.validation_batches", {"2", "1"}},
      {"run.log_every", {"1", "2"}},
      {"run.checkpoint_every", {"0", "1"}},
      {"run.keep_checkpoints", {"2", "0", "1"}},
      {"run.cuda_graph", no_yes},
      {layouts_dimension, {"hints", "found", "random"}},
  };
}

// Writes values whose text follows from other keys.
class Writer {
 public:
  explicit Writer(const RandomJob& job) : job_(job) {}

  // Empty: the key is left out.
  std::string text(const Dimension& d) const {
    const std::string& value = job_.value(d.path);
    if (d.path == "train.global_batch" && value.starts_with('x'))
      return std::to_string(std::stoi(value.substr(1)) * number("parallel.dp") *
                            number("parallel.micro_batch"));
    if (d.path == "cluster.preset" && value.ends_with(".yaml"))
      return BOXCAR_SOURCE_DIR "/tests/random/" + value;
    if (d.path == "cluster.gpus" && value == "given") return std::to_string(devices());
    if (d.path == "parallel.dp" && job_.value("cluster.gpus") == "given") return "";
    if (d.path == "parallel.stage_layers" && !value.empty()) return stage_layers(value);
    if (d.path == "parallel.schedule" && value == "list") return falling(number("parallel.pp"), 1);
    if (d.path == "parallel.recompute_layers" && value == "falling") return falling(stages(), 0);
    if (d.path == "parallel.recompute_layers" && value == "rising") return rising(stages());
    if (d.path == "parallel.stage_order" && !value.empty()) return stage_order(value == "turned");
    return value;
  }

 private:
  int number(const std::string& path) const { return std::stoi(job_.value(path)); }
  int stages() const { return number("parallel.pp") * number("parallel.virtual_stages"); }
  int devices() const {
    return number("parallel.dp") * number("parallel.tp") * number("parallel.pp") *
           number("parallel.context_parallel");
  }
  // One layer on each stage, the others on the first or the last; or none on these, and the others on the
  // second.
  std::string stage_layers(const std::string& where) const {
    std::vector<int> layers(static_cast<size_t>(stages()), 1);
    if (where == "inside") layers.front() = layers.back() = 0;
    int& most = where == "first"  ? layers.front()
                : where == "last" ? layers.back()
                                  : layers[stages() > 2 ? 1 : 0];
    most += number("model.layers") - std::accumulate(layers.begin(), layers.end(), 0);
    return fmt::format("{}", fmt::join(layers, ","));
  }
  static std::string falling(int count, int least) {
    std::vector<int> all;
    for (int i = count - 1; i >= 0; --i) all.push_back(i + least);
    return fmt::format("{}", fmt::join(all, ","));
  }
  static std::string rising(int count) {
    std::vector<int> all(static_cast<size_t>(count));
    std::iota(all.begin(), all.end(), 0);
    return fmt::format("{}", fmt::join(all, ","));
  }
  std::string stage_order(bool turned) const {
    std::vector<int> order(static_cast<size_t>(number("parallel.pp")));
    std::iota(order.begin(), order.end(), 0);
    if (turned)
      std::rotate(order.begin(), order.begin() + 1, order.end());
    else
      std::reverse(order.begin(), order.end());
    return fmt::format("{}", fmt::join(order, ","));
  }

  const RandomJob& job_;
};

bool is_said(const RandomJob& job, const Dimension& d) {
  if (job.values.contains(d.path)) return true;
  // Sizes are small, and required keys have no default; all other first values are the defaults.
  static const std::vector<std::string> always{
      "model.family",        "model.layers",      "model.hidden",   "model.heads",     "model.seq",
      "model.vocab",         "model.ffn",         "model.dropout",  "model.pad_vocab", "model.image",
      "model.channels",      "model.classes",     "cluster.preset", "parallel.dp",     "train.precision",
      "train.learning_rate", "train.global_batch"};
  return std::find(always.begin(), always.end(), d.path) != always.end();
}

}  // namespace

const std::vector<Dimension>& dimensions() {
  static const std::vector<Dimension> all = make_dimensions();
  return all;
}

const Dimension& dimension(const std::string& path) {
  static const std::map<std::string, const Dimension*> by_path = [] {
    std::map<std::string, const Dimension*> index;
    for (const Dimension& d : dimensions()) index[d.path] = &d;
    return index;
  }();
  return *by_path.at(path);
}

const std::map<std::string, std::string>& fixed_keys() {
  static const std::map<std::string, std::string> keys{
      {"cluster.gpus_per_node", "of nodes that are larger than a job here"},
      {"cluster.memory_margin", "of the memory that a plan may take: no plan depends on it"},
      {"model.graph", "a file; tests/cli/own_model_test.cpp has the laws of such models"},
      {"train.preset", "sets other keys, which are drawn"},
      {"run.backend", "each backend is a law"},
      {"run.share_gpus", "of backend cuda: always, as there are more devices than GPUs"},
      {"run.fast", "of backend cuda: bits differ from run to run"},
      {"run.require_fast", "of backend cuda: what is refused, which no result depends on"},
      {"run.algorithms", "of fast"},
      {"run.collective_timeout", "of backend cuda: a wait, which no result depends on"},
      {"run.library_memory", "of backend cuda: what is refused, which no result depends on"},
      {"run.data", "random"},
      {"run.decoders", "of JPEG images; tests/training/images_test.cpp has their law"},
      {"run.prefetch", "of JPEG images"},
      {"run.augment", "of JPEG images: other data"},
      {"run.objective", "of text: other data"},
      {"run.steps", "two or three"},
      {"run.seed", "one draw of weights is as good as another"},
      {"run.checkpoint_dir", "a folder of the law's own"},
      {"run.resume", "a law"},
      {"run.init_from", "a law of tests/host"},
  };
  return keys;
}

const std::map<std::string, std::string>& fixed_words() {
  static const std::map<std::string, std::string> words{
      {"model.family=graph", "model.graph, a fixed key, implies it"},
      {"train.optimizer=lion", "a sign: plans that sum a gradient in other orders may differ by whole steps"},
  };
  return words;
}

const std::string& RandomJob::value(const std::string& path) const {
  const auto found = values.find(path);
  return found == values.end() ? dimension(path).values.front() : found->second;
}

RandomJob RandomJob::with(const std::string& path, const std::string& value) const {
  RandomJob job = *this;
  if (value == dimension(path).values.front())
    job.values.erase(path);
  else
    job.values[path] = value;
  return job;
}

std::string to_text(const RandomJob& job) {
  std::string text;
  for (const auto& [path, value] : job.values) text += (text.empty() ? "" : " ") + path + "=" + value;
  return text;
}

RandomJob parse_random_job(const std::string& text) {
  RandomJob job;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    const size_t equals = word.find('=');
    const std::string path = word.substr(0, equals);
    if (std::none_of(dimensions().begin(), dimensions().end(), [&](const auto& d) { return d.path == path; }))
      throw std::invalid_argument(fmt::format("{}: no dimension of random jobs", path));
    const std::vector<std::string>& values = dimension(path).values;
    const std::string value = equals == std::string::npos ? "" : word.substr(equals + 1);
    if (std::find(values.begin(), values.end(), value) == values.end())
      throw std::invalid_argument(fmt::format("{}: not one of {}", word, fmt::join(values, " ")));
    job = job.with(path, value);
  }
  return job;
}

cli::GivenKeys given_of(const RandomJob& job, bool run) {
  const Writer writer(job);
  const std::string& family = job.value("model.family");
  cli::GivenKeys given;
  for (const Dimension& d : dimensions()) {
    if (d.path == layouts_dimension || !is_said(job, d)) continue;
    if (!run && d.path.starts_with("run.")) continue;
    const cli::Key& key =
        *cli::find_key(d.path.substr(0, d.path.find('.')), d.path.substr(d.path.find('.') + 1));
    if (!key.is_of(family) && !job.values.contains(d.path)) continue;
    if (const std::string text = writer.text(d); !text.empty()) given[d.path] = {text, key.flag};
  }
  return given;
}

std::vector<std::string> arguments(const RandomJob& job, bool run) {
  std::vector<std::string> flags;
  for (const auto& [path, given] : given_of(job, run)) flags.push_back(given.where + "=" + given.text);
  return flags;
}

}  // namespace boxcar::tests

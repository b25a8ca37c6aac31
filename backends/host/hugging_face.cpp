#include "backends/host/hugging_face.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <string_view>

namespace boxcar::backends::host {
namespace {

// A whole number: its key in transformers, and its key in a job. Without `needed` the family has a default.
struct Size {
  const char *from, *key;
  bool needed = true;
  int64_t least = 1;
};

const std::vector<Size> gpt2_sizes = {{"n_layer", "layers"},   {"n_embd", "hidden"},
                                      {"n_head", "heads"},     {"n_positions", "seq"},
                                      {"vocab_size", "vocab"}, {"n_inner", "ffn", false}};
const std::vector<Size> llama_sizes = {
    {"num_hidden_layers", "layers"},    {"hidden_size", "hidden"},
    {"num_attention_heads", "heads"},   {"num_key_value_heads", "kv_heads", false},
    {"head_dim", "head_dim", false},    {"intermediate_size", "ffn"},
    {"max_position_embeddings", "seq"}, {"vocab_size", "vocab"}};
const std::vector<Size> bert_sizes = {{"num_hidden_layers", "layers"},    {"hidden_size", "hidden"},
                                      {"num_attention_heads", "heads"},   {"intermediate_size", "ffn"},
                                      {"max_position_embeddings", "seq"}, {"vocab_size", "vocab"}};
const std::vector<Size> deepseek_sizes = {{"num_hidden_layers", "layers"},
                                          {"hidden_size", "hidden"},
                                          {"num_attention_heads", "heads"},
                                          {"intermediate_size", "ffn"},
                                          {"max_position_embeddings", "seq"},
                                          {"vocab_size", "vocab"},
                                          {"q_lora_rank", "q_lora_rank", false},
                                          {"kv_lora_rank", "kv_lora_rank"},
                                          {"qk_nope_head_dim", "qk_nope_head_dim"},
                                          {"qk_rope_head_dim", "qk_rope_head_dim"},
                                          {"v_head_dim", "v_head_dim"}};
const std::vector<Size> deepseek_experts = {{"n_routed_experts", "experts"},
                                            {"num_experts_per_tok", "top_k"},
                                            {"moe_intermediate_size", "expert_ffn"},
                                            {"n_shared_experts", "shared_experts", false, 0},
                                            {"first_k_dense_replace", "dense_layers", false, 0}};
const std::vector<Size> mixtral_experts = {{"num_local_experts", "experts"},
                                           {"num_experts_per_tok", "top_k"}};
const std::vector<Size> qwen3_experts = {{"num_experts", "experts"},
                                         {"num_experts_per_tok", "top_k"},
                                         {"moe_intermediate_size", "expert_ffn"},
                                         {"decoder_sparse_step", "expert_every", false}};

// The defaults of the architecture's configuration class, for keys that the file lacks; a row has those that
// differ from Llama's.
struct Row {
  const char *architecture, *type;
  const char* family = "llama";
  const std::vector<Size>& sizes = llama_sizes;
  const std::vector<Size>* experts = nullptr;
  bool tied = false;
  const char *activation_key = "hidden_act", *activation = "silu";
  bool qkv_bias = false, qk_norm = false;
  bool uses_window = true;  // without use_sliding_window
  bool alternates = false;  // every other layer has no window
  bool bias = false;        // of all linear layers
  double norm_epsilon = 1e-6, rotary_base = 10'000;
  int64_t head_dim = 0;         // 0: hidden / heads
  const char* lacks = nullptr;  // parts of it that are not built
};

Row bert(const char* architecture) {
  return {.architecture = architecture,
          .type = "bert",
          .family = "bert",
          .sizes = bert_sizes,
          .tied = true,
          .activation = "gelu",
          .norm_epsilon = 1e-12};
}

const Row rows[] = {
    {.architecture = "GPT2LMHeadModel",
     .type = "gpt2",
     .family = "gpt",
     .sizes = gpt2_sizes,
     .tied = true,
     .activation_key = "activation_function",
     .activation = "gelu_new",
     .norm_epsilon = 1e-5},
    {.architecture = "LlamaForCausalLM", .type = "llama"},
    {.architecture = "MistralForCausalLM", .type = "mistral"},
    {.architecture = "Qwen2ForCausalLM", .type = "qwen2", .qkv_bias = true, .uses_window = false},
    {.architecture = "Qwen3ForCausalLM",
     .type = "qwen3",
     .qk_norm = true,
     .uses_window = false,
     .head_dim = 128},
    {.architecture = "Qwen3MoeForCausalLM",
     .type = "qwen3_moe",
     .experts = &qwen3_experts,
     .qk_norm = true,
     .uses_window = false},
    {.architecture = "MixtralForCausalLM",
     .type = "mixtral",
     .experts = &mixtral_experts,
     .norm_epsilon = 1e-5,
     .rotary_base = 1e6},
    {.architecture = "GptOssForCausalLM",
     .type = "gpt_oss",
     .experts = &mixtral_experts,
     .alternates = true,
     .bias = true,
     .norm_epsilon = 1e-5,
     .rotary_base = 150'000,
     .head_dim = 64,
     .lacks = "sinks of attention, biases of the router and the clamp of SwiGLU are not built"},
    {.architecture = "DeepseekV3ForCausalLM",
     .type = "deepseek_v3",
     .sizes = deepseek_sizes,
     .experts = &deepseek_experts,
     .lacks = "the biases of the router and the prediction of further tokens are not built"},
    bert("BertForMaskedLM"),
    bert("BertForPreTraining"),
};

// The row of its name; a file without one is identified by its type.
const Row& row_of(const JsonObject& config) {
  const std::string name = config.first_text("architectures"), type = config.text("model_type", "");
  std::vector<const char*> known;
  for (const Row& row : rows) {
    if (name.empty() ? type == row.type : name == row.architecture) return row;
    known.push_back(row.architecture);
  }
  if (name.empty())
    config.refuse(fmt::format("has no architectures, expected one of {}", fmt::join(known, ", ")));
  config.refuse(fmt::format("architectures has \"{}\", expected one of {}", name, fmt::join(known, ", ")));
}

bool is_llama(const Row& row) { return std::string_view(row.family) == "llama"; }

// The feed-forward layer's activation; models with others are not built here.
void read_activation(const JsonObject& config, const Row& row, HuggingFaceModel& model) {
  const std::string name = config.text(row.activation_key, row.activation);
  const std::vector<std::string> exact{"gelu", "gelu_python"},
      tanh{"gelu_new", "gelu_fast", "gelu_pytorch_tanh", "gelu_python_tanh"};
  const auto is_of = [&](const std::vector<std::string>& names) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  if (is_llama(row)) {
    if (name != "silu" && name != "swish") config.refuse(row.activation_key, "\"silu\"");
  } else if (is_of(exact) || is_of(tanh)) {
    model.keys["gelu"] = is_of(tanh) ? "tanh" : "erf";
  } else {
    config.refuse(row.activation_key, "\"gelu\", \"gelu_new\", \"gelu_fast\" or \"gelu_pytorch_tanh\"");
  }
}

void read_biases(const JsonObject& config, const Row& row, HuggingFaceModel& model) {
  if (row.qkv_bias) model.keys["qkv_bias"] = "true";
  if (!is_llama(row)) return;
  const bool attention = config.flag("attention_bias", row.bias), mlp = config.flag("mlp_bias", row.bias);
  if (attention || mlp) model.keys["bias"] = "true";
  if (attention != mlp)
    model.notes.push_back(fmt::format("{} alone is not built: all linear layers have biases",
                                      attention ? "attention_bias" : "mlp_bias"));
}

// One probability for all; the largest if they differ.
void read_dropout(const JsonObject& config, const Row& row, HuggingFaceModel& model) {
  const double usual = is_llama(row) ? 0 : 0.1;
  std::vector<const char*> keys{"attention_dropout"};
  if (row.family == std::string_view("gpt")) keys = {"resid_pdrop", "embd_pdrop", "attn_pdrop"};
  if (row.family == std::string_view("bert")) keys = {"hidden_dropout_prob", "attention_probs_dropout_prob"};
  double least = 1, most = 0;
  for (const char* key : keys) {
    const double value = config.number(key, usual);
    least = std::min(least, value), most = std::max(most, value);
  }
  if (most != usual) model.keys["dropout"] = fmt::format("{}", most);
  if (least != most)
    model.notes.push_back(
        fmt::format("{} differ, which is not built: all are {}", fmt::join(keys, ", "), most));
}

// Positions may be given in an object of their own, in newer files with the base.
void read_rotary(const JsonObject& config, const Row& row, HuggingFaceModel& model) {
  double base = config.number("rope_theta", row.rotary_base);
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    if (!config.has(key)) continue;
    const JsonObject rotary = config.object(key);
    base = rotary.number("rope_theta", base);
    const std::string type = rotary.text("rope_type", rotary.text("type", "default"));
    if (type != "default")
      model.notes.push_back(fmt::format("{} {} is not built: positions are not scaled", key, type));
  }
  model.keys["rotary_base"] = fmt::format("{}", base);
}

// Numbers that change results but no shape.
void read_constants(const JsonObject& config, const Row& row, HuggingFaceModel& model) {
  const char* const epsilon = is_llama(row)                            ? "rms_norm_eps"
                              : row.family == std::string_view("bert") ? "layer_norm_eps"
                                                                       : "layer_norm_epsilon";
  model.keys["norm_epsilon"] = fmt::format("{}", config.number(epsilon, row.norm_epsilon));
  if (is_llama(row)) read_rotary(config, row, model);
}

// n if every n-th layer sees all keys; 0: none does. Nothing if layers follow another pattern.
std::optional<int64_t> full_attention_every(const std::vector<std::string>& types) {
  const auto is_full = [&](size_t layer) { return types[layer] != "sliding_attention"; };
  size_t first = 0;
  while (first < types.size() && !is_full(first)) ++first;
  const size_t every = first < types.size() ? first + 1 : 0;
  for (size_t layer = 0; layer < types.size(); ++layer)
    if (is_full(layer) != (every > 0 && (layer + 1) % every == 0)) return {};
  return static_cast<int64_t>(every);
}

// Which layers have the window of `sliding_window`: those that `layer_types` names, otherwise those from
// `max_window_layers` on if an architecture has that, otherwise all.
void read_window(const JsonObject& config, const Row& row, HuggingFaceModel& model) {
  if (!is_llama(row) || !config.has("sliding_window") || !config.flag("use_sliding_window", row.uses_window))
    return;
  constexpr int64_t most_layers = 2000;  // of a job
  const int64_t window = config.whole("sliding_window", 1),
                layers = std::min(most_layers, config.whole("num_hidden_layers", 1));
  std::vector<std::string> types = config.texts("layer_types");
  if (types.empty())
    for (int64_t layer = 0; layer < layers; ++layer)
      types.emplace_back(!row.uses_window && layer < config.whole("max_window_layers", 0, 28)
                             ? "full_attention"
                         : row.alternates && layer % 2 == 1 ? "full_attention"
                                                            : "sliding_attention");
  const std::optional<int64_t> every = full_attention_every(types);
  if (!every)
    model.notes.push_back(
        fmt::format("sliding_window {} in some layers, which do not follow each other evenly, is not built: "
                    "all see all keys",
                    window));
  if (!every || *every == 1) return;
  model.keys["attention_window"] = fmt::format("{}", window);
  if (*every > 0) model.keys["full_attention_every"] = fmt::format("{}", *every);
}

void need_shares(const JsonObject& config, bool usual, HuggingFaceModel& model) {
  if (!config.flag("norm_topk_prob", usual))
    model.notes.push_back("norm_topk_prob false is not built: the shares of a token's experts add up to one");
}

// Reads the router of DeepSeek-V3, other than its sizes.
void read_router(const JsonObject& config, HuggingFaceModel& model) {
  const std::string scores = config.text("scoring_func", "sigmoid");
  if (scores != "sigmoid" && scores != "softmax") config.refuse("scoring_func", "\"sigmoid\" or \"softmax\"");
  model.keys["router_scores"] = scores;
  model.keys["expert_groups"] = fmt::format("{}", config.whole("n_group", 1, 8));
  model.keys["top_groups"] = fmt::format("{}", config.whole("topk_group", 1, 4));
  model.keys["expert_scale"] = fmt::format("{}", config.number("routed_scaling_factor", 2.5));
  need_shares(config, true, model);
}

// Reads the keys of the routing of Qwen3's mixtures other than its sizes.
void read_routing(const JsonObject& config, HuggingFaceModel& model) {
  need_shares(config, false, model);
  if (!config.wholes("mlp_only_layers").empty())
    model.notes.push_back("mlp_only_layers is not built: these layers have experts too");
}

}  // namespace

HuggingFaceModel read_hugging_face(const JsonObject& config) {
  const Row& row = row_of(config);
  HuggingFaceModel model{row.family, {}};
  const auto read = [&](const std::vector<Size>& sizes) {
    for (const Size& size : sizes)
      if (size.needed || config.has(size.from))
        model.keys[size.key] = fmt::format("{}", config.whole(size.from, size.least));
  };
  read(row.sizes);
  if (row.experts) read(*row.experts);
  if (row.head_dim > 0) model.keys.try_emplace("head_dim", fmt::format("{}", row.head_dim));
  if (row.qk_norm) model.keys["qk_norm"] = "true";
  if (row.lacks) model.notes.emplace_back(row.lacks);
  model.keys["tied"] = config.flag("tie_word_embeddings", row.tied) ? "true" : "false";
  read_activation(config, row, model);
  read_biases(config, row, model);
  read_dropout(config, row, model);
  read_constants(config, row, model);
  if (row.experts == &qwen3_experts) read_routing(config, model);
  if (row.experts == &deepseek_experts) read_router(config, model);
  read_window(config, row, model);
  return model;
}

}  // namespace boxcar::backends::host

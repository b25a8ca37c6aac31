#include "cli/config_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "backends/host/json_file.h"

namespace boxcar::cli {
namespace {

using backends::host::JsonObject;

// A whole number: where transformers has it, and the key of a job. Without `needed` the family has a default.
struct Size {
  const char *from, *key;
  bool needed = true;
};

const std::vector<Size> gpt2_sizes = {{"n_layer", "layers"},   {"n_embd", "hidden"},
                                      {"n_head", "heads"},     {"n_positions", "seq"},
                                      {"vocab_size", "vocab"}, {"n_inner", "ffn", false}};
const std::vector<Size> llama_sizes = {
    {"num_hidden_layers", "layers"},  {"hidden_size", "hidden"},
    {"num_attention_heads", "heads"}, {"num_key_value_heads", "kv_heads", false},
    {"intermediate_size", "ffn"},     {"max_position_embeddings", "seq"},
    {"vocab_size", "vocab"}};
const std::vector<Size> bert_sizes = {{"num_hidden_layers", "layers"},    {"hidden_size", "hidden"},
                                      {"num_attention_heads", "heads"},   {"intermediate_size", "ffn"},
                                      {"max_position_embeddings", "seq"}, {"vocab_size", "vocab"}};
const std::vector<Size> expert_sizes = {{"num_local_experts", "experts"}, {"num_experts_per_tok", "top_k"}};

struct Architecture {
  const char *name, *family;
  const std::vector<Size>& sizes;
  bool tied;                       // where the file does not say
  const char *activation, *usual;  // key, and what it is where the file does not say
  bool experts = false, qkv_bias = false;
};
const Architecture architectures[] = {
    {"GPT2LMHeadModel", "gpt", gpt2_sizes, true, "activation_function", "gelu_new"},
    {"LlamaForCausalLM", "llama", llama_sizes, false, "hidden_act", "silu"},
    {"MistralForCausalLM", "llama", llama_sizes, false, "hidden_act", "silu"},
    {"Qwen2ForCausalLM", "llama", llama_sizes, false, "hidden_act", "silu", false, true},
    {"MixtralForCausalLM", "llama", llama_sizes, false, "hidden_act", "silu", true},
    {"BertForMaskedLM", "bert", bert_sizes, true, "hidden_act", "gelu"},
    {"BertForPreTraining", "bert", bert_sizes, true, "hidden_act", "gelu"},
};

const Architecture& architecture_of(const JsonObject& config) {
  const std::string name = config.first_text("architectures");
  std::vector<const char*> known;
  for (const Architecture& a : architectures) {
    if (name == a.name) return a;
    known.push_back(a.name);
  }
  if (name.empty())
    config.refuse(fmt::format("has no architectures, expected one of {}", fmt::join(known, ", ")));
  config.refuse(fmt::format("architectures has \"{}\", expected one of {}", name, fmt::join(known, ", ")));
}

bool is_llama(const Architecture& architecture) { return std::string_view(architecture.family) == "llama"; }

// The activation that the feed-forward layer has; of others there is no such model here.
void read_activation(const JsonObject& config, const Architecture& architecture, CatalogModel& model) {
  const std::string name = config.text(architecture.activation, architecture.usual);
  const std::vector<std::string> exact{"gelu", "gelu_python"},
      tanh{"gelu_new", "gelu_fast", "gelu_pytorch_tanh", "gelu_python_tanh"};
  const auto is_of = [&](const std::vector<std::string>& names) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  if (is_llama(architecture)) {
    if (name != "silu" && name != "swish") config.refuse(architecture.activation, "silu");
  } else if (is_of(exact) || is_of(tanh)) {
    model.values["model.gelu"] = is_of(tanh) ? "tanh" : "erf";
  } else {
    config.refuse(architecture.activation, "gelu, gelu_new, gelu_fast or gelu_pytorch_tanh");
  }
}

void read_biases(const JsonObject& config, const Architecture& architecture, CatalogModel& model) {
  if (architecture.qkv_bias) model.values["model.qkv_bias"] = "true";
  if (!is_llama(architecture)) return;
  const bool attention = config.flag("attention_bias", false), mlp = config.flag("mlp_bias", false);
  if (attention || mlp) model.values["model.bias"] = "true";
  if (attention != mlp)
    model.notes.push_back(fmt::format("{} alone is not built: all linear layers have biases",
                                      attention ? "attention_bias" : "mlp_bias"));
}

// One probability for all; the largest where they differ.
void read_dropout(const JsonObject& config, const Architecture& architecture, CatalogModel& model) {
  const double usual = is_llama(architecture) ? 0 : 0.1;
  std::vector<const char*> keys{"attention_dropout"};
  if (architecture.family == std::string_view("gpt")) keys = {"resid_pdrop", "embd_pdrop", "attn_pdrop"};
  if (architecture.family == std::string_view("bert"))
    keys = {"hidden_dropout_prob", "attention_probs_dropout_prob"};
  double least = 1, most = 0;
  for (const char* key : keys) {
    const double value = config.number(key, usual);
    least = std::min(least, value), most = std::max(most, value);
  }
  if (most != usual) model.values["model.dropout"] = fmt::format("{}", most);
  if (least != most)
    model.notes.push_back(
        fmt::format("{} differ, which is not built: all are {}", fmt::join(keys, ", "), most));
}

}  // namespace

CatalogModel read_model_config(const std::string& path) {
  const JsonObject config = JsonObject::read(path);
  const Architecture& architecture = architecture_of(config);
  CatalogModel model{path, architecture.family, {}, path};
  const auto read = [&](const std::vector<Size>& sizes) {
    for (const Size& size : sizes)
      if (size.needed || config.has(size.from))
        model.values[fmt::format("model.{}", size.key)] = fmt::format("{}", config.whole(size.from, 1));
  };
  read(architecture.sizes);
  if (architecture.experts) read(expert_sizes);
  model.values["model.tied"] = config.flag("tie_word_embeddings", architecture.tied) ? "true" : "false";
  read_activation(config, architecture, model);
  read_biases(config, architecture, model);
  read_dropout(config, architecture, model);
  if (config.has("sliding_window") && config.flag("use_sliding_window", !architecture.qkv_bias))
    model.window = config.whole("sliding_window", 1);
  const int64_t heads = config.whole(architecture.sizes[2].from, 1),
                hidden = config.whole(architecture.sizes[1].from, 1);
  if (config.has("head_dim") && (hidden % heads != 0 || config.whole("head_dim", 1) != hidden / heads))
    config.refuse("head_dim",
                  fmt::format("hidden / heads = {}, the only one that our models have", hidden / heads));
  return model;
}

}  // namespace boxcar::cli

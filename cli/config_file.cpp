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
  bool tied;  // where the file does not say
  bool experts = false;
};
const Architecture architectures[] = {
    {"GPT2LMHeadModel", "gpt", gpt2_sizes, true},
    {"LlamaForCausalLM", "llama", llama_sizes, false},
    {"MistralForCausalLM", "llama", llama_sizes, false},
    {"Qwen2ForCausalLM", "llama", llama_sizes, false},
    {"MixtralForCausalLM", "llama", llama_sizes, false, true},
    {"BertForMaskedLM", "bert", bert_sizes, true},
    {"BertForPreTraining", "bert", bert_sizes, true},
};

const Architecture& architecture_of(const JsonObject& config) {
  const std::string name = config.first_text("architectures");
  std::vector<const char*> known;
  for (const Architecture& a : architectures) {
    if (name == a.name) return a;
    known.push_back(a.name);
  }
  config.refuse(fmt::format("architectures has \"{}\", expected one of {}", name, fmt::join(known, ", ")));
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
  if (config.flag("attention_bias", false)) model.values["model.bias"] = "true";
  const int64_t heads = config.whole(architecture.sizes[2].from, 1),
                hidden = config.whole(architecture.sizes[1].from, 1);
  if (config.has("head_dim") && config.whole("head_dim", 1) * heads != hidden)
    config.refuse("head_dim",
                  fmt::format("hidden / heads = {}, the only one that our models have", hidden / heads));
  return model;
}

}  // namespace boxcar::cli

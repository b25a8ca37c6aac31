#include "cli/catalog.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <set>
#include <sstream>
#include <utility>

namespace boxcar::cli {
namespace {

struct Row {
  const char *name, *family;
  int layers, hidden, heads, kv_heads, ffn, seq, vocab;
  const char* source;
  const char* more = "";  // other keys: "rotary_base=500000 norm_epsilon=1e-06"
};

// Sequences are those of pre-training before the last stage, which lengthens them (arXiv:2505.09388, section
// 3.2); sizes that the report leaves out are those of config.json at https://huggingface.co/Qwen.
constexpr const char* qwen3 = "Qwen team 2025, arXiv:2505.09388";
#define QWEN3 "head_dim=128 qk_norm=true rotary_base=1000000 norm_epsilon=1e-06"

// Without sinks of attention, biases of the router and the clamp of SwiGLU, and without YaRN's longer
// positions: initial_context_length of config.json at https://huggingface.co/openai/gpt-oss-20b, which has
// the other keys.
constexpr const char* gpt_oss = "OpenAI 2025, arXiv:2508.10925";
#define GPT_OSS "head_dim=64 top_k=4 bias=true attention_window=128 full_attention_every=2 rotary_base=150000"

// Sizes as the named reports state them; kv_heads and ffn 0: the family's default. Epsilons are those of the
// published code: 1e-12 for BERT (github.com/google-research/bert modeling.py, by TensorFlow's layer_norm).
constexpr Row rows[] = {
    {"bert-base", "bert", 12, 768, 12, 0, 0, 512, 30522, "Devlin et al. 2019, arXiv:1810.04805",
     "norm_epsilon=1e-12"},
    {"bert-large", "bert", 24, 1024, 16, 0, 0, 512, 30522, "Devlin et al. 2019, arXiv:1810.04805",
     "norm_epsilon=1e-12"},
    {"gpt2", "gpt", 12, 768, 12, 0, 0, 1024, 50257, "Radford et al. 2019, GPT-2, smallest"},
    {"gpt2-xl", "gpt", 48, 1600, 25, 0, 0, 1024, 50257, "Radford et al. 2019, GPT-2, largest"},
    {"gpt3-175b", "gpt", 96, 12288, 96, 0, 0, 2048, 51200,
     "Brown et al. 2020, arXiv:2005.14165; vocabulary padded as by Megatron-LM"},
    {"llama2-7b", "llama", 32, 4096, 32, 0, 11008, 4096, 32000, "Touvron et al. 2023, arXiv:2307.09288"},
    {"llama2-13b", "llama", 40, 5120, 40, 0, 13824, 4096, 32000, "Touvron et al. 2023, arXiv:2307.09288"},
    {"llama2-70b", "llama", 80, 8192, 64, 8, 28672, 4096, 32000, "Touvron et al. 2023, arXiv:2307.09288"},
    {"llama3-8b", "llama", 32, 4096, 32, 8, 14336, 8192, 128256, "Llama team 2024, arXiv:2407.21783",
     "rotary_base=500000"},
    {"llama3-70b", "llama", 80, 8192, 64, 8, 28672, 8192, 128256, "Llama team 2024, arXiv:2407.21783",
     "rotary_base=500000"},
    {"llama3-405b", "llama", 126, 16384, 128, 8, 53248, 8192, 128256, "Llama team 2024, arXiv:2407.21783",
     "rotary_base=500000"},
    {"mistral-7b", "llama", 32, 4096, 32, 8, 14336, 8192, 32000, "Jiang et al. 2023, arXiv:2310.06825",
     "attention_window=4096"},
    {"mixtral-8x7b", "llama", 32, 4096, 32, 8, 14336, 32768, 32000, "Jiang et al. 2024, arXiv:2401.04088",
     "experts=8 top_k=2 rotary_base=1000000"},
    {"gpt-oss-20b", "llama", 24, 2880, 64, 8, 2880, 4096, 201088, gpt_oss, GPT_OSS " experts=32"},
    {"gpt-oss-120b", "llama", 36, 2880, 64, 8, 2880, 4096, 201088, gpt_oss, GPT_OSS " experts=128"},
    {"deepseek-v3", "llama", 61, 7168, 128, 0, 18432, 4096, 129280, "DeepSeek-AI 2024, arXiv:2412.19437",
     "experts=256 top_k=8 expert_groups=8 top_groups=4 router_scores=sigmoid expert_scale=2.5 "
     "expert_ffn=2048 shared_experts=1 dense_layers=3 q_lora_rank=1536 kv_lora_rank=512 "
     "qk_nope_head_dim=128 qk_rope_head_dim=64 v_head_dim=128 norm_epsilon=1e-06"},
    {"qwen3-0.6b", "llama", 28, 1024, 16, 8, 3072, 4096, 151936, qwen3, QWEN3 " tied=true"},
    {"qwen3-1.7b", "llama", 28, 2048, 16, 8, 6144, 4096, 151936, qwen3, QWEN3 " tied=true"},
    {"qwen3-4b", "llama", 36, 2560, 32, 8, 9728, 4096, 151936, qwen3, QWEN3 " tied=true"},
    {"qwen3-8b", "llama", 36, 4096, 32, 8, 12288, 4096, 151936, qwen3, QWEN3},
    {"qwen3-14b", "llama", 40, 5120, 40, 8, 17408, 4096, 151936, qwen3, QWEN3},
    {"qwen3-32b", "llama", 64, 5120, 64, 8, 25600, 4096, 151936, qwen3, QWEN3},
    {"qwen3-30b-a3b", "llama", 48, 2048, 32, 4, 6144, 4096, 151936, qwen3,
     QWEN3 " experts=128 top_k=8 expert_ffn=768"},
    {"qwen3-235b-a22b", "llama", 94, 4096, 64, 4, 12288, 4096, 151936, qwen3,
     QWEN3 " experts=128 top_k=8 expert_ffn=1536"},
};
#undef QWEN3
#undef GPT_OSS

// As https://huggingface.co has them, with or without the part before the slash. Sizes of Llama 3.1 and 3.3
// are those of Llama 3, except for the longest sequence.
constexpr std::pair<const char*, const char*> hugging_face_names[] = {
    {"google-bert/bert-base-uncased", "bert-base"},
    {"google-bert/bert-large-uncased", "bert-large"},
    {"openai-community/gpt2", "gpt2"},
    {"openai-community/gpt2-xl", "gpt2-xl"},
    {"meta-llama/Llama-2-7b-hf", "llama2-7b"},
    {"meta-llama/Llama-2-7b", "llama2-7b"},
    {"meta-llama/Llama-2-13b-hf", "llama2-13b"},
    {"meta-llama/Llama-2-13b", "llama2-13b"},
    {"meta-llama/Llama-2-70b-hf", "llama2-70b"},
    {"meta-llama/Llama-2-70b", "llama2-70b"},
    {"meta-llama/Meta-Llama-3-8B", "llama3-8b"},
    {"meta-llama/Meta-Llama-3-70B", "llama3-70b"},
    {"meta-llama/Llama-3.1-8B", "llama3-8b"},
    {"meta-llama/Llama-3.1-70B", "llama3-70b"},
    {"meta-llama/Llama-3.1-405B", "llama3-405b"},
    {"meta-llama/Meta-Llama-3.1-8B", "llama3-8b"},
    {"meta-llama/Meta-Llama-3.1-70B", "llama3-70b"},
    {"meta-llama/Meta-Llama-3.1-405B", "llama3-405b"},
    {"meta-llama/Llama-3.3-70B", "llama3-70b"},
    {"mistralai/Mistral-7B-v0.1", "mistral-7b"},
    {"mistralai/Mixtral-8x7B-v0.1", "mixtral-8x7b"},
    {"openai/gpt-oss-20b", "gpt-oss-20b"},
    {"openai/gpt-oss-120b", "gpt-oss-120b"},
    {"deepseek-ai/DeepSeek-V3", "deepseek-v3"},
    {"deepseek-ai/DeepSeek-R1", "deepseek-v3"},
    {"Qwen/Qwen3-0.6B", "qwen3-0.6b"},
    {"Qwen/Qwen3-1.7B", "qwen3-1.7b"},
    {"Qwen/Qwen3-4B", "qwen3-4b"},
    {"Qwen/Qwen3-8B", "qwen3-8b"},
    {"Qwen/Qwen3-14B", "qwen3-14b"},
    {"Qwen/Qwen3-32B", "qwen3-32b"},
    {"Qwen/Qwen3-30B-A3B", "qwen3-30b-a3b"},
    {"Qwen/Qwen3-235B-A22B", "qwen3-235b-a22b"},
};

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  return result;
}

// "Llama-3_70B" as {"3", "70b", "llama"}: words, and numbers with the letter after them.
std::set<std::string> parts_of(std::string_view name) {
  std::set<std::string> parts;
  std::string part;
  const auto end = [&] {
    if (!part.empty()) parts.insert(std::exchange(part, ""));
  };
  const auto is_digit = [](char c) { return (c >= '0' && c <= '9') || c == '.'; };
  for (const char c : lower(name)) {
    const bool letter = c >= 'a' && c <= 'z';
    if (!letter && !is_digit(c)) {
      end();
      continue;
    }
    const bool in_number = !part.empty() && is_digit(part.front());
    if (!part.empty() && (in_number ? !is_digit(part.back()) || (letter && c != 'b' && c != 'm') : !letter))
      end();
    part += c;
  }
  end();
  return parts;
}

// The catalog's name of the model that Hugging Face's name stands for, otherwise `name`.
std::string name_here(std::string_view name) {
  std::string text = lower(name);
  for (const std::string_view tuned : {"-instruct", "-chat-hf", "-chat", "-base"})
    if (text.ends_with(tuned)) {
      text.erase(text.size() - tuned.size());
      break;
    }
  for (const auto& [theirs, ours] : hugging_face_names) {
    const std::string whole = lower(theirs);
    if (text == whole || text == whole.substr(whole.find('/') + 1)) return ours;
  }
  return std::string(name);
}

// Images of 224 x 224 pixels in 1,000 classes; a layer is a block.
struct ResNetRow {
  const char* name;
  int layers, width;
  const char* source;
};
constexpr ResNetRow resnet_rows[] = {
    {"resnet50", 16, 1, "He et al. 2016, arXiv:1512.03385; v1.5: strides in the 3x3 convolutions"},
    {"resnet101", 33, 1, "the same"},
    {"resnet152", 50, 1, "the same"},
    {"wide-resnet50-2", 16, 2, "Zagoruyko and Komodakis 2016, arXiv:1605.07146"},
    {"wide-resnet101-2", 33, 2, "the same"},
};

std::vector<CatalogModel> make_catalog() {
  std::vector<CatalogModel> models;
  for (const Row& row : rows) {
    CatalogModel model{row.name, row.family, {}, row.source};
    auto put = [&](const char* key, int value) {
      if (value > 0) model.values[fmt::format("model.{}", key)] = fmt::format("{}", value);
    };
    put("layers", row.layers);
    put("hidden", row.hidden);
    put("heads", row.heads);
    put("kv_heads", row.kv_heads);
    put("ffn", row.ffn);
    put("seq", row.seq);
    put("vocab", row.vocab);
    std::istringstream more(row.more);
    for (std::string word; more >> word;) {
      const size_t equals = word.find('=');
      model.values["model." + word.substr(0, equals)] = word.substr(equals + 1);
    }
    models.push_back(std::move(model));
  }
  for (const ResNetRow& row : resnet_rows)
    models.push_back({row.name,
                      "resnet",
                      {{"model.layers", fmt::format("{}", row.layers)},
                       {"model.width", fmt::format("{}", row.width)},
                       {"model.channels", "64"},
                       {"model.classes", "1000"}},
                      row.source});
  return models;
}

}  // namespace

const std::vector<CatalogModel>& catalog() {
  static const std::vector<CatalogModel> models = make_catalog();
  return models;
}

std::vector<std::string> models_like(std::string_view name) {
  constexpr size_t most = 3;
  const std::set<std::string> asked = parts_of(name);
  std::vector<std::string> names;
  for (const CatalogModel& model : catalog()) {
    const std::set<std::string> parts = parts_of(model.name);
    const bool has_all = std::includes(parts.begin(), parts.end(), asked.begin(), asked.end());
    if (has_all && !asked.empty() && names.size() < most) names.push_back(model.name);
  }
  return names;
}

const CatalogModel* find_model(std::string_view name) {
  const std::string ours = name_here(name);
  for (const CatalogModel& model : catalog()) {
    if (model.name == ours) return &model;
  }
  return nullptr;
}

std::string family_named(const std::string& name) {
  const CatalogModel* model = find_model(name);
  return model ? model->family : name;
}

}  // namespace boxcar::cli

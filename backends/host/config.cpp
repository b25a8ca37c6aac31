// config.json as Hugging Face's transformers has it for GPT-2 and Llama, and the model's own keys.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

#include "backends/host/checkpoint.h"
#include "backends/host/fingerprint.h"
#include "backends/host/hugging_face.h"
#include "backends/host/json_file.h"
#include "backends/host/model_keys.h"
#include "sbp/error.h"

namespace boxcar::backends::host {
namespace {

using ir::models::Transformer;
using Json = nlohmann::ordered_json;

struct Key {
  const char* name;
  std::variant<int64_t Transformer::*, std::string Transformer::*, bool Transformer::*, double Transformer::*>
      field;
  bool newer = false;  // than some files, whose models have its default
};

const Key kKeys[] = {{"family", &Transformer::family},
                     {"layers", &Transformer::layers},
                     {"hidden", &Transformer::hidden},
                     {"heads", &Transformer::heads},
                     {"seq", &Transformer::seq},
                     {"vocab", &Transformer::vocab},
                     {"ffn", &Transformer::ffn},
                     {"kv_heads", &Transformer::kv_heads},
                     {"head_dim", &Transformer::head_dim, true},
                     {"qk_norm", &Transformer::qk_norm, true},
                     {"attention_window", &Transformer::attention_window, true},
                     {"full_attention_every", &Transformer::full_attention_every, true},
                     {"q_lora_rank", &Transformer::q_lora_rank, true},
                     {"kv_lora_rank", &Transformer::kv_lora_rank, true},
                     {"qk_nope_head_dim", &Transformer::qk_nope_head_dim, true},
                     {"qk_rope_head_dim", &Transformer::qk_rope_head_dim, true},
                     {"v_head_dim", &Transformer::v_head_dim, true},
                     {"mlp", &Transformer::mlp},
                     {"gelu", &Transformer::gelu},
                     {"norm", &Transformer::norm},
                     {"norm_epsilon", &Transformer::norm_epsilon, true},
                     {"position", &Transformer::position},
                     {"rotary_base", &Transformer::rotary_base, true},
                     {"tied", &Transformer::tied},
                     {"bias", &Transformer::bias},
                     {"experts", &Transformer::experts},
                     {"top_k", &Transformer::top_k},
                     {"expert_groups", &Transformer::expert_groups, true},
                     {"top_groups", &Transformer::top_groups, true},
                     {"router_scores", &Transformer::router_scores, true},
                     {"expert_scale", &Transformer::expert_scale, true},
                     {"expert_ffn", &Transformer::expert_ffn, true},
                     {"shared_experts", &Transformer::shared_experts, true},
                     {"dense_layers", &Transformer::dense_layers, true},
                     {"expert_every", &Transformer::expert_every, true},
                     {"weigh_inside", &Transformer::weigh_inside, true},
                     {"masked", &Transformer::masked, true},
                     {"decoder_layers", &Transformer::decoder_layers, true},
                     {"decoder_seq", &Transformer::decoder_seq, true},
                     {"lora_rank", &Transformer::lora_rank, true},
                     {"lora_alpha", &Transformer::lora_alpha, true},
                     {"lora_dropout", &Transformer::lora_dropout, true},
                     {"lora_mlp", &Transformer::lora_mlp, true}};

Json value_of(const Transformer& model, const Key& key) {
  return std::visit([&](auto field) { return Json(model.*field); }, key.field);
}

void read_value(const JsonObject& from, const Key& key, int64_t& value) { value = from.whole(key.name, 0); }
void read_value(const JsonObject& from, const Key& key, double& value) { value = from.number(key.name); }
void read_value(const JsonObject& from, const Key& key, std::string& value) { value = from.text(key.name); }
void read_value(const JsonObject& from, const Key& key, bool& value) { value = from.flag(key.name); }

// --- what our ops have

void need_text(const JsonObject& config, const char* key, const std::vector<std::string>& known,
               const std::string& absent) {
  const std::string got = config.text(key, absent);
  if (std::find(known.begin(), known.end(), got) == known.end())
    config.refuse(key, fmt::format("\"{}\"", fmt::join(known, "\" or \"")));
}

void need_flag(const JsonObject& config, const char* key, bool only) {
  if (config.flag(key, only) != only) config.refuse(key, only ? "true" : "false");
}

// --- GPT-2

Json gpt2_config(const Transformer& c) {
  return {{"architectures", {"GPT2LMHeadModel"}},
          {"model_type", "gpt2"},
          {"n_layer", c.layers},
          {"n_embd", c.hidden},
          {"n_head", c.heads},
          {"n_positions", c.seq},
          {"n_inner", c.ffn},
          {"vocab_size", c.vocab},
          {"activation_function", c.gelu == "tanh" ? "gelu_new" : "gelu"},
          {"layer_norm_epsilon", c.norm_epsilon},
          {"embd_pdrop", c.dropout},
          {"resid_pdrop", c.dropout},
          {"attn_pdrop", c.dropout},
          {"tie_word_embeddings", c.tied}};
}

void check_gpt2(const JsonObject& config) {
  const double dropout = config.number("resid_pdrop", 0.1);
  for (const char* key : {"embd_pdrop", "attn_pdrop"})
    if (config.number(key, 0.1) != dropout)
      config.refuse(fmt::format("{} is {} and resid_pdrop {}, expected the same", key,
                                config.number(key, 0.1), dropout));
  need_flag(config, "scale_attn_weights", true);
  need_flag(config, "scale_attn_by_inverse_layer_idx", false);
  need_flag(config, "add_cross_attention", false);
}

// --- Llama

Json llama_config(const Transformer& c) {
  return {{"architectures", {"LlamaForCausalLM"}},
          {"model_type", "llama"},
          {"num_hidden_layers", c.layers},
          {"hidden_size", c.hidden},
          {"num_attention_heads", c.heads},
          {"num_key_value_heads", c.kv_heads},
          {"head_dim", c.head_dim},
          {"intermediate_size", c.ffn},
          {"max_position_embeddings", c.seq},
          {"vocab_size", c.vocab},
          {"hidden_act", "silu"},
          {"rms_norm_eps", c.norm_epsilon},
          {"rope_theta", c.rotary_base},
          {"attention_dropout", c.dropout},
          {"attention_bias", c.bias},
          {"mlp_bias", c.bias},
          {"tie_word_embeddings", c.tied}};
}

void need_unscaled_rotary(const JsonObject& config) {
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    if (!config.has(key)) continue;
    const JsonObject rotary = config.object(key);
    need_text(rotary, rotary.has("rope_type") ? "rope_type" : "type", {"default"}, "default");
  }
}

void check_llama(const JsonObject& config) {
  need_flag(config, "mlp_bias", config.flag("attention_bias", false));
  need_unscaled_rotary(config);
}

// --- Mistral: Llama with a window and no biases

Json mistral_config(const Transformer& c) {
  Json config = llama_config(c);
  config["architectures"] = {"MistralForCausalLM"};
  config["model_type"] = "mistral";
  for (const char* key : {"attention_bias", "mlp_bias"}) config.erase(key);
  config["sliding_window"] = c.attention_window;
  return config;
}

// --- Qwen3: Llama with norms of queries and keys

Json qwen3_config(const Transformer& c) {
  Json config = llama_config(c);
  config["architectures"] = {"Qwen3ForCausalLM"};
  config["model_type"] = "qwen3";
  config.erase("mlp_bias");
  return config;
}

void check_qwen3(const JsonObject& config) {
  need_flag(config, "attention_bias", false);
  need_flag(config, "use_sliding_window", false);  // else layers of the two kinds follow each other unevenly
  need_unscaled_rotary(config);
}

// --- our own

Json own_config(const Transformer& c) {
  Json config = {{"architectures", {"BoxcarTransformer"}}, {"model_type", "boxcar"}};
  config.update(model_keys(c));
  config["dropout"] = c.dropout;
  return config;
}

Transformer read_own(const JsonObject& config) {
  Transformer c = read_model_keys(config);
  c.dropout = config.number("dropout");
  return c;
}

// --- by architecture

void set_value(int64_t& value, const std::string& text) { value = std::stoll(text); }
void set_value(std::string& value, const std::string& text) { value = text; }
void set_value(double& value, const std::string& text) { value = std::stod(text); }
void set_value(bool& value, const std::string& text) { value = text == "true"; }

Transformer model_of(const HuggingFaceModel& read) {
  Transformer c = ir::models::defaults(read.family);
  for (const Key& key : kKeys)
    if (const auto found = read.keys.find(key.name); found != read.keys.end())
      std::visit([&](auto field) { set_value(c.*field, found->second); }, key.field);
  if (const auto dropout = read.keys.find("dropout"); dropout != read.keys.end())
    c.dropout = std::stod(dropout->second);
  return c;
}

struct Format {
  Architecture architecture;
  const char *name, *model_type;
  Json (*write)(const Transformer&);
  void (*check)(const JsonObject&);  // that our ops support its other keys; null: our own format
};

constexpr Format kFormats[] = {
    {Architecture::gpt2, "GPT2LMHeadModel", "gpt2", gpt2_config, check_gpt2},
    {Architecture::llama, "LlamaForCausalLM", "llama", llama_config, check_llama},
    {Architecture::mistral, "MistralForCausalLM", "mistral", mistral_config, need_unscaled_rotary},
    {Architecture::qwen3, "Qwen3ForCausalLM", "qwen3", qwen3_config, check_qwen3},
    {Architecture::own, "BoxcarTransformer", "boxcar", own_config, nullptr},
};

const Format& format_of(const JsonObject& config) {
  const std::string name = config.first_text("architectures"), type = config.text("model_type", "");
  for (const Format& format : kFormats)
    if (name.empty() ? type == format.model_type : name == format.name) return format;
  config.refuse(
      fmt::format("is of a model '{}', expected GPT2LMHeadModel, LlamaForCausalLM, "
                  "MistralForCausalLM or Qwen3ForCausalLM",
                  name.empty() ? type : name));
}

Transformer read(const JsonObject& config) {
  const Format& format = format_of(config);
  if (!format.check) return read_own(config);
  Transformer model = model_of(read_hugging_face(config));
  format.check(config);
  return model;
}

}  // namespace

Json model_keys(const Transformer& model) {
  Json json = Json::object();
  for (const Key& key : kKeys) json[key.name] = value_of(model, key);
  return json;
}

Transformer read_model_keys(const JsonObject& object) {
  Transformer model;
  for (const Key& key : kKeys)
    if (!key.newer || object.has(key.name))
      std::visit([&](auto field) { read_value(object, key, model.*field); }, key.field);
  if (model.head_dim == 0 && model.heads > 0) model.head_dim = model.hidden / model.heads;
  if (model.experts > 0 && model.expert_ffn == 0) model.expert_ffn = model.ffn;
  return model;
}

std::string different_key(const Transformer& got, const Transformer& expected) {
  for (const Key& key : kKeys) {
    const Json a = value_of(got, key), b = value_of(expected, key);
    if (a != b) return fmt::format("{} is {}, expected {}", key.name, a.dump(), b.dump());
  }
  return "";
}

std::string hugging_face_config(const Transformer& model) {
  const Transformer config = ir::models::complete(model);
  const Architecture architecture = architecture_of(config);
  const auto* format = std::find_if(std::begin(kFormats), std::end(kFormats),
                                    [&](const Format& row) { return row.architecture == architecture; });
  return format->write(config).dump(2) + "\n";
}

Transformer read_hugging_face_config(const std::string& path) {
  const JsonObject config = JsonObject::read(path);
  Transformer model = read(config);
  model.pad_vocab_to = 1;
  try {
    return ir::models::complete(model);
  } catch (const Error& error) {
    throw Error::input(path, error.what());
  }
}

Json identity(const ir::models::Model& model) {
  if (const Transformer* transformer = model.transformer())
    return model_keys(ir::models::complete(*transformer));
  if (const ir::models::ConvNet* net = model.conv_net())
    return {{"family", net->family}, {"layers", net->layers}, {"channels", net->channels},
            {"width", net->width},   {"image", net->image},   {"classes", net->classes}};
  return {{"family", model.family()}, {"fingerprint", fingerprint_of(*model.graph())}};
}

std::string different_identity(const JsonObject& got, const ir::models::Model& expected) {
  const std::string family = got.text("family");
  if (family != expected.family())
    return fmt::format("family is \"{}\", expected \"{}\"", family, expected.family());
  if (const Transformer* transformer = expected.transformer())
    return different_key(read_model_keys(got), ir::models::complete(*transformer));
  const Json ours = identity(expected);
  for (const auto& [key, value] : ours.items()) {
    const Json there = value.is_string() ? Json(got.text(key)) : Json(got.whole(key, 0));
    if (there != value) return fmt::format("{} is {}, expected {}", key, there.dump(), value.dump());
  }
  return "";
}

}  // namespace boxcar::backends::host

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "backends/host/checkpoint.h"
#include "backends/host/model_keys.h"
#include "models.h"
#include "temporary.h"

namespace boxcar::tests {
namespace {

using backends::host::Architecture;
using backends::host::different_key;
using backends::host::hugging_face_config;
using backends::host::read_hugging_face_config;
using ir::models::Transformer;

class ConfigRoundTrip : public testing::TestWithParam<Architecture> {};

TEST_P(ConfigRoundTrip, OfRandomModels) {
  const TemporaryFolder folder;
  std::mt19937_64 random(31);
  for (int round = 0; round < 40; ++round) {
    const Transformer model = random_model(random, GetParam());
    const Transformer back = read_hugging_face_config(folder.file("config.json", hugging_face_config(model)));
    EXPECT_EQ(different_key(back, model), "");
    EXPECT_EQ(back.dropout, model.dropout);
    EXPECT_EQ(back.pad_vocab_to, 1);
  }
}

INSTANTIATE_TEST_SUITE_P(HuggingFaceConfig, ConfigRoundTrip,
                         testing::Values(Architecture::gpt2, Architecture::llama, Architecture::mistral,
                                         Architecture::qwen3, Architecture::own));

Transformer sized(const std::string& family) {
  Transformer c = ir::models::defaults(family);
  c.layers = 2;
  c.hidden = 8;
  c.heads = 4;
  c.seq = 16;
  c.vocab = 50;
  return c;
}

TEST(HuggingFaceConfig, Gpt2Text) {
  EXPECT_EQ(hugging_face_config(sized("gpt")), R"({
  "architectures": [
    "GPT2LMHeadModel"
  ],
  "model_type": "gpt2",
  "n_layer": 2,
  "n_embd": 8,
  "n_head": 4,
  "n_positions": 16,
  "n_inner": 32,
  "vocab_size": 50,
  "activation_function": "gelu",
  "layer_norm_epsilon": 1e-05,
  "embd_pdrop": 0.1,
  "resid_pdrop": 0.1,
  "attn_pdrop": 0.1,
  "tie_word_embeddings": true
}
)");
}

TEST(HuggingFaceConfig, LlamaText) {
  Transformer c = sized("llama");
  c.kv_heads = 2;
  EXPECT_EQ(hugging_face_config(c), R"({
  "architectures": [
    "LlamaForCausalLM"
  ],
  "model_type": "llama",
  "num_hidden_layers": 2,
  "hidden_size": 8,
  "num_attention_heads": 4,
  "num_key_value_heads": 2,
  "head_dim": 2,
  "intermediate_size": 256,
  "max_position_embeddings": 16,
  "vocab_size": 50,
  "hidden_act": "silu",
  "rms_norm_eps": 1e-05,
  "rope_theta": 10000.0,
  "attention_dropout": 0.0,
  "attention_bias": false,
  "mlp_bias": false,
  "tie_word_embeddings": false
}
)");
}

TEST(HuggingFaceConfig, GptWithLlamasPartsIsALlama) {
  Transformer c = sized("gpt");
  c.norm = "rms";
  c.position = "rotary";
  c.mlp = "swiglu";
  EXPECT_EQ(backends::host::architecture_of(c), Architecture::llama);
  c.attention_window = 4;
  EXPECT_EQ(backends::host::architecture_of(c), Architecture::own);  // Mistral has no biases
  c.bias = false;
  EXPECT_EQ(backends::host::architecture_of(c), Architecture::mistral);
  c.full_attention_every = 2;
  EXPECT_EQ(backends::host::architecture_of(c), Architecture::own);
  c.attention_window = c.full_attention_every = 0, c.bias = true;
  c.qk_norm = true;
  EXPECT_EQ(backends::host::architecture_of(c), Architecture::own);  // Qwen3 has no biases
  c.bias = false;
  EXPECT_EQ(backends::host::architecture_of(c), Architecture::qwen3);
  c.position = "learned";
  EXPECT_EQ(backends::host::architecture_of(c), Architecture::own);
  EXPECT_EQ(backends::host::architecture_of(sized("bert")), Architecture::own);
}

// OpenAI's smallest, including settings that its file leaves to the defaults.
TEST(HuggingFaceConfig, ReadsPublishedGpt2) {
  const TemporaryFolder folder;
  const Transformer c = read_hugging_face_config(folder.file("config.json", R"({
    "activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"], "attn_pdrop": 0.1,
    "bos_token_id": 50256, "embd_pdrop": 0.1, "eos_token_id": 50256, "initializer_range": 0.02,
    "layer_norm_epsilon": 1e-05, "model_type": "gpt2", "n_ctx": 1024, "n_embd": 768, "n_head": 12,
    "n_layer": 12, "n_positions": 1024, "resid_pdrop": 0.1, "summary_activation": null, "n_inner": null,
    "task_specific_params": {"text-generation": {"do_sample": true, "max_length": 50}}, "vocab_size": 50257})"));
  EXPECT_EQ(ir::models::parameters(c), 124'439'808);
  EXPECT_TRUE(c.tied);
  EXPECT_EQ(c.ffn, 3072);
  EXPECT_EQ(c.gelu, "tanh");
  EXPECT_EQ(c.dropout, 0.1);
}

TEST(HuggingFaceConfig, ReadsPublishedLlama2) {
  const TemporaryFolder folder;
  const Transformer c = read_hugging_face_config(folder.file("config.json", R"({
    "architectures": ["LlamaForCausalLM"], "hidden_act": "silu", "hidden_size": 8192, "intermediate_size": 28672,
    "max_position_embeddings": 4096, "model_type": "llama", "num_attention_heads": 64, "num_hidden_layers": 80,
    "num_key_value_heads": 8, "rms_norm_eps": 1e-05, "rope_scaling": null, "tie_word_embeddings": false,
    "torch_dtype": "float16", "vocab_size": 32000})"));
  EXPECT_EQ(ir::models::parameters(c), 68'976'648'192);
  EXPECT_EQ(c.kv_heads, 8);
  EXPECT_EQ(c.norm_epsilon, 1e-5);
  EXPECT_EQ(c.rotary_base, 10'000);
}

// Meta's of 8B. Its base stands in an object of its own in files that transformers 5 writes.
TEST(HuggingFaceConfig, ReadsPublishedLlama3) {
  const TemporaryFolder folder;
  const std::string sizes = R"({
    "architectures": ["LlamaForCausalLM"], "attention_bias": false, "hidden_act": "silu", "hidden_size": 4096,
    "intermediate_size": 14336, "max_position_embeddings": 8192, "model_type": "llama",
    "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8, "rms_norm_eps": 1e-05,
    "tie_word_embeddings": false, "torch_dtype": "bfloat16", "vocab_size": 128256, )";
  for (const char* base : {R"("rope_scaling": null, "rope_theta": 500000.0})",
                           R"("rope_parameters": {"rope_type": "default", "rope_theta": 500000.0}})"}) {
    const Transformer c = read_hugging_face_config(folder.file("config.json", sizes + base));
    EXPECT_EQ(ir::models::parameters(c), 8'030'261'248);
    EXPECT_EQ(c.rotary_base, 500'000);
    EXPECT_EQ(c.norm_epsilon, 1e-5);
  }
}

// Mistral AI's Nemo of 12B, whose 32 heads are 128 wide beside a residual stream of 5,120.
TEST(HuggingFaceConfig, ReadsPublishedMistralNemo) {
  const TemporaryFolder folder;
  const std::string sizes = R"({
    "hidden_act": "silu", "hidden_size": 5120, "initializer_range": 0.02, "intermediate_size": 14336,
    "max_position_embeddings": 131072, "num_attention_heads": 32, "num_hidden_layers": 40,
    "num_key_value_heads": 8, "rms_norm_eps": 1e-05, "rope_theta": 1000000.0, "sliding_window": null,
    "tie_word_embeddings": false, "vocab_size": 131072, "head_dim": 128, "architectures": ["LlamaForCausalLM"]})";
  const Transformer c = read_hugging_face_config(folder.file("config.json", sizes));
  EXPECT_EQ(c.head_dim, 128);
  EXPECT_EQ(ir::models::parameters(c), 12'247'782'400);
}

// Mistral AI's first of 7B, and a later version without a window.
TEST(HuggingFaceConfig, ReadsPublishedMistral) {
  const TemporaryFolder folder;
  const auto read =
      [&](const char* window) {
        return read_hugging_face_config(folder.file("config.json", R"({
      "architectures": ["MistralForCausalLM"], "hidden_act": "silu", "hidden_size": 4096, "intermediate_size": 14336,
      "max_position_embeddings": 32768, "model_type": "mistral", "num_attention_heads": 32, "num_hidden_layers": 32,
      "num_key_value_heads": 8, "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "tie_word_embeddings": false,
      "vocab_size": 32000, "sliding_window": )" + std::string(window) + "}"));
      };
  const Transformer c = read("4096");
  EXPECT_EQ(c.attention_window, 4096);
  EXPECT_EQ(ir::models::parameters(c), 7'241'732'096);
  EXPECT_EQ(backends::host::architecture_of(c), Architecture::mistral);
  EXPECT_EQ(read("null").attention_window, 0);
}

// Qwen's of 8B.
TEST(HuggingFaceConfig, ReadsPublishedQwen3) {
  const TemporaryFolder folder;
  const std::string sizes = R"({
    "architectures": ["Qwen3ForCausalLM"], "attention_bias": false, "attention_dropout": 0.0, "hidden_act": "silu",
    "head_dim": 128, "hidden_size": 4096, "intermediate_size": 12288, "max_position_embeddings": 40960,
    "max_window_layers": 36, "model_type": "qwen3", "num_attention_heads": 32, "num_hidden_layers": 36,
    "num_key_value_heads": 8, "rms_norm_eps": 1e-06, "rope_scaling": null, "rope_theta": 1000000,
    "sliding_window": null, "tie_word_embeddings": false, "use_sliding_window": false, "vocab_size": 151936})";
  const Transformer c = read_hugging_face_config(folder.file("config.json", sizes));
  EXPECT_TRUE(c.qk_norm);
  EXPECT_EQ(c.rotary_base, 1'000'000);
  EXPECT_EQ(ir::models::parameters(c), 8'190'735'360);
}

// As transformers' configuration classes have them.
TEST(HuggingFaceConfig, NumbersThatAFileLeavesOut) {
  const TemporaryFolder folder;
  const auto read = [&](const char* family, const std::string& key) {
    auto json = nlohmann::ordered_json::parse(hugging_face_config(sized(family)));
    json.erase(key);
    return read_hugging_face_config(folder.file("config.json", json.dump()));
  };
  EXPECT_EQ(read("llama", "rms_norm_eps").norm_epsilon, 1e-6);
  EXPECT_EQ(read("gpt", "layer_norm_epsilon").norm_epsilon, 1e-5);
  EXPECT_EQ(read("llama", "rope_theta").rotary_base, 10'000);
  Transformer qwen3 = sized("llama");
  qwen3.qk_norm = true;
  auto json = nlohmann::ordered_json::parse(hugging_face_config(qwen3));
  json.erase("head_dim");
  EXPECT_EQ(read_hugging_face_config(folder.file("config.json", json.dump())).head_dim, 128);
}

TEST(HuggingFaceConfig, ReadsAModelTypeAlone) {
  const TemporaryFolder folder;
  EXPECT_EQ(read_hugging_face_config(
                folder.file("config.json", R"({"model_type": "gpt2", "n_embd": 4, "n_head": 2, "n_layer": 1,
                                               "n_positions": 8, "vocab_size": 9})"))
                .ffn,
            16);
}

// A good file of one kind with one key changed, and the message.
TEST(HuggingFaceConfig, RefusesWhatOurModelsCannotBe) {
  const TemporaryFolder folder;
  const auto refused = [&](const char* family, const std::string& key, const std::string& value) {
    auto json = nlohmann::ordered_json::parse(hugging_face_config(sized(family)));
    if (value.empty())
      json.erase(key);
    else
      json[key] = nlohmann::ordered_json::parse(value);
    const std::string path = folder.file("config.json", json.dump());
    return message_of(folder, [&] { read_hugging_face_config(path); });
  };
  EXPECT_EQ(refused("gpt", "architectures", R"(["BertModel"])"),
            "2: config.json: is of a model 'BertModel', expected GPT2LMHeadModel, LlamaForCausalLM, "
            "MistralForCausalLM or Qwen3ForCausalLM");
  EXPECT_EQ(refused("gpt", "architectures", "[]"),
            "2: config.json: architectures is [], expected a list of texts");
  EXPECT_EQ(refused("gpt", "n_layer", ""), "2: config.json: has no n_layer");
  EXPECT_EQ(refused("gpt", "n_layer", "0"),
            "2: config.json: n_layer is 0, expected a whole number of at least 1");
  EXPECT_EQ(refused("gpt", "n_layer", "18446744073709551615"),
            "2: config.json: n_layer is 18446744073709551615, expected a whole number of at least 1");
  EXPECT_EQ(refused("gpt", "n_embd", "9000000000000000000"),
            "2: config.json: hidden: is 9000000000000000000, expected at most 2147483647");
  EXPECT_EQ(refused("llama", "head_dim", "4611686018427387904"),
            "2: config.json: head_dim: is 4611686018427387904, expected at most 2147483647");
  EXPECT_EQ(refused("gpt", "n_embd", "\"8\""),
            "2: config.json: n_embd is \"8\", expected a whole number of at least 1");
  EXPECT_EQ(refused("gpt", "n_head", "3"),
            "2: config.json: heads: 3 does not divide hidden 8 (use 1, 2, 4, 8, or give head_dim)");
  EXPECT_EQ(refused("gpt", "activation_function", "\"relu\""),
            "2: config.json: activation_function is \"relu\", expected \"gelu\", \"gelu_new\", "
            "\"gelu_fast\" or \"gelu_pytorch_tanh\"");
  EXPECT_EQ(refused("gpt", "activation_function", "7"),
            "2: config.json: activation_function is 7, expected a text");
  EXPECT_EQ(refused("gpt", "layer_norm_epsilon", "0"),
            "2: config.json: norm_epsilon: is 0, expected above 0 and at most 1");
  EXPECT_EQ(refused("gpt", "embd_pdrop", "0.2"),
            "2: config.json: embd_pdrop is 0.2 and resid_pdrop 0.1, expected the same");
  EXPECT_EQ(refused("gpt", "resid_pdrop", "true"), "2: config.json: resid_pdrop is true, expected a number");
  EXPECT_EQ(refused("gpt", "tie_word_embeddings", "1"),
            "2: config.json: tie_word_embeddings is 1, expected true or false");
  EXPECT_EQ(refused("gpt", "scale_attn_weights", "false"),
            "2: config.json: scale_attn_weights is false, expected true");
  EXPECT_EQ(refused("gpt", "add_cross_attention", "true"),
            "2: config.json: add_cross_attention is true, expected false");
  EXPECT_EQ(refused("llama", "rope_theta", "0.5"),
            "2: config.json: rotary_base: is 0.5, expected at least 1");
  EXPECT_EQ(refused("llama", "rope_scaling", R"({"rope_type": "llama3", "factor": 8})"),
            "2: config.json: rope_scaling: rope_type is \"llama3\", expected \"default\"");
  EXPECT_EQ(refused("llama", "rope_scaling", R"({"type": "linear", "factor": 8})"),
            "2: config.json: rope_scaling: type is \"linear\", expected \"default\"");
  EXPECT_EQ(refused("llama", "rope_scaling", "3"), "2: config.json: rope_scaling is 3, expected an object");
  EXPECT_EQ(refused("llama", "mlp_bias", "true"), "2: config.json: mlp_bias is true, expected false");
  EXPECT_EQ(refused("llama", "head_dim", "3"),
            "2: config.json: head_dim: 3 leaves heads of 3 elements, rotary positions need an even number");
  EXPECT_EQ(refused("llama", "hidden_act", "\"gelu\""),
            "2: config.json: hidden_act is \"gelu\", expected \"silu\"");
}

TEST(HuggingFaceConfig, RefusesWhatIsNoConfig) {
  const TemporaryFolder folder;
  const auto refused = [&](const std::string& path) {
    return message_of(folder, [&] { read_hugging_face_config(path); });
  };
  EXPECT_EQ(refused(folder / "none.json"), "2: none.json: cannot be read: No such file or directory");
  EXPECT_EQ(refused(folder.file("a.json", "{\"n\": ")), "2: a.json:1:7: is not JSON");
  EXPECT_EQ(refused(folder.file("b.json", "[]")), "2: b.json: is no JSON object");
  EXPECT_EQ(refused(folder.file("d.json", "{\"n\": 1e999}")),
            "2: d.json: is JSON with a number beyond a double");
  EXPECT_EQ(refused(folder.file("e.json", std::string(1'000'000, '['))),
            "2: e.json: is JSON that is nested deeper than 64");
  EXPECT_EQ(refused(folder.file("c.json", "{}")),
            "2: c.json: is of a model '', expected GPT2LMHeadModel, LlamaForCausalLM, MistralForCausalLM or "
            "Qwen3ForCausalLM");
}

}  // namespace
}  // namespace boxcar::tests

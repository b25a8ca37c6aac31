#include <gmock/gmock.h>

#include <cstring>
#include <numeric>

#include "backends/host/checkpoint.h"
#include "models.h"
#include "temporary.h"

namespace boxcar::tests {
namespace {

using backends::host::Architecture;
using backends::host::from_hugging_face;
using backends::host::GlobalTensors;
using backends::host::parameter_types;
using backends::host::StoredFile;
using backends::host::StoredTensor;
using backends::host::to_hugging_face;
using ir::DType;
using ir::models::Transformer;
using testing::ElementsAre;
using Numbers = std::vector<float>;

// 0, 1, 2, ... in every tensor, or from another number on.
StoredTensor counted(const ir::Shape& shape, float first = 0) {
  StoredTensor tensor{{shape, DType::float32}, {}};
  Numbers numbers(static_cast<size_t>(tensor.type.elements()));
  std::iota(numbers.begin(), numbers.end(), first);
  const auto bytes = std::as_bytes(std::span(numbers));
  tensor.bytes.assign(bytes.begin(), bytes.end());
  return tensor;
}

GlobalTensors counted_weights(const Transformer& model) {
  GlobalTensors weights;
  for (const auto& [name, type] : parameter_types(model)) weights[name] = counted(type.shape);
  return weights;
}

Numbers numbers(const StoredTensor& tensor) {
  Numbers result(tensor.bytes.size() / sizeof(float));
  std::memcpy(result.data(), tensor.bytes.data(), tensor.bytes.size());
  return result;
}

Transformer tiny(const std::string& family) {
  Transformer c = ir::models::defaults(family);
  c.layers = 1;
  c.hidden = 4;
  c.heads = 2;
  c.seq = 3;
  c.vocab = 5;
  c.ffn = 2;
  c.pad_vocab_to = 1;
  return ir::models::complete(c);
}

std::vector<std::string> listing(const StoredFile& file) {
  std::vector<std::string> lines;
  for (const auto& [name, tensor] : file.tensors) lines.push_back(name + ": " + ir::to_text(tensor.type));
  return lines;
}

TEST(HuggingFaceNames, Gpt2) {
  const StoredFile file = to_hugging_face(tiny("gpt"), counted_weights(tiny("gpt")));
  EXPECT_THAT(
      listing(file),
      ElementsAre(
          "transformer.h.0.attn.c_attn.bias: float32[12]",
          "transformer.h.0.attn.c_attn.weight: float32[4, 12]",
          "transformer.h.0.attn.c_proj.bias: float32[4]", "transformer.h.0.attn.c_proj.weight: float32[4, 4]",
          "transformer.h.0.ln_1.bias: float32[4]", "transformer.h.0.ln_1.weight: float32[4]",
          "transformer.h.0.ln_2.bias: float32[4]", "transformer.h.0.ln_2.weight: float32[4]",
          "transformer.h.0.mlp.c_fc.bias: float32[2]", "transformer.h.0.mlp.c_fc.weight: float32[4, 2]",
          "transformer.h.0.mlp.c_proj.bias: float32[4]", "transformer.h.0.mlp.c_proj.weight: float32[2, 4]",
          "transformer.ln_f.bias: float32[4]", "transformer.ln_f.weight: float32[4]",
          "transformer.wpe.weight: float32[3, 4]", "transformer.wte.weight: float32[5, 4]"));
  EXPECT_EQ(file.metadata.at("format"), "pt");
  // Ours: head 0's q, k, v of two elements each, then head 1's.
  EXPECT_THAT(numbers(file.tensors.at("transformer.h.0.attn.c_attn.bias")),
              ElementsAre(0, 1, 6, 7, 2, 3, 8, 9, 4, 5, 10, 11));
  EXPECT_EQ(numbers(file.tensors.at("transformer.h.0.attn.c_attn.weight"))[14], 18);
  EXPECT_THAT(numbers(file.tensors.at("transformer.h.0.mlp.c_fc.weight")),
              ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
}

TEST(HuggingFaceNames, Llama) {
  Transformer c = tiny("llama");
  c.kv_heads = 1;
  const StoredFile file = to_hugging_face(c, counted_weights(c));
  EXPECT_THAT(
      listing(file),
      ElementsAre("lm_head.weight: float32[5, 4]", "model.embed_tokens.weight: float32[5, 4]",
                  "model.layers.0.input_layernorm.weight: float32[4]",
                  "model.layers.0.mlp.down_proj.weight: float32[4, 2]",
                  "model.layers.0.mlp.gate_proj.weight: float32[2, 4]",
                  "model.layers.0.mlp.up_proj.weight: float32[2, 4]",
                  "model.layers.0.post_attention_layernorm.weight: float32[4]",
                  "model.layers.0.self_attn.k_proj.weight: float32[2, 4]",
                  "model.layers.0.self_attn.o_proj.weight: float32[4, 4]",
                  "model.layers.0.self_attn.q_proj.weight: float32[4, 4]",
                  "model.layers.0.self_attn.v_proj.weight: float32[2, 4]", "model.norm.weight: float32[4]"));
  // Ours: rows of 8, two queries of two elements, the key, the value; gate and up in turn.
  EXPECT_THAT(numbers(file.tensors.at("model.layers.0.self_attn.q_proj.weight")),
              ElementsAre(0, 8, 16, 24, 1, 9, 17, 25, 2, 10, 18, 26, 3, 11, 19, 27));
  EXPECT_THAT(numbers(file.tensors.at("model.layers.0.self_attn.k_proj.weight")),
              ElementsAre(4, 12, 20, 28, 5, 13, 21, 29));
  EXPECT_THAT(numbers(file.tensors.at("model.layers.0.self_attn.v_proj.weight")),
              ElementsAre(6, 14, 22, 30, 7, 15, 23, 31));
  EXPECT_THAT(numbers(file.tensors.at("model.layers.0.mlp.gate_proj.weight")),
              ElementsAre(0, 4, 8, 12, 2, 6, 10, 14));
  EXPECT_THAT(numbers(file.tensors.at("model.layers.0.mlp.up_proj.weight")),
              ElementsAre(1, 5, 9, 13, 3, 7, 11, 15));
  EXPECT_THAT(numbers(file.tensors.at("lm_head.weight")),
              ElementsAre(0, 5, 10, 15, 1, 6, 11, 16, 2, 7, 12, 17, 3, 8, 13, 18, 4, 9, 14, 19));
}

TEST(HuggingFaceNames, Qwen3HasNormsOfQueriesAndKeys) {
  Transformer c = tiny("llama");
  c.qk_norm = true, c.head_dim = 6, c.kv_heads = 1;
  GlobalTensors weights = counted_weights(c);
  weights["h0.attn.ln_k.weight"] = counted({6}, 10);
  const StoredFile file = to_hugging_face(c, weights);
  EXPECT_THAT(numbers(file.tensors.at("model.layers.0.self_attn.q_norm.weight")),
              ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(numbers(file.tensors.at("model.layers.0.self_attn.k_norm.weight")),
              ElementsAre(10, 11, 12, 13, 14, 15));
  EXPECT_EQ(to_text(file.tensors.at("model.layers.0.self_attn.o_proj.weight").type), "float32[4, 12]");
}

class RoundTrip : public testing::TestWithParam<Architecture> {};

TEST_P(RoundTrip, OfRandomModels) {
  std::mt19937_64 random(21);
  for (int round = 0; round < 40; ++round) {
    const Transformer model = random_model(random, GetParam());
    ASSERT_EQ(backends::host::architecture_of(model), GetParam());
    const GlobalTensors weights = random_weights(random, model);
    const StoredFile file = to_hugging_face(model, weights);
    EXPECT_EQ(from_hugging_face(model, file), weights);
  }
}

INSTANTIATE_TEST_SUITE_P(HuggingFaceNames, RoundTrip,
                         testing::Values(Architecture::gpt2, Architecture::llama, Architecture::mistral,
                                         Architecture::qwen3, Architecture::own));

TEST(HuggingFaceNames, KeepTheTypeOfEachTensor) {
  std::mt19937_64 random(22);
  const Transformer model = random_model(random, Architecture::llama);
  GlobalTensors weights;
  for (const auto& [name, type] : parameter_types(model))
    weights[name] =
        random_stored(random, {type.shape, type.shape.size() == 1 ? DType::float64 : DType::bfloat16});
  const StoredFile file = to_hugging_face(model, weights);
  EXPECT_EQ(file.tensors.at("model.norm.weight").type.dtype, DType::float64);
  EXPECT_EQ(from_hugging_face(model, file), weights);
}

TEST(HuggingFaceNames, LeaveThePaddingOfTheVocabularyAway) {
  Transformer model = tiny("llama");
  const GlobalTensors weights = counted_weights(model);
  model.pad_vocab_to = 4;
  const GlobalTensors padded = from_hugging_face(model, to_hugging_face(tiny("llama"), weights));
  ASSERT_EQ(padded.at("embedding.word").type.shape, (ir::Shape{8, 4}));
  ASSERT_EQ(padded.at("head.weight").type.shape, (ir::Shape{4, 8}));
  EXPECT_EQ(numbers(padded.at("embedding.word"))[19], 19);
  EXPECT_EQ(numbers(padded.at("embedding.word"))[20], 0);
  EXPECT_THAT(numbers(padded.at("head.weight")),
              ElementsAre(0, 1, 2, 3, 4, 0, 0, 0, 5, 6, 7, 8, 9, 0, 0, 0, 10, 11, 12, 13, 14, 0, 0, 0, 15, 16,
                          17, 18, 19, 0, 0, 0));
  EXPECT_EQ(to_hugging_face(model, padded), to_hugging_face(tiny("llama"), weights));
}

// As on the hub: no prefix, buffers, a copy of the tied head, and more positions.
TEST(HuggingFaceNames, TakeFilesFromElsewhere) {
  const Transformer model = tiny("gpt");
  Transformer longer = model;
  longer.seq = 7;
  const GlobalTensors weights = counted_weights(longer);
  StoredFile file;
  for (const auto& [name, tensor] : to_hugging_face(longer, weights).tensors)
    file.tensors[name.substr(std::string("transformer.").size())] = tensor;
  file.tensors["h.0.attn.bias"] = counted({1, 1, 7, 7});
  file.tensors["h.0.attn.masked_bias"] = counted({});
  file.tensors["lm_head.weight"] = file.tensors["wte.weight"];
  EXPECT_EQ(from_hugging_face(longer, file), weights);
  const GlobalTensors shorter = from_hugging_face(model, file);
  EXPECT_EQ(shorter, counted_weights(model));

  Transformer llama = tiny("llama");
  StoredFile rotary = to_hugging_face(llama, counted_weights(llama));
  rotary.tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = counted({1});
  EXPECT_EQ(from_hugging_face(llama, rotary), counted_weights(llama));
}

TEST(HuggingFaceNames, RefuseWhatDoesNotFit) {
  const TemporaryFolder folder;
  const Transformer model = tiny("gpt");
  const StoredFile good = to_hugging_face(model, counted_weights(model));
  const auto refused = [&](const Transformer& c, const StoredFile& file) {
    return message_of(folder, [&] { from_hugging_face(c, file); });
  };
  StoredFile file = good;
  file.tensors.erase("transformer.h.0.ln_2.bias");
  EXPECT_EQ(refused(model, file), "2: weights: have no 'transformer.h.0.ln_2.bias'");
  file = good;
  file.tensors["h.1.ln_1.weight"] = counted({4});
  EXPECT_EQ(refused(model, file), "2: weights: 'transformer.h.1.ln_1.weight' is no parameter of the model");
  file = good;
  file.tensors["transformer.wte.weight"] = counted({5, 3});
  EXPECT_EQ(refused(model, file),
            "2: weights: 'transformer.wte.weight' is float32[5, 3], expected float32[5, 4]");
  file = good;
  file.tensors["transformer.wpe.weight"] = counted({2, 4});
  EXPECT_EQ(refused(model, file),
            "2: weights: 'transformer.wpe.weight' is float32[2, 4], expected float32[3, 4]");
  file = good;
  file.tensors["lm_head.weight"] = counted({5, 3});
  EXPECT_EQ(refused(model, file), "2: weights: 'lm_head.weight' is no parameter of the model");

  const Transformer llama = tiny("llama");
  file = to_hugging_face(llama, counted_weights(llama));
  file.tensors["model.layers.0.self_attn.k_proj.weight"] = {{{4, 4}, DType::float16},
                                                            std::vector<std::byte>(32)};
  EXPECT_EQ(refused(llama, file),
            "2: weights: 'model.layers.0.self_attn.k_proj.weight' is float16[4, 4], expected float32 as the "
            "others in 'h0.attn.qkv.weight'");
  EXPECT_EQ(refused(llama, good), "2: weights: have no 'model.embed_tokens.weight'");

  const auto unwritable = [&](const GlobalTensors& weights) {
    return message_of(folder, [&] { to_hugging_face(model, weights); });
  };
  GlobalTensors weights = counted_weights(model);
  weights.erase("ln_f.bias");
  EXPECT_EQ(unwritable(weights), "2: weights: have no 'ln_f.bias'");
  weights["ln_f.bias"] = counted({5});
  EXPECT_EQ(unwritable(weights), "2: weights: 'ln_f.bias' is float32[5], expected float32[4]");
  weights["ln_f.bias"] = counted({4});
  weights["ln_f.bias.m"] = counted({4});
  EXPECT_EQ(unwritable(weights), "2: weights: 'ln_f.bias.m' is no parameter of the model");
}

}  // namespace
}  // namespace boxcar::tests

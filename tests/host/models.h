// Random small models of every kind, and weights for them.
#pragma once

#include <random>
#include <string>

#include "backends/host/checkpoint.h"

namespace boxcar::tests {

inline backends::host::StoredTensor random_stored(std::mt19937_64& random, const ir::TensorType& type) {
  backends::host::StoredTensor tensor{type, {}};
  for (int64_t i = 0; i < type.bytes(); ++i) tensor.bytes.push_back(static_cast<std::byte>(random() & 0xff));
  return tensor;
}

inline int64_t pick(std::mt19937_64& random, int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(random);
}

// Vocabularies without padding.
inline ir::models::Transformer random_model(std::mt19937_64& random,
                                            backends::host::Architecture architecture) {
  using backends::host::Architecture;
  const bool qwen3 = architecture == Architecture::qwen3, mistral = architecture == Architecture::mistral;
  const bool llama = architecture == Architecture::llama || mistral || qwen3;
  ir::models::Transformer c = ir::models::defaults(llama ? "llama" : "gpt");
  const int64_t group = architecture == Architecture::gpt2 ? 1 : pick(random, 1, 3);
  c.layers = pick(random, 1, 3);
  c.kv_heads = pick(random, 1, 3);
  c.heads = c.kv_heads * group;
  c.hidden = c.heads * 2 * pick(random, 1, 3);
  c.ffn = pick(random, 1, 9);
  c.seq = pick(random, 1, 9);
  c.vocab = pick(random, 1, 20);
  c.tied = random() % 2 == 0;
  c.dropout = 0.25;
  c.pad_vocab_to = 1;
  if (llama) c.bias = !qwen3 && !mistral && random() % 2 == 0;
  if (mistral) c.attention_window = pick(random, 1, 9);
  c.qk_norm = qwen3 || (architecture == Architecture::own && random() % 2 == 0);
  if (architecture != Architecture::gpt2 && random() % 2 == 0) {
    c.head_dim = 2 * pick(random, 1, 4);
    c.hidden = pick(random, 1, 12);
  }
  if (random() % 2 == 0) c.norm_epsilon = 1e-6;
  if (llama && random() % 2 == 0) c.rotary_base = 500'000;
  if (architecture == Architecture::own) {
    c.experts = pick(random, 2, 4);
    c.top_k = pick(random, 1, 2);
    c.expert_ffn = pick(random, 0, 5);
    c.attention_window = pick(random, 0, 4);
    if (c.attention_window > 0) c.full_attention_every = pick(random, 0, 3);
    if (random() % 2 == 0) {
      c.position = "rotary", c.bias = c.qk_norm = false, c.kv_heads = c.heads, c.head_dim = 0;
      c.q_lora_rank = pick(random, 0, 3), c.kv_lora_rank = pick(random, 1, 3);
      c.qk_nope_head_dim = pick(random, 1, 3), c.qk_rope_head_dim = 2, c.v_head_dim = pick(random, 1, 3);
    }
    c.expert_every = random() % 2 == 0 ? c.layers : 1;
    c.shared_experts = pick(random, 0, 2);
    if (c.expert_every == 1) c.dense_layers = pick(random, 0, c.layers - 1);
  }
  return ir::models::complete(c);
}

inline backends::host::GlobalTensors random_weights(std::mt19937_64& random,
                                                    const ir::models::Transformer& model) {
  backends::host::GlobalTensors weights;
  for (const auto& [name, type] : backends::host::parameter_types(model))
    weights[name] = random_stored(random, type);
  return weights;
}

}  // namespace boxcar::tests

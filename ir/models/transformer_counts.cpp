// Parameters and flops of a transformer by formula, without its graph.
#include <algorithm>

#include "ir/models/transformer.h"
#include "ir/ops/attention_work.h"

namespace boxcar::ir::models {
namespace {

// Weights of the products before and after attention: queries, keys and values, and the projection.
int64_t attention_weights(const Transformer& c) {
  if (is_latent(c)) {
    const int64_t queries = c.heads * c.head_dim, values = c.heads * c.v_head_dim;
    return (c.q_lora_rank > 0 ? c.q_lora_rank * (c.hidden + queries) : c.hidden * queries) +
           c.hidden * (c.kv_lora_rank + c.qk_rope_head_dim) +
           c.kv_lora_rank * (c.heads * c.qk_nope_head_dim + values) + values * c.hidden;
  }
  return c.hidden * c.head_dim * (2 * c.heads + 2 * c.kv_heads);
}

// Weights of the products of a feed-forward layer of this width.
int64_t mlp_weights(const Transformer& c, int64_t ffn) {
  return (c.mlp == "swiglu" ? 3 : 2) * c.hidden * ffn;
}

int64_t shared_ffn(const Transformer& c) { return c.shared_experts * c.expert_ffn; }

// Weights of the four products of a layer with `experts` experts, 0: dense.
int64_t product_weights(const Transformer& c, int64_t experts) {
  const int64_t mlps =
      experts > 0 ? experts * (mlp_weights(c, c.expert_ffn) + c.hidden) + mlp_weights(c, shared_ffn(c))
                  : mlp_weights(c, c.ffn);
  return attention_weights(c) + mlps;
}

// Weights of the adapters of a layer.
int64_t adapter_weights(const Transformer& c) {
  const int64_t heads = c.heads * c.head_dim, qkv = heads + 2 * c.kv_heads * c.head_dim;
  const int64_t width = (c.mlp == "swiglu" ? 2 : 1) * c.ffn;
  return c.lora_rank *
         (c.hidden + qkv + heads + c.hidden + (c.lora_mlp ? c.hidden + width + c.ffn + c.hidden : 0));
}

int64_t expert_layers(const Transformer& c) {
  return c.experts > 0 ? (c.layers - c.dense_layers) / c.expert_every : 0;
}

}  // namespace

int64_t parameters(const Transformer& config) {
  const Transformer c = complete(config);
  const int64_t d = c.head_dim, norm = (c.norm == "layer" ? 2 : 1) * c.hidden;
  const int64_t qk_norms = c.qk_norm ? 2 * d : c.q_lora_rank + c.kv_lora_rank;
  const int64_t width = c.mlp == "swiglu" ? 2 : 1;
  const auto layer = [&](int64_t experts) {
    const int64_t mlps = std::max<int64_t>(experts, 1), ffn = experts > 0 ? c.expert_ffn : c.ffn;
    const int64_t qkv = (c.heads + 2 * c.kv_heads) * d;
    const int64_t shared = experts > 0 && c.shared_experts > 0 ? width * shared_ffn(c) + c.hidden : 0;
    const int64_t biases = c.bias       ? qkv + c.hidden + mlps * (width * ffn + c.hidden) + shared
                           : c.qkv_bias ? qkv
                                        : 0;
    return product_weights(c, experts) + biases + 2 * norm + qk_norms + adapter_weights(c);
  };
  const int64_t embeddings =
      (c.tied ? 1 : 2) * c.vocab * c.hidden + (c.position == "learned" ? c.seq * c.hidden : 0);
  const int64_t h = c.hidden,
                heads = h * h + h + norm + c.vocab + h * h + h + 2 * h + 2;  // predictions, next
  const int64_t with_experts = expert_layers(c);
  const int64_t queries = c.heads * d, shared = c.kv_heads * d;
  const int64_t cross =
      2 * (queries + shared) * h + (c.bias ? h + queries + 2 * shared : 0) + norm + qk_norms;
  const int64_t decoder = c.decoder_layers > 0 ? c.decoder_layers * cross + norm +
                                                     (c.position == "learned" ? c.decoder_seq * h : 0)
                                               : 0;
  return decoder + with_experts * layer(c.experts) + (c.layers - with_experts) * layer(0) + norm +
         embeddings + (c.masked > 0 ? 2 * h + heads : 0);
}

double model_flops(const Transformer& config, int64_t batch) {
  const Transformer c = complete(config);
  const auto b = static_cast<double>(batch), s = static_cast<double>(c.seq),
             h = static_cast<double>(c.hidden);
  const auto dense = static_cast<double>(product_weights(c, 0));
  const auto attention = static_cast<double>(attention_weights(c));
  const auto q = static_cast<double>(c.heads * c.head_dim);  // width of all queries
  const double scored = (q + static_cast<double>(c.heads * value_width(c))) / 2;
  // A token passes through only top_k experts.
  const double mixture =
      attention + static_cast<double>(c.top_k * mlp_weights(c, c.expert_ffn) + mlp_weights(c, shared_ffn(c)) +
                                      c.hidden * c.experts);
  const auto layers = static_cast<double>(c.layers), with_experts = static_cast<double>(expert_layers(c));
  const double weights = with_experts * mixture + (layers - with_experts) * dense;
  // Two operations per weight and token, three products (one forward, two backward); scores and context over
  // all keys.
  const auto vocab = static_cast<double>(padded_vocab(c)), masked = static_cast<double>(c.masked);
  const double head = c.masked > 0 ? masked * h * (h + vocab) + h * (h + 2) : s * h * vocab;
  const auto keys =
      static_cast<double>(tokens_together(c.document_length, c.seq));  // of a document or sequence
  if (c.lora_rank > 0) {  // no gradients of other weights, and none of the first layer's input
    const auto adapters = static_cast<double>(adapter_weights(c));
    const auto qkv = h * static_cast<double>((c.heads + 2 * c.kv_heads) * c.head_dim);
    const auto rank = static_cast<double>(c.lora_rank);
    return b * s * (layers * (4 * dense + 6 * adapters) - 2 * (qkv + h * rank)) +
           layers * 3 * (4 * b * s * keys * scored) + 4 * b * head;
  }
  if (c.decoder_layers == 0)
    return 6 * b * s * weights + layers * 3 * (4 * b * s * keys * scored) + 6 * b * head;
  // The decoder's tokens attend to their own and to the encoder's, whose keys and values are computed for
  // each decoder layer.
  const auto t = static_cast<double>(c.decoder_seq), decoder = static_cast<double>(c.decoder_layers);
  const double encoder = layers - decoder, shared = static_cast<double>(c.kv_heads * c.head_dim);
  const double products = encoder * s * dense + decoder * (t * (dense + 2 * h * q) + 2 * s * h * shared);
  return 6 * b * (products + t * h * vocab) + 12 * b * q * (encoder * s * s + decoder * (t * t + t * s));
}

}  // namespace boxcar::ir::models

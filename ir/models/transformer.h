// GPT-, BERT-, Llama- and T5-style transformers as logical graphs of one micro-batch, forward to loss.
#pragma once

#include <string>
#include <vector>

#include "ir/graph.h"

namespace boxcar::ir::models {

struct Transformer {
  std::string family = "gpt";  // gpt | bert | llama | t5, sets the defaults below
  int64_t layers = 0, hidden = 0, heads = 0, seq = 0, vocab = 0;
  int64_t ffn = 0;       // 0: 4 x hidden (llama: 8/3 x hidden, rounded up to 256)
  int64_t kv_heads = 0;  // 0: heads
  int64_t head_dim = 0;  // width of a head; 0: hidden / heads
  bool qk_norm = false;  // an RMS norm of each head's queries and keys, before their positions
  std::string mlp;       // "gelu" | "swiglu"
  std::string gelu =
      "erf";         // "erf" | "tanh": the exact form, or GPT-2's approximation by a hyperbolic tangent
  std::string norm;  // "layer" | "rms"
  double norm_epsilon = 1e-5;
  std::string position;         // "learned" | "rotary"
  double rotary_base = 10'000;  // rotary: pair i of d / 2 turns by rotary_base^(-2i/d) from token to token
  bool tied = true;             // llama: false; defaults(family) sets these three, complete() does not
  bool bias = true;             // llama: false
  bool qkv_bias = false;        // if bias is false: the product for queries, keys and values has one
  double dropout = 0.1;         // llama: 0
  int64_t experts = 0,
          top_k = 0;  // 0: dense; no balancing loss, tokens beyond an expert's capacity are dropped
  // 0: any experts. Else experts form so many groups, and a token's come from the top_groups of these whose
  // two best scores have the largest sums (DeepSeek-AI 2024, arXiv:2412.19437, section 2.1.2).
  int64_t expert_groups = 0, top_groups = 0;
  // "softmax" | "sigmoid": a token's weights are the softmax of its experts' scores, or the sigmoids of these
  // over their sum (of one expert: its sigmoid). Sigmoids are also what experts are chosen by.
  std::string router_scores = "softmax";
  double expert_scale = 1;     // times these weights
  int64_t expert_ffn = 0;      // width of an expert's feed-forward layer; 0: ffn
  int64_t shared_experts = 0;  // used by every token; one expert, this many times as wide
  int64_t dense_layers = 0;    // number of first layers that have no experts
  int64_t expert_every = 1;    // every n-th layer has experts; the others are dense
  // A token's experts are weighted before their second product, not after it. The sum is the same, and
  // experts' results are not kept.
  bool weigh_inside = false;
  int64_t decoder_layers = 0;  // t5: how many of `layers`, the last ones; 0: half of them
  int64_t decoder_seq = 0;     // t5: tokens that the decoder reads; 0: seq
  // Tables have a multiple of this many words (callers with tensor parallelism: of this x tp). The loss does
  // not count the padding, so this changes no number.
  int64_t pad_vocab_to = 128;
  int64_t masked =
      0;  // bert: tokens of each sequence that its pre-training heads predict; 0: one loss over all
  // For causal attention. A query sees attention_window keys up to its own, 0: all. In every
  // full_attention_every-th layer it sees all, 0: in no layer.
  int64_t attention_window = 0, full_attention_every = 0;
  // gpt and llama with `flash`: sequences consist of documents, and a query sees no key of another one. This
  // is their mean length, which only the work depends on; 0: a sequence is one document. The input "seen",
  // int64[batch, seq], says how many tokens of its own document a position sees, up to itself. Positions are
  // counted from the start of the sequence.
  int64_t document_length = 0;
  // Latent attention (DeepSeek-AI 2024, arXiv:2405.04434, section 2.1): keys and values come from a latent of
  // kv_lora_rank, 0: from the stream as usual. Queries come from a latent of q_lora_rank, 0: from the stream.
  // Heads of queries and keys have qk_nope_head_dim elements without positions, and qk_rope_head_dim with
  // them, which all heads of keys share.
  int64_t q_lora_rank = 0, kv_lora_rank = 0, qk_nope_head_dim = 0, qk_rope_head_dim = 0, v_head_dim = 0;
  // Low-rank adaptation (Hu et al. 2021, arXiv:2106.09685): a product with a weight W also has the product
  // with A of [from, lora_rank] and B of [lora_rank, to], times lora_alpha / lora_rank. Only these are
  // trained. lora_rank 0: none, everything is trained. lora_alpha 0: 2 x lora_rank. lora_dropout: of what A
  // reads.
  int64_t lora_rank = 0;
  double lora_alpha = 0, lora_dropout = 0;
  bool lora_mlp = false;  // the products of dense feed-forward layers have them too, beside attention's
  bool flash = false;     // attention as one op, else scale+mask+softmax between two batched products
  friend bool operator==(const Transformer&, const Transformer&) = default;
};

const std::vector<std::string>& transformer_families();

// The family's default values of `tied`, `bias` and `dropout`; everything else is not set.
Transformer defaults(const std::string& family);
// Fills in values that the family leaves open. Throws Error naming the key for impossible sizes.
Transformer complete(Transformer config);
// Throws Error naming the key if a completed model needs attention as one op and has it not.
void check_attention(const Transformer& config);

// Names: "embedding.word", "h0.ln1", "h0.attn.qkv", "h0.attn.proj", "h0.ln2", "h0.mlp.fc1", "h0.mlp.fc2",
// "ln_f", "head", "loss", with qk_norm "h0.attn.ln_q", "h0.attn.ln_k". In place of "h0.attn.qkv", latent
// attention has "h0.attn.q_a", ".ln_q_a", ".q", ".kv_a", ".ln_kv_a", ".kv". Parameters "h0.attn.qkv.weight",
// "h0.attn.qkv.bias", .... Inputs "tokens" and "labels": int64[batch, seq]. With experts: "h0.mlp.router",
// "h0.mlp.dispatch", "h0.mlp.combine"; weights of fc1 and fc2 are [experts, from, to]; those of shared
// experts, "h0.mlp.shared.fc1" and ".fc2", are a matrix each. An adapter has the parameters
// "h0.attn.qkv.lora_a.weight" and ".lora_b.weight", and is added in "h0.attn.qkv.lora_add". Residual-stream
// tensors are "h0.residual1", "h0.residual2"; the embedding's output is "embedding.out". `Op::layer` is the
// block, -1 for embeddings, `layers` for final norm, head and loss. Output: "loss", a scalar mean.
//
// With `masked` the graph is BERT as published: segments ("embedding.segment"), a norm after each residual
// sum and after the embeddings ("embedding.norm") in place of "ln_f", "mlm.*" over the predicted tokens and
// "nsp.*" over the first. Attention knows positions only from embeddings, so the predicted tokens come first,
// in rows 1 to `masked`, and an input "positions" gives the place of each. Inputs: tokens, segments and
// positions, int64[batch, seq]; labels, int64[batch, masked]; next, int64[batch, 1].
//
// t5 is an encoder and a decoder as Megatron-LM builds them: learned positions of their own, words and head
// shared. Numbers of the decoder's layers continue those of the encoder. Its layers have "h3.cross.ln",
// "h3.cross.attn.q", ".k", ".v", ".proj" and "h3.cross.residual" between their halves, which read
// "encoder.ln_f". Inputs: tokens, int64[batch, seq]; decoder_tokens and labels, int64[batch, decoder_seq].
Graph build(const Transformer& config, int64_t batch);

int64_t padded_vocab(const Transformer& config);
Transformer without_adapters(Transformer config);  // the model that they adapt
bool is_latent(const Transformer& config);
int64_t value_width(const Transformer& config);  // of a head's values
bool has_experts(const Transformer& config, int64_t layer);
bool has_window(const Transformer& config, int64_t layer);  // whether some of its queries do not see all keys
int64_t capacity(
    const Transformer& config);  // slots per expert and sequence: seq x top_k / experts, rounded up
int64_t parameters(const Transformer& config);  // without vocabulary padding
// Model flops of one optimizer step by the usual formula (no recomputation), for comparison with the graph's
// count: 72 B s l h^2 (1 + s/6h + V/12lh) for GPT, where V is the padded vocabulary.
double model_flops(const Transformer& config, int64_t batch);

}  // namespace boxcar::ir::models

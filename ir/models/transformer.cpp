#include "ir/models/transformer.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "ir/models/require.h"

namespace boxcar::ir::models {
namespace {

// Writes the forward graph, op by op.
class Writer {
 public:
  Writer(const Transformer& config, int64_t batch) : c_(config), batch_(batch), b_(config.family) {}

  Graph run() {
    const TensorId labels = inputs();
    TensorId x = pretraining() ? published_embedding() : embedding(tokens_, "", "embedding.position", c_.seq);
    for (int64_t layer = 0; layer < c_.layers - c_.decoder_layers; ++layer) {
      enter(layer);
      x = feed_forward(attention(x, causal()), has_experts(c_, layer));
    }
    if (c_.decoder_layers > 0) x = decoder(x);
    b_.set_layer(static_cast<int>(c_.layers), "");
    if (pretraining())
      pretraining_loss(x, labels);
    else
      loss(logits(norm(x, "ln_f")), labels, loss_name);
    Graph graph = b_.finish();
    graph.layers = static_cast<int>(c_.layers);
    return graph;
  }

 private:
  TensorType f32(Shape shape) const { return {std::move(shape), DType::float32}; }

  TensorId inputs() {
    tokens_ = b_.input("tokens", {{batch_, c_.seq}, DType::int64});
    b_.set_layer(static_cast<int>(c_.layers), "");
    const int64_t labelled = pretraining() ? c_.masked : c_.decoder_seq > 0 ? c_.decoder_seq : c_.seq;
    const TensorId labels = b_.input("labels", {{batch_, labelled}, DType::int64});
    b_.set_layer(-1, "");
    if (c_.document_length > 0) seen_ = b_.input("seen", {{batch_, c_.seq}, DType::int64});
    return labels;
  }

  void enter(int64_t layer) {
    b_.set_layer(static_cast<int>(layer), layer_name(static_cast<int>(layer)));
    window_ = has_window(c_, layer) ? c_.attention_window : 0;
  }
  bool pretraining() const { return c_.masked > 0; }

  // Embeddings are in the decoder's first layer; the encoder's final norm is in its last layer.
  TensorId decoder(TensorId x) {
    const int64_t first = c_.layers - c_.decoder_layers;
    b_.set_layer(static_cast<int>(first - 1), "");
    const TensorId memory = norm(x, "encoder.ln_f");
    b_.set_layer(static_cast<int>(first), "");
    const TensorId tokens = b_.input("decoder_tokens", {{batch_, c_.decoder_seq}, DType::int64});
    x = embedding(tokens, "decoder.", "embedding.decoder_position", c_.decoder_seq);
    for (int64_t layer = first; layer < c_.layers; ++layer) {
      enter(layer);
      x = feed_forward(cross_attention(attention(x, true), memory), false);
    }
    return x;
  }

  TensorId table(const char* name, int64_t rows) {
    return parameter(fmt::format("embedding.{}", name), {rows, c_.hidden});
  }
  TensorId looked_up(TensorId table, TensorId indices, const char* name) {
    return b_.op1("embedding", {table, indices}, {}, fmt::format("embedding.{}.lookup", name));
  }

  TensorId published_embedding() {
    const TensorId segments = b_.input("segments", {{batch_, c_.seq}, DType::int64});
    const TensorId positions = b_.input("positions", {{batch_, c_.seq}, DType::int64});
    word_ = table("word", padded_vocab(c_));
    TensorId x = looked_up(word_, tokens_, "word");
    x = b_.op1("add", {x, looked_up(table("position", c_.seq), positions, "position")}, {}, "embedding.at");
    x = b_.op1("add", {x, looked_up(table("segment", 2), segments, "segment")}, {}, "embedding.add");
    return dropout(norm(x, "embedding.norm"), "embedding.out");
  }

  // Rows `from` to `to` of every sequence.
  TensorId rows(TensorId x, int64_t from, int64_t to, const char* name) {
    return b_.op1("slice", {x}, {{"starts", Shape{0, from, 0}}, {"ends", Shape{batch_, to, c_.hidden}}},
                  name);
  }

  void pretraining_loss(TensorId x, TensorId labels) {
    const int64_t h = c_.hidden, vocab = padded_vocab(c_);
    TensorId y = linear(rows(x, 1, 1 + c_.masked, "mlm.rows"), "mlm.transform", h, h);
    y = norm(b_.op1("gelu", {y}, gelu_form(), "mlm.gelu"), "mlm.norm");
    y = b_.op1("matmul", {y, word_}, {{"transpose_b", true}}, "head");
    y = b_.op1("add", {y, b_.parameter("head.bias", f32({vocab}))}, {}, "head.bias_add");
    const TensorId masked = loss(y, labels, "mlm.loss");
    TensorId z = b_.op1("tanh", {linear(rows(x, 0, 1, "nsp.rows"), "nsp.pooler", h, h)}, {}, "nsp.tanh");
    z = linear(z, "nsp.classes", h, 2);
    const TensorId next = loss(z, b_.input("next", {{batch_, 1}, DType::int64}), "nsp.loss");
    b_.op1("add", {masked, next}, {}, loss_name);
  }

  TensorId embedding(TensorId tokens, const std::string& side, const char* positions, int64_t seq) {
    const bool learned = c_.position == "learned", dropped = c_.dropout > 0;
    const std::string at = side + "embedding.";
    if (word_ < 0) word_ = parameter("embedding.word", {padded_vocab(c_), c_.hidden});
    TensorId x = b_.op1("embedding", {word_, tokens}, {}, at + (learned || dropped ? "lookup" : "out"));
    if (learned) {
      const TensorId position = parameter(positions, {seq, c_.hidden});
      x = b_.op1("add", {x, position}, {}, at + (dropped ? "add" : "out"));
    }
    return dropout(x, at + "out");
  }

  // Ops that `build` adds belong to this module.
  template <typename Build>
  auto in(Module module, Build build) {
    const Module outer = b_.set_module(module);
    const auto result = build();
    b_.set_module(outer);
    return result;
  }

  TensorId dropout(TensorId x, const std::string& name) {
    if (c_.dropout == 0) return x;
    return b_.op1("dropout", {x}, {{"p", c_.dropout}, {"op", random_ops_++}}, name);
  }

  TensorId norm(TensorId x, const std::string& name) {
    if (c_.norm == "rms") return rms_norm(x, name, c_.hidden);
    const TensorId weight = parameter(name + ".weight", {c_.hidden});
    const TensorId bias = parameter(name + ".bias", {c_.hidden});
    return b_.op1("layer_norm", {x, weight, bias}, {{"eps", c_.norm_epsilon}}, name);
  }

  TensorId rms_norm(TensorId x, const std::string& name, int64_t width) {
    const TensorId weight = parameter(name + ".weight", {width});
    return b_.op1("rms_norm", {x, weight}, {{"eps", c_.norm_epsilon}}, name);
  }

  // With adapters, only these are trained.
  TensorId parameter(const std::string& name, Shape shape) {
    return c_.lora_rank > 0 ? b_.frozen_parameter(name, f32(std::move(shape)))
                            : b_.parameter(name, f32(std::move(shape)));
  }

  // A product with a weight [from, to] and, if the model has them, an adapter and a bias.
  TensorId linear(TensorId x, const std::string& name, int64_t from, int64_t to, bool of_mlp = false) {
    TensorId y = b_.op1("matmul", {x, parameter(name + ".weight", {from, to})}, {}, name);
    if (c_.lora_rank > 0 && (!of_mlp || c_.lora_mlp))
      y = b_.op1("add", {y, adapter(x, name, from, to)}, {}, name + ".lora_add");
    if (!c_.bias && !(c_.qkv_bias && name == "attn.qkv")) return y;
    return b_.op1("add", {y, parameter(name + ".bias", {to})}, {}, name + ".bias_add");
  }

  TensorId adapter(TensorId x, const std::string& name, int64_t from, int64_t to) {
    if (c_.lora_dropout > 0)
      x = b_.op1("dropout", {x}, {{"p", c_.lora_dropout}, {"op", random_ops_++}}, name + ".lora_dropout");
    const TensorId a = b_.parameter(name + ".lora_a.weight", f32({from, c_.lora_rank}));
    const TensorId b = b_.parameter(name + ".lora_b.weight", f32({c_.lora_rank, to}));
    const double factor = c_.lora_alpha / static_cast<double>(c_.lora_rank);
    TensorId y = b_.op1("matmul", {x, a}, {}, name + ".lora_a");
    y = b_.op1("scale", {y}, {{"factor", factor}}, name + ".lora_scale");
    return b_.op1("matmul", {y, b}, {}, name + ".lora_b");
  }

  TensorId attention(TensorId x, bool causal) {
    const TensorId from = before(x, "ln1");
    const TensorId y = attended(is_latent(c_) ? latent_heads(from) : packed_heads(from), causal, "attn");
    return after(b_.op1("add", {dropout(y, "attn.dropout"), x}, {}, "residual1"), "ln1");
  }

  TensorId rotary(TensorId x, const std::string& name) {
    return b_.op1("rotary", {x}, {{"base", c_.rotary_base}}, name);
  }

  std::vector<TensorId> packed_heads(TensorId x) {
    const int64_t d = c_.head_dim, group = c_.heads / c_.kv_heads;
    const TensorId qkv = linear(x, "attn.qkv", c_.hidden, c_.kv_heads * (group + 2) * d);
    std::vector<TensorId> heads =
        b_.op("split_heads", {qkv}, {{"group", group}, {"head_dim", d}}, "attn.heads");
    normalize(heads, "attn");
    if (c_.position != "rotary") return heads;
    heads[0] = rotary(heads[0], "attn.rotary_q");
    heads[1] = rotary(heads[1], "attn.rotary_k");
    return heads;
  }

  TensorId by_head(TensorId x, int64_t d, const std::string& name) {
    return b_.op1("merge_heads_grad", {x}, {{"head_dim", d}}, name);
  }
  // Elements from `begin` to `end` of the last axis.
  TensorId part(TensorId x, int64_t begin, int64_t end, const std::string& name) {
    Shape starts(b_.type(x).shape.size(), 0), ends = b_.type(x).shape;
    starts.back() = begin, ends.back() = end;
    return b_.op1("slice", {x}, {{"starts", starts}, {"ends", ends}}, name);
  }

  // q and k [b, heads, s, nope + rope], v [b, heads, s, v_head_dim].
  std::vector<TensorId> latent_heads(TensorId x) {
    const int64_t nope = c_.qk_nope_head_dim, rope = c_.qk_rope_head_dim, rank = c_.kv_lora_rank;
    const Attrs last{{"axis", int64_t{3}}};
    const int64_t from = c_.q_lora_rank > 0 ? c_.q_lora_rank : c_.hidden;
    TensorId q = x;
    if (c_.q_lora_rank > 0) q = rms_norm(linear(q, "attn.q_a", c_.hidden, from), "attn.ln_q_a", from);
    const TensorId kv_a = linear(x, "attn.kv_a", c_.hidden, rank + rope);
    const TensorId latent = rms_norm(part(kv_a, 0, rank, "attn.kv_a.latent"), "attn.ln_kv_a", rank);

    const Module outer = b_.set_module(Module::mla_up_proj);
    q = by_head(linear(q, "attn.q", from, c_.heads * c_.head_dim), c_.head_dim, "attn.q.heads");
    const TensorId turned_q = rotary(part(q, nope, nope + rope, "attn.q.rope"), "attn.rotary_q");
    q = b_.op1("concat", {part(q, 0, nope, "attn.q.nope"), turned_q}, last, "attn.q.joined");
    const TensorId kv = by_head(linear(latent, "attn.kv", rank, c_.heads * (nope + c_.v_head_dim)),
                                nope + c_.v_head_dim, "attn.kv.heads");
    TensorId shared = by_head(part(kv_a, rank, rank + rope, "attn.kv_a.rope"), rope, "attn.k.rope");
    shared = b_.op1("broadcast_to", {rotary(shared, "attn.rotary_k")},
                    {{"shape", Shape{batch_, c_.heads, c_.seq, rope}}}, "attn.k.shared");
    const TensorId k = b_.op1("concat", {part(kv, 0, nope, "attn.k.nope"), shared}, last, "attn.k.joined");
    const TensorId v = part(kv, nope, nope + c_.v_head_dim, "attn.v");
    b_.set_module(outer);
    return {q, k, v};
  }

  // Queries come from the decoder, keys and values from the encoder.
  TensorId cross_attention(TensorId x, TensorId memory) {
    const int64_t d = c_.head_dim;
    const auto heads = [&](TensorId from, const std::string& name, int64_t count) {
      const TensorId y = linear(from, "cross.attn." + name, c_.hidden, count * d);
      return b_.op1("merge_heads_grad", {y}, {{"head_dim", d}}, "cross.attn." + name + ".heads");
    };
    const TensorId q = heads(layer_norm(x, "cross.ln"), "q", c_.heads);
    const TensorId k = heads(memory, "k", c_.kv_heads);
    std::vector<TensorId> all{q, k, heads(memory, "v", c_.kv_heads)};
    normalize(all, "cross.attn");
    const TensorId y = attended(all, false, "cross.attn");
    return b_.op1("add", {dropout(y, "cross.dropout"), x}, {}, "cross.residual");
  }

  // Norms of queries and keys, if the model has them.
  void normalize(std::vector<TensorId>& heads, const std::string& at) {
    if (!c_.qk_norm) return;
    heads[0] = rms_norm(heads[0], at + ".ln_q", c_.head_dim);
    heads[1] = rms_norm(heads[1], at + ".ln_k", c_.head_dim);
  }

  // Attention of queries, keys and values by head, projected.
  TensorId attended(const std::vector<TensorId>& heads, bool causal, const std::string& at) {
    const TensorId context = in(Module::core_attn, [&] {
      return c_.flash ? flash_core(heads, causal, at) : core(heads, causal, at);
    });
    const TensorId merged = b_.op1("merge_heads", {context}, {}, at + ".merge");
    return linear(merged, at + ".proj", c_.heads * value_width(c_), c_.hidden);
  }

  TensorId layer_norm(TensorId x, const char* name) {
    return in(Module::layernorm, [&] { return norm(x, name); });
  }
  // A norm is before a layer's halves or, in BERT as published, after them.
  TensorId before(TensorId x, const char* name) { return pretraining() ? x : layer_norm(x, name); }
  TensorId after(TensorId x, const char* name) { return pretraining() ? layer_norm(x, name) : x; }

  bool causal() const { return c_.family != "bert" && c_.family != "t5"; }

  TensorId flash_core(std::vector<TensorId> operands, bool causal, const std::string& at) {
    if (seen_ >= 0) operands.push_back(seen_);
    const int64_t op = c_.dropout > 0 ? random_ops_++ : 0;  // so that dropouts behind it draw as without it
    return b_.op1("scaled_dot_product_attention", operands,
                  {{"causal", causal},
                   {"window", window_},
                   {"document", c_.document_length},
                   {"p", c_.dropout},
                   {"op", op}},
                  at + ".core.flash");
  }

  // The queries that share a key form one product: [b, kv_heads, group * s, d].
  TensorId core(const std::vector<TensorId>& heads, bool causal, const std::string& at) {
    const int64_t group = c_.heads / c_.kv_heads, d = c_.head_dim;
    const int64_t queries = b_.type(heads[0]).shape[2], keys = b_.type(heads[1]).shape[2];
    const auto grouped = [&](TensorId x, int64_t last, const char* name) {
      if (group == 1) return x;
      return b_.op1("reshape", {x}, {{"shape", Shape{batch_, c_.kv_heads, group * queries, last}}},
                    at + name);
    };
    const auto ungrouped = [&](TensorId x, int64_t last, const char* name) {
      if (group == 1) return x;
      return b_.op1("reshape", {x}, {{"shape", Shape{batch_, c_.heads, queries, last}}}, at + name);
    };
    TensorId x = b_.op1("batch_matmul", {grouped(heads[0], d, ".core.q"), heads[1]}, {{"transpose_b", true}},
                        at + ".core.scores");
    x = ungrouped(x, keys, ".core.scores_by_head");
    x = b_.op1("scale", {x}, {{"factor", 1 / std::sqrt(static_cast<double>(d))}}, at + ".core.scale");
    if (causal) x = b_.op1("causal_mask", {x}, {{"window", window_}}, at + ".core.mask");
    x = dropout(b_.op1("softmax", {x}, {}, at + ".core.softmax"), at + ".core.dropout");
    x = b_.op1("batch_matmul", {grouped(x, keys, ".core.probabilities"), heads[2]}, {}, at + ".core.context");
    return ungrouped(x, d, ".core.context_by_head");
  }

  Attrs gelu_form() const { return c_.gelu == "tanh" ? Attrs{{"tanh", true}} : Attrs{}; }
  bool gated() const { return c_.mlp == "swiglu"; }
  int64_t fc1_width(int64_t ffn) const { return gated() ? 2 * ffn : ffn; }
  TensorId activation(TensorId x, const std::string& at = "mlp") {
    return gated() ? b_.op1("swiglu_pairs", {x}, {}, at + ".swiglu")
                   : b_.op1("gelu", {x}, gelu_form(), at + ".gelu");
  }

  TensorId feed_forward(TensorId x, bool experts) {
    const TensorId y = before(x, "ln2");
    const TensorId result = experts ? in(Module::moe, [&] { return all_experts(y); })
                                    : in(Module::mlp, [&] { return dense(y, "mlp", c_.ffn); });
    return after(b_.op1("add", {dropout(result, "mlp.dropout"), x}, {}, "residual2"), "ln2");
  }

  TensorId all_experts(TensorId x) {
    const TensorId routed = mixture(x);
    if (c_.shared_experts == 0) return routed;
    const TensorId shared =
        in(Module::shared_experts, [&] { return dense(x, "mlp.shared", c_.shared_experts * c_.expert_ffn); });
    return b_.op1("add", {routed, shared}, {}, "mlp.sum");
  }

  TensorId dense(TensorId x, const std::string& at, int64_t ffn) {
    const TensorId inside = activation(linear(x, at + ".fc1", c_.hidden, fc1_width(ffn), true), at);
    return linear(inside, at + ".fc2", ffn, c_.hidden, true);
  }

  // The weights of a token's experts, by their scores.
  TensorId shares_of(TensorId scores) {
    const bool scaled = c_.expert_scale != 1, whole = c_.router_scores == "sigmoid" && c_.top_k == 1;
    const std::string name = scaled ? "mlp.unscaled" : "mlp.shares";
    TensorId shares = scores;
    if (c_.router_scores == "softmax") {
      shares = b_.op1("softmax", {scores}, {}, name);
    } else if (!whole) {
      const TensorId sum =
          b_.op1("reduce_sum", {scores}, {{"axes", Shape{-1}}, {"keepdims", true}}, "mlp.score_sum");
      shares = b_.op1("div", {scores, sum}, {}, name);
    }
    return scaled ? b_.op1("scale", {shares}, {{"factor", c_.expert_scale}}, "mlp.shares") : shares;
  }

  // Each sequence's tokens go to their top_k experts, weighted by their router scores.
  TensorId mixture(TensorId x) {
    const TensorId weight = b_.parameter("mlp.router.weight", f32({c_.hidden, c_.experts}));
    TensorId scores = b_.op1("matmul", {x, weight}, {}, "mlp.router");
    if (c_.router_scores == "sigmoid") scores = b_.op1("sigmoid", {scores}, {}, "mlp.scores");
    Attrs choice{{"k", c_.top_k}};
    if (c_.expert_groups > 0) choice["groups"] = c_.expert_groups, choice["top_groups"] = c_.top_groups;
    const auto best = b_.op("top_k", {scores}, choice, "mlp.top_k");
    const TensorId shares = shares_of(best[0]);
    const TensorId weights = c_.weigh_inside ? shares_by_slot(shares, best[1]) : -1;
    TensorId y = slots_of(x, best[1], "mlp.dispatch", "mlp.by_expert", "mlp.slots");
    y = expert_linear(y, "mlp.fc1", c_.hidden, fc1_width(c_.expert_ffn));
    y = in(Module::moe_act, [&] { return weighed(activation(y), weights, "mlp.weighed"); });
    y = expert_linear(y, "mlp.fc2", c_.expert_ffn, c_.hidden, weights);
    y = b_.op1("reshape", {y}, {{"shape", Shape{c_.experts, batch_, capacity(c_), c_.hidden}}},
               "mlp.results");
    y = b_.op1("transpose", {y}, {{"perm", Shape{1, 0, 2, 3}}}, "mlp.by_sequence");
    return c_.weigh_inside ? b_.op1("moe_dispatch_grad", {y, best[1]}, {}, "mlp.combine")
                           : b_.op1("moe_combine", {y, best[1], shares}, {}, "mlp.combine");
  }

  // x[batch, tokens, n] by expert: [experts, slots of all sequences, n].
  TensorId slots_of(TensorId x, TensorId index, const char* dispatch, const char* by_expert,
                    const char* name) {
    const int64_t slots = capacity(c_), width = b_.type(x).shape[2];
    TensorId y = b_.op1("moe_dispatch", {x, index}, {{"experts", c_.experts}, {"capacity", slots}}, dispatch);
    y = b_.op1("transpose", {y}, {{"perm", Shape{1, 0, 2, 3}}}, by_expert);
    return b_.op1("reshape", {y}, {{"shape", Shape{c_.experts, batch_ * slots, width}}}, name);
  }

  // Here every choice of a token is a separate token with that one expert. They take the same slots.
  TensorId shares_by_slot(TensorId shares, TensorId index) {
    const Shape each{batch_, b_.type(shares).shape[1] * c_.top_k, 1};
    return slots_of(b_.op1("reshape", {shares}, {{"shape", each}}, "mlp.shares_by_choice"),
                    b_.op1("reshape", {index}, {{"shape", each}}, "mlp.top_k_by_choice"),
                    "mlp.dispatch_shares", "mlp.shares_by_expert", "mlp.slot_shares");
  }

  // Rows of x[experts, slots or 1, n] times weights[experts, slots, 1]; without weights (-1), x itself.
  TensorId weighed(TensorId x, TensorId weights, const std::string& name) {
    return weights < 0 ? x : b_.op1("mul", {x, weights}, {}, name);
  }

  // One product per expert: [experts, slots, from] and weights [experts, from, to]; the bias is weighted as x
  // was.
  TensorId expert_linear(TensorId x, const std::string& name, int64_t from, int64_t to,
                         TensorId weights = -1) {
    const TensorId weight = b_.parameter(name + ".weight", f32({c_.experts, from, to}));
    const TensorId y = b_.op1("batch_matmul", {x, weight}, {}, name);
    if (!c_.bias) return y;
    const TensorId bias = b_.parameter(name + ".bias", f32({c_.experts, 1, to}));
    return b_.op1("add", {y, weighed(bias, weights, name + ".bias_weighed")}, {}, name + ".bias_add");
  }

  TensorId logits(TensorId x) {
    if (c_.tied) return b_.op1("matmul", {x, word_}, {{"transpose_b", true}}, "head");
    return b_.op1("matmul", {x, parameter("head.weight", {c_.hidden, padded_vocab(c_)})}, {}, "head");
  }

  TensorId loss(TensorId logits, TensorId labels, const std::string& name) {
    const int64_t scores = b_.type(logits).shape.back(),
                  classes = scores == padded_vocab(c_) && scores != c_.vocab ? c_.vocab : 0;
    const TensorId max =
        b_.op1("reduce_max", {logits}, {{"axes", Shape{-1}}, {"classes", classes}}, name + ".max");
    const TensorId sum = b_.op1("sum_exp", {logits, max}, {{"classes", classes}}, name + ".sum_exp");
    const TensorId pick = b_.op1("pick", {logits, labels}, {}, name + ".pick");
    const TensorId nll = b_.op1("nll", {max, sum, pick}, {}, name + ".nll");
    return b_.op1("reduce_mean", {nll}, {{"axes", Shape{0, 1}}}, name);
  }

  Transformer c_;
  int64_t batch_;
  Builder b_;
  TensorId tokens_ = -1, word_ = -1, seen_ = -1;
  int64_t random_ops_ = 0, window_ = 0;
};

}  // namespace

Graph build(const Transformer& config, int64_t batch) {
  const Transformer c = complete(config);
  check_attention(c);
  require(batch > 0, "batch", fmt::format("is {}, expected at least 1", batch));
  return Writer(c, batch).run();
}

}  // namespace boxcar::ir::models

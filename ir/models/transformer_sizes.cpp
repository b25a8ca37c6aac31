// What a family leaves open, the sizes that cannot be, and sizes that follow from others.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "ir/models/require.h"
#include "ir/models/transformer.h"
#include "sbp/error.h"

namespace boxcar::ir::models {
namespace {

int64_t round_up(int64_t value, int64_t multiple) { return (value + multiple - 1) / multiple * multiple; }

void one_of(const std::string& value, const char* key, const std::vector<std::string>& known) {
  for (const std::string& name : known)
    if (value == name) return;
  throw Error::input(key, fmt::format("unknown '{}' (use {})", value, fmt::join(known, " or ")));
}

std::string divisors(int64_t n) {
  std::vector<int64_t> all;
  for (int64_t i = 1; i <= n && i <= 1024; ++i)
    if (n % i == 0) all.push_back(i);
  return fmt::format("{}", fmt::join(all, ", "));
}

void check_sizes(const Transformer& c) {
  const std::pair<const char*, int64_t> positive[] = {
      {"layers", c.layers}, {"hidden", c.hidden}, {"heads", c.heads},       {"seq", c.seq},
      {"vocab", c.vocab},   {"ffn", c.ffn},       {"kv_heads", c.kv_heads}, {"pad_vocab_to", c.pad_vocab_to}};
  for (const auto& [key, value] : positive)
    require(value > 0, key, fmt::format("is {}, expected at least 1", value));
  require(c.head_dim != 0, "heads",
          fmt::format("{} does not divide hidden {} (use {}, or give head_dim)", c.heads, c.hidden,
                      divisors(c.hidden)));
  require(c.head_dim > 0, "head_dim", fmt::format("is {}, expected at least 1", c.head_dim));
  require(c.heads % c.kv_heads == 0, "kv_heads",
          fmt::format("{} does not divide heads {} (use {})", c.kv_heads, c.heads, divisors(c.heads)));
  const bool divided = c.head_dim * c.heads == c.hidden;
  require(c.position != "rotary" || is_latent(c) || c.head_dim % 2 == 0, divided ? "heads" : "head_dim",
          fmt::format("{} leaves heads of {} elements, rotary positions need an even number",
                      divided ? c.heads : c.head_dim, c.head_dim));
  require(c.rotary_base >= 1 && std::isfinite(c.rotary_base), "rotary_base",
          fmt::format("is {}, expected at least 1", c.rotary_base));
  require(c.norm_epsilon > 0 && c.norm_epsilon <= 1, "norm_epsilon",
          fmt::format("is {}, expected above 0 and at most 1", c.norm_epsilon));
  require(c.attention_window >= 0, "attention_window",
          fmt::format("is {}, expected 0 (none) or more", c.attention_window));
  require(c.attention_window == 0 || c.family == "gpt" || c.family == "llama", "attention_window",
          "is of family gpt or llama");
  require(c.full_attention_every == 0 || c.attention_window > 0, "full_attention_every",
          "needs attention_window");
  require(c.full_attention_every >= 0, "full_attention_every",
          fmt::format("is {}, expected 0 (no layer) or more", c.full_attention_every));
  require(c.document_length >= 0, "document_length",
          fmt::format("is {}, expected 0 (a sequence is one document) or more", c.document_length));
  require(c.document_length == 0 || c.family == "gpt" || c.family == "llama", "document_length",
          "is of family gpt or llama");
  require(c.dropout >= 0 && c.dropout < 1, "dropout",
          fmt::format("is {}, expected at least 0 and below 1", c.dropout));
  require(c.masked >= 0 && c.masked < c.seq, "masked",
          fmt::format("is {}, expected at least 0 and below seq {}", c.masked, c.seq));
  require(c.masked == 0 ||
              (c.family == "bert" && c.position == "learned" && c.tied && c.bias && c.norm == "layer"),
          "masked", "is of family bert with learned positions, layer norms, biases and a tied head");
  const bool decodes = c.family == "t5";
  require(decodes || (c.decoder_layers == 0 && c.decoder_seq == 0),
          c.decoder_seq > 0 ? "decoder_seq" : "decoder_layers", "is of family t5");
  require(!decodes || (c.decoder_layers >= 1 && c.decoder_layers < c.layers), "decoder_layers",
          fmt::format("is {}, expected at least 1 and below layers {}, which count both halves",
                      c.decoder_layers, c.layers));
  require(!decodes || c.decoder_seq >= 1, "decoder_seq",
          fmt::format("is {}, expected at least 1", c.decoder_seq));
  require(!decodes || c.experts == 0, "experts", "are not there for family t5");
  require(c.experts >= 0, "experts", fmt::format("is {}, expected 0 (dense) or more", c.experts));
  require(c.experts > 0 || c.top_k == 0, "top_k", "needs experts");
  require(c.experts > 0 || c.expert_ffn == 0, "expert_ffn", "needs experts");
  require(c.experts == 0 || c.expert_ffn > 0, "expert_ffn",
          fmt::format("is {}, expected at least 1", c.expert_ffn));
  require(c.expert_every >= 1 && (c.expert_every == 1 || c.experts > 0), "expert_every",
          fmt::format("is {}, expected 1, or more where there are experts", c.expert_every));
  require(c.shared_experts >= 0, "shared_experts",
          fmt::format("is {}, expected 0 (none) or more", c.shared_experts));
  require(c.experts > 0 || c.shared_experts == 0, "shared_experts", "needs experts");
  require(c.experts > 0 || c.dense_layers == 0, "dense_layers", "needs experts");
  require(c.experts > 0 || !c.weigh_inside, "weigh_inside", "needs experts");
  require(c.dense_layers >= 0 && (c.dense_layers == 0 || c.dense_layers < c.layers), "dense_layers",
          fmt::format("is {}, expected at least 0 and below layers {}", c.dense_layers, c.layers));
  require(c.dense_layers == 0 || c.expert_every == 1, "dense_layers",
          fmt::format("needs expert_every 1, which is {}", c.expert_every));
  require(c.layers % c.expert_every == 0, "expert_every",
          fmt::format("{} does not divide layers {} (use {})", c.expert_every, c.layers, divisors(c.layers)));
  require(c.experts == 0 || (c.top_k >= 1 && c.top_k <= c.experts), "top_k",
          fmt::format("is {}, expected 1 to experts {}", c.top_k, c.experts));
}

void check_router(const Transformer& c) {
  const bool in_groups = c.expert_groups != 0 || c.top_groups != 0;
  require(c.experts > 0 || !in_groups, c.expert_groups != 0 ? "expert_groups" : "top_groups",
          "needs experts");
  require(c.experts > 0 || c.router_scores == "softmax", "router_scores", "needs experts");
  require(c.experts > 0 || c.expert_scale == 1, "expert_scale", "needs experts");
  require(c.expert_scale > 0 && std::isfinite(c.expert_scale), "expert_scale",
          fmt::format("is {}, expected above 0", c.expert_scale));
  if (!in_groups) return;
  require(c.expert_groups >= 0, "expert_groups",
          fmt::format("is {}, expected 0 (none) or more", c.expert_groups));
  require(c.expert_groups > 0, "top_groups", "needs expert_groups");
  require(c.top_groups != 0, "expert_groups", "needs top_groups");
  require(
      c.experts % c.expert_groups == 0, "expert_groups",
      fmt::format("{} does not divide experts {} (use {})", c.expert_groups, c.experts, divisors(c.experts)));
  require(c.top_groups >= 1 && c.top_groups <= c.expert_groups, "top_groups",
          fmt::format("is {}, expected 1 to expert_groups {}", c.top_groups, c.expert_groups));
  const int64_t choice = c.experts / c.expert_groups * c.top_groups;
  require(c.top_k <= choice, "top_k",
          fmt::format("is {}, but top_groups {} have {} experts", c.top_k, c.top_groups, choice));
}

void check_lora(const Transformer& c) {
  require(c.lora_rank >= 0, "lora_rank", fmt::format("is {}, expected 0 (none) or more", c.lora_rank));
  require(c.lora_rank > 0 || (c.lora_alpha == 0 && c.lora_dropout == 0 && !c.lora_mlp),
          c.lora_alpha != 0     ? "lora_alpha"
          : c.lora_dropout != 0 ? "lora_dropout"
                                : "lora_mlp",
          "needs lora_rank");
  if (c.lora_rank == 0) return;
  require(c.family == "gpt" || c.family == "llama", "lora_rank", "is of family gpt or llama");
  require(!is_latent(c), "lora_rank", "is not built with kv_lora_rank");
  require(c.experts == 0, "lora_rank", "is not built with experts");
  require(std::isfinite(c.lora_alpha) && c.lora_alpha > 0, "lora_alpha",
          fmt::format("is {}, expected 0 (2 x lora_rank) or more", c.lora_alpha));
  require(c.lora_dropout >= 0 && c.lora_dropout < 1, "lora_dropout",
          fmt::format("is {}, expected at least 0 and below 1", c.lora_dropout));
}

void check_latent(const Transformer& c) {
  const std::pair<const char*, int64_t> widths[] = {{"q_lora_rank", c.q_lora_rank},
                                                    {"qk_nope_head_dim", c.qk_nope_head_dim},
                                                    {"qk_rope_head_dim", c.qk_rope_head_dim},
                                                    {"v_head_dim", c.v_head_dim}};
  require(c.kv_lora_rank >= 0, "kv_lora_rank",
          fmt::format("is {}, expected 0 (none) or more", c.kv_lora_rank));
  for (const auto& [key, value] : widths) {
    const bool may_be_none = key == widths[0].first;
    require(is_latent(c) || value == 0, key, "needs kv_lora_rank");
    require(!is_latent(c) || value > 0 || (may_be_none && value == 0), key,
            fmt::format("is {}, expected at least {}", value, may_be_none ? 0 : 1));
  }
  if (!is_latent(c)) return;
  require(c.family == "gpt" || c.family == "llama", "kv_lora_rank", "is of family gpt or llama");
  require(c.position == "rotary" && !c.bias && !c.qkv_bias && !c.qk_norm, "kv_lora_rank",
          "needs position rotary, bias and qkv_bias false, and no qk_norm");
  require(c.kv_heads == c.heads, "kv_heads", fmt::format("is {}, with kv_lora_rank it is heads", c.kv_heads));
  require(c.head_dim == c.qk_nope_head_dim + c.qk_rope_head_dim, "head_dim",
          fmt::format("is {}, with kv_lora_rank it is qk_nope_head_dim {} and qk_rope_head_dim {}",
                      c.head_dim, c.qk_nope_head_dim, c.qk_rope_head_dim));
  require(c.qk_rope_head_dim % 2 == 0, "qk_rope_head_dim",
          fmt::format("is {}, rotary positions need an even number", c.qk_rope_head_dim));
}

}  // namespace

const std::vector<std::string>& transformer_families() {
  static const std::vector<std::string> families{"gpt", "bert", "llama", "t5"};
  return families;
}

Transformer defaults(const std::string& family) {
  one_of(family, "family", transformer_families());
  Transformer c;
  c.family = family;
  if (family == "llama") {
    c.tied = c.bias = false;
    c.dropout = 0;
  }
  return c;
}

Transformer complete(Transformer c) {
  one_of(c.family, "family", transformer_families());
  require_small({{"layers", c.layers},
                 {"hidden", c.hidden},
                 {"heads", c.heads},
                 {"seq", c.seq},
                 {"vocab", c.vocab},
                 {"ffn", c.ffn},
                 {"kv_heads", c.kv_heads},
                 {"head_dim", c.head_dim},
                 {"pad_vocab_to", c.pad_vocab_to},
                 {"experts", c.experts},
                 {"top_k", c.top_k},
                 {"expert_groups", c.expert_groups},
                 {"top_groups", c.top_groups},
                 {"expert_ffn", c.expert_ffn},
                 {"shared_experts", c.shared_experts},
                 {"dense_layers", c.dense_layers},
                 {"expert_every", c.expert_every},
                 {"attention_window", c.attention_window},
                 {"full_attention_every", c.full_attention_every},
                 {"document_length", c.document_length},
                 {"q_lora_rank", c.q_lora_rank},
                 {"kv_lora_rank", c.kv_lora_rank},
                 {"qk_nope_head_dim", c.qk_nope_head_dim},
                 {"qk_rope_head_dim", c.qk_rope_head_dim},
                 {"v_head_dim", c.v_head_dim},
                 {"masked", c.masked},
                 {"decoder_layers", c.decoder_layers},
                 {"decoder_seq", c.decoder_seq},
                 {"lora_rank", c.lora_rank}});
  const bool llama = c.family == "llama";
  if (c.kv_heads == 0) c.kv_heads = c.heads;
  if (c.head_dim == 0 && is_latent(c)) c.head_dim = c.qk_nope_head_dim + c.qk_rope_head_dim;
  if (c.head_dim == 0 && c.heads > 0 && c.hidden % c.heads == 0) c.head_dim = c.hidden / c.heads;
  if (c.experts > 0 && c.top_k == 0) c.top_k = std::min<int64_t>(2, c.experts);
  if (c.ffn == 0) c.ffn = llama ? round_up((8 * c.hidden + 2) / 3, 256) : 4 * c.hidden;
  if (c.experts > 0 && c.expert_ffn == 0) c.expert_ffn = c.ffn;
  if (c.mlp.empty()) c.mlp = llama ? "swiglu" : "gelu";
  if (c.norm.empty()) c.norm = llama ? "rms" : "layer";
  if (c.position.empty()) c.position = llama ? "rotary" : "learned";
  if (c.family == "t5" && c.decoder_layers == 0) c.decoder_layers = c.layers / 2;
  if (c.family == "t5" && c.decoder_seq == 0) c.decoder_seq = c.seq;
  one_of(c.mlp, "mlp", {"gelu", "swiglu"});
  one_of(c.gelu, "gelu", {"erf", "tanh"});
  one_of(c.norm, "norm", {"layer", "rms"});
  one_of(c.position, "position", {"learned", "rotary"});
  one_of(c.router_scores, "router_scores", {"softmax", "sigmoid"});
  if (c.lora_rank > 0 && c.lora_alpha == 0) c.lora_alpha = 2 * static_cast<double>(c.lora_rank);
  check_sizes(c);
  check_router(c);
  check_latent(c);
  check_lora(c);
  return c;
}

void check_attention(const Transformer& config) {
  require(config.document_length == 0 || config.flash, "document_length",
          "needs attention as one kernel (give flash)");
}

int64_t capacity(const Transformer& config) {
  return config.experts == 0 ? 0 : (config.seq * config.top_k + config.experts - 1) / config.experts;
}

Transformer without_adapters(Transformer config) {
  config.lora_rank = 0, config.lora_alpha = config.lora_dropout = 0, config.lora_mlp = false;
  return config;
}

bool is_latent(const Transformer& config) { return config.kv_lora_rank > 0; }

int64_t value_width(const Transformer& config) {
  return is_latent(config) ? config.v_head_dim : config.head_dim;
}

bool has_experts(const Transformer& config, int64_t layer) {
  return config.experts > 0 && layer >= config.dense_layers && (layer + 1) % config.expert_every == 0;
}

bool has_window(const Transformer& config, int64_t layer) {
  if (config.attention_window == 0 || config.attention_window >= config.seq) return false;
  return config.full_attention_every == 0 || (layer + 1) % config.full_attention_every != 0;
}

int64_t padded_vocab(const Transformer& config) { return round_up(config.vocab, config.pad_vocab_to); }

}  // namespace boxcar::ir::models

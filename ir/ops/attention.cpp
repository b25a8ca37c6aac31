// Attention as one op, and rotary positions.
//
//   out[b, h, s, e] = sum_t softmax_t(scale q k^T)[s, t] v[b, h / group, t, e],   lse = log sum_t exp(scale q
//   k^T)
//
// Query heads share key heads in groups (grouped-query attention). A causal mask hides key t from query s if
// t > s + offset, and with a window w also if t <= s + offset - w. The operand `seen`, [b, s], is a window of
// each query: it ends attention where the query's document begins. `document` is the mean length of
// documents, for the work alone. With dropout, probabilities [b, h, s, t] are dropped as by the op dropout.
//
// It can be split by batch, by head (key heads are split with the query heads that use them, or whole on
// every device) and by query sequence. A part has `offset`, the position of its first query minus that of its
// first key. If keys stay whole, it also has the map from its heads to key heads: head i uses key head (i +
// head_offset) / group; group 0 stands for heads / key heads. The gradient can also be split by key sequence,
// because lse and out already hold the sums over all keys. Ring attention relies on this.
#include <fmt/format.h>

#include <cmath>

#include "ir/ops/attention_work.h"
#include "ir/ops/nn_rows.h"

namespace boxcar::ir {
namespace {

enum AttentionAxis : size_t { kSamples, kHead, kSequence, kHeadWidth };

// Operands of the forward or the backward op; `seen` may be null.
struct Operands {
  const TensorType &q, &k, &v;
  const TensorType* seen;
};
Operands forward_operands(const Types& in) { return {in[0], in[1], in[2], in.size() > 3 ? &in[3] : nullptr}; }
Operands backward_operands(const Types& in) {
  return {in[1], in[2], in[3], in.size() > 6 ? &in[6] : nullptr};
}

int64_t group_of(const Operands& x, const Attrs& attrs) {
  const int64_t group = attr_int(attrs, "group");
  if (group > 0) return group;
  return x.k.shape[kHead] > 0 ? std::max<int64_t>(x.q.shape[kHead] / x.k.shape[kHead], 1) : 1;
}

// The probabilities [b, h, s, t], on which dropout draws.
TensorType probabilities(const Operands& x) {
  const Shape& q = x.q.shape;
  return {{q[kSamples], q[kHead], q[kSequence], x.k.shape[kSequence]}, x.q.dtype};
}

void check_heads(const char* op, const Operands& x, const Attrs& attrs) {
  const int64_t heads = x.q.shape[kHead], key_heads = x.k.shape[kHead];
  if (attr_int(attrs, "group") == 0) {
    const bool divides = key_heads == 0 ? heads == 0 : heads % key_heads == 0;
    if (!divides) refuse(op, "q", x.q, "a multiple of the heads", "k", x.k);
  } else if (heads + attr_int(attrs, "head_offset") > group_of(x, attrs) * key_heads) {
    refuse(op, "k", x.k, "key heads for all heads", "q", x.q);
  }
}

void check_seen(const char* op, const Operands& x, const Attrs& attrs) {
  const bool causal = attr_bool(attrs, "causal");
  if (attr_int(attrs, "document") < 0 || (attr_int(attrs, "document") > 0 && !causal))
    refuse_attr(op, "document", attrs, "0, or more where causal");
  if (!x.seen) return;
  if (!causal) refuse_attr(op, "causal", attrs, "true with seen");
  if (x.seen->dtype != DType::int64) refuse(op, "seen", *x.seen, "int64");
  need_shape(op, "seen", *x.seen, {x.q.shape[kSamples], x.q.shape[kSequence]}, "q", x.q);
}

void check_operands(const char* op, const Operands& x, const Attrs& attrs) {
  exact_rank(op, "q", x.q, 4);
  exact_rank(op, "k", x.k, 4);
  exact_rank(op, "v", x.v, 4);
  need_float(op, "q", x.q);
  const Shape &q = x.q.shape, &k = x.k.shape, &v = x.v.shape;
  need_shape(op, "k", x.k, {q[kSamples], k[kHead], k[kSequence], q[kHeadWidth]}, "q", x.q);
  need_shape(op, "v", x.v, {k[kSamples], k[kHead], k[kSequence], v[kHeadWidth]}, "k", x.k);
  check_heads(op, x, attrs);
  check_random(op, attrs, probabilities(x));
  check_window(op, attrs);
  check_seen(op, x, attrs);
}

TensorType out_of(const Operands& x) {
  const Shape& q = x.q.shape;
  return {{q[kSamples], q[kHead], q[kSequence], x.v.shape[kHeadWidth]}, x.q.dtype};
}

TensorType lse_of(const Operands& x) { return {without_last(x.q.shape), wide(x.q.dtype)}; }

Types infer_forward(const Types& in, const Attrs& attrs) {
  const char* op = "scaled_dot_product_attention";
  const Operands x = forward_operands(in);
  check_operands(op, x, attrs);
  if (attr_int(attrs, "offset") < 0) refuse_attr(op, "offset", attrs, "at least 0");
  return {out_of(x), lse_of(x)};
}

Types infer_backward(const Types& in, const Attrs& attrs) {
  const char* op = "scaled_dot_product_attention_grad";
  const Operands x = backward_operands(in);
  check_operands(op, x, attrs);
  need_shape(op, "dy", in[0], out_of(x).shape, "q", x.q);
  need_shape(op, "out", in[4], out_of(x).shape, "q", x.q);
  need_shape(op, "lse", in[5], lse_of(x).shape, "q", x.q);
  return {x.q, x.k, x.v};
}

// Whether a split by head splits key heads too, because the parts hold whole groups; else all key heads are
// on every device.
bool heads_together(const Operands& x, const Attrs& attrs, int64_t parts) {
  const int64_t heads = x.q.shape[kHead], key_heads = x.k.shape[kHead];
  return attr_int(attrs, "head_offset") == 0 && heads == key_heads * group_of(x, attrs) &&
         aligned(heads, key_heads, parts);
}

// The rules of the op without `seen`, which all heads read.
std::vector<sbp::Signature> with_seen(std::vector<sbp::Signature> rules, const Operands& x) {
  if (x.seen)
    for (sbp::Signature& rule : rules) rule.inputs.push_back(sbp::Sbp::B());
  return rules;
}

std::vector<sbp::Signature> forward_extra(const Types& in, const Attrs& attrs, int64_t parts) {
  static const auto kRules =
      parse_all({"S(1), B, B -> S(1), S(1)", "B, B, S(3) -> S(3), B", "B, B, P(sum) -> P(sum), B"});
  std::vector<sbp::Signature> rules = kRules;
  if (heads_together(forward_operands(in), attrs, parts)) {
    rules.push_back(sbp::parse_signature("S(1), S(1), S(1) -> S(1), S(1)"));
  }
  return with_seen(std::move(rules), forward_operands(in));
}

std::vector<sbp::Signature> backward_extra(const Types& in, const Attrs& attrs, int64_t parts) {
  static const auto kRules = parse_all({"S(1), S(1), B, B, S(1), S(1) -> S(1), P(sum), P(sum)",
                                        "B, B, B, P(sum), P(sum), B -> P(sum), P(sum), B"});
  std::vector<sbp::Signature> rules = kRules;
  if (heads_together(backward_operands(in), attrs, parts)) {
    rules.push_back(sbp::parse_signature("S(1), S(1), S(1), S(1), S(1), S(1) -> S(1), S(1), S(1)"));
  }
  return with_seen(std::move(rules), backward_operands(in));
}

Attrs localize_query(const Operands& x, const Attrs& attrs, sbp::Sbp q, bool keys_split, int64_t parts,
                     int64_t index) {
  const auto axis = static_cast<size_t>(q.axis);
  const int64_t begin = part_of(x.q, axis, parts, index).begin;
  Attrs local = localize_random(probabilities(x), attrs, q, parts, index);
  if (axis == kSequence) return advanced(std::move(local), "offset", begin);
  if (axis != kHead || keys_split) return local;
  return advanced(with(std::move(local), "group", group_of(x, attrs)), "head_offset", begin);
}

// Only for the backward op, which has lse and out, the sums over all keys.
Attrs localize_keys(const Operands& x, const Attrs& attrs, int64_t parts, int64_t index) {
  Attrs local = localize_random(probabilities(x), attrs, sbp::Sbp::S(3), parts, index);
  return advanced(std::move(local), "offset", -part_of(x.k, kSequence, parts, index).begin);
}

Attrs localize(const Operands& x, const Attrs& attrs, sbp::Sbp q, sbp::Sbp k, int64_t parts, int64_t index) {
  if (q.is_split() && q.axis != kHeadWidth) return localize_query(x, attrs, q, k.is_split(), parts, index);
  return split_at(k, kSequence) ? localize_keys(x, attrs, parts, index) : attrs;
}

Attrs localize_forward(const Types& in, const Attrs& attrs, const sbp::Signature& s, int64_t parts,
                       int64_t index) {
  return localize(forward_operands(in), attrs, s.inputs[0], s.inputs[1], parts, index);
}

Attrs localize_backward(const Types& in, const Attrs& attrs, const sbp::Signature& s, int64_t parts,
                        int64_t index) {
  return localize(backward_operands(in), attrs, s.inputs[1], s.inputs[2], parts, index);
}

// Tokens of the whole sequence; queries or keys may be of a part of it.
int64_t tokens_of(const Operands& x) { return std::max(x.q.shape[kSequence], x.k.shape[kSequence]); }

// Two products of b h s t d multiply-adds, for the pairs that are seen. Parts of a split sequence count as if
// each had an equal share of the pairs, because implementations balance them so.
double forward_flops(const Operands& x, const Attrs& attrs) {
  const double pairs = static_cast<double>(probabilities(x).elements());
  const double width = static_cast<double>(x.q.shape[kHeadWidth] + x.v.shape[kHeadWidth]);
  if (!attr_bool(attrs, "causal")) return 2 * pairs * width;
  return 2 * pairs * width * seen_share(window_of(attrs), document_of(attrs), tokens_of(x));
}

Work forward_work(const Types& in, const Types& out, const Attrs& attrs) {
  return {forward_flops(forward_operands(in), attrs), bytes_of(in) + bytes_of(out)};
}

// Five products: the scores again, and four for the gradients.
Work backward_work(const Types& in, const Types& out, const Attrs& attrs) {
  return {2.5 * forward_flops(backward_operands(in), attrs), bytes_of(in) + bytes_of(out)};
}

Attrs attention_attrs() {
  Attrs attrs = random_attrs();
  attrs.insert({{"causal", false},
                {"window", int64_t{0}},
                {"document", int64_t{0}},
                {"scale", 0.0},  // 0: 1 / sqrt(d)
                {"offset", int64_t{0}},
                {"group", int64_t{0}},
                {"head_offset", int64_t{0}}});
  return attrs;
}

// Heads with their own key heads; grouped and causal; with a window; with documents; one key head with
// dropout. They are small because law 1 tries every combination of layouts.
struct AttentionExample {
  TensorType q, k, v, out, lse;
  Attrs attrs;
  bool has_documents = false;
};
// A call on these operands and, with documents, on `seen`.
Sample sample_of(const AttentionExample& x, Types inputs, std::vector<Domain> domains) {
  if (x.has_documents) {
    const Shape& q = x.q.shape;
    inputs.push_back({{q[kSamples], q[kSequence]}, DType::int64});
    domains.push_back({1, static_cast<double>(q[kSequence]), 1});
  }
  return {.inputs = std::move(inputs), .attrs = x.attrs, .domains = std::move(domains)};
}
std::vector<AttentionExample> attention_examples(const Extent& n) {
  const auto example = [](int64_t b, int64_t heads, int64_t key_heads, int64_t s, int64_t t, int64_t width,
                          Attrs attrs) {
    attrs["scale"] = 0.25;
    return AttentionExample{
        f32({b, heads, s, 2}),     f32({b, key_heads, t, 2}), f32({b, key_heads, t, width}),
        f32({b, heads, s, width}), f32({b, heads, s}),        std::move(attrs)};
  };
  const auto few = [&] { return 2 + n() % 3; };
  AttentionExample documents = example(2, 2, 2, 4, 4, 1, {{"causal", true}, {"document", int64_t{2}}});
  documents.has_documents = true;
  return {example(2, 3, 3, 2, few(), 2, {}), example(1, 6, 3, few(), few(), 2, {{"causal", true}}),
          example(1, 2, 1, 4, 4, 1, {{"causal", true}, {"window", int64_t{2}}}),
          example(2, 4, 1, 3, few(), 1, {{"p", 0.5}}), std::move(documents)};
}

// The index map of a call without `seen` (`count` operands) and with it.
MapFunction either(std::string_view operands, size_t count, std::string_view results) {
  return [count, without = fixed_map(fmt::format("{} -> {}", operands, results)),
          with = fixed_map(fmt::format("{}, b s -> {}", operands, results))](const Types& in,
                                                                             const Attrs& attrs) {
    return in.size() > count ? with(in, attrs) : without(in, attrs);
  };
}

OpDef attention() {
  return {
      .name = "scaled_dot_product_attention",
      .inputs = {"q", "k", "v", "seen?"},
      .outputs = {"out", "lse"},
      .attrs = attention_attrs(),
      .family = Family::attention,
      .infer = infer_forward,
      .index_map = either("b _ s _, b _ _ _, b _ _ _", 3, "b _ s _, b _ s"),
      .extra = forward_extra,
      .extra_reason = "heads are split in whole groups or by offset; v is linear in out and absent from lse",
      .localize = localize_forward,
      .work = forward_work,
      .tolerance = 1e-9,
      .samples = [](const Extent& n) {
        std::vector<Sample> samples;
        for (auto& x : attention_examples(n))
          samples.push_back(sample_of(x, {x.q, x.k, x.v}, std::vector<Domain>(3)));
        return samples;
      }};
}

OpDef attention_grad() {
  return {
      .name = "scaled_dot_product_attention_grad",
      .inputs = {"dy", "q", "k", "v", "out", "lse", "seen?"},
      .outputs = {"dq", "dk", "dv"},
      .attrs = attention_attrs(),
      .family = Family::attention,
      .infer = infer_backward,
      .index_map = either("b _ s e, b _ s _, b _ t _, b _ t e, b _ s e, b _ s", 6,
                          "b _ s _, b _ t _, b _ t e ; sum s t e ; linear 0"),
      .extra = backward_extra,
      .extra_reason = "heads as in the forward op; dq and dk are linear in (v, out), dv depends on neither",
      .localize = localize_backward,
      .work = backward_work,
      .tolerance = 1e-9,
      .samples = [](const Extent& n) {
        std::vector<Sample> samples;
        for (auto& x : attention_examples(n)) {
          std::vector<Domain> domains(6);
          domains[5] = {4, 12, 1};  // lse: probabilities below one
          samples.push_back(sample_of(x, {x.out, x.q, x.k, x.v, x.out, x.lse}, std::move(domains)));
        }
        return samples;
      }};
}

// Turns each pair (x[i], x[i + d/2]) by the angle position base^(-2i/d); `inverse` turns them back, which is
// the gradient.
OpDef rotary() {
  return {.name = "rotary",
          .inputs = {"x"},
          .outputs = {"y"},
          .attrs = {{"base", 10000.0}, {"inverse", false}, {"offset", int64_t{0}}},
          .infer = [](const Types& in, const Attrs&) -> Types {
            need_rank("rotary", "x", in[0], 2);
            need_float("rotary", "x", in[0]);
            if (in[0].shape.back() % 2 != 0) refuse("rotary", "x", in[0], "an even last dimension");
            return {in[0]};
          },
          .index_map = ranked("* _ -> * _ ; linear 0", 0, 1),
          .localize =
              [](const Types& in, const Attrs& attrs, const sbp::Signature& signature, int64_t parts,
                 int64_t index) {
                const size_t sequence = in[0].shape.size() - 2;
                if (!split_at(signature.inputs[0], static_cast<int64_t>(sequence))) return attrs;
                return advanced(attrs, "offset", part_of(in[0], sequence, parts, index).begin);
              },
          .tolerance = 1e-9,
          .samples = [](const Extent& n) -> std::vector<Sample> {
            return {{.inputs = {f32({n(), n(), n(), 4})}, .attrs = {{"base", 100.0}}},
                    {.inputs = {f32({n(), n(), 6})}, .attrs = {{"inverse", true}, {"offset", int64_t{2}}}}};
          }};
}

}  // namespace

void add_attention_ops(std::vector<OpDef>& out) {
  out.push_back(attention());
  out.push_back(attention_grad());
  out.push_back(rotary());
}

}  // namespace boxcar::ir

// Mixture of experts with a fixed capacity. A router (softmax, top_k) gives each token k experts and k
// weights:
//
//   moe_dispatch(x[..., t, h], index[..., t, k]) [experts, capacity] -> y[..., experts, capacity, h]
//   moe_combine(y[..., experts, capacity, h], index, weight[..., t, k]) -> [..., t, h]
//
// Tokens take an expert's slots in order of (token, choice); tokens beyond `capacity` are dropped: that
// choice adds nothing. Empty slots are zero. With index = {{0}, {1}, {0}, {0}} and capacity 2, expert 0 gets
// tokens 0 and 2, expert 1 token 1, and token 3 is dropped.
//
// Slots are counted over all tokens of `index`, which is whole on every device, so every layout drops the
// same tokens. Leading dimensions are groups, each with its own capacity: x[sequences, t, h] split by
// sequence counts without communication, and S(0) -> S(1) of [sequences, experts, ...] is expert
// parallelism's all-to-all. A part of the experts has the number of its first expert, `expert_offset`. A part
// of the tokens has that of its first token, `token_offset`, and its number of tokens, `tokens` (-1: all of
// index).
#include <fmt/format.h>

#include "ir/ops/nn_rows.h"

namespace boxcar::ir {
namespace {

size_t groups_of(const TensorType& index) { return index.shape.size() - 2; }

Shape group_shape(const TensorType& index) { return Shape(index.shape.begin(), index.shape.end() - 2); }

// `groups` followed by `rest`.
Shape join(Shape groups, const Shape& rest) {
  groups.insert(groups.end(), rest.begin(), rest.end());
  return groups;
}

int64_t tokens_of(const TensorType& index, const Attrs& attrs) {
  const int64_t tokens = attr_int(attrs, "tokens");
  return tokens < 0 ? index.shape[groups_of(index)] : tokens;
}

void check_index(const char* op, const TensorType& index) {
  need_rank(op, "index", index, 2);
  need_indices(op, "index", index);
}

// x[..., t, h]
void check_tokens(const char* op, const char* operand, const TensorType& x, const TensorType& index,
                  const Attrs& attrs) {
  need_rank(op, operand, x, 2);
  need_float(op, operand, x);
  need_shape(op, operand, x, join(group_shape(index), {tokens_of(index, attrs), x.shape.back()}), "index",
             index);
}

// y[..., e, c, h]
void check_slots(const char* op, const char* operand, const TensorType& y, const TensorType& index) {
  need_rank(op, operand, y, 3);
  need_float(op, operand, y);
  const Shape slots(y.shape.end() - 3, y.shape.end());
  need_shape(op, operand, y, join(group_shape(index), slots), "index", index);
}

void check_weight(const char* op, const TensorType& weight, const TensorType& index, const Attrs& attrs) {
  need_float(op, "weight", weight);
  need_shape(op, "weight", weight, join(group_shape(index), {tokens_of(index, attrs), index.shape.back()}),
             "index", index);
}

TensorType tokens_like(const TensorType& y, const TensorType& index, const Attrs& attrs) {
  return {join(group_shape(index), {tokens_of(index, attrs), y.shape.back()}), y.dtype};
}

Types infer_dispatch(const Types& in, const Attrs& attrs) {
  const char* op = "moe_dispatch";
  check_index(op, in[1]);
  check_tokens(op, "x", in[0], in[1], attrs);
  for (const char* name : {"experts", "capacity"}) {
    if (attr_int(attrs, name) < 0) refuse_attr(op, name, attrs, "a count");
  }
  const Shape slots = {attr_int(attrs, "experts"), attr_int(attrs, "capacity"), in[0].shape.back()};
  return {{join(group_shape(in[1]), slots), in[0].dtype}};
}

Types infer_dispatch_grad(const Types& in, const Attrs& attrs) {
  check_index("moe_dispatch_grad", in[1]);
  check_slots("moe_dispatch_grad", "dy", in[0], in[1]);
  return {tokens_like(in[0], in[1], attrs)};
}

Types infer_combine(const Types& in, const Attrs& attrs) {
  check_index("moe_combine", in[1]);
  check_slots("moe_combine", "y", in[0], in[1]);
  check_weight("moe_combine", in[2], in[1], attrs);
  return {tokens_like(in[0], in[1], attrs)};
}

Types infer_combine_grad(const Types& in, const Attrs& attrs) {
  const char* op = "moe_combine_grad";
  check_index(op, in[2]);
  check_slots(op, "y", in[1], in[2]);
  check_weight(op, in[3], in[2], attrs);
  need_shape(op, "dout", in[0], tokens_like(in[1], in[2], attrs).shape, "y", in[1]);
  return {in[1], in[3]};
}

// Signatures in which S(g) is the axis after the groups: the tokens of x, index and weight, and the experts
// of y.
ExtraFunction after_groups(std::initializer_list<std::string_view> rules, size_t index) {
  return [rules = parse_all(rules), index](const Types& in, const Attrs&, int64_t) {
    std::vector<sbp::Signature> result = rules;
    const auto axis = static_cast<int>(groups_of(in[index]));
    for (sbp::Signature& rule : result) {
      for (auto* layouts : {&rule.inputs, &rule.outputs}) {
        for (sbp::Sbp& layout : *layouts) layout = layout.is_split() ? sbp::Sbp::S(axis) : layout;
      }
    }
    return result;
  };
}

constexpr const char* kReason =
    "slots are counted over all tokens: parts of experts or tokens know where they begin and add zeros "
    "elsewhere";

Attrs with_experts(Attrs attrs, int64_t experts, int64_t parts, int64_t index) {
  const sbp::Range part = sbp::part_range(experts, parts, index);
  if (attrs.count("experts")) attrs = with(std::move(attrs), "experts", part.size());
  return advanced(std::move(attrs), "expert_offset", part.begin);
}

Attrs with_tokens(Attrs attrs, int64_t tokens, int64_t parts, int64_t index) {
  const sbp::Range part = sbp::part_range(tokens, parts, index);
  return with(advanced(std::move(attrs), "token_offset", part.begin), "tokens", part.size());
}

// Effect of a split at the axis after the groups on x[..., t, h] and y[..., e, c, h] of an op.
struct Layouts {
  sbp::Sbp tokens, slots;
  int64_t experts;
};

template <size_t index_operand, Layouts (*layouts)(const Types&, const Attrs&, const sbp::Signature&)>
Attrs localize_moe(const Types& in, const Attrs& attrs, const sbp::Signature& signature, int64_t parts,
                   int64_t index) {
  const Layouts split = layouts(in, attrs, signature);
  if (signature.inputs[index_operand].is_split()) return attrs;  // by group: each group counts separately
  const auto axis = static_cast<int64_t>(groups_of(in[index_operand]));
  if (split_at(split.slots, axis)) {
    return with_experts(attrs, split.experts, parts, index);
  }
  if (split_at(split.tokens, axis)) {
    return with_tokens(attrs, tokens_of(in[index_operand], attrs), parts, index);
  }
  return attrs;
}

int64_t experts_of(const TensorType& y) { return y.shape[y.shape.size() - 3]; }

Layouts of_dispatch(const Types&, const Attrs& attrs, const sbp::Signature& s) {
  return {s.inputs[0], s.outputs[0], attr_int(attrs, "experts")};
}
Layouts of_dispatch_grad(const Types& in, const Attrs&, const sbp::Signature& s) {
  return {s.outputs[0], s.inputs[0], experts_of(in[0])};
}
Layouts of_combine(const Types& in, const Attrs&, const sbp::Signature& s) {
  return {s.inputs[2], s.inputs[0], experts_of(in[0])};
}
Layouts of_combine_grad(const Types& in, const Attrs&, const sbp::Signature& s) {
  return {s.inputs[3], s.inputs[1], experts_of(in[1])};
}

// `below`: the limit of expert numbers that the graph computes, over all experts (index.cpp).
Attrs part_attrs() {
  return {{"expert_offset", int64_t{0}},
          {"token_offset", int64_t{0}},
          {"tokens", int64_t{-1}},
          {"below", int64_t{0}}};
}

// Some experts are chosen more often than they have slots.
struct MoeExample {
  TensorType x, index, weight, y;
  Domain experts;
  Attrs attrs;
};
std::vector<MoeExample> moe_examples(const Extent& n) {
  std::vector<MoeExample> result;
  for (const Shape& groups : {Shape{}, Shape{n()}}) {
    const int64_t t = n() + 2, e = n(), h = n();
    result.push_back({f32(join(groups, {t, h})),
                      i64(join(groups, {t, 2})),
                      f32(join(groups, {t, 2})),
                      f32(join(groups, {e, 2, h})),
                      {0, static_cast<double>(e - 1), 1},
                      {{"experts", e}, {"capacity", int64_t{2}}}});
  }
  return result;
}

OpDef dispatch() {
  Attrs attrs = part_attrs();
  attrs.insert({{"experts", int64_t{-1}}, {"capacity", int64_t{-1}}});
  return {.name = "moe_dispatch",
          .inputs = {"x", "index"},
          .outputs = {"y"},
          .attrs = attrs,
          .infer = infer_dispatch,
          .index_map = ranked("* _ h, * _ _ -> * _ _ h ; linear 0 ; increasing 0", 1, 2),
          .extra = after_groups({"B, B -> S(0)", "S(0), B -> P(sum)"}, 1),
          .extra_reason = kReason,
          .localize = localize_moe<1, of_dispatch>,
          .work =
              [](const Types& in, const Types& out, const Attrs&) {
                return Work{0, static_cast<double>(in[1].bytes() + 2 * out[0].bytes())};
              },
          .samples =
              [](const Extent& n) {
                std::vector<Sample> samples;
                for (const MoeExample& e : moe_examples(n)) {
                  samples.push_back({.inputs = {e.x, e.index}, .attrs = e.attrs, .domains = {{}, e.experts}});
                }
                return samples;
              }};
}

OpDef dispatch_grad() {
  return {.name = "moe_dispatch_grad",
          .inputs = {"dy", "index"},
          .outputs = {"dx"},
          .attrs = part_attrs(),
          .infer = infer_dispatch_grad,
          .index_map = ranked("* _ _ h, * _ _ -> * _ h ; linear 0", 1, 2),
          .extra = after_groups({"S(0), B -> P(sum)", "B, B -> S(0)"}, 1),
          .extra_reason = kReason,
          .localize = localize_moe<1, of_dispatch_grad>,
          .samples = [](const Extent& n) {
            std::vector<Sample> samples;
            for (const MoeExample& e : moe_examples(n))
              samples.push_back({.inputs = {e.y, e.index}, .domains = {{}, e.experts}});
            return samples;
          }};
}

OpDef combine() {
  return {.name = "moe_combine",
          .inputs = {"y", "index", "weight"},
          .outputs = {"out"},
          .attrs = part_attrs(),
          .infer = infer_combine,
          .index_map = ranked("* _ _ h, * _ _, * _ _ -> * _ h ; linear 0 ; linear 2", 1, 2),
          .extra = after_groups({"S(0), B, B -> P(sum)", "B, B, S(0) -> S(0)"}, 1),
          .extra_reason = kReason,
          .localize = localize_moe<1, of_combine>,
          .samples = [](const Extent& n) {
            std::vector<Sample> samples;
            for (const MoeExample& e : moe_examples(n)) {
              samples.push_back({.inputs = {e.y, e.index, e.weight}, .domains = {{}, e.experts}});
            }
            return samples;
          }};
}

OpDef combine_grad() {
  return {.name = "moe_combine_grad",
          .inputs = {"dout", "y", "index", "weight"},
          .outputs = {"dy", "dweight"},
          .attrs = part_attrs(),
          .infer = infer_combine_grad,
          .index_map =
              ranked("* _ h, * _ _ h, * _ _, * _ _ -> * _ _ h, * _ _ ; sum h ; linear 0 ; linear 1 3", 2, 2),
          .extra = after_groups({"B, S(0), B, B -> S(0), P(sum)", "S(0), B, B, S(0) -> P(sum), S(0)",
                                 "B, P(sum), B, B -> B, P(sum)", "B, B, B, P(sum) -> P(sum), B"},
                                2),
          .extra_reason = kReason,
          .localize = localize_moe<2, of_combine_grad>,
          .samples = [](const Extent& n) {
            std::vector<Sample> samples;
            for (const MoeExample& e : moe_examples(n)) {
              samples.push_back({.inputs = {e.x, e.y, e.index, e.weight}, .domains = {{}, {}, e.experts}});
            }
            return samples;
          }};
}

}  // namespace

void add_moe_ops(std::vector<OpDef>& out) {
  out.push_back(dispatch());
  out.push_back(dispatch_grad());
  out.push_back(combine());
  out.push_back(combine_grad());
}

}  // namespace boxcar::ir

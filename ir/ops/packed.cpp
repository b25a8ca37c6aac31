// Packed layouts of transformers, in which a split of the last axis is a split by head or by neuron, and the
// causal mask.
//
//   split_heads  qkv[b, s, (group + 2) d per key-value head: its group of queries, the key, the value]
//                -> q[b, heads, s, d], k[b, kv_heads, s, d], v
//   merge_heads  x[b, heads, s, d] -> [b, s, heads d]
//   swiglu_pairs x[..., 2 n], gate and up beside each other -> silu(gate) up [..., n]
//   weighed_swiglu_pairs  x, w[..., 1] -> silu(gate) up w [..., n]: experts' rows times their tokens' shares
//
// split_heads, merge_heads and merge_heads_grad are strided views on a device: the products around them read
// and write the packed tensor in place, so they are Family::none. split_heads_grad joins three gradients, so
// it is a copy.
#include <fmt/format.h>

#include <algorithm>

#include "ir/ops/nn_rows.h"
#include "sbp/at.h"

namespace boxcar::ir {
namespace {

using Map = std::function<sbp::IndexMap(const Types&, const Attrs&)>;
using Extra = std::function<std::vector<sbp::Signature>(const Types&, const Attrs&, int64_t)>;

constexpr const char* kWholeGroups = "a split of the packed axis is a split by head where no head is cut";

Extra split_extra(std::string_view signature, int64_t (*groups)(const Types&),
                  int64_t (*extent)(const Types&)) {
  return [parsed = sbp::parse_signature(signature), groups, extent](const Types& in, const Attrs&,
                                                                    int64_t parts) {
    std::vector<sbp::Signature> legal;
    if (aligned(extent(in), groups(in), parts)) legal.push_back(parsed);
    return legal;
  };
}

// --- heads

Types infer_split_heads(const Types& in, const Attrs& attrs) {
  const int64_t d = attr_int(attrs, "head_dim"), group = attr_int(attrs, "group");
  const TensorType& x = in[0];
  if (d < 1) refuse_attr("split_heads", "head_dim", attrs, "at least 1");
  if (group < 1) refuse_attr("split_heads", "group", attrs, "at least 1");
  if (x.shape.size() != 3) refuse("split_heads", "qkv", x, "3 dimensions");
  const int64_t width = (group + 2) * d;
  if (x.shape[2] % width != 0)
    refuse("split_heads", "qkv", x, fmt::format("a last extent that {} divides", width));
  const int64_t kv = x.shape[2] / width, b = x.shape[0], s = x.shape[1];
  const TensorType q{{b, kv * group, s, d}, x.dtype}, k{{b, kv, s, d}, x.dtype};
  return {q, k, k};
}

std::vector<sbp::Signature> split_heads_extra(const Types& in, const Attrs& attrs, int64_t parts) {
  const int64_t group = attr_int(attrs, "group"), width = (group + 2) * attr_int(attrs, "head_dim");
  const int64_t kv = in[0].shape[2] / width;
  if (!aligned(kv * width, kv, parts) || !aligned(kv * group, kv, parts)) return {};
  return {sbp::parse_signature("S(2) -> S(1), S(1), S(1)")};
}

const Attrs head_attrs = {{"group", int64_t{1}}, {"head_dim", int64_t{1}}};

OpDef split_heads() {
  return {.name = "split_heads",
          .inputs = {"qkv"},
          .outputs = {"q", "k", "v"},
          .attrs = head_attrs,
          .family = Family::none,
          .infer = infer_split_heads,
          .index_map = fixed_map("b s _ -> b _ s _, b _ s _, b _ s _ ; linear 0 ; increasing 0"),
          .extra = split_heads_extra,
          .extra_reason = kWholeGroups,
          .samples = [](const Extent& n) -> std::vector<Sample> {
            const int64_t group = n() / 3, d = n() / 2;
            const Attrs attrs = {{"group", group + 1}, {"head_dim", d}};
            return {{.inputs = {f32({n(), n(), n() * (group + 3) * d})}, .attrs = attrs},
                    {.inputs = {f32({n(), n(), 12 * (group + 3) * d})}, .attrs = attrs}};
          }};
}

Types infer_split_heads_grad(const Types& in, const Attrs&) {
  const TensorType &q = in[0], &k = in[1];
  if (q.shape.size() != 4) refuse("split_heads_grad", "dq", q, "4 dimensions");
  const Shape& s = q.shape;
  if (k.shape.size() != 4 || k.shape[0] != s[0] || k.shape[2] != s[2] || k.shape[3] != s[3] ||
      k.shape[1] < 1 || s[1] % k.shape[1] != 0 || k.dtype != q.dtype)
    refuse("split_heads_grad", "dk", k, "the same but for a number of heads that divides that", "dq", q);
  same_type("split_heads_grad", "dv", in[2], "dk", k);
  return {{{s[0], s[2], (s[1] + 2 * k.shape[1]) * s[3]}, q.dtype}};
}

std::vector<sbp::Signature> split_heads_grad_extra(const Types& in, const Attrs&, int64_t parts) {
  const int64_t kv = in[1].shape[1], group = in[0].shape[1] / kv;
  if (!aligned(kv * group, kv, parts) || !aligned(kv * (group + 2) * in[0].shape[3], kv, parts)) return {};
  return {sbp::parse_signature("S(1), S(1), S(1) -> S(2)")};
}

OpDef split_heads_grad() {
  return {.name = "split_heads_grad",
          .inputs = {"dq", "dk", "dv"},
          .outputs = {"dqkv"},
          .infer = infer_split_heads_grad,
          .index_map = fixed_map("b _ s _, b _ s _, b _ s _ -> b s _ ; linear 0 1 2"),
          .extra = split_heads_grad_extra,
          .extra_reason = kWholeGroups,
          .samples = [](const Extent& n) -> std::vector<Sample> {
            const int64_t group = n() / 3 + 1, kv = n(), b = n(), s = n(), d = n();
            const TensorType k = f32({b, kv, s, d}), k12 = f32({b, 12, s, d});
            return {{.inputs = {f32({b, kv * group, s, d}), k, k}},
                    {.inputs = {f32({b, 12 * group, s, d}), k12, k12}}};
          },
          .omitted = {{"gradients are sums, never P(max) or P(min)", has_extremum}}};
}

OpDef merge_heads() {
  return {.name = "merge_heads",
          .inputs = {"x"},
          .outputs = {"y"},
          .family = Family::none,
          .infer = [](const Types& in, const Attrs&) -> Types {
            const Shape& s = in[0].shape;
            if (s.size() != 4) refuse("merge_heads", "x", in[0], "4 dimensions");
            return {{{s[0], s[2], s[1] * s[3]}, in[0].dtype}};
          },
          .index_map = fixed_map("b _ s _ -> b s _ ; linear 0 ; increasing 0"),
          .extra = split_extra(
              "S(1) -> S(2)", [](const Types& in) { return in[0].shape[1]; },
              [](const Types& in) { return in[0].shape[1] * in[0].shape[3]; }),
          .extra_reason = kWholeGroups,
          .samples = [](const Extent& n) -> std::vector<Sample> {
            return {{.inputs = {f32({n(), n(), n(), n()})}}, {.inputs = {f32({n(), 12, n(), n()})}}};
          }};
}

Types infer_merge_heads_grad(const Types& in, const Attrs& attrs) {
  const int64_t d = attr_int(attrs, "head_dim");
  const Shape& s = in[0].shape;
  if (d < 1) refuse_attr("merge_heads_grad", "head_dim", attrs, "at least 1");
  if (s.size() != 3) refuse("merge_heads_grad", "dy", in[0], "3 dimensions");
  if (s[2] % d != 0) refuse("merge_heads_grad", "dy", in[0], fmt::format("a last extent that {} divides", d));
  return {{{s[0], s[2] / d, s[1], d}, in[0].dtype}};
}

OpDef merge_heads_grad() {
  return {.name = "merge_heads_grad",
          .inputs = {"dy"},
          .outputs = {"dx"},
          .attrs = {{"head_dim", int64_t{1}}},
          .family = Family::none,
          .infer = infer_merge_heads_grad,
          .index_map = fixed_map("b s _ -> b _ s _ ; linear 0 ; increasing 0"),
          .extra = [](const Types& in, const Attrs& attrs, int64_t parts) -> std::vector<sbp::Signature> {
            const int64_t d = attr_int(attrs, "head_dim");
            if (!aligned(in[0].shape[2], in[0].shape[2] / d, parts)) return {};
            return {sbp::parse_signature("S(2) -> S(1)")};
          },
          .extra_reason = kWholeGroups,
          .samples = [](const Extent& n) -> std::vector<Sample> {
            const int64_t d = n();
            const Attrs attrs = {{"head_dim", d}};
            return {{.inputs = {f32({n(), n(), n() * d})}, .attrs = attrs},
                    {.inputs = {f32({n(), n(), 12 * d})}, .attrs = attrs}};
          }};
}

// --- swiglu on pairs

std::string leading(size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i) text += fmt::format("d{} ", i);
  return text;
}

// `text` with a "*" for every leading index.
Map pairs_map(std::string_view text) {
  return [text = std::string(text)](const Types& in, const Attrs&) {
    std::string full;
    for (char c : text) full += c == '*' ? leading(in[0].shape.size() - 1) : std::string(1, c);
    return sbp::parse_index_map(full);
  };
}

// A split of the last axis of operand `x` that leaves pairs whole, over all operands and results. A weight
// for each row, behind x, stays whole; its gradient, the second result, is partial.
Extra split_pairs(size_t x, size_t results = 1) {
  return [x, results](const Types& in, const Attrs&, int64_t parts) -> std::vector<sbp::Signature> {
    const int64_t pairs = in[x].shape.back() / 2;
    if (!aligned(2 * pairs, pairs, parts)) return {};
    const sbp::Sbp last = sbp::Sbp::S(static_cast<int>(in[x].shape.size()) - 1);
    sbp::Signature signature{std::vector<sbp::Sbp>(in.size(), last), {last}};
    std::fill(signature.inputs.begin() + static_cast<std::ptrdiff_t>(x) + 1, signature.inputs.end(),
              sbp::Sbp::B());
    signature.outputs.resize(results, sbp::Sbp::P());
    return {signature};
  };
}

void check_pairs(std::string_view op, const TensorType& x) {
  need_rank(op, "x", x, 1);
  if (!is_float(x.dtype)) refuse(op, "x", x, "a floating-point type");
  if (x.shape.back() % 2 != 0) refuse(op, "x", x, "an even last extent");
}

OpDef swiglu_pairs() {
  return {.name = "swiglu_pairs",
          .inputs = {"x"},
          .outputs = {"y"},
          .infer =
              [](const Types& in, const Attrs&) {
                check_pairs("swiglu_pairs", in[0]);
                Types y = in;
                y[0].shape.back() /= 2;
                return y;
              },
          .index_map = pairs_map("* _ -> * _"),
          .extra = split_pairs(0),
          .extra_reason = "a split that leaves pairs of gate and up whole",
          .work = per_element(5),
          .tolerance = 1e-9,
          .samples = [](const Extent& n) -> std::vector<Sample> {
            return {{.inputs = {f32({n(), 2 * n()})}}, {.inputs = {f32({n(), n(), 24})}}};
          }};
}

OpDef swiglu_pairs_grad() {
  return {
      .name = "swiglu_pairs_grad",
      .inputs = {"dy", "x"},
      .outputs = {"dx"},
      .infer = [](const Types& in, const Attrs&) -> Types {
        check_pairs("swiglu_pairs_grad", in[1]);
        TensorType y = in[1];
        y.shape.back() /= 2;
        same_type("swiglu_pairs_grad", "dy", in[0], "half of x", y);
        return {in[1]};
      },
      .index_map = pairs_map("* _, * _ -> * _ ; linear 0"),
      .extra = split_pairs(1),
      .extra_reason = "a split that leaves pairs of gate and up whole",
      .work = per_element(8),
      .tolerance = 1e-9,
      .samples = [](const Extent& n) -> std::vector<Sample> {
        const int64_t a = n(), b = n(), h = n();
        return {{.inputs = {f32({a, h}), f32({a, 2 * h})}}, {.inputs = {f32({a, b, 12}), f32({a, b, 24})}}};
      }};
}

Types weighed_pairs(std::string_view op, const TensorType& x, const TensorType& w) {
  check_pairs(op, x);
  TensorType y = x, one = x;
  y.shape.back() /= 2;
  one.shape.back() = 1;
  same_type(op, "w", w, "one element for each row of x", one);
  return {y};
}

std::vector<Sample> weighed_samples(const Extent& n, bool backward) {
  std::vector<Sample> samples;
  for (const Shape& rows : {Shape{n()}, Shape{n(), n()}}) {
    const auto with = [&](int64_t last) {
      Shape shape = rows;
      shape.push_back(last);
      return f32(shape);
    };
    const int64_t h = rows.size() == 1 ? n() : 12;
    Types inputs{with(2 * h), with(1)};
    if (backward) inputs.insert(inputs.begin(), with(h));
    samples.push_back({.inputs = inputs});
  }
  return samples;
}

OpDef weighed_swiglu_pairs() {
  return {.name = "weighed_swiglu_pairs",
          .inputs = {"x", "w"},
          .outputs = {"y"},
          .infer = [](const Types& in,
                      const Attrs&) { return weighed_pairs("weighed_swiglu_pairs", in[0], in[1]); },
          .index_map = pairs_map("* _, * _ -> * _ ; linear 1"),
          .extra = split_pairs(0),
          .extra_reason = "a split that leaves pairs of gate and up whole",
          .work = per_element(6),
          .tolerance = 1e-9,
          .samples = [](const Extent& n) { return weighed_samples(n, false); }};
}

OpDef weighed_swiglu_pairs_grad() {
  return {.name = "weighed_swiglu_pairs_grad",
          .inputs = {"dy", "x", "w"},
          .outputs = {"dx", "dw"},
          .infer = [](const Types& in, const Attrs&) -> Types {
            const TensorType y = weighed_pairs("weighed_swiglu_pairs_grad", in[1], in[2])[0];
            same_type("weighed_swiglu_pairs_grad", "dy", in[0], "half of x", y);
            return {in[1], in[2]};
          },
          .index_map = pairs_map("* _, * _, * _ -> * _, * _ ; linear 0"),
          .extra =
              [split = split_pairs(1, 2)](const Types& in, const Attrs& attrs, int64_t parts) {
                const sbp::Sbp b = sbp::Sbp::B(), p = sbp::Sbp::P();
                std::vector<sbp::Signature> legal = split(in, attrs, parts);
                legal.push_back({{b, b, p}, {p, b}});
                return legal;
              },
          .extra_reason = "a split that leaves pairs of gate and up whole; of the results only dx reads w",
          .work = per_element(11),
          .tolerance = 1e-9,
          .samples = [](const Extent& n) { return weighed_samples(n, true); }};
}

// --- causal mask: fills x[.., row, column] where column > row, or with a window w where column <= row - w

sbp::IndexMap causal_mask_map(const Types& in, const Attrs& attrs) {
  const std::string all = leading(in[0].shape.size());
  const bool linear = attr_float(attrs, "fill") == 0;
  return sbp::parse_index_map(all + "-> " + all + (linear ? "; linear 0 ; increasing 0" : "; increasing 0"));
}

Attrs causal_mask_part(const Types& in, const Attrs& attrs, const sbp::Signature& signature, int64_t parts,
                       int64_t index) {
  const sbp::Sbp layout = signature.inputs[0];
  const auto rank = static_cast<int>(in[0].shape.size());
  if (!layout.is_split() || layout.axis < rank - 2) return attrs;
  const char* name = layout.axis == rank - 2 ? "row_offset" : "column_offset";
  const int64_t begin = sbp::part_range(at(in[0].shape, layout.axis), parts, index).begin;
  return with(attrs, name, attr_int(attrs, name) + begin);
}

OpDef causal_mask() {
  return {.name = "causal_mask",
          .inputs = {"x"},
          .outputs = {"y"},
          .attrs = {{"fill", -1e30},
                    {"window", int64_t{0}},
                    {"row_offset", int64_t{0}},
                    {"column_offset", int64_t{0}}},
          .infer = [](const Types& in, const Attrs& attrs) -> Types {
            need_rank("causal_mask", "x", in[0], 2);
            if (attr_int(attrs, "window") < 0) refuse_attr("causal_mask", "window", attrs, "at least 0");
            return {in[0]};
          },
          .index_map = causal_mask_map,
          .localize = causal_mask_part,
          .samples = [](const Extent& n) -> std::vector<Sample> {
            const int64_t s = n();
            return {{.inputs = {f32({n(), s, s})}, .attrs = {{"fill", -9.0}}},
                    {.inputs = {f32({n(), n()})}, .attrs = {{"fill", 0.0}}},
                    {.inputs = {f32({n(), s, s})}, .attrs = {{"fill", -9.0}, {"window", int64_t{2}}}}};
          }};
}

}  // namespace

void add_packed_ops(std::vector<OpDef>& out) {
  for (auto row : {split_heads, split_heads_grad, merge_heads, merge_heads_grad, swiglu_pairs,
                   swiglu_pairs_grad, weighed_swiglu_pairs, weighed_swiglu_pairs_grad, causal_mask})
    out.push_back(row());
}

}  // namespace boxcar::ir

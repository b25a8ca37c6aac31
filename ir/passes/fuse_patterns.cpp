// Known patterns that one kernel computes:
//
//   add(x, bias) -> gelu                                     bias_gelu(x, bias)
//   add(x, bias) -> [dropout] -> add(.., residual)           bias_dropout_add(x, bias, residual)
//   scale -> [causal_mask] -> softmax                        scale_mask_softmax(x)
//   mul(swiglu_pairs(x), w[..., 1])                          weighed_swiglu_pairs(x, w)
//   batch_matmul(q, k^T) -> scale_mask_softmax -> [dropout] -> batch_matmul(.., v)
//                                                            scaled_dot_product_attention(q, k, v), if flash
//                                                            is set
//
// The steps between must have no other reader. The fused op replaces the last op of the pattern and keeps its
// name and result.
#include <algorithm>
#include <optional>
#include <unordered_map>
#include <utility>

#include "ir/passes/pass.h"
#include "sbp/at.h"

namespace boxcar::ir {
namespace {

// The replacement of an op and of the earlier ops that it takes in.
struct Match {
  NewOp fused;
  std::vector<OpId> inner;
};

class Matcher {
 public:
  explicit Matcher(const Graph& graph) : graph_(graph), consumers_(consumers(graph)) {}

  const Op& op(OpId id) const { return at(graph_.ops, id); }
  const TensorType& type(TensorId tensor) const { return graph_.tensor(tensor).type; }
  OpId producer(TensorId tensor) const { return graph_.tensor(tensor).producer; }

  // The op that makes `tensor` if it has this type and only one reader, into which it is then fused; else -1.
  OpId inner(TensorId tensor, std::string_view op_type, Match& match) const {
    const OpId id = producer(tensor);
    const std::vector<OpId>& readers = at(consumers_, tensor);
    if (op(id).type != op_type || readers.size() != 1 || graph_.tensor(tensor).sbp) return -1;
    if (op(id).placement != op(readers[0]).placement) return -1;
    match.inner.push_back(id);
    return id;
  }

  // Skips an optional op.
  TensorId past(TensorId tensor, std::string_view op_type, Match& match) const {
    const OpId id = inner(tensor, op_type, match);
    return id < 0 ? tensor : op(id).inputs[0];
  }

  // add(x, bias), bias along the last axis.
  bool bias_add(OpId id, TensorId& x, TensorId& bias) const {
    if (id < 0 || op(id).type != "add") return false;
    for (const size_t first : {0u, 1u}) {
      x = op(id).inputs[first];
      bias = op(id).inputs[1 - first];
      const Shape &wide = type(x).shape, &narrow = type(bias).shape;
      if (wide.size() > 1 && narrow.size() == 1 && narrow[0] == wide.back() &&
          type(x).dtype == type(bias).dtype)
        return true;
    }
    return false;
  }

 private:
  const Graph& graph_;
  std::vector<std::vector<OpId>> consumers_;
};

std::optional<Match> bias_gelu(const Matcher& m, const Op& root) {
  if (root.type != "gelu") return {};
  Match match;
  TensorId x = -1, bias = -1;
  if (!m.bias_add(m.inner(root.inputs[0], "add", match), x, bias)) return {};
  match.fused = {.type = "bias_gelu", .inputs = {x, bias}, .attrs = root.attrs};
  return match;
}

std::optional<Match> bias_dropout_add(const Matcher& m, const Op& root) {
  if (root.type != "add" || m.type(root.inputs[0]) != m.type(root.inputs[1])) return {};
  for (const size_t side : {0u, 1u}) {
    Match match;
    const OpId dropout = m.inner(root.inputs[side], "dropout", match);
    const TensorId sum = dropout < 0 ? root.inputs[side] : m.op(dropout).inputs[0];
    TensorId x = -1, bias = -1;
    if (!m.bias_add(m.inner(sum, "add", match), x, bias)) continue;
    match.fused = {.type = "bias_dropout_add", .inputs = {x, bias, root.inputs[1 - side]}};
    if (dropout >= 0) match.fused.attrs = m.op(dropout).attrs;
    return match;
  }
  return {};
}

std::optional<Match> scale_mask_softmax(const Matcher& m, const Op& root) {
  if (root.type != "softmax") return {};
  Match match;
  const OpId mask = m.inner(root.inputs[0], "causal_mask", match);
  if (mask >= 0 && attr_float(m.op(mask).attrs, "fill") > -1e9) return {};
  const TensorId scaled = mask < 0 ? root.inputs[0] : m.op(mask).inputs[0];
  const OpId scale = m.inner(scaled, "scale", match);
  if (mask < 0 && scale < 0) return {};
  match.fused = {.type = "scale_mask_softmax", .inputs = {scale < 0 ? scaled : m.op(scale).inputs[0]}};
  match.fused.attrs = {{"causal", mask >= 0}};
  if (mask >= 0) match.fused.attrs["window"] = attr_int(m.op(mask).attrs, "window");
  if (scale >= 0) match.fused.attrs["scale"] = attr_float(m.op(scale).attrs, "factor");
  return match;
}

std::optional<Match> weighed_swiglu(const Matcher& m, const Op& root) {
  if (root.type != "mul") return {};
  for (const size_t side : {0u, 1u}) {
    Match match;
    const OpId swiglu = m.inner(root.inputs[side], "swiglu_pairs", match);
    if (swiglu < 0) continue;
    const TensorId x = m.op(swiglu).inputs[0], w = root.inputs[1 - side];
    TensorType row = m.type(x);
    row.shape.back() = 1;
    if (m.type(w) != row) continue;
    match.fused = {.type = "weighed_swiglu_pairs", .inputs = {x, w}};
    return match;
  }
  return {};
}

// Grouped queries come through reshapes, [b, heads, s, d] to [b, kv_heads, group * s, d], which go too.
std::optional<Match> attention(const Matcher& m, const Op& root) {
  Match match;
  const OpId product = root.type == "batch_matmul" ? -2
                       : root.type == "reshape"    ? m.inner(root.inputs[0], "batch_matmul", match)
                                                   : -1;
  if (product == -1) return {};
  const Op& context = product == -2 ? root : m.op(product);
  if (attr_bool(context.attrs, "transpose_a") || attr_bool(context.attrs, "transpose_b")) return {};
  TensorId x = m.past(context.inputs[0], "reshape", match);
  const OpId dropout = m.inner(x, "dropout", match);
  if (dropout >= 0) x = m.op(dropout).inputs[0];
  const OpId softmax = m.inner(x, "scale_mask_softmax", match);
  if (softmax < 0) return {};
  const OpId scores = m.inner(m.past(m.op(softmax).inputs[0], "reshape", match), "batch_matmul", match);
  if (scores < 0 || attr_bool(m.op(scores).attrs, "transpose_a") ||
      !attr_bool(m.op(scores).attrs, "transpose_b"))
    return {};
  const bool grouped = product != -2;
  const TensorId q = grouped ? m.past(m.op(scores).inputs[0], "reshape", match) : m.op(scores).inputs[0];
  const TensorId k = m.op(scores).inputs[1], v = context.inputs[1];
  if (m.type(q).shape.size() != 4 || m.type(root.outputs[0]).shape != m.type(q).shape) return {};
  match.fused = {.type = "scaled_dot_product_attention", .inputs = {q, k, v}};
  if (dropout >= 0) match.fused.attrs = m.op(dropout).attrs;
  const Attrs& attrs = m.op(softmax).attrs;
  match.fused.attrs["causal"] = attr_bool(attrs, "causal");
  match.fused.attrs["window"] = attr_int(attrs, "window");
  match.fused.attrs["scale"] = attr_float(attrs, "scale");
  return match;
}

using Pattern = std::optional<Match> (*)(const Matcher&, const Op&);

// One sweep: finds all matches, then rewrites.
void sweep(Step& step, std::initializer_list<Pattern> patterns) {
  std::unordered_map<OpId, NewOp> fused;
  std::vector<bool> taken(step.graph.ops.size(), false);
  {
    const Matcher matcher(step.graph);
    for (size_t i = step.graph.ops.size(); i-- > 0;) {
      const Op& root = step.graph.ops[i];
      if (taken[i] || root.phase != Phase::forward) continue;
      for (const Pattern pattern : patterns) {
        std::optional<Match> match = pattern(matcher, root);
        if (!match || std::any_of(match->inner.begin(), match->inner.end(),
                                  [&](OpId id) { return at(taken, id) || fused.contains(id); }))
          continue;
        for (const OpId id : match->inner) at(taken, id) = true;
        fused.emplace(static_cast<OpId>(i), std::move(match->fused));
        break;
      }
    }
  }
  if (fused.empty()) return;
  Rewriter rewrite(step.graph);
  std::vector<Op>& old = rewrite.old_ops();
  for (size_t i = 0; i < old.size(); ++i) {
    if (taken[i]) continue;
    const auto found = fused.find(static_cast<OpId>(i));
    if (found == fused.end()) {
      rewrite.keep(std::move(old[i]));
      continue;
    }
    NewOp op = std::move(found->second);
    op.name = old[i].name;
    op.outputs = {rewrite.graph().tensor(old[i].outputs[0]).name};
    const TensorId result = rewrite.add(std::move(op), old[i])[0];
    rewrite.graph().tensor(result).sbp = rewrite.graph().tensor(old[i].outputs[0]).sbp;
    rewrite.replace(old[i].outputs[0], result);
  }
  step.finish(rewrite);
}

}  // namespace

void fuse_patterns(Step& step) {
  sweep(step, {bias_gelu, bias_dropout_add, scale_mask_softmax, weighed_swiglu});
  if (step.options.flash) sweep(step, {attention});
}

}  // namespace boxcar::ir

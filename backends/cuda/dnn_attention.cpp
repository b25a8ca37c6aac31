// Attention as graphs that cuDNN turns into one kernel (two, for the gradient): products, operations on each
// score between them, and sums over rows. cuDNN recognises graphs by their pattern, so each operation stands
// where it expects it.
#if __has_include(<cudnn.h>)  // else dnn.cpp says that it was not there

#include <limits>

#include "backends/cuda/dnn_graph.h"

namespace boxcar::backends::cuda {
namespace {

using Tensor = DnnGraph::Tensor;
using Shape = DnnGraph::Shape;

class AttentionGraph {
 public:
  AttentionGraph(DnnLibrary& dnn, const AttentionShape& s)
      : graph_(dnn, "attention"),
        s_(s),
        type_(dnn_type(s.type)),
        all_{s.batch, s.heads, s.queries, s.keys},
        rows_{s.batch, s.heads, s.queries, 1} {}

  // s = scale q k^T, masked; lse = log sum exp s; out = exp(s) / sum exp(s) v.
  std::unique_ptr<DnnPlan> forward() {
    const Tensor q = graph_.tensor(s_.type, query(s_.width)), kt = turned(s_.width),
                 v = graph_.tensor(s_.type, key(s_.value_width)),
                 out = graph_.tensor(s_.type, query(s_.value_width)),
                 lse = graph_.tensor(Type::float32, rows_),
                 scale = graph_.constant(static_cast<float>(s_.scale));
    const Tensor s = masked(times(product(q, kt), scale));
    const Tensor most = row(), sum = row(), log = row();
    graph_.reduce(CUDNN_REDUCE_TENSOR_MAX, s, most);
    const Tensor e = mapped(CUDNN_POINTWISE_EXP, {mapped(CUDNN_POINTWISE_SUB, {s, most})});
    graph_.reduce(CUDNN_REDUCE_TENSOR_ADD, e, sum);
    graph_.pointwise(CUDNN_POINTWISE_LOG, {sum}, log);
    graph_.pointwise(CUDNN_POINTWISE_ADD, {most, log}, lse);
    const Tensor p = graph_.between(type_, all_);
    graph_.pointwise(CUDNN_POINTWISE_DIV, {e, sum}, p);
    graph_.product(p, v, out);
    return plan();
  }

  // p = exp(s - lse), dv = p^T dy, ds = p (dy v^T - rows of dy out) scale, dk = ds^T q, dq = ds k. The last
  // sum is over keys, which blocks share. Its bits repeat when computed from ds in memory; when blocks add to
  // it in memory, they depend on the blocks' order.
  std::unique_ptr<DnnPlan> gradient(bool repeats) {
    const Tensor dy = graph_.tensor(s_.type, query(s_.value_width)),
                 q = graph_.tensor(s_.type, query(s_.width)), kt = turned(s_.width),
                 vt = turned(s_.value_width), out = graph_.tensor(s_.type, query(s_.value_width)),
                 lse = graph_.tensor(Type::float32, rows_), dq = graph_.tensor(s_.type, query(s_.width)),
                 dk = graph_.tensor(s_.type, key(s_.width)), dv = graph_.tensor(s_.type, key(s_.value_width)),
                 scale = graph_.constant(static_cast<float>(s_.scale)), one = graph_.constant(1.0F);
    const Tensor both = graph_.between(CUDNN_DATA_FLOAT, query(s_.value_width)), sum = row(),
                 delta = graph_.scratch(Type::float32, rows_);
    graph_.pointwise(CUDNN_POINTWISE_MUL, {dy, out}, both);
    graph_.reduce(CUDNN_REDUCE_TENSOR_ADD, both, sum);
    graph_.pointwise(CUDNN_POINTWISE_MUL, {sum, one}, delta);

    const Tensor s = masked(mapped(CUDNN_POINTWISE_SUB, {times(product(q, kt), scale), lse}));
    const Tensor p = mapped(CUDNN_POINTWISE_EXP, {s});
    of_keys(transposed(p), dy, dv, s_.value_width);

    const Tensor dp = mapped(CUDNN_POINTWISE_SUB, {product(dy, vt), delta});
    const Tensor ds = times(mapped(CUDNN_POINTWISE_MUL, {dp, p}), scale);
    of_keys(transposed(ds), q, dk, s_.width);

    const Tensor k = graph_.between(type_, key(s_.width));
    graph_.view(kt, k);
    if (repeats) {
      graph_.product(ds, k, dq);
    } else {
      const Tensor added = graph_.scratch(Type::float32, query(s_.width));
      graph_.product(ds, k, added);
      graph_.pointwise(CUDNN_POINTWISE_IDENTITY, {added}, dq);
    }
    return plan();
  }

 private:
  Shape query(int64_t width) const { return {s_.batch, s_.heads, s_.queries, width}; }
  Shape key(int64_t width) const { return {s_.batch, s_.key_heads, s_.keys, width}; }
  // Keys or values as they are in memory, read as their transpose.
  Tensor turned(int64_t width) {
    const int64_t head = s_.keys * width;
    return graph_.tensor(s_.type, {s_.batch, s_.key_heads, width, s_.keys},
                         {s_.key_heads * head, head, 1, width});
  }
  Tensor row() { return graph_.between(CUDNN_DATA_FLOAT, rows_); }
  Tensor product(Tensor a, Tensor b) {
    const Tensor c = graph_.between(CUDNN_DATA_FLOAT, all_);
    graph_.product(a, b, c);
    return c;
  }
  Tensor mapped(cudnnPointwiseMode_t mode, const std::vector<Tensor>& x) {
    const Tensor y = graph_.between(CUDNN_DATA_FLOAT, all_);
    graph_.pointwise(mode, x, y);
    return y;
  }
  Tensor times(Tensor x, Tensor scale) { return mapped(CUDNN_POINTWISE_MUL, {x, scale}); }
  // -inf where the key is after the query.
  Tensor masked(Tensor x) {
    if (!s_.causal) return x;
    Tensor query = index(x, 2);
    const Tensor key = index(x, 3);
    if (s_.offset != 0) {
      const Tensor last = graph_.between(CUDNN_DATA_INT32, all_);
      graph_.pointwise(CUDNN_POINTWISE_ADD, {query, graph_.constant(static_cast<int32_t>(s_.offset))}, last,
                       CUDNN_DATA_INT32);
      query = last;
    }
    const Tensor seen = graph_.between(CUDNN_DATA_BOOLEAN, all_);
    graph_.pointwise(CUDNN_POINTWISE_CMP_GE, {query, key}, seen, CUDNN_DATA_BOOLEAN);
    return mapped(CUDNN_POINTWISE_BINARY_SELECT,
                  {x, graph_.constant(-std::numeric_limits<float>::infinity()), seen});
  }
  Tensor index(Tensor x, int64_t axis) {
    const Tensor y = graph_.between(CUDNN_DATA_INT32, all_);
    graph_.pointwise(CUDNN_POINTWISE_GEN_INDEX, {x}, y, CUDNN_DATA_INT32, axis);
    return y;
  }
  // [.., keys, queries], rounded for the product that reads it.
  Tensor transposed(Tensor x) {
    const int64_t head = s_.queries * s_.keys;
    const Tensor y =
        graph_.between(type_, {s_.batch, s_.heads, s_.keys, s_.queries}, {s_.heads * head, head, 1, s_.keys});
    graph_.view(x, y);
    return y;
  }
  // result = a b, summed over the query heads of each key head.
  void of_keys(Tensor a, Tensor b, Tensor result, int64_t width) {
    if (s_.heads == s_.key_heads) return graph_.product(a, b, result);
    const Tensor each = graph_.between(type_, {s_.batch, s_.heads, s_.keys, width});
    graph_.product(a, b, each);
    graph_.reduce(CUDNN_REDUCE_TENSOR_ADD, each, result);
  }
  std::unique_ptr<DnnPlan> plan() {
    const auto suits = [](cudnnBackendNumericalNote_t note) {
      return note != CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION;
    };
    return graph_.plan(suits, Dnn::most_attention_workspace);
  }

  DnnGraph graph_;
  const AttentionShape s_;
  const cudnnDataType_t type_;
  const Shape all_, rows_;
};

}  // namespace

std::unique_ptr<DnnPlan> Dnn::attention(const AttentionShape& shape) {
  if (version() < least_attention_version) return nullptr;
  return AttentionGraph(*library_, shape).forward();
}

// Up to 9.15 the last keys are wrong if they do not fill a tile.
std::unique_ptr<DnnPlan> Dnn::attention_grad(const AttentionShape& shape, bool repeats) {
  if (version() < least_attention_version || (version() < any_keys_version && shape.keys % 128 != 0))
    return nullptr;
  return AttentionGraph(*library_, shape).gradient(repeats);
}

}  // namespace boxcar::backends::cuda

#endif

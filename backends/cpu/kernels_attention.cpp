// Attention by blocks of queries: scores of kBlock queries against all keys are in memory at a time. Heads
// and blocks follow each other in a fixed order, which is that of every sum.
#include <algorithm>
#include <cmath>

#include "backends/cpu/reference_random.h"
#include "backends/cpu/typed_product.h"

namespace boxcar::backends::cpu {
namespace {

constexpr int64_t kBlock = 64;

template <class A>
using Row = Eigen::Map<Eigen::Array<A, 1, Eigen::Dynamic>>;

template <class A>
Row<A> row(std::vector<A>& values, int64_t index, int64_t step, int64_t count) {
  return {values.data() + index * step, count};
}

// Shapes, attributes, and which keys a query sees.
struct Attention {
  Attention(const ir::Types& q_k_v, const ir::Attrs& attrs)
      : q(q_k_v[0].shape),
        key_heads(q_k_v[1].shape[1]),
        keys(q_k_v[1].shape[2]),
        value_width(q_k_v[2].shape[3]),
        causal(ir::attr_bool(attrs, "causal")),
        offset(ir::attr_int(attrs, "offset")),
        group(ir::attr_int(attrs, "group")),
        head_offset(ir::attr_int(attrs, "head_offset")),
        scale(ir::attr_float(attrs, "scale")),
        dropout(attrs, {q[0], q[1], q[2], keys}) {
    if (scale == 0) scale = 1 / std::sqrt(static_cast<double>(width()));
    if (group == 0) group = key_heads > 0 ? std::max<int64_t>(heads() / key_heads, 1) : 1;
  }

  int64_t batch() const { return q[0]; }
  int64_t heads() const { return q[1]; }
  int64_t queries() const { return q[2]; }
  int64_t width() const { return q[3]; }
  int64_t key_head(int64_t head) const { return (head + head_offset) / group; }
  // Query s sees the first so many keys.
  int64_t visible(int64_t s) const { return causal ? std::clamp<int64_t>(s + offset + 1, 0, keys) : keys; }

  ir::Shape q;
  int64_t key_heads, keys, value_width;
  bool causal;
  int64_t offset, group, head_offset;
  double scale;
  Dropout dropout;
};

// A block of queries of one head, [batch, head, begin to begin + count).
struct Block {
  int64_t row;  // of the first query, over all batches and heads
  int64_t begin, count;
  int64_t keys;  // that any of them sees
};

// visit(block) for the blocks of one head.
template <class Visit>
void each_block(const Attention& a, int64_t batch, int64_t head, Visit visit) {
  for (int64_t begin = 0; begin < a.queries(); begin += kBlock) {
    const int64_t count = std::min(kBlock, a.queries() - begin);
    visit(
        Block{(batch * a.heads() + head) * a.queries() + begin, begin, count, a.visible(begin + count - 1)});
  }
}

// Rows of T as a matrix of its Acc: the rows themselves, or a copy.
template <class T>
Matrix<const Acc<T>> rows_of(const T* data, int64_t rows, int64_t columns, std::vector<Acc<T>>& copy) {
  if constexpr (std::is_same_v<T, Acc<T>>)
    return matrix(data, rows, columns);
  else
    return to_float(matrix(data, rows, columns), copy);
}

template <class A>
Matrix<const A> transposed(const Matrix<const A>& m) {
  return {m.data, m.columns, m.rows, m.column_step, m.row_step};
}

template <class A>
Matrix<const A> first_rows(Matrix<const A> m, int64_t rows) {
  m.rows = rows;
  return m;
}

template <class A>
Matrix<const A> read_only(const Matrix<A>& m) {
  return {m.data, m.rows, m.columns, m.row_step, m.column_step};
}

template <class A>
Matrix<A> resized(std::vector<A>& memory, int64_t rows, int64_t columns) {
  memory.resize(static_cast<size_t>(rows * columns));
  return matrix(memory.data(), rows, columns);
}

template <class T>
void round_to(const std::vector<Acc<T>>& from, T* to) {
  std::transform(from.begin(), from.end(), to, [](Acc<T> x) { return static_cast<T>(x); });
}

template <class A>
void drop(const Dropout& dropout, const Attention& a, const Block& block, int64_t query, Row<A> row) {
  if (!dropout.drops() || row.size() == 0) return;
  const int64_t first = dropout.position((block.row + query) * a.keys);
  for (int64_t t = 0; t < row.size(); ++t) row[t] *= static_cast<A>(dropout.factor_at(first + t));
}

template <class T>
class Forward {
 public:
  using A = Acc<T>;
  explicit Forward(Attention attention) : a_(std::move(attention)) {}

  void operator()(const Operands& at) {
    const Dropout dropout = a_.dropout.at(at.moment);
    for (int64_t batch = 0; batch < a_.batch(); ++batch) {
      for (int64_t head = 0; head < a_.heads(); ++head) {
        const int64_t key_row = (batch * a_.key_heads + a_.key_head(head)) * a_.keys;
        const auto k = rows_of(at.in<T>(1) + key_row * a_.width(), a_.keys, a_.width(), k_);
        const auto v = rows_of(at.in<T>(2) + key_row * a_.value_width, a_.keys, a_.value_width, v_);
        each_block(a_, batch, head, [&](const Block& block) { run(at, block, k, v, dropout); });
      }
    }
  }

 private:
  void run(const Operands& at, const Block& block, const Matrix<const A>& k, const Matrix<const A>& v,
           const Dropout& dropout) {
    const auto q = rows_of(at.in<T>(0) + block.row * a_.width(), block.count, a_.width(), q_);
    const Matrix<A> scores = resized(scores_, block.count, block.keys);
    product<A>(q, transposed(first_rows(k, block.keys)), scores);
    sums_.resize(static_cast<size_t>(block.count));
    for (int64_t i = 0; i < block.count; ++i) at.out<A>(1)[block.row + i] = softmax(block, i);
    for (int64_t i = 0; i < block.count; ++i)
      drop<A>(dropout, a_, block, i, row(scores_, i, block.keys, a_.visible(block.begin + i)));
    product<A>(read_only(scores), first_rows(v, block.keys), resized(out_, block.count, a_.value_width));
    for (int64_t i = 0; i < block.count; ++i) {
      Row<A> out = row(out_, i, a_.value_width, a_.value_width);
      if (sums_[static_cast<size_t>(i)] > 0) out /= sums_[static_cast<size_t>(i)];
    }
    round_to<T>(out_, at.out<T>(0) + block.row * a_.value_width);
  }

  // Turns a row of products into exponentials, whose sum goes to sums_; returns the sum's logarithm.
  A softmax(const Block& block, int64_t query) {
    const int64_t visible = a_.visible(block.begin + query);
    row(scores_, query, block.keys, block.keys).tail(block.keys - visible).setZero();
    A& sum = sums_[static_cast<size_t>(query)] = 0;
    if (visible == 0) return -INFINITY;
    Row<A> scores = row(scores_, query, block.keys, visible);
    const auto scale = static_cast<A>(a_.scale);
    const A maximum = (scores * scale).maxCoeff();
    scores = (scores * scale - maximum).exp();
    sum = scores.sum();
    return std::log(sum) + maximum;
  }

  Attention a_;
  std::vector<A> q_, k_, v_, scores_, sums_, out_;
};

// With p the probabilities before dropout and keep its factors: dv = (p keep)^T dy, ds = p (keep dy v^T -
// delta), delta = dy . out, dq = ds k, dk = ds^T q. Query heads that share a key head add to it in turn.
template <class T>
class Backward {
 public:
  using A = Acc<T>;
  explicit Backward(Attention attention) : a_(std::move(attention)) {}

  void operator()(const Operands& at) {
    const Dropout dropout = a_.dropout.at(at.moment);
    for (int64_t batch = 0; batch < a_.batch(); ++batch) {
      for (int64_t key_head = 0; key_head < a_.key_heads; ++key_head) {
        const int64_t key_row = (batch * a_.key_heads + key_head) * a_.keys;
        const auto k = rows_of(at.in<T>(2) + key_row * a_.width(), a_.keys, a_.width(), k_);
        const auto v = rows_of(at.in<T>(3) + key_row * a_.value_width, a_.keys, a_.value_width, v_);
        dk_.assign(static_cast<size_t>(a_.keys * a_.width()), A(0));
        dv_.assign(static_cast<size_t>(a_.keys * a_.value_width), A(0));
        for (int64_t head = 0; head < a_.heads(); ++head) {
          if (a_.key_head(head) != key_head) continue;
          each_block(a_, batch, head, [&](const Block& block) { run(at, block, k, v, dropout); });
        }
        round_to<T>(dk_, at.out<T>(1) + key_row * a_.width());
        round_to<T>(dv_, at.out<T>(2) + key_row * a_.value_width);
      }
    }
  }

 private:
  void run(const Operands& at, const Block& block, const Matrix<const A>& k, const Matrix<const A>& v,
           const Dropout& dropout) {
    const auto dy = rows_of(at.in<T>(0) + block.row * a_.value_width, block.count, a_.value_width, dy_);
    const auto q = rows_of(at.in<T>(1) + block.row * a_.width(), block.count, a_.width(), q_);
    const auto out = rows_of(at.in<T>(4) + block.row * a_.value_width, block.count, a_.value_width, out_);
    const Matrix<A> p = resized(p_, block.count, block.keys), ds = resized(ds_, block.count, block.keys);
    product<A>(q, transposed(first_rows(k, block.keys)), p);
    product<A>(dy, transposed(first_rows(v, block.keys)), ds);
    for (int64_t i = 0; i < block.count; ++i) {
      A delta = 0;
      for (int64_t e = 0; e < a_.value_width; ++e)
        delta += dy.data[i * a_.value_width + e] * out.data[i * a_.value_width + e];
      scores(block, i, at.in<A>(5)[block.row + i], delta, dropout);
    }
    product<A>(transposed(read_only(p)), dy, matrix(dv_.data(), block.keys, a_.value_width), true);
    product<A>(transposed(read_only(ds)), q, matrix(dk_.data(), block.keys, a_.width()), true);
    product<A>(read_only(ds), first_rows(k, block.keys), resized(dq_, block.count, a_.width()));
    round_to<T>(dq_, at.out<T>(0) + block.row * a_.width());
  }

  // A row of q k^T and one of dy v^T become p keep and ds.
  void scores(const Block& block, int64_t query, A lse, A delta, const Dropout& dropout) {
    const int64_t visible = a_.visible(block.begin + query), hidden = block.keys - visible;
    row(p_, query, block.keys, block.keys).tail(hidden).setZero();
    row(ds_, query, block.keys, block.keys).tail(hidden).setZero();
    Row<A> p = row(p_, query, block.keys, visible), ds = row(ds_, query, block.keys, visible);
    const auto scale = static_cast<A>(a_.scale);
    p = (p * scale - lse).exp();
    drop<A>(dropout, a_, block, query, ds);
    ds = p * (ds - delta) * scale;
    drop<A>(dropout, a_, block, query, p);
  }

  Attention a_;
  std::vector<A> dy_, q_, k_, v_, out_, p_, ds_, dq_, dk_, dv_;
};

// Whether the operands have one type and the sums of logarithms that in which it is computed.
template <class T>
bool has_types(ir::DType dtype, std::span<const ir::TensorType> operands, const ir::TensorType& lse) {
  const bool same = std::ranges::all_of(operands, [&](const auto& type) { return type.dtype == dtype; });
  return same && lse.dtype == (sizeof(Acc<T>) == 8 ? ir::DType::float64 : ir::DType::float32);
}

std::unique_ptr<Kernel> make_forward(const Call& call) {
  const Attention attention(call.inputs, call.attrs);
  return for_float(call.inputs[0].dtype, [&]<class T>() -> std::unique_ptr<Kernel> {
    if (!has_types<T>(call.inputs[0].dtype, call.inputs, call.outputs[1])) return nullptr;
    return kernel(Forward<T>(attention));
  });
}

std::unique_ptr<Kernel> make_backward(const Call& call) {
  const Attention attention({call.inputs[1], call.inputs[2], call.inputs[3]}, call.attrs);
  return for_float(call.inputs[0].dtype, [&]<class T>() -> std::unique_ptr<Kernel> {
    const auto operands = std::span(call.inputs).first(5);
    if (!has_types<T>(call.inputs[0].dtype, operands, call.inputs[5])) return nullptr;
    return kernel(Backward<T>(attention));
  });
}

// Sines and cosines of every position are computed once, in double.
template <class A>
struct Turns {
  std::vector<A> cosines, sines;  // [sequence, half]

  Turns(int64_t sequence, int64_t half, const ir::Attrs& attrs) {
    const double direction = ir::attr_bool(attrs, "inverse") ? -1 : 1;
    for (int64_t s = 0; s < sequence; ++s) {
      const auto position = static_cast<double>(s + ir::attr_int(attrs, "offset"));
      for (int64_t i = 0; i < half; ++i) {
        const double share = static_cast<double>(i) / static_cast<double>(half);
        const double angle = direction * position * std::pow(ir::attr_float(attrs, "base"), -share);
        cosines.push_back(static_cast<A>(std::cos(angle)));
        sines.push_back(static_cast<A>(std::sin(angle)));
      }
    }
  }
};

template <class T>
void turn(const T* x, T* y, int64_t rows, int64_t sequence, int64_t half, const Turns<Acc<T>>& turns) {
  for (int64_t row = 0; row < rows; ++row, x += 2 * half, y += 2 * half) {
    const auto* cosines = turns.cosines.data() + row % sequence * half;
    const auto* sines = turns.sines.data() + row % sequence * half;
    for (int64_t i = 0; i < half; ++i) {
      const auto a = static_cast<Acc<T>>(x[i]), b = static_cast<Acc<T>>(x[i + half]);
      y[i] = static_cast<T>(a * cosines[i] - b * sines[i]);
      y[i + half] = static_cast<T>(a * sines[i] + b * cosines[i]);
    }
  }
}

std::unique_ptr<Kernel> make_rotary(const Call& call) {
  const Around rows = around(call.inputs[0].shape, -1);
  const int64_t half = rows.extent / 2, sequence = call.inputs[0].shape[call.inputs[0].shape.size() - 2];
  return for_float(call.inputs[0].dtype, [&]<class T>() {
    return kernel([=, turns = Turns<Acc<T>>(sequence, half, call.attrs)](const Operands& at) {
      turn(at.in<T>(0), at.out<T>(0), rows.outer, sequence, half, turns);
    });
  });
}

}  // namespace

void add_attention_kernels(Factories& table) {
  table.insert({{"scaled_dot_product_attention", make_forward},
                {"scaled_dot_product_attention_grad", make_backward},
                {"rotary", make_rotary}});
}

}  // namespace boxcar::backends::cpu

// Attention by blocks of queries: scores of kBlock queries against all keys are in memory at a time. Heads
// and blocks follow each other in a fixed order, which is also the order of every sum.
#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/cpu/chunks.h"
#include "backends/cpu/fast_math.h"
#include "backends/cpu/reference_random.h"
#include "backends/cpu/strided_copy.h"
#include "backends/cpu/typed_product.h"

namespace boxcar::backends::cpu {
namespace {

constexpr int64_t kBlock = 64;

// Shapes, attributes, and which keys a query sees.
struct Attention {
  Attention(const ir::Types& q_k_v, const ir::Attrs& attrs)
      : q(q_k_v[0].shape),
        key_heads(q_k_v[1].shape[1]),
        keys(q_k_v[1].shape[2]),
        value_width(q_k_v[2].shape[3]),
        causal(ir::attr_bool(attrs, "causal")),
        window(ir::attr_int(attrs, "window")),
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
  // Query s sees the keys from first(s) to visible(s), which grows with s. `seen` is that of its sample, by
  // query, or null.
  int64_t visible(int64_t s) const { return causal ? std::clamp<int64_t>(s + offset + 1, 0, keys) : keys; }
  int64_t first(int64_t s, const int64_t* seen) const {
    const int64_t after = s + offset + 1, from_window = window > 0 ? after - window : 0;
    return std::clamp<int64_t>(seen ? std::max(from_window, after - seen[s]) : from_window, 0, visible(s));
  }

  ir::Shape q;
  int64_t key_heads, keys, value_width;
  bool causal;
  int64_t window, offset, group, head_offset;
  double scale;
  Dropout dropout;
};

// A block of queries of one head, [batch, head, begin to begin + count).
struct Block {
  int64_t row;  // of the first query, over all batches and heads
  int64_t begin, count;
  const int64_t* seen;  // of its sample
  int64_t first, keys;  // the keys that any of them sees: the first, and how many from there
};

// The optional operand `seen`; null: the call has none.
const int64_t* seen_in(const Operands& at, size_t operand) {
  return at.inputs.size() > operand ? at.in<int64_t>(operand) : nullptr;
}

// visit(block) for the blocks of one head. `seen` is that of all samples, or null.
template <class Visit>
void each_block(const Attention& a, int64_t batch, int64_t head, const int64_t* seen, Visit visit) {
  if (seen) seen += batch * a.queries();
  for (int64_t begin = 0; begin < a.queries(); begin += kBlock) {
    const int64_t count = std::min(kBlock, a.queries() - begin);
    int64_t first = a.first(begin, seen);
    for (int64_t i = 1; i < count; ++i) first = std::min(first, a.first(begin + i, seen));
    visit(Block{(batch * a.heads() + head) * a.queries() + begin, begin, count, seen, first,
                a.visible(begin + count - 1) - first});
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

// Rows, and columns, of the keys that a block sees.
template <class A>
Matrix<A> rows_seen(Matrix<A> m, const Block& block) {
  m.data += block.first * m.row_step;
  m.rows = block.keys;
  return m;
}

template <class A>
Matrix<const A> read_only(const Matrix<A>& m) {
  return {m.data, m.rows, m.columns, m.row_step, m.column_step};
}

// Room for a matrix whose rows are whole lanes.
template <class A>
Matrix<A> resized(std::vector<A>& memory, int64_t rows, int64_t columns) {
  const int64_t step = (columns + kLanes - 1) / kLanes * kLanes;
  memory.resize(static_cast<size_t>(rows * step));
  return {memory.data(), rows, columns, step, 1};
}

// The transpose, row by row: an operand b whose panels products then copy in whole vectors.
template <class A>
Matrix<const A> turned(const Matrix<const A>& m, std::vector<A>& memory) {
  const Matrix<A> to = resized(memory, m.columns, m.rows);
  StridedCopy({{m.columns, m.rows}, {{m.column_step, m.row_step}, {to.row_step, 1}}}, sizeof(A))
      .run(m.data, to.data);
  return read_only(to);
}

template <class A>
Matrix<const A> columns_seen(Matrix<const A> m, const Block& block) {
  m.data += block.first * m.column_step;
  m.columns = block.keys;
  return m;
}

// Memory where sums in A become results: the output itself, or a copy that is rounded to it.
template <class T>
class Result {
 public:
  using A = Acc<T>;
  Matrix<A> begin(T* out, int64_t rows, int64_t columns) {
    if constexpr (std::is_same_v<T, A>) return matrix(out, rows, columns);
    memory_.resize(static_cast<size_t>(rows * columns));
    return matrix(memory_.data(), rows, columns);
  }
  void end(T* out) const {
    if constexpr (!std::is_same_v<T, A>)
      std::transform(memory_.begin(), memory_.end(), out, [](A x) { return static_cast<T>(x); });
  }

 private:
  std::vector<A> memory_;
};

template <class A>
void drop(const Dropout& dropout, const Attention& a, const Block& block, int64_t query, A* row,
          int64_t visible) {
  if (!dropout.drops() || visible == 0) return;
  const int64_t first = dropout.position((block.row + query) * a.keys + block.first);
  for (int64_t t = 0; t < visible; ++t) row[t] *= static_cast<A>(dropout.factor_at(first + t));
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
        const auto k =
            turned(rows_of(at.in<T>(1) + key_row * a_.width(), a_.keys, a_.width(), k_), turned_k_);
        const auto v = rows_of(at.in<T>(2) + key_row * a_.value_width, a_.keys, a_.value_width, v_);
        each_block(a_, batch, head, seen_in(at, 3),
                   [&](const Block& block) { run(at, block, k, v, dropout); });
      }
    }
  }

 private:
  // k is [width, keys].
  void run(const Operands& at, const Block& block, const Matrix<const A>& k, const Matrix<const A>& v,
           const Dropout& dropout) {
    const auto q = rows_of(at.in<T>(0) + block.row * a_.width(), block.count, a_.width(), q_);
    const Matrix<A> scores = resized(scores_, block.count, block.keys);
    product<A>(q, columns_seen(k, block), scores);
    inverses_.resize(static_cast<size_t>(block.count));
    for (int64_t i = 0; i < block.count; ++i) {
      const int64_t hidden = a_.first(block.begin + i, block.seen) - block.first;  // before the window
      const int64_t end = a_.visible(block.begin + i) - block.first, visible = hidden < end ? end : 0;
      A* const row = scores.data + i * scores.row_step;
      std::fill_n(row, std::min(hidden, visible), -std::numeric_limits<A>::infinity());
      at.out<A>(1)[block.row + i] = softmax(row, visible, inverses_[static_cast<size_t>(i)]);
      std::fill(row + visible, row + block.keys, A(0));
      drop<A>(dropout, a_, block, i, row, visible);
    }
    const Matrix<A> sums = resized(sums_, block.count, a_.value_width);
    product<A>(read_only(scores), rows_seen(v, block), sums);
    T* const out = at.out<T>(0) + block.row * a_.value_width;
    for (int64_t i = 0; i < block.count; ++i) {
      const A inverse = inverses_[static_cast<size_t>(i)];
      A* const row = sums.data + i * sums.row_step;
      change_each(
          a_.value_width, [inverse](A x) { return x * inverse; }, row);
      std::transform(row, row + a_.value_width, out + i * a_.value_width,
                     [](A x) { return static_cast<T>(x); });
    }
  }

  // Turns a row of products into exponentials; returns the logarithm of their sum, and the sum's reciprocal
  // in `inverse`.
  A softmax(A* row, int64_t visible, A& inverse) const {
    inverse = 0;
    if (visible == 0) return -INFINITY;
    const auto scale = static_cast<A>(a_.scale);
    const A most = max_of(
        visible, [scale](A x) { return x * scale; }, row);
    change_each(
        visible, [scale, most](A x) { return fast_exp(x * scale - most); }, row);
    const double sum = sum_of(
        visible, [](A x) { return x; }, row);
    inverse = static_cast<A>(1 / sum);
    return static_cast<A>(std::log(sum)) + most;
  }

  Attention a_;
  std::vector<A> q_, k_, turned_k_, v_, scores_, sums_, inverses_;
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
        T *const dk = at.out<T>(1) + key_row * a_.width(), *const dv =
                                                               at.out<T>(2) + key_row * a_.value_width;
        k_ = rows_of(at.in<T>(2) + key_row * a_.width(), a_.keys, a_.width(), k_copy_);
        turned_k_ = turned(k_, turned_k_copy_);
        turned_v_ = turned(rows_of(at.in<T>(3) + key_row * a_.value_width, a_.keys, a_.value_width, v_copy_),
                           turned_v_copy_);
        dk_ = dk_sums_.begin(dk, a_.keys, a_.width());
        dv_ = dv_sums_.begin(dv, a_.keys, a_.value_width);
        std::fill_n(dk_.data, a_.keys * a_.width(), A(0));
        std::fill_n(dv_.data, a_.keys * a_.value_width, A(0));
        for (int64_t head = 0; head < a_.heads(); ++head) {
          if (a_.key_head(head) != key_head) continue;
          each_block(a_, batch, head, seen_in(at, 6), [&](const Block& block) { run(at, block, dropout); });
        }
        dk_sums_.end(dk);
        dv_sums_.end(dv);
      }
    }
  }

 private:
  void run(const Operands& at, const Block& block, const Dropout& dropout) {
    const auto dy = rows_of(at.in<T>(0) + block.row * a_.value_width, block.count, a_.value_width, dy_);
    const auto q = rows_of(at.in<T>(1) + block.row * a_.width(), block.count, a_.width(), q_);
    const auto out = rows_of(at.in<T>(4) + block.row * a_.value_width, block.count, a_.value_width, out_);
    const Matrix<A> p = resized(p_, block.count, block.keys), ds = resized(ds_, block.count, block.keys);
    product<A>(q, columns_seen(turned_k_, block), p);
    product<A>(dy, columns_seen(turned_v_, block), ds);
    for (int64_t i = 0; i < block.count; ++i) {
      const double delta = sum_of(
          a_.value_width, [](A a, A b) { return a * b; }, dy.data + i * a_.value_width,
          out.data + i * a_.value_width);
      scores(block, i, p.data + i * p.row_step, ds.data + i * ds.row_step, at.in<A>(5)[block.row + i],
             static_cast<A>(delta), dropout);
    }
    product<A>(transposed(read_only(p)), dy, rows_seen(dv_, block), true);
    product<A>(transposed(read_only(ds)), q, rows_seen(dk_, block), true);
    T* const dq = at.out<T>(0) + block.row * a_.width();
    product<A>(read_only(ds), rows_seen(k_, block), dq_sums_.begin(dq, block.count, a_.width()));
    dq_sums_.end(dq);
  }

  // A row of q k^T and one of dy v^T become p keep and ds.
  void scores(const Block& block, int64_t query, A* p, A* ds, A lse, A delta, const Dropout& dropout) const {
    const int64_t first = a_.first(block.begin + query, block.seen) - block.first;
    const int64_t visible = a_.visible(block.begin + query) - block.first;
    const auto scale = static_cast<A>(a_.scale);
    change_each(
        visible, [scale, lse](A x) { return fast_exp(x * scale - lse); }, p);
    drop<A>(dropout, a_, block, query, ds, visible);
    change_each(
        visible, [delta, scale](A d, A x) { return x * (d - delta) * scale; }, ds, p);
    drop<A>(dropout, a_, block, query, p, visible);
    for (A* const row : {p, ds}) {
      std::fill(row, row + first, A(0));
      std::fill(row + visible, row + block.keys, A(0));
    }
  }

  Attention a_;
  Matrix<const A> k_ = {}, turned_k_ = {}, turned_v_ = {};  // of a key head: [keys, width], [width, keys]
  Matrix<A> dk_ = {}, dv_ = {};
  std::vector<A> dy_, q_, out_, p_, ds_, k_copy_, turned_k_copy_, v_copy_, turned_v_copy_;
  Result<T> dq_sums_, dk_sums_, dv_sums_;
};

// Whether the operands have one type and lse has the type that it is computed in.
template <class T>
bool has_types(ir::DType dtype, std::span<const ir::TensorType> operands, const ir::TensorType& lse) {
  const bool same = std::ranges::all_of(operands, [&](const auto& type) { return type.dtype == dtype; });
  return same && lse.dtype == (sizeof(Acc<T>) == 8 ? ir::DType::float64 : ir::DType::float32);
}

std::unique_ptr<Kernel> make_forward(const Call& call) {
  const Attention attention(call.inputs, call.attrs);
  return for_float(call.inputs[0].dtype, [&]<class T>() -> std::unique_ptr<Kernel> {
    const auto operands = std::span(call.inputs).first(3);
    if (!has_types<T>(call.inputs[0].dtype, operands, call.outputs[1])) return nullptr;
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

// Attention with all probabilities in memory, and rotary positions.
#include <algorithm>
#include <cmath>

#include "backends/cpu/reference.h"
#include "backends/cpu/reference_random.h"

namespace boxcar::backends::cpu {
namespace {

// One row of attention: query (b, h, s) against the keys of its head.
class Attention {
 public:
  // seen: by query, or null.
  Attention(const HostTensor& q, const HostTensor& k, const HostTensor& v, const HostTensor* seen,
            const ir::Attrs& attrs)
      : q_(q),
        k_(k),
        v_(v),
        seen_(seen),
        shape_(q.type.shape),
        keys_(k.type.shape[2]),
        drop_(attrs, {shape_[0], shape_[1], shape_[2], keys_}) {
    const double scale = ir::attr_float(attrs, "scale");
    scale_ = scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(shape_[3]));
    causal_ = ir::attr_bool(attrs, "causal");
    window_ = ir::attr_int(attrs, "window");
    offset_ = ir::attr_int(attrs, "offset");
    head_offset_ = ir::attr_int(attrs, "head_offset");
    group_ = ir::attr_int(attrs, "group");
    if (group_ == 0 && k.type.shape[1] > 0) group_ = shape_[1] / k.type.shape[1];
  }

  int64_t rows() const { return shape_[0] * shape_[1] * shape_[2]; }
  int64_t width() const { return shape_[3]; }
  int64_t value_width() const { return v_.type.shape[3]; }
  double scale() const { return scale_; }

  // Keys that this row sees: from `first` to `visible`.
  int64_t first(int64_t row) const {
    const int64_t after = row % shape_[2] + offset_ + 1, from_window = window_ > 0 ? after - window_ : 0;
    return std::max<int64_t>({from_window, seen_ ? after - seen(row) : 0, 0});
  }
  int64_t visible(int64_t row) const {
    return causal_ ? std::min(row % shape_[2] + offset_ + 1, keys_) : keys_;
  }
  // The row of k and v that holds key `t` for this row.
  int64_t key_row(int64_t row, int64_t t) const {
    const int64_t batch = row / (shape_[1] * shape_[2]), head = row / shape_[2] % shape_[1];
    return (batch * k_.type.shape[1] + (head + head_offset_) / group_) * keys_ + t;
  }
  double score(int64_t row, int64_t t) const {
    return scale_ * dot(q_.data.data() + position(row, width()),
                        k_.data.data() + position(key_row(row, t), width()), width());
  }
  double keep(int64_t row, int64_t t) const { return drop_.factor(row * keys_ + t); }

  static size_t position(int64_t row, int64_t width) { return static_cast<size_t>(row * width); }
  static double dot(const double* a, const double* b, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
    return sum;
  }
  static void add(double* to, double factor, const double* x, int64_t n) {
    for (int64_t i = 0; i < n; ++i) to[i] += factor * x[i];
  }

 private:
  int64_t seen(int64_t row) const {
    const int64_t batch = row / (shape_[1] * shape_[2]), query = row % shape_[2];
    return static_cast<int64_t>(seen_->data[position(batch * shape_[2] + query, 1)]);
  }

  const HostTensor &q_, &k_, &v_;
  const HostTensor* seen_;
  ir::Shape shape_;
  int64_t keys_;
  Dropout drop_;
  double scale_ = 1;
  bool causal_ = false;
  int64_t window_ = 0, offset_ = 0, head_offset_ = 0, group_ = 1;
};

void forward(const Tensors& in, Tensors& out, const ir::Attrs& attrs) {
  const Attention a(in[0], in[1], in[2], in.size() > 3 ? &in[3] : nullptr, attrs);
  const int64_t width = a.value_width();
  for (int64_t row = 0; row < a.rows(); ++row) {
    double maximum = -INFINITY, sum = 0;
    for (int64_t t = a.first(row); t < a.visible(row); ++t) maximum = std::max(maximum, a.score(row, t));
    for (int64_t t = a.first(row); t < a.visible(row); ++t) sum += std::exp(a.score(row, t) - maximum);
    const double lse = std::log(sum) + maximum;
    for (int64_t t = a.first(row); t < a.visible(row); ++t) {
      const double p = std::exp(a.score(row, t) - lse) * a.keep(row, t);
      a.add(out[0].data.data() + a.position(row, width), p,
            in[2].data.data() + a.position(a.key_row(row, t), width), width);
    }
    out[1].data[static_cast<size_t>(row)] = lse;
  }
}

// With p the probabilities before dropout and keep its factors: dv = (p keep)^T dy, ds = p (keep dy v^T - dy
// . out)
void backward(const Tensors& in, Tensors& out, const ir::Attrs& attrs) {
  const double* dy = in[0].data.data();
  const HostTensor &q = in[1], &k = in[2], &v = in[3];
  const Attention a(q, k, v, in.size() > 6 ? &in[6] : nullptr, attrs);
  const int64_t width = a.width(), value_width = a.value_width();
  for (int64_t row = 0; row < a.rows(); ++row) {
    const double* dy_row = dy + a.position(row, value_width);
    const double delta = a.dot(dy_row, in[4].data.data() + a.position(row, value_width), value_width);
    for (int64_t t = a.first(row); t < a.visible(row); ++t) {
      const size_t at = a.position(a.key_row(row, t), width),
                   value_at = a.position(a.key_row(row, t), value_width);
      const double p = std::exp(a.score(row, t) - in[5].data[static_cast<size_t>(row)]),
                   keep = a.keep(row, t);
      a.add(out[2].data.data() + value_at, p * keep, dy_row, value_width);
      const double ds = p * (keep * a.dot(dy_row, v.data.data() + value_at, value_width) - delta) * a.scale();
      a.add(out[0].data.data() + a.position(row, width), ds, k.data.data() + at, width);
      a.add(out[1].data.data() + at, ds, q.data.data() + a.position(row, width), width);
    }
  }
}

void rotary(const Tensors& in, Tensors& out, const ir::Attrs& attrs) {
  const Around rows = around(in[0].type.shape, -1);
  const int64_t half = rows.extent / 2, sequence = in[0].type.shape[in[0].type.shape.size() - 2];
  const double direction = ir::attr_bool(attrs, "inverse") ? -1 : 1;
  for (int64_t row = 0; row < rows.outer; ++row) {
    const auto position = static_cast<double>(row % sequence + ir::attr_int(attrs, "offset"));
    for (int64_t i = 0; i < half; ++i) {
      const double share = static_cast<double>(2 * i) / static_cast<double>(rows.extent);
      const double angle = direction * position * std::pow(ir::attr_float(attrs, "base"), -share);
      const auto first = static_cast<size_t>(row * rows.extent + i),
                 second = first + static_cast<size_t>(half);
      const double a = in[0].data[first], b = in[0].data[second];
      out[0].data[first] = a * std::cos(angle) - b * std::sin(angle);
      out[0].data[second] = a * std::sin(angle) + b * std::cos(angle);
    }
  }
}

}  // namespace

void add_attention_kernels(KernelTable& table) {
  table.insert({{"scaled_dot_product_attention", forward},
                {"scaled_dot_product_attention_grad", backward},
                {"rotary", rotary}});
}

}  // namespace boxcar::backends::cpu

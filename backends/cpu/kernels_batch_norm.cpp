// Batch normalisation by channel. The current channels of a batch stay in the cache while they are read for
// the mean, the variance and the result: one channel at a time if its planes are long, otherwise some whole
// channels side by side.
#include <algorithm>
#include <optional>

#include "backends/cpu/chunks.h"
#include "backends/cpu/column_sums.h"
#include "backends/cpu/reference.h"
#include "ir/images.h"
#include "ir/ops/batch_statistics.h"

namespace boxcar::backends::cpu {
namespace {

// Channels first to first + count of a tensor of `batch` x `channels` x `inner` elements, as `batch` rows of
// count x inner columns.
struct Channels {
  int64_t batch, channels, inner, first, count;

  int64_t columns() const { return count * inner; }
  int64_t start(int64_t row) const { return (row * channels + first) * inner; }
  double elements() const { return static_cast<double>(std::max<int64_t>(batch * inner, 1)); }

  // body(element of the tensor, column, count)
  template <class Body>
  void row_chunks(int64_t row, Body body) const {
    for_chunks(columns(), [&](int64_t at, int64_t n) { body(start(row) + at, at, n); });
  }

  // Column sums added up by channel.
  std::vector<double> by_channel(const std::vector<double>& sums) const {
    std::vector<double> result(static_cast<size_t>(count), 0.0);
    for (int64_t i = 0; i < columns(); ++i)
      result[static_cast<size_t>(i / inner)] += sums[static_cast<size_t>(i)];
    return result;
  }

  // A number for each channel, repeated over its columns; zeros up to a multiple of kLanes.
  template <class A, class Number>
  std::vector<A> by_column(Number number) const {
    std::vector<A> result(static_cast<size_t>((columns() + kLanes - 1) / kLanes * kLanes), A(0));
    for (int64_t i = 0; i < columns(); ++i)
      result[static_cast<size_t>(i)] = static_cast<A>(number(i / inner));
    return result;
  }
};

Around around_channels(const ir::Shape& x, const ir::Attrs& attrs) {
  return around(x, static_cast<int64_t>(ir::channel_axis(x, attrs)));
}

// visit(channels) for groups of whole channels of about a chunk.
template <class Visit>
void each_group(const Around& x, Visit visit) {
  const int64_t at_once = std::max<int64_t>(1, kChunk / std::max<int64_t>(1, x.inner));
  for (int64_t first = 0; first < x.extent; first += at_once)
    visit(Channels{x.outer, x.extent, x.inner, first, std::min(at_once, x.extent - first)});
}

// Shares of running averages, if they are asked for: of a channel's mean, and of its sample's variance, which
// follows from rstd.
template <class A>
class Shares {
 public:
  Shares(const Call& call, const Around& shape)
      : share_(ir::attr_float(call.attrs, "share")), eps_(ir::attr_float(call.attrs, "eps")) {
    if (!ir::gives_shares(call.attrs)) return;
    mean_.emplace(call, ir::share_of_mean);
    variance_.emplace(call, ir::share_of_variance);
    const auto n = static_cast<double>(shape.outer * shape.inner);
    of_sample_ = n > 1 ? n / (n - 1) : 1;
  }

  void put(double mean, double rstd, const Operands& operands, int64_t channel) const {
    if (!mean_) return;
    mean_->put(share_ * mean, operands, channel);
    variance_->put(share_ * of_sample_ * std::max(1 / (rstd * rstd) - eps_, 0.0), operands, channel);
  }

 private:
  double share_, eps_, of_sample_ = 1;
  std::optional<Out<A>> mean_, variance_;
};

// --- one channel at a time

constexpr int64_t kLong = 32;

// visit(first element of a channel's plane in each image)
template <class Visit>
void each_plane(const Around& x, int64_t channel, Visit visit) {
  for (int64_t image = 0; image < x.outer; ++image) visit((image * x.extent + channel) * x.inner);
}

std::unique_ptr<Kernel> norm_planes(const Call& call, const Around& shape) {
  return for_acc(call, [&]<class A>() {
    return kernel([shape, eps = ir::attr_float(call.attrs, "eps"), x = In<A>(call, 0), gamma = In<A>(call, 1),
                   beta = In<A>(call, 2), y = Out<A>(call, 0), means = Out<A>(call, 1),
                   rstds = Out<A>(call, 2)](const Operands& operands) {
      Chunk<A> from, to;
      const double count = static_cast<double>(std::max<int64_t>(shape.outer * shape.inner, 1));
      for (int64_t channel = 0; channel < shape.extent; ++channel) {
        const auto mean_of = [&](auto f) {
          double sum = 0;
          each_plane(shape, channel,
                     [&](int64_t start) { sum += row_sum(operands, x, start, shape.inner, f); });
          return sum / count;
        };
        const double mean = mean_of([](A v) { return v; });
        const A m = static_cast<A>(mean);
        const double rstd = 1 / std::sqrt(mean_of([m](A v) { return (v - m) * (v - m); }) + eps);
        const A r = static_cast<A>(rstd), g = gamma.element(operands, channel),
                b = beta.element(operands, channel);
        each_plane(shape, channel, [&](int64_t start) {
          for_chunks(shape.inner, [&](int64_t at, int64_t n) {
            each(
                n, [m, r, g, b](A v) { return (v - m) * r * g + b; }, to.at,
                x.load(operands, start + at, n, from));
            y.store(to.at, operands, start + at, n);
          });
        });
        means.put(mean, operands, channel);
        rstds.put(rstd, operands, channel);
      }
    });
  });
}

// With xhat = (x - mean) rstd, over a channel: dgamma = sum(dy xhat), dbeta = sum(dy),
// dx = gamma rstd (dy - dbeta / n - xhat dgamma / n)
std::unique_ptr<Kernel> norm_planes_grad(const Call& call, const Around& shape) {
  return for_acc(call, [&]<class A>() {
    return kernel([shape, dy = In<A>(call, 0), x = In<A>(call, 1), gamma = In<A>(call, 2),
                   means = In<A>(call, 3), rstds = In<A>(call, 4), dx = Out<A>(call, 0),
                   dgamma = Out<A>(call, 1), dbeta = Out<A>(call, 2),
                   shares = Shares<A>(call, shape)](const Operands& operands) {
      Chunk<A> from_dy, from_x, to;
      const double count = static_cast<double>(std::max<int64_t>(shape.outer * shape.inner, 1));
      for (int64_t channel = 0; channel < shape.extent; ++channel) {
        const A m = means.element(operands, channel), r = rstds.element(operands, channel);
        const auto chunks = [&](auto visit) {  // visit(element, count, dy, x)
          each_plane(shape, channel, [&](int64_t start) {
            for_chunks(shape.inner, [&](int64_t at, int64_t n) {
              visit(start + at, n, dy.load(operands, start + at, n, from_dy),
                    x.load(operands, start + at, n, from_x));
            });
          });
        };
        double dg = 0, db = 0;
        chunks([&](int64_t, int64_t n, const A* d, const A* v) {
          dg += sum_of(
              n, [m, r](A a, A b) { return a * ((b - m) * r); }, d, v);
          db += sum_of(
              n, [](A a) { return a; }, d);
        });
        const A scale = gamma.element(operands, channel) * r;
        const A mean_dg = static_cast<A>(dg / count), mean_db = static_cast<A>(db / count);
        chunks([&](int64_t at, int64_t n, const A* d, const A* v) {
          each(
              n, [=](A a, A b) { return scale * (a - mean_db - (b - m) * r * mean_dg); }, to.at, d, v);
          dx.store(to.at, operands, at, n);
        });
        dgamma.put(dg, operands, channel);
        dbeta.put(db, operands, channel);
        shares.put(m, r, operands, channel);
      }
    });
  });
}

// --- channels side by side

std::unique_ptr<Kernel> make_batch_norm(const Call& call) {
  const Around shape = around_channels(call.inputs[0].shape, call.attrs);
  if (shape.inner >= kLong) return norm_planes(call, shape);
  return for_acc(call, [&]<class A>() {
    return kernel([shape, eps = ir::attr_float(call.attrs, "eps"), x = In<A>(call, 0), gamma = In<A>(call, 1),
                   beta = In<A>(call, 2), y = Out<A>(call, 0), means = Out<A>(call, 1),
                   rstds = Out<A>(call, 2)](const Operands& operands) {
      Chunk<A> from, to;
      each_group(shape, [&](const Channels& c) {
        ColumnSums<A> sums(c.columns());
        const auto sum = [&](auto f, const A* by_column) {
          sums.clear();
          for (int64_t row = 0; row < c.batch; ++row) {
            c.row_chunks(row, [&](int64_t start, int64_t at, int64_t n) {
              sums.add(at, n, f, x.load(operands, start, n, from), by_column + at);
            });
            sums.next_row();
          }
          return c.by_channel(sums.totals());
        };
        const auto number = [&](const In<A>& in) {
          return c.by_column<A>([&](int64_t i) { return in.element(operands, c.first + i); });
        };
        const std::vector<A> scale = number(gamma), shift = number(beta);
        std::vector<double> mean = sum([](A v, A) { return v; }, scale.data());
        for (double& m : mean) m /= c.elements();
        const auto of = [](std::vector<double>& values) {
          return [&values](int64_t i) { return values[static_cast<size_t>(i)]; };
        };
        const std::vector<A> middle = c.by_column<A>(of(mean));
        std::vector<double> rstd = sum([](A v, A m) { return (v - m) * (v - m); }, middle.data());
        for (double& r : rstd) r = 1 / std::sqrt(r / c.elements() + eps);
        const std::vector<A> inverse = c.by_column<A>(of(rstd));
        for (int64_t row = 0; row < c.batch; ++row) {
          c.row_chunks(row, [&](int64_t start, int64_t at, int64_t n) {
            each(
                n, [](A v, A m, A r, A g, A b) { return (v - m) * r * g + b; }, to.at,
                x.load(operands, start, n, from), &middle[static_cast<size_t>(at)],
                &inverse[static_cast<size_t>(at)], &scale[static_cast<size_t>(at)],
                &shift[static_cast<size_t>(at)]);
            y.store(to.at, operands, start, n);
          });
        }
        for (int64_t i = 0; i < c.count; ++i) {
          means.put(mean[static_cast<size_t>(i)], operands, c.first + i);
          rstds.put(rstd[static_cast<size_t>(i)], operands, c.first + i);
        }
      });
    });
  });
}

std::unique_ptr<Kernel> make_batch_norm_grad(const Call& call) {
  const Around shape = around_channels(call.inputs[1].shape, call.attrs);
  if (shape.inner >= kLong) return norm_planes_grad(call, shape);
  return for_acc(call, [&]<class A>() {
    return kernel([shape, dy = In<A>(call, 0), x = In<A>(call, 1), gamma = In<A>(call, 2),
                   means = In<A>(call, 3), rstds = In<A>(call, 4), dx = Out<A>(call, 0),
                   dgamma = Out<A>(call, 1), dbeta = Out<A>(call, 2),
                   shares = Shares<A>(call, shape)](const Operands& operands) {
      Chunk<A> from_dy, from_x, to;
      each_group(shape, [&](const Channels& c) {
        const auto number = [&](const In<A>& in) {
          return c.by_column<A>([&](int64_t i) { return in.element(operands, c.first + i); });
        };
        const std::vector<A> mean = number(means), rstd = number(rstds), scale = number(gamma);
        ColumnSums<A> products(c.columns()), plain(c.columns());
        for (int64_t row = 0; row < c.batch; ++row) {
          c.row_chunks(row, [&](int64_t start, int64_t at, int64_t n) {
            const A* d = dy.load(operands, start, n, from_dy);
            products.add(
                at, n, [](A a, A v, A m, A r) { return a * ((v - m) * r); }, d,
                x.load(operands, start, n, from_x), mean.data() + at, rstd.data() + at);
            plain.add(
                at, n, [](A a) { return a; }, d);
          });
          products.next_row();
          plain.next_row();
        }
        const std::vector<double> dg = c.by_channel(products.totals()), db = c.by_channel(plain.totals());
        const auto mean_of = [&](const std::vector<double>& sums) {
          return c.by_column<A>([&](int64_t i) { return sums[static_cast<size_t>(i)] / c.elements(); });
        };
        const std::vector<A> mean_dg = mean_of(dg), mean_db = mean_of(db);
        for (int64_t row = 0; row < c.batch; ++row) {
          c.row_chunks(row, [&](int64_t start, int64_t at, int64_t n) {
            each(
                n, [](A a, A v, A m, A r, A s, A mg, A mb) { return s * r * (a - mb - (v - m) * r * mg); },
                to.at, dy.load(operands, start, n, from_dy), x.load(operands, start, n, from_x),
                mean.data() + at, rstd.data() + at, scale.data() + at, mean_dg.data() + at,
                mean_db.data() + at);
            dx.store(to.at, operands, start, n);
          });
        }
        for (int64_t i = 0; i < c.count; ++i) {
          const int64_t channel = c.first + i;
          dgamma.put(dg[static_cast<size_t>(i)], operands, channel);
          dbeta.put(db[static_cast<size_t>(i)], operands, channel);
          shares.put(means.element(operands, channel), rstds.element(operands, channel), operands, channel);
        }
      });
    });
  });
}

std::unique_ptr<Kernel> make_running_average(const Call& call) {
  return for_acc(call, [&]<class A>() {
    const std::optional<In<A>> finite =
        call.inputs.size() > 2 ? std::optional<In<A>>(std::in_place, call, 2) : std::nullopt;
    return kernel([count = call.outputs[0].elements(), finite, average = In<A>(call, 0),
                   fresh = In<A>(call, 1), next = Out<A>(call, 0),
                   momentum = ir::attr_float(call.attrs, "momentum")](const Operands& operands) {
      const bool moves = !finite || finite->element(operands, 0) != 0;
      const A kept = static_cast<A>(1 - momentum), part = static_cast<A>(momentum);
      Chunk<A> from, from_fresh, to;
      for_chunks(count, [&](int64_t at, int64_t n) {
        const A* old = average.load(operands, at, n, from);
        if (moves)
          each(
              n, [=](A a, A b) { return kept * a + part * b; }, to.at, old,
              fresh.load(operands, at, n, from_fresh));
        else
          std::copy_n(old, n, to.at);
        next.store(to.at, operands, at, n);
      });
    });
  });
}

}  // namespace

void add_batch_norm_kernels(Factories& table) {
  table.insert({{"batch_norm", make_batch_norm},
                {"batch_norm_grad", make_batch_norm_grad},
                {ir::running_average_op, make_running_average}});
}

}  // namespace boxcar::backends::cpu

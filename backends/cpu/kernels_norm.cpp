// Layer and RMS normalisation by row. Statistics are sums in double.
#include "backends/cpu/chunks.h"
#include "backends/cpu/column_sums.h"
#include "backends/cpu/reference.h"

namespace boxcar::backends::cpu {
namespace {

constexpr auto kSame = [](auto x) { return x; };

std::unique_ptr<Kernel> make_layer_norm(const Call& call) {
  const Around rows = around(call.inputs[0].shape, -1);
  return for_acc(call, [&]<class A>() {
    return kernel([rows, eps = ir::attr_float(call.attrs, "eps"), x = In<A>(call, 0), gamma = In<A>(call, 1),
                   beta = In<A>(call, 2), y = Out<A>(call, 0), means = Out<A>(call, 1),
                   rstds = Out<A>(call, 2)](const Operands& operands) {
      Chunk<A> from, from_gamma, from_beta, to;
      const auto width = static_cast<double>(std::max<int64_t>(rows.extent, 1));
      for (int64_t row = 0; row < rows.outer; ++row) {
        const int64_t start = row * rows.extent;
        const double mean = row_sum(operands, x, start, rows.extent, kSame) / width;
        const A m = static_cast<A>(mean);
        const double squares =
            row_sum(operands, x, start, rows.extent, [m](A v) { return (v - m) * (v - m); });
        const double rstd = 1 / std::sqrt(squares / width + eps);
        const A r = static_cast<A>(rstd);
        for_chunks(rows.extent, [&](int64_t at, int64_t n) {
          each(
              n, [m, r](A v, A g, A b) { return (v - m) * r * g + b; }, to.at,
              x.load(operands, start + at, n, from), gamma.load(operands, at, n, from_gamma),
              beta.load(operands, at, n, from_beta));
          y.store(to.at, operands, start + at, n);
        });
        means.put(mean, operands, row);
        rstds.put(rstd, operands, row);
      }
    });
  });
}

// With xhat = (x - mean) rstd and g = dy gamma: dx = rstd (g - mean(g) - xhat mean(g xhat))
std::unique_ptr<Kernel> make_layer_norm_grad(const Call& call) {
  const Around rows = around(call.inputs[1].shape, -1);
  return for_acc(call, [&]<class A>() {
    return kernel([rows, dy = In<A>(call, 0), x = In<A>(call, 1), gamma = In<A>(call, 2),
                   means = In<A>(call, 3), rstds = In<A>(call, 4), dx = Out<A>(call, 0),
                   dgamma = Out<A>(call, 1), dbeta = Out<A>(call, 2), dgammas = ColumnSums<A>(rows.extent),
                   dbetas = ColumnSums<A>(rows.extent)](const Operands& operands) mutable {
      Chunk<A> from_dy, from_x, from_gamma, to;
      const auto width = static_cast<double>(std::max<int64_t>(rows.extent, 1));
      dgammas.clear();
      dbetas.clear();
      for (int64_t row = 0; row < rows.outer; ++row) {
        const int64_t start = row * rows.extent;
        const A mean = means.element(operands, row), rstd = rstds.element(operands, row);
        double sum_g = 0, sum_g_normal = 0;
        for_chunks(rows.extent, [&](int64_t at, int64_t n) {
          const A* d = dy.load(operands, start + at, n, from_dy);
          const A* v = x.load(operands, start + at, n, from_x);
          const A* scale = gamma.load(operands, at, n, from_gamma);
          sum_g += sum_of(
              n, [](A a, A s) { return a * s; }, d, scale);
          sum_g_normal += sum_of(
              n, [=](A a, A s, A b) { return a * s * ((b - mean) * rstd); }, d, scale, v);
          dgammas.add(
              at, n, [=](A a, A b) { return a * ((b - mean) * rstd); }, d, v);
          dbetas.add(at, n, kSame, d);
        });
        dgammas.next_row();
        dbetas.next_row();
        const A g = static_cast<A>(sum_g / width), g_normal = static_cast<A>(sum_g_normal / width);
        for_chunks(rows.extent, [&](int64_t at, int64_t n) {
          each(
              n, [=](A d, A s, A v) { return rstd * (d * s - g - (v - mean) * rstd * g_normal); }, to.at,
              dy.load(operands, start + at, n, from_dy), gamma.load(operands, at, n, from_gamma),
              x.load(operands, start + at, n, from_x));
          dx.store(to.at, operands, start + at, n);
        });
      }
      dgammas.store(dgamma, operands, rows.extent);
      dbetas.store(dbeta, operands, rows.extent);
    });
  });
}

std::unique_ptr<Kernel> make_rms_norm(const Call& call) {
  const Around rows = around(call.inputs[0].shape, -1);
  return for_acc(call, [&]<class A>() {
    return kernel([rows, eps = ir::attr_float(call.attrs, "eps"), x = In<A>(call, 0), gamma = In<A>(call, 1),
                   y = Out<A>(call, 0), rstds = Out<A>(call, 1)](const Operands& operands) {
      Chunk<A> from, from_gamma, to;
      const auto width = static_cast<double>(std::max<int64_t>(rows.extent, 1));
      for (int64_t row = 0; row < rows.outer; ++row) {
        const int64_t start = row * rows.extent;
        const double squares = row_sum(operands, x, start, rows.extent, [](A v) { return v * v; });
        const double rstd = 1 / std::sqrt(squares / width + eps);
        const A r = static_cast<A>(rstd);
        for_chunks(rows.extent, [&](int64_t at, int64_t n) {
          each(
              n, [r](A v, A g) { return v * r * g; }, to.at, x.load(operands, start + at, n, from),
              gamma.load(operands, at, n, from_gamma));
          y.store(to.at, operands, start + at, n);
        });
        rstds.put(rstd, operands, row);
      }
    });
  });
}

// With g = dy gamma: dx = rstd (g - x rstd^2 mean(g x))
std::unique_ptr<Kernel> make_rms_norm_grad(const Call& call) {
  const Around rows = around(call.inputs[1].shape, -1);
  return for_acc(call, [&]<class A>() {
    return kernel([rows, dy = In<A>(call, 0), x = In<A>(call, 1), gamma = In<A>(call, 2),
                   rstds = In<A>(call, 3), dx = Out<A>(call, 0), dgamma = Out<A>(call, 1),
                   dgammas = ColumnSums<A>(rows.extent)](const Operands& operands) mutable {
      Chunk<A> from_dy, from_x, from_gamma, to;
      const auto width = static_cast<double>(std::max<int64_t>(rows.extent, 1));
      dgammas.clear();
      for (int64_t row = 0; row < rows.outer; ++row) {
        const int64_t start = row * rows.extent;
        const A rstd = rstds.element(operands, row);
        double sum = 0;
        for_chunks(rows.extent, [&](int64_t at, int64_t n) {
          const A* d = dy.load(operands, start + at, n, from_dy);
          const A* v = x.load(operands, start + at, n, from_x);
          sum += sum_of(
              n, [](A a, A b, A s) { return a * s * b; }, d, v, gamma.load(operands, at, n, from_gamma));
          dgammas.add(
              at, n, [rstd](A a, A b) { return a * (b * rstd); }, d, v);
        });
        dgammas.next_row();
        const A mean = static_cast<A>(sum / width) * rstd * rstd;
        for_chunks(rows.extent, [&](int64_t at, int64_t n) {
          each(
              n, [=](A d, A s, A v) { return rstd * (d * s - v * mean); }, to.at,
              dy.load(operands, start + at, n, from_dy), gamma.load(operands, at, n, from_gamma),
              x.load(operands, start + at, n, from_x));
          dx.store(to.at, operands, start + at, n);
        });
      }
      dgammas.store(dgamma, operands, rows.extent);
    });
  });
}

}  // namespace

void add_norm_kernels(Factories& table) {
  table.insert({{"layer_norm", make_layer_norm},
                {"layer_norm_grad", make_layer_norm_grad},
                {"rms_norm", make_rms_norm},
                {"rms_norm_grad", make_rms_norm_grad}});
}

}  // namespace boxcar::backends::cpu

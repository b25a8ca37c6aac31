// Layer, RMS and batch normalisation. All three run over sets of elements that share statistics: rows of the
// last axis, or everything of one channel.
#include <algorithm>
#include <cmath>

#include "backends/cpu/reference_groups.h"
#include "ir/images.h"
#include "ir/ops/batch_statistics.h"
#include "sbp/at.h"

namespace boxcar::backends::cpu {
namespace {

// The elements of x that share statistics, seen as outer x inner with a stride between the outer ones, and
// the positions of the statistics and the scale of element (o, i).
struct Sets {
  int64_t count = 0;             // sets
  int64_t outer = 1, inner = 1;  // a set's elements
  int64_t set_stride = 0, outer_stride = 0;
  bool scale_by_set = false;  // gamma[set] (batch norm), else gamma[i] (layer norm)

  size_t at(int64_t set, int64_t o, int64_t i) const {
    return static_cast<size_t>(set * set_stride + o * outer_stride + i);
  }
  size_t scale(int64_t set, int64_t i) const { return static_cast<size_t>(scale_by_set ? set : i); }
  double size() const { return static_cast<double>(outer * inner); }
};

Sets rows_of(const HostTensor& x, const ir::Attrs&) {
  const Around a = around(x.type.shape, -1);
  return {.count = a.outer, .inner = a.extent, .set_stride = a.extent};
}

Sets channels_of(const HostTensor& x, const ir::Attrs& attrs) {
  const Around a = around(x.type.shape, static_cast<int64_t>(ir::channel_axis(x.type.shape, attrs)));
  return {.count = a.extent,
          .outer = a.outer,
          .inner = a.inner,
          .set_stride = a.inner,
          .outer_stride = a.extent * a.inner,
          .scale_by_set = true};
}

// visit(position in x, position in gamma) for every element of a set
template <class Visit>
void each(const Sets& sets, int64_t set, Visit visit) {
  for (int64_t o = 0; o < sets.outer; ++o) {
    for (int64_t i = 0; i < sets.inner; ++i) visit(sets.at(set, o, i), sets.scale(set, i));
  }
}

template <Sets (*sets_of)(const HostTensor&, const ir::Attrs&)>
void norm(const Tensors& in, Tensors& out, const ir::Attrs& attrs) {
  const HostTensor &x = in[0], &gamma = in[1], &beta = in[2];
  const Sets sets = sets_of(x, attrs);
  for (int64_t set = 0; set < sets.count; ++set) {
    double mean = 0, variance = 0;
    each(sets, set, [&](size_t at, size_t) { mean += x.data[at] / sets.size(); });
    each(sets, set, [&](size_t at, size_t) { variance += std::pow(x.data[at] - mean, 2) / sets.size(); });
    const double rstd = 1 / std::sqrt(variance + ir::attr_float(attrs, "eps"));
    each(sets, set, [&](size_t at, size_t scale) {
      out[0].data[at] = (x.data[at] - mean) * rstd * gamma.data[scale] + beta.data[scale];
    });
    at(out[1].data, set) = mean;
    at(out[2].data, set) = rstd;
  }
}

// With xhat = (x - mean) rstd and g = dy gamma: dx = rstd (g - mean(g) - xhat mean(g xhat))
template <Sets (*sets_of)(const HostTensor&, const ir::Attrs&)>
void norm_grad(const Tensors& in, Tensors& out, const ir::Attrs& attrs) {
  const HostTensor &dy = in[0], &x = in[1], &gamma = in[2];
  const Sets sets = sets_of(x, attrs);
  for (int64_t set = 0; set < sets.count; ++set) {
    const double mean = at(in[3].data, set), rstd = at(in[4].data, set);
    const auto normal = [&](size_t at) { return (x.data[at] - mean) * rstd; };
    double mean_g = 0, mean_g_normal = 0;
    each(sets, set, [&](size_t at, size_t scale) {
      mean_g += dy.data[at] * gamma.data[scale] / sets.size();
      mean_g_normal += dy.data[at] * gamma.data[scale] * normal(at) / sets.size();
      out[1].data[scale] += dy.data[at] * normal(at);
      out[2].data[scale] += dy.data[at];
    });
    each(sets, set, [&](size_t at, size_t scale) {
      out[0].data[at] = rstd * (dy.data[at] * gamma.data[scale] - mean_g - normal(at) * mean_g_normal);
    });
  }
}

// The gradient, and shares of the mean and of the sample's variance if they are asked for.
void batch_norm_grad(const Tensors& in, Tensors& out, const ir::Attrs& attrs) {
  norm_grad<channels_of>(in, out, attrs);
  if (!ir::gives_shares(attrs)) return;
  const double n = channels_of(in[1], attrs).size(), share = ir::attr_float(attrs, "share");
  const double of_sample = n > 1 ? n / (n - 1) : 1;
  for (size_t c = 0; c < in[3].data.size(); ++c) {
    const double variance = 1 / std::pow(in[4].data[c], 2) - ir::attr_float(attrs, "eps");
    out[3].data[c] = share * in[3].data[c];
    out[4].data[c] = share * of_sample * std::max(variance, 0.0);
  }
}

// One micro-batch: the running sum starts at zero.
void accumulate_statistics(const Tensors& in, Tensors& out, const ir::Attrs&) { out[0].data = in[0].data; }

void running_average(const Tensors& in, Tensors& out, const ir::Attrs& attrs) {
  out[0].data = in[0].data;
  if (in.size() > 2 && in[2].data[0] == 0) return;
  const double momentum = ir::attr_float(attrs, "momentum");
  for (size_t i = 0; i < in[0].data.size(); ++i)
    out[0].data[i] = (1 - momentum) * in[0].data[i] + momentum * in[1].data[i];
}

void rms_norm(const Tensors& in, Tensors& out, const ir::Attrs& attrs) {
  const HostTensor &x = in[0], &gamma = in[1];
  const Sets rows = rows_of(x, attrs);
  for (int64_t row = 0; row < rows.count; ++row) {
    double square = 0;
    each(rows, row, [&](size_t at, size_t) { square += x.data[at] * x.data[at] / rows.size(); });
    const double rstd = 1 / std::sqrt(square + ir::attr_float(attrs, "eps"));
    each(rows, row,
         [&](size_t at, size_t scale) { out[0].data[at] = x.data[at] * rstd * gamma.data[scale]; });
    at(out[1].data, row) = rstd;
  }
}

// dx = rstd (g - x rstd^2 mean(g x))
void rms_norm_grad(const Tensors& in, Tensors& out, const ir::Attrs& attrs) {
  const HostTensor &dy = in[0], &x = in[1], &gamma = in[2];
  const Sets rows = rows_of(x, attrs);
  for (int64_t row = 0; row < rows.count; ++row) {
    const double rstd = at(in[3].data, row);
    double mean = 0;
    each(rows, row, [&](size_t at, size_t scale) {
      mean += dy.data[at] * gamma.data[scale] * x.data[at] / rows.size();
      out[1].data[scale] += dy.data[at] * x.data[at] * rstd;
    });
    each(rows, row, [&](size_t at, size_t scale) {
      out[0].data[at] = rstd * (dy.data[at] * gamma.data[scale] - x.data[at] * rstd * rstd * mean);
    });
  }
}

}  // namespace

void add_norm_kernels(KernelTable& table) {
  table.insert({{"layer_norm", norm<rows_of>},
                {"layer_norm_grad", norm_grad<rows_of>},
                {"rms_norm", rms_norm},
                {"rms_norm_grad", rms_norm_grad},
                {"batch_norm", norm<channels_of>},
                {"batch_norm_grad", batch_norm_grad},
                {ir::accumulate_statistics_op, accumulate_statistics},
                {ir::running_average_op, running_average}});
}

}  // namespace boxcar::backends::cpu

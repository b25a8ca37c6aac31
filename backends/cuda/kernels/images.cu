// Pools and batch norm. Gradients of pools are gathered: each element of x looks at the windows that have it.
#include "backends/cuda/kernels/fast.cuh"

namespace boxcar::backends::cuda {
namespace {

__device__ inline int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }
__device__ inline int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

// An element of an image with this many rows and columns.
struct Position {
  __device__ Position(const Pool& p, int64_t i, int64_t height, int64_t width)
      : image(i / (p.channels * height * width)),
        channel(p.last ? i % p.channels : i / (height * width) % p.channels),
        row((p.last ? i / (p.channels * width) : i / width) % height),
        column((p.last ? i / p.channels : i) % width) {}
  // Index of an element of another tensor, in the same image and channel.
  __device__ int64_t other(const Pool& p, int64_t height, int64_t width, int64_t r, int64_t c) const {
    return p.last ? ((image * height + r) * width + c) * p.channels + channel
                  : ((image * p.channels + channel) * height + r) * width + c;
  }
  int64_t image, channel, row, column;
};

// The part of a window that lies in its plane.
struct Window {
  __device__ Window(const Pool& p, int64_t row, int64_t column)
      : top(larger(row * p.stride - p.padding, 0)),
        bottom(smaller(row * p.stride - p.padding + p.kernel, p.height)),
        left(larger(column * p.stride - p.padding, 0)),
        right(smaller(column * p.stride - p.padding + p.kernel, p.width)) {}
  int64_t top, bottom, left, right;
};

// The position in x of a window's first maximum; -1 if all of it is padding.
template <class A>
__device__ int64_t maximum(const Pool& p, const Position& of, const Window& w) {
  int64_t best = -1;
  A most = A(0);
  for (int64_t row = w.top; row < w.bottom; ++row) {
    for (int64_t column = w.left; column < w.right; ++column) {
      const int64_t at = of.other(p, p.height, p.width, row, column);
      const A x = load<A>(p.x, at);
      if (best >= 0 && !(x > most)) continue;
      best = at;
      most = x;
    }
  }
  return best;
}

template <class A>
__global__ void pools(const __grid_constant__ Pool p) {
  const int64_t count = p.images * p.channels * p.out_height * p.out_width;
  const int64_t all = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += all) {
    const Position y(p, i, p.out_height, p.out_width);
    const Window w(p, y.row, y.column);
    if (p.max) {
      const int64_t best = maximum<A>(p, y, w);
      store(p.y, i, best < 0 ? static_cast<A>(-INFINITY) : load<A>(p.x, best));
      continue;
    }
    A sum = A(0);
    for (int64_t row = w.top; row < w.bottom; ++row)
      for (int64_t column = w.left; column < w.right; ++column)
        sum += load<A>(p.x, y.other(p, p.height, p.width, row, column));
    store(p.y, i, sum / static_cast<A>(p.kernel * p.kernel));
  }
}

// The first and the last window that have position `at` of an axis.
__device__ inline int64_t first_window(const Pool& p, int64_t at) {
  const int64_t from = at + p.padding - p.kernel + 1;
  return from <= 0 ? 0 : (from + p.stride - 1) / p.stride;
}
__device__ inline int64_t last_window(const Pool& p, int64_t at, int64_t windows) {
  return smaller((at + p.padding) / p.stride, windows - 1);
}

template <class A>
__global__ void pool_grads(const __grid_constant__ Pool p) {
  const int64_t count = p.images * p.channels * p.height * p.width;
  const int64_t all = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += all) {
    const Position x(p, i, p.height, p.width);
    A sum = A(0);
    for (int64_t r = first_window(p, x.row); r <= last_window(p, x.row, p.out_height); ++r) {
      for (int64_t c = first_window(p, x.column); c <= last_window(p, x.column, p.out_width); ++c) {
        const A dy = load<A>(p.dy, x.other(p, p.out_height, p.out_width, r, c));
        if (!p.max)
          sum += dy / static_cast<A>(p.kernel * p.kernel);
        else if (maximum<A>(p, x, Window(p, r, c)) == i)
          sum += dy;
      }
    }
    store(p.dx, i, sum);
  }
}

// body(position) for this thread's elements of a channel.
template <class Body>
__device__ void each_of(const BatchNorm& n, int64_t channel, Body body) {
  for (int64_t i = threadIdx.x; i < n.batch * n.inner; i += blockDim.x)
    body((i / n.inner * n.channels + channel) * n.inner + i % n.inner);
}

// A block for each channel; sums in double.
template <class A>
__global__ void norms(const __grid_constant__ BatchNorm n) {
  const double count = static_cast<double>(n.batch * n.inner > 0 ? n.batch * n.inner : 1);
  for (int64_t c = blockIdx.x; c < n.channels; c += gridDim.x) {
    double sum = 0;
    each_of(n, c, [&](int64_t at) { sum += static_cast<double>(load<A>(n.x, at)); });
    const double mean = block_sum(sum) / count;
    double squares = 0;
    each_of(n, c, [&](int64_t at) {
      const double off = static_cast<double>(load<A>(n.x, at)) - mean;
      squares += off * off;
    });
    const double rstd = 1 / sqrt(block_sum(squares) / count + n.eps);
    const A middle = static_cast<A>(mean), inverse = static_cast<A>(rstd), scale = load<A>(n.gamma, c),
            shift = load<A>(n.beta, c);
    each_of(n, c, [&](int64_t at) { store(n.y, at, (load<A>(n.x, at) - middle) * inverse * scale + shift); });
    if (threadIdx.x != 0) continue;
    store(n.mean, c, mean);
    store(n.rstd, c, rstd);
  }
}

// Shares of running averages: of a channel's mean, and of its sample's variance, which follows from rstd.
template <class A>
__device__ void store_shares(const BatchNorm& n, int64_t channel) {
  const double count = static_cast<double>(n.batch * n.inner),
               rstd = static_cast<double>(load<A>(n.rstd, channel));
  const double variance = 1 / (rstd * rstd) - n.eps, of_sample = count > 1 ? count / (count - 1) : 1;
  store(n.mean_share, channel, n.share * static_cast<double>(load<A>(n.mean, channel)));
  store(n.variance_share, channel, n.share * of_sample * (variance > 0 ? variance : 0));
}

template <class A>
__global__ void norm_shares(const __grid_constant__ BatchNorm n) {
  const int64_t step = static_cast<int64_t>(blockDim.x) * gridDim.x;
  for (int64_t c = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; c < n.channels; c += step)
    store_shares<A>(n, c);
}

// With xhat = (x - mean) rstd, over a channel: dgamma = sum(dy xhat), dbeta = sum(dy),
// dx = gamma rstd (dy - dbeta / n - xhat dgamma / n)
template <class A>
__global__ void norm_grads(const __grid_constant__ BatchNorm n) {
  const double count = static_cast<double>(n.batch * n.inner > 0 ? n.batch * n.inner : 1);
  for (int64_t c = blockIdx.x; c < n.channels; c += gridDim.x) {
    const A mean = load<A>(n.mean, c), rstd = load<A>(n.rstd, c), scale = load<A>(n.gamma, c);
    double products = 0, plain = 0;
    each_of(n, c, [&](int64_t at) {
      const A dy = load<A>(n.dy, at);
      products += static_cast<double>(dy * ((load<A>(n.x, at) - mean) * rstd));
      plain += static_cast<double>(dy);
    });
    const double dgamma = block_sum(products), dbeta = block_sum(plain);
    const A mean_product = static_cast<A>(dgamma / count), mean_plain = static_cast<A>(dbeta / count);
    each_of(n, c, [&](int64_t at) {
      const A hat = (load<A>(n.x, at) - mean) * rstd;
      store(n.dx, at, scale * rstd * (load<A>(n.dy, at) - mean_plain - hat * mean_product));
    });
    if (threadIdx.x != 0) continue;
    store(n.dgamma, c, dgamma);
    store(n.dbeta, c, dbeta);
    if (n.share > 0) store_shares<A>(n, c);
  }
}

}  // namespace

void launch_pool(const Pool& p, bool wide, Stream stream) {
  const int64_t count = p.images * p.channels * p.out_height * p.out_width;
  if (count == 0 || fast_pool(p, of(stream))) return;
  launch(wide ? pools<double> : pools<float>, blocks_for(count), of(stream), p);
}

void launch_pool_grad(const Pool& p, void* scratch, bool wide, Stream stream) {
  const int64_t count = p.images * p.channels * p.height * p.width;
  if (count == 0 || fast_pool_grad(p, scratch, of(stream))) return;
  launch(wide ? pool_grads<double> : pool_grads<float>, blocks_for(count), of(stream), p);
}

void launch_batch_norm(const BatchNorm& n, bool wide, Stream stream) {
  if (n.channels == 0) return;
  launch(wide ? norms<double> : norms<float>, blocks_for(n.channels, 1), of(stream), n);
}

void launch_batch_norm_grad(const BatchNorm& n, bool wide, Stream stream) {
  if (n.channels == 0) return;
  launch(wide ? norm_grads<double> : norm_grads<float>, blocks_for(n.channels, 1), of(stream), n);
}

void launch_batch_norm_shares(const BatchNorm& n, bool wide, Stream stream) {
  if (n.channels == 0) return;
  launch(wide ? norm_shares<double> : norm_shares<float>, blocks_for(n.channels), of(stream), n);
}

}  // namespace boxcar::backends::cuda

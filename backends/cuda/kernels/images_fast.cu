// Pools of images whose channels are last and fill vectors of 16 bytes: a thread for each vector of the
// result. Overlaps of windows are read from the caches. The first of equal elements is a window's maximum, as
// in images.cu.
#include "backends/cuda/kernels/fast.cuh"

namespace boxcar::backends::cuda {
namespace {

struct FastPool {
  const void *x = nullptr, *dy = nullptr;
  void* to = nullptr;              // y, of the gradient dx
  unsigned count = 0;              // vectors of the result
  Divisor vectors, width, height;  // of the result: of a position, positions of a row, rows of an image
  int rows = 0, columns = 0;       // of the other image
  int kernel = 1, stride = 1, padding = 0;
};

struct Spot {
  unsigned vector, image;
  int row, column;
};
__device__ inline Spot spot(const FastPool& p, unsigned at) {
  const unsigned position = at / p.vectors, line = position / p.width, image = line / p.height;
  return {at - position * p.vectors.by, image, static_cast<int>(line - image * p.height.by),
          static_cast<int>(position - line * p.width.by)};
}

// The vector of the other image, with this many rows and columns, at the same channels.
__device__ inline unsigned other(const FastPool& p, const Spot& s, int row, int column) {
  return ((s.image * p.rows + row) * p.columns + column) * p.vectors.by + s.vector;
}

// Calls body(values of x, number in the window) for the elements of the window of y at `s` that are not
// padding, row by row.
template <class T, class Body>
__device__ void over_window(const FastPool& p, const Spot& s, Body body) {
  const int top = s.row * p.stride - p.padding, left = s.column * p.stride - p.padding;
  for (int row = top < 0 ? 0 : top; row < top + p.kernel && row < p.rows; ++row)
    for (int column = left < 0 ? 0 : left; column < left + p.kernel && column < p.columns; ++column) {
      float value[per_vector<T>];
      unpack<T>(vector_at(static_cast<const T*>(p.x), other(p, s, row, column)), value);
      body(value, static_cast<unsigned>((row - top) * p.kernel + column - left));
    }
}

template <class T, bool max>
__global__ void __launch_bounds__(threads) pool_vectors(const __grid_constant__ FastPool p) {
  constexpr int n = per_vector<T>;
  for (unsigned i = blockIdx.x * threads + threadIdx.x; i < p.count; i += gridDim.x * threads) {
    const Spot s = spot(p, i);
    float result[n];
    bool begun = false;
#pragma unroll
    for (int e = 0; e < n; ++e) result[e] = max ? -INFINITY : 0.0f;
    over_window<T>(p, s, [&](const float(&value)[n], unsigned) {
#pragma unroll
      for (int e = 0; e < n; ++e)
        if (max)
          result[e] = !begun || value[e] > result[e] ? value[e] : result[e];
        else
          result[e] += value[e];
      begun = true;
    });
    if (!max) {
      const auto elements = static_cast<float>(p.kernel * p.kernel);
#pragma unroll
      for (int e = 0; e < n; ++e) result[e] /= elements;
    }
    put_vector(static_cast<T*>(p.to), i, pack<T>(result));
  }
}

// Writes the number within the window of each window's first maximum, a byte each; windows that are all
// padding get `nowhere`. A thread for each vector of windows: `p` is of the forward pass.
constexpr unsigned nowhere = most_places;
template <class T>
__global__ void __launch_bounds__(threads) find_maxima(const __grid_constant__ FastPool p) {
  constexpr int n = per_vector<T>;
  for (unsigned i = blockIdx.x * threads + threadIdx.x; i < p.count; i += gridDim.x * threads) {
    const Spot s = spot(p, i);
    float most[n];
    unsigned place[n];
#pragma unroll
    for (int e = 0; e < n; ++e) place[e] = nowhere;
    over_window<T>(p, s, [&](const float(&value)[n], unsigned here) {
#pragma unroll
      for (int e = 0; e < n; ++e) {
        if (place[e] != nowhere && !(value[e] > most[e])) continue;
        most[e] = value[e];
        place[e] = here;
      }
    });
    unsigned packed[n / 4] = {};
#pragma unroll
    for (int e = 0; e < n; ++e) packed[e / 4] |= place[e] << e % 4 * 8;
#pragma unroll
    for (int w = 0; w < n / 4; ++w) static_cast<unsigned*>(p.to)[i * (n / 4) + w] = packed[w];
  }
}

// dx: a thread for each vector of it looks at the windows that have its position. `places` tells which
// element is a window's maximum.
template <class T, bool max>
__global__ void __launch_bounds__(threads)
    pool_grad_vectors(const __grid_constant__ FastPool p, const unsigned* places) {
  constexpr int n = per_vector<T>;
  const auto elements = static_cast<float>(p.kernel * p.kernel);
  for (unsigned i = blockIdx.x * threads + threadIdx.x; i < p.count; i += gridDim.x * threads) {
    const Spot s = spot(p, i);
    float sum[n] = {};
    const int above = s.row + p.padding - p.kernel + 1, before = s.column + p.padding - p.kernel + 1;
    const int first_row = above <= 0 ? 0 : (above + p.stride - 1) / p.stride,
              first_column = before <= 0 ? 0 : (before + p.stride - 1) / p.stride;
    for (int row = first_row; row * p.stride <= s.row + p.padding && row < p.rows; ++row)
      for (int column = first_column; column * p.stride <= s.column + p.padding && column < p.columns;
           ++column) {
        const unsigned at = other(p, s, row, column);
        float dy[n];
        unpack<T>(vector_at(static_cast<const T*>(p.dy), at), dy);
        if (max) {
          const auto mine = static_cast<unsigned>((s.row + p.padding - row * p.stride) * p.kernel + s.column +
                                                  p.padding - column * p.stride);
#pragma unroll
          for (int w = 0; w < n / 4; ++w) {
            const unsigned packed = places[at * (n / 4) + w];
#pragma unroll
            for (int e = 0; e < 4; ++e)
              if ((packed >> e * 8 & 255) == mine) sum[4 * w + e] += dy[4 * w + e];
          }
        } else {
#pragma unroll
          for (int e = 0; e < n; ++e) sum[e] += dy[e] / elements;
        }
      }
    put_vector(static_cast<T*>(p.to), i, pack<T>(sum));
  }
}

// The result is `to`, of height x width; the other image has rows x columns.
bool of_vectors(const Pool& p, const Array& to, const Array& from, int64_t height, int64_t width,
                int64_t rows, int64_t columns, FastPool& fast) {
  if (!p.last || !is_fast(to.type) || from.type != to.type || !aligned(to) || !aligned(from)) return false;
  const int64_t per = vector_bytes / size_of(to.type), vectors = p.channels / per;
  const int64_t count = p.images * vectors * height * width, others = p.images * vectors * rows * columns;
  if (p.channels % per != 0 || count >= most_units || others >= most_units) return false;
  if (p.kernel > 1 << 12 || p.stride > 1 << 12 || p.padding > 1 << 12) return false;
  fast.to = to.data;
  fast.count = static_cast<unsigned>(count);
  fast.vectors = Divisor(vectors), fast.width = Divisor(width), fast.height = Divisor(height);
  fast.rows = static_cast<int>(rows), fast.columns = static_cast<int>(columns);
  fast.kernel = static_cast<int>(p.kernel), fast.stride = static_cast<int>(p.stride);
  fast.padding = static_cast<int>(p.padding);
  return true;
}

}  // namespace

bool fast_pool(const Pool& p, cudaStream_t stream) {
  FastPool fast;
  if (!of_vectors(p, p.y, p.x, p.out_height, p.out_width, p.height, p.width, fast)) return false;
  fast.x = p.x.data;
  return with_type(p.y.type, [&](auto of) {
    using T = decltype(of);
    launch(p.max ? pool_vectors<T, true> : pool_vectors<T, false>, blocks_for(fast.count), stream, fast);
  });
}

int64_t scratch_of_pool_grad(const Pool& p) {
  const bool places = p.max && p.last && p.kernel * p.kernel <= most_places;
  return places ? p.images * p.channels * p.out_height * p.out_width : 0;
}

bool fast_pool_grad(const Pool& p, void* scratch, cudaStream_t stream) {
  FastPool fast, maxima;
  if (!of_vectors(p, p.dx, p.dy, p.height, p.width, p.out_height, p.out_width, fast)) return false;
  fast.dy = p.dy.data;
  if (p.max) {
    if (p.kernel * p.kernel > most_places || p.x.type != p.dx.type) return false;
    if (!of_vectors(p, p.dy, p.x, p.out_height, p.out_width, p.height, p.width, maxima)) return false;
    maxima.x = p.x.data, maxima.to = scratch;
  }
  auto* const places = static_cast<const unsigned*>(scratch);
  return with_type(p.dx.type, [&](auto of) {
    using T = decltype(of);
    if (p.max) launch(find_maxima<T>, blocks_for(maxima.count), stream, maxima);
    launch(p.max ? pool_grad_vectors<T, true> : pool_grad_vectors<T, false>, blocks_for(fast.count), stream,
           fast, places);
  });
}

}  // namespace boxcar::backends::cuda

// Attention without its probabilities in memory: a block for each query, and for the gradient a block for
// each query and for each key. Plain arithmetic, no tensor cores: correct rather than fast.
#include "backends/cuda/kernels/common.cuh"

namespace boxcar::backends::cuda {
namespace {

constexpr int warps = threads / 32;

struct Row {
  int64_t batch, head, key_head, query, first, visible;  // sees the keys from first to visible
};
__device__ Row row_of(const Attention& a, int64_t row) {
  Row r{};
  r.query = row % a.queries;
  r.head = row / a.queries % a.heads;
  r.batch = row / a.queries / a.heads;
  r.key_head = (r.head + a.head_offset) / a.group;
  const int64_t last = r.query + a.offset + 1;
  r.visible = a.causal && last < a.keys ? (last > 0 ? last : 0) : a.keys;
  r.first = a.window > 0 && last > a.window ? last - a.window : 0;
  if (a.seen) {
    const int64_t first = last - a.seen[r.batch * a.queries + r.query];
    r.first = first > r.first ? first : r.first;
  }
  return r;
}
__device__ int64_t key_row(const Attention& a, const Row& r, int64_t t) {
  return (r.batch * a.key_heads + r.key_head) * a.keys + t;
}

// x[begin_x ..] . y[begin_y ..], by a warp; in every lane.
template <class A>
__device__ A dot(const Array& x, int64_t begin_x, const Array& y, int64_t begin_y, int64_t n) {
  A sum = A(0);
  for (int64_t i = threadIdx.x % 32; i < n; i += 32) sum += load<A>(x, begin_x + i) * load<A>(y, begin_y + i);
  for (int apart = 16; apart > 0; apart /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, apart);
  return sum;
}

// Keys come in tiles of `threads`; the maximum so far rescales the sums so far. Thread i holds the columns i,
// i + threads, ... of the result.
template <class A>
__global__ void forward(const __grid_constant__ Attention a) {
  constexpr int columns = Attention::widest / threads;
  __shared__ A p[threads];
  const A scale = static_cast<A>(a.scale);
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  for (int64_t row = blockIdx.x; row < a.batch * a.heads * a.queries; row += gridDim.x) {
    const Row r = row_of(a, row);
    A most = static_cast<A>(-INFINITY), sum = A(0), out[columns];
    for (int c = 0; c < columns; ++c) out[c] = A(0);
    for (int64_t begin = r.first; begin < r.visible; begin += threads) {
      const int64_t n = r.visible - begin < threads ? r.visible - begin : threads;
      for (int64_t t = warp; t < n; t += warps) {
        const A score = scale * dot<A>(a.q, row * a.width, a.k, key_row(a, r, begin + t) * a.width, a.width);
        if (lane == 0) p[t] = score;
      }
      __syncthreads();
      const bool mine = threadIdx.x < n;
      const A score = mine ? p[threadIdx.x] : static_cast<A>(-INFINITY);
      const A before = most;
      most = block_max(score);
      most = before > most ? before : most;
      const A weight = mine ? exp_of(score - most) : A(0),
              rescale = before == most ? A(1) : exp_of(before - most);
      sum = sum * rescale + block_sum(weight);
      if (mine) p[threadIdx.x] = weight * drop_factor<A>(a.drop, row * a.keys + begin + threadIdx.x);
      __syncthreads();
      for (int c = 0; c < columns; ++c) {
        const int64_t column = threadIdx.x + static_cast<int64_t>(c) * threads;
        if (column >= a.value_width) break;
        A add = A(0);
        for (int64_t t = 0; t < n; ++t)
          add += p[t] * load<A>(a.v, key_row(a, r, begin + t) * a.value_width + column);
        out[c] = out[c] * rescale + add;
      }
      __syncthreads();
    }
    for (int c = 0; c < columns; ++c) {
      const int64_t column = threadIdx.x + static_cast<int64_t>(c) * threads;
      if (column < a.value_width)
        store(a.out, row * a.value_width + column, r.visible > r.first ? out[c] / sum : A(0));
    }
    if (threadIdx.x == 0) store(a.lse, row, log_of(sum) + most);
  }
}

// ds of query `row` and key `t`, and p keep, by a warp: p (keep dy . v - dy . out) scale.
template <class A>
struct Slope {
  A ds, kept;
};
template <class A>
__device__ Slope<A> slope(const Attention& a, const Row& r, int64_t row, int64_t t, A delta) {
  const A score =
      static_cast<A>(a.scale) * dot<A>(a.q, row * a.width, a.k, key_row(a, r, t) * a.width, a.width);
  const A p = exp_of(score - load<A>(a.lse, row)), keep = drop_factor<A>(a.drop, row * a.keys + t);
  const A dv = dot<A>(a.dy, row * a.value_width, a.v, key_row(a, r, t) * a.value_width, a.value_width);
  return {p * (keep * dv - delta) * static_cast<A>(a.scale), p * keep};
}

template <class A>
__global__ void query_grad(const __grid_constant__ Attention a) {
  __shared__ A ds[threads];
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  for (int64_t row = blockIdx.x; row < a.batch * a.heads * a.queries; row += gridDim.x) {
    const Row r = row_of(a, row);
    const A delta = dot<A>(a.dy, row * a.value_width, a.out, row * a.value_width, a.value_width);
    for (int64_t column = threadIdx.x; column < (a.width + threads - 1) / threads * threads;
         column += threads) {
      A sum = A(0);
      for (int64_t begin = r.first; begin < r.visible; begin += threads) {
        const int64_t n = r.visible - begin < threads ? r.visible - begin : threads;
        for (int64_t t = warp; t < n; t += warps) {
          const Slope<A> s = slope(a, r, row, begin + t, delta);
          if (lane == 0) ds[t] = s.ds;
        }
        __syncthreads();
        if (column < a.width)
          for (int64_t t = 0; t < n; ++t)
            sum += ds[t] * load<A>(a.k, key_row(a, r, begin + t) * a.width + column);
        __syncthreads();
      }
      if (column < a.width) store(a.dq, row * a.width + column, sum);
    }
  }
}

// A block for each key: over the heads that use it, and their queries.
template <class A>
__global__ void key_grad(const __grid_constant__ Attention a) {
  __shared__ A ds[threads], kept[threads];
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t most = a.width > a.value_width ? a.width : a.value_width;
  for (int64_t key = blockIdx.x; key < a.batch * a.key_heads * a.keys; key += gridDim.x) {
    const int64_t t = key % a.keys, key_head = key / a.keys % a.key_heads, batch = key / a.keys / a.key_heads;
    for (int64_t column = threadIdx.x; column < (most + threads - 1) / threads * threads; column += threads) {
      A dk = A(0), dv = A(0);
      for (int64_t head = 0; head < a.heads; ++head) {
        if ((head + a.head_offset) / a.group != key_head) continue;
        for (int64_t begin = 0; begin < a.queries; begin += threads) {
          const int64_t n = a.queries - begin < threads ? a.queries - begin : threads;
          const int64_t base = (batch * a.heads + head) * a.queries + begin;
          for (int64_t s = warp; s < n; s += warps) {
            const Row r = row_of(a, base + s);
            Slope<A> at{A(0), A(0)};
            if (t >= r.first && t < r.visible) {
              const int64_t from = (base + s) * a.value_width;
              at = slope(a, r, base + s, t, dot<A>(a.dy, from, a.out, from, a.value_width));
            }
            if (lane == 0) ds[s] = at.ds, kept[s] = at.kept;
          }
          __syncthreads();
          for (int64_t s = 0; s < n; ++s) {
            if (column < a.width) dk += ds[s] * load<A>(a.q, (base + s) * a.width + column);
            if (column < a.value_width) dv += kept[s] * load<A>(a.dy, (base + s) * a.value_width + column);
          }
          __syncthreads();
        }
      }
      if (column < a.width) store(a.dk, key * a.width + column, dk);
      if (column < a.value_width) store(a.dv, key * a.value_width + column, dv);
    }
  }
}

template <class A>
void run(const Attention& a, cudaStream_t stream) {
  const int64_t rows = a.batch * a.heads * a.queries;
  if (rows == 0) return;
  launch(forward<A>, blocks_for(rows, 1), stream, a);
}
template <class A>
void run_grad(const Attention& a, cudaStream_t stream) {
  const int64_t rows = a.batch * a.heads * a.queries, keys = a.batch * a.key_heads * a.keys;
  if (rows > 0) launch(query_grad<A>, blocks_for(rows, 1), stream, a);
  if (keys > 0) launch(key_grad<A>, blocks_for(keys, 1), stream, a);
}

}  // namespace

void launch_attention(const Attention& a, bool wide, Stream stream) {
  wide ? run<double>(a, of(stream)) : run<float>(a, of(stream));
}
void launch_attention_grad(const Attention& a, bool wide, Stream stream) {
  wide ? run_grad<double>(a, of(stream)) : run_grad<float>(a, of(stream));
}

}  // namespace boxcar::backends::cuda

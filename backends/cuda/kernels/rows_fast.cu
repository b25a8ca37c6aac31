// Rows of the last axis on vectors. Norms and softmax read a row once and keep it in registers, with a warp
// or a block for each; losses read it once, in neighbouring vectors by a block's threads.
#include <cmath>
#include <initializer_list>

#include "backends/cuda/kernels/fast.cuh"

namespace boxcar::backends::cuda {
namespace {

// The thread's place: its first row, the step to its next row, and its number in the row.
template <int group>
struct Seat {
  unsigned row, rows, lane;
  __device__ Seat()
      : row(blockIdx.x * (threads / group) + threadIdx.x / group),
        rows(gridDim.x * (threads / group)),
        lane(threadIdx.x % group) {}
};

template <class T, int n, int group>
__device__ void load_row(const T* from, unsigned lane, unsigned vectors, uint4 (&raw)[n]) {
#pragma unroll
  for (int v = 0; v < n; ++v) {
    const unsigned at = lane + v * group;
    raw[v] = at < vectors ? vector_at(from, at) : make_uint4(0, 0, 0, 0);
  }
}
template <class T, int n>
__device__ void unpack_row(const uint4 (&raw)[n], float (&to)[n * per_vector<T>]) {
#pragma unroll
  for (int v = 0; v < n; ++v) unpack<T>(raw[v], to + v * per_vector<T>);
}

// Mean and squares in two sums over registers, as norm_rows has them.
template <class T, int n, int group>
__global__ void __launch_bounds__(threads) norm_vectors(const __grid_constant__ Norm norm) {
  constexpr int each = per_vector<T>, own = n * each;
  const Seat<group> seat;
  const unsigned width = static_cast<unsigned>(norm.width), vectors = width / each;
  const bool centres = norm.beta.data != nullptr;
  const float share = 1.0f / static_cast<float>(width), eps = static_cast<float>(norm.eps);
  uint4 gamma[n], beta[n];
  load_row<T, n, group>(pointer<T>(norm.gamma), seat.lane, vectors, gamma);
  if (centres) load_row<T, n, group>(pointer<T>(norm.beta), seat.lane, vectors, beta);
  for (unsigned row = seat.row; row < norm.rows; row += seat.rows) {
    const T* const from = pointer<T>(norm.x) + static_cast<int64_t>(row) * width;
    T* const to = pointer<T>(norm.y) + static_cast<int64_t>(row) * width;
    uint4 raw[n];
    load_row<T, n, group>(from, seat.lane, vectors, raw);
    float x[own];
    unpack_row<T, n>(raw, x);
    float mean = 0, squares = 0;
    if (centres) {
#pragma unroll
      for (int i = 0; i < own; ++i) mean += x[i];
      mean = row_sum<group>(mean) * share;
    }
#pragma unroll
    for (int v = 0; v < n; ++v) {
      if (seat.lane + v * group >= vectors) continue;  // zeros there are no part of the row
#pragma unroll
      for (int i = v * each; i < (v + 1) * each; ++i) squares += (x[i] - mean) * (x[i] - mean);
    }
    const float rstd = 1.0f / sqrtf(row_sum<group>(squares) * share + eps);
#pragma unroll
    for (int v = 0; v < n; ++v) {
      const unsigned at = seat.lane + v * group;
      if (at >= vectors) continue;
      float by[each], y[each];
      unpack<T>(gamma[v], by);
#pragma unroll
      for (int i = 0; i < each; ++i) y[i] = (x[v * each + i] - mean) * rstd * by[i];
      if (centres) {
        unpack<T>(beta[v], by);
#pragma unroll
        for (int i = 0; i < each; ++i) y[i] += by[i];
      }
      put_vector(to, at, pack<T>(y));
    }
    if (seat.lane == 0) {
      if (norm.mean.data) store(norm.mean, row, mean);
      store(norm.rstd, row, rstd);
    }
  }
}

// norm_rows_grad's dx, and the block's sums of dy xhat and dy over its rows.
template <class T, int n, int group>
__global__ void __launch_bounds__(threads, n > 2 ? 1 : 2)
    norm_grad_vectors(const __grid_constant__ NormGrad norm, float* partial) {
  constexpr int each = per_vector<T>, own = n * each;
  const Seat<group> seat;
  const unsigned width = static_cast<unsigned>(norm.width), vectors = width / each;
  const bool centres = norm.mean.data != nullptr;
  const float share = 1.0f / static_cast<float>(width);
  uint4 gamma[n];
  load_row<T, n, group>(pointer<T>(norm.gamma), seat.lane, vectors, gamma);
  float dgamma[own], dbeta[own];
#pragma unroll
  for (int i = 0; i < own; ++i) dgamma[i] = dbeta[i] = 0;
  for (unsigned row = seat.row; row < norm.rows; row += seat.rows) {
    const int64_t start = static_cast<int64_t>(row) * width;
    uint4 raw_dy[n], raw_x[n];
    load_row<T, n, group>(pointer<T>(norm.dy) + start, seat.lane, vectors, raw_dy);
    load_row<T, n, group>(pointer<T>(norm.x) + start, seat.lane, vectors, raw_x);
    const float mean = centres ? load<float>(norm.mean, row) : 0, rstd = load<float>(norm.rstd, row);
    float g[own], normal[own], sum = 0, dot = 0;
    unpack_row<T, n>(raw_dy, g);
    unpack_row<T, n>(raw_x, normal);
#pragma unroll
    for (int v = 0; v < n; ++v) {  // past the row dy is 0
      float by[each];
      unpack<T>(gamma[v], by);
#pragma unroll
      for (int e = 0; e < each; ++e) {
        const int i = v * each + e;
        normal[i] = (normal[i] - mean) * rstd;
        dgamma[i] += g[i] * normal[i];
        dbeta[i] += g[i];
        g[i] *= by[e];
        sum += g[i];
        dot += g[i] * normal[i];
      }
    }
    sum = centres ? row_sum<group>(sum) * share : 0;
    dot = row_sum<group>(dot) * share;
#pragma unroll
    for (int v = 0; v < n; ++v) {
      const unsigned at = seat.lane + v * group;
      if (at >= vectors) continue;
      float dx[each];
#pragma unroll
      for (int e = 0; e < each; ++e) {
        const int i = v * each + e;
        dx[e] = rstd * (g[i] - sum - normal[i] * dot);
      }
      put_vector(pointer<T>(norm.dx) + start, at, pack<T>(dx));
    }
  }
  float* const mine = partial + static_cast<int64_t>(blockIdx.x) * 2 * width;
  if constexpr (group == 32) {  // warps add one after the other
    __shared__ float sums[2 * 32 * own];
    for (int warp = 0; warp < threads / 32; ++warp) {
      if (static_cast<int>(threadIdx.x) / 32 == warp) {
#pragma unroll
        for (int i = 0; i < own; ++i) {
          float* const at = sums + i * 32 + seat.lane;
          at[0] = warp == 0 ? dgamma[i] : at[0] + dgamma[i];
          at[32 * own] = warp == 0 ? dbeta[i] : at[32 * own] + dbeta[i];
        }
      }
      __syncthreads();
    }
    for (unsigned column = threadIdx.x; column < width; column += threads) {
      const unsigned vector = column / each;
      const float* const at = sums + (vector / 32 * each + column % each) * 32 + vector % 32;
      mine[column] = at[0];
      mine[width + column] = at[32 * own];
    }
  } else {
#pragma unroll
    for (int v = 0; v < n; ++v) {
      const unsigned at = seat.lane + v * group;
      if (at >= vectors) continue;
#pragma unroll
      for (int part = 0; part < each; part += 4) {
        const int i = v * each + part;
        put_vector(mine, (at * each + part) / 4, pack<float>(dgamma + i));
        put_vector(mine + width, (at * each + part) / 4, pack<float>(dbeta + i));
      }
    }
  }
}

template <class T, int n, int group>
__global__ void __launch_bounds__(threads) softmax_vectors(const __grid_constant__ Softmax s) {
  constexpr int each = per_vector<T>, own = n * each;
  const Seat<group> seat;
  const unsigned width = static_cast<unsigned>(s.width), vectors = width / each;
  const float scale = static_cast<float>(s.scale), lowest = -INFINITY;
  const unsigned queries = static_cast<unsigned>(s.queries);
  unsigned query = seat.row % queries;
  const unsigned step = seat.rows % queries;
  for (unsigned row = seat.row; row < s.rows; row += seat.rows) {
    const int last = static_cast<int>(query) + static_cast<int>(s.offset) + 1;
    const int visible =
        s.causal && last < static_cast<int>(width) ? (last > 0 ? last : 0) : static_cast<int>(width);
    const int window = static_cast<int>(s.window), first = window > 0 && last > window ? last - window : 0;
    query += step;
    if (query >= queries) query -= queries;
    const T* const from = pointer<T>(s.x) + static_cast<int64_t>(row) * width;
    T* const to = pointer<T>(s.y) + static_cast<int64_t>(row) * width;
    uint4 raw[n];
#pragma unroll
    for (int v = 0; v < n; ++v) {  // unseen elements are not read
      const int at = static_cast<int>(seat.lane) + v * group;
      raw[v] = at * each < visible && (at + 1) * each > first ? vector_at(from, at) : make_uint4(0, 0, 0, 0);
    }
    float x[own], most = lowest, sum = 0;
    unpack_row<T, n>(raw, x);
#pragma unroll
    for (int i = 0; i < own; ++i) {
      const int column = (static_cast<int>(seat.lane) + i / each * group) * each + i % each;
      x[i] = column >= first && column < visible ? scale * x[i] : lowest;
      most = x[i] > most || x[i] != x[i] ? x[i] : most;
    }
    most = row_max<group>(most);
#pragma unroll
    for (int i = 0; i < own; ++i) {
      x[i] = x[i] == lowest ? 0.0f : expf(x[i] - most);
      sum += x[i];
    }
    sum = row_sum<group>(sum);
    const float share = visible > first ? 1.0f / sum : 0.0f;
#pragma unroll
    for (int v = 0; v < n; ++v) {
      const unsigned at = seat.lane + v * group;
      if (at >= vectors) continue;
      float y[each];
#pragma unroll
      for (int i = 0; i < each; ++i) y[i] = x[v * each + i] * share;
      put_vector(to, at, pack<T>(y));
    }
  }
}

template <class T, int n, int group>
__global__ void __launch_bounds__(threads)
    softmax_grad_vectors(Array dy, Array y, Array dx, unsigned rows, unsigned width, float factor) {
  constexpr int each = per_vector<T>, own = n * each;
  const Seat<group> seat;
  const unsigned vectors = width / each;
  for (unsigned row = seat.row; row < rows; row += seat.rows) {
    const int64_t start = static_cast<int64_t>(row) * width;
    uint4 raw_dy[n], raw_y[n];
    load_row<T, n, group>(pointer<T>(dy) + start, seat.lane, vectors, raw_dy);
    load_row<T, n, group>(pointer<T>(y) + start, seat.lane, vectors, raw_y);
    float g[own], p[own], dot = 0;
    unpack_row<T, n>(raw_dy, g);
    unpack_row<T, n>(raw_y, p);
#pragma unroll
    for (int i = 0; i < own; ++i) dot += g[i] * p[i];
    dot = row_sum<group>(dot);
#pragma unroll
    for (int v = 0; v < n; ++v) {
      const unsigned at = seat.lane + v * group;
      if (at >= vectors) continue;
      float x[each];
#pragma unroll
      for (int i = 0; i < each; ++i) x[i] = factor * p[v * each + i] * (g[v * each + i] - dot);
      put_vector(pointer<T>(dx) + start, at, pack<T>(x));
    }
  }
}

// --- losses: a block for each row

constexpr int ahead = 2;  // vectors that a thread loads before it uses the first

// most = max(most, x), and sum(exp(x - most)) for the new maximum.
template <int n>
__device__ void add_exps(const float (&x)[n], float& most, float& sum) {
  float next = most;
#pragma unroll
  for (int i = 0; i < n; ++i) next = x[i] > next || x[i] != x[i] ? x[i] : next;
  if (next != most) {
    sum = sum == 0.0f ? 0.0f : sum * expf(most - next);
    most = next;
  }
  if (most == -INFINITY) return;
#pragma unroll
  for (int i = 0; i < n; ++i) sum += expf(x[i] - most);
}

// Makes elements of vector `at` that lie beyond the classes minus infinity.
template <int n>
__device__ void leave_padding(float (&x)[n], unsigned at, unsigned classes) {
  if ((at + 1) * n <= classes) return;
#pragma unroll
  for (unsigned i = 0; i < n; ++i) x[i] = at * n + i < classes ? x[i] : -INFINITY;
}

// Calls body(values, number) on the row's vectors, `ahead` of them at a time.
template <class T, class Body>
__device__ void over_row(const T* from, unsigned vectors, unsigned classes, Body body) {
  unsigned at = threadIdx.x;
  for (; at + (ahead - 1) * threads < vectors; at += ahead * threads) {
    uint4 raw[ahead];
#pragma unroll
    for (int a = 0; a < ahead; ++a) raw[a] = vector_at(from, at + a * threads);
#pragma unroll
    for (int a = 0; a < ahead; ++a) {
      float x[per_vector<T>];
      unpack<T>(raw[a], x);
      leave_padding(x, at + a * threads, classes);
      body(x, at + a * threads);
    }
  }
  for (; at < vectors; at += threads) {
    float x[per_vector<T>];
    unpack<T>(vector_at(from, at), x);
    leave_padding(x, at, classes);
    body(x, at);
  }
}

template <class T>
__device__ float picked_of(const Loss& l, int64_t row) {
  const int64_t at = load_index(l.labels, row) - l.offset;
  return at >= 0 && at < l.width ? element(pointer<T>(l.logits)[row * l.width + at]) : 0.0f;
}

template <class T>
__global__ void __launch_bounds__(threads) loss_vectors(const __grid_constant__ Loss l) {
  const unsigned vectors = static_cast<unsigned>(l.width) / per_vector<T>;
  for (int64_t row = blockIdx.x; row < l.rows; row += gridDim.x) {
    float own_most = -INFINITY, own_sum = 0;
    over_row(pointer<T>(l.logits) + row * l.width, vectors, static_cast<unsigned>(l.classes),
             [&](const float(&x)[per_vector<T>], unsigned) { add_exps(x, own_most, own_sum); });
    const float most = block_max(own_most);
    const float sum = block_sum(own_sum == 0.0f ? 0.0f : own_sum * expf(own_most - most));
    if (threadIdx.x != 0) continue;
    store(l.out, row, logf(sum) + most - picked_of<T>(l, row));
    if (l.m.data) store(l.m, row, most);
    if (l.z.data) store(l.z, row, sum);
  }
}

template <class T>
__global__ void __launch_bounds__(threads) exp_sum_vectors(const __grid_constant__ Loss l) {
  const unsigned vectors = static_cast<unsigned>(l.width) / per_vector<T>;
  for (int64_t row = blockIdx.x; row < l.rows; row += gridDim.x) {
    const float most = load<float>(l.m, row);
    float sum = 0;
    over_row(pointer<T>(l.logits) + row * l.width, vectors, static_cast<unsigned>(l.classes),
             [&](const float(&x)[per_vector<T>], unsigned) {
#pragma unroll
               for (int i = 0; i < per_vector<T>; ++i) sum += expf(x[i] - most);
             });
    sum = block_sum(sum);
    if (threadIdx.x != 0) continue;
    store(l.z, row, sum);
    if (l.out.data) store(l.out, row, picked_of<T>(l, row));
  }
}

template <class T>
__global__ void __launch_bounds__(threads, 6) loss_grad_vectors(const __grid_constant__ Loss l) {
  constexpr int each = per_vector<T>;
  const unsigned vectors = static_cast<unsigned>(l.width) / each;
  for (int64_t row = blockIdx.x; row < l.rows; row += gridDim.x) {
    const int64_t hit = load_index(l.labels, row) - l.offset;
    const unsigned label = hit >= 0 && hit < l.width ? static_cast<unsigned>(hit) : ~0u;
    const float dloss = load<float>(l.dloss, row), most = load<float>(l.m, row), z = load<float>(l.z, row);
    const float share = dloss / z;
    T* const to = pointer<T>(l.out) + row * l.width;
    over_row(pointer<T>(l.logits) + row * l.width, vectors, static_cast<unsigned>(l.classes),
             [&](const float(&x)[each], unsigned at) {
               float dx[each];
               const unsigned place = label - at * each;  // of the label among these, or beyond them
#pragma unroll
               for (unsigned i = 0; i < each; ++i)
                 dx[i] = share * expf(x[i] - most) - (place == i ? dloss : 0.0f);
               put_vector(to, at, pack<T>(dx));
             });
  }
}

// --- rotary: a thread turns the same pairs of several rows of one position, by angles that it computes once

constexpr int rotary_pairs = 128, rotary_heads = 8;
struct Turns {
  Array x, y;
  unsigned heads = 0, sequence = 0, width = 0;  // rows are heads x sequence
  int64_t offset = 0;
  bool inverse = false;
  double per_position[rotary_pairs];  // turns of pair i from one position to the next
};

template <class T>
__global__ void __launch_bounds__(threads) rotate_vectors(const __grid_constant__ Turns t, Divisor vectors) {
  constexpr int each = per_vector<T>;
  const unsigned id = blockIdx.x * threads + threadIdx.x, position = id / vectors;
  if (position >= t.sequence) return;
  const unsigned vector = id - position * vectors.by;
  float c[each], s[each];
#pragma unroll
  for (int i = 0; i < each; ++i) {  // whole turns are left out in double, since positions are large
    const double turns = static_cast<double>(position + t.offset) * t.per_position[vector * each + i];
    sincospif(static_cast<float>(2 * (turns - rint(turns))), s + i, c + i);
    if (t.inverse) s[i] = -s[i];
  }
  const unsigned begin = blockIdx.y * rotary_heads, row_vectors = 2 * vectors.by;
  const unsigned end = begin + rotary_heads < t.heads ? begin + rotary_heads : t.heads;
#pragma unroll 4
  for (unsigned head = begin; head < end; ++head) {
    const int64_t start = (static_cast<int64_t>(head) * t.sequence + position) * t.width;
    const uint4 raw_a = vector_at(pointer<T>(t.x) + start, vector),
                raw_b = vector_at(pointer<T>(t.x) + start, vector + row_vectors / 2);
    float a[each], b[each], to_a[each], to_b[each];
    unpack<T>(raw_a, a);
    unpack<T>(raw_b, b);
#pragma unroll
    for (int i = 0; i < each; ++i) {
      to_a[i] = a[i] * c[i] - b[i] * s[i];
      to_b[i] = a[i] * s[i] + b[i] * c[i];
    }
    put_vector(pointer<T>(t.y) + start, vector, pack<T>(to_a));
    put_vector(pointer<T>(t.y) + start, vector + row_vectors / 2, pack<T>(to_b));
  }
}

bool whole(int64_t width, Type type) {
  return is_fast(type) && width > 0 && width * size_of(type) % vector_bytes == 0;
}
bool alike(Type type, std::initializer_list<Array> arrays) {
  for (const Array& array : arrays)
    if (array.data && (array.type != type || !aligned(array))) return false;
  return true;
}
constexpr int stays = 4;  // blocks of a multiprocessor, if blocks stay for many rows

}  // namespace

bool fast_norm(const Norm& n, cudaStream_t stream) {
  const Type type = n.x.type;
  if (!whole(n.width, type) || !alike(type, {n.x, n.gamma, n.beta, n.y}) || n.rows >= most_units)
    return false;
  bool done = false;
  with_type(type, [&](auto of) {
    using T = decltype(of);
    done = with_row(n.width / per_vector<T>, [&](auto vectors, auto group) {
      launch(norm_vectors<T, decltype(vectors)::value, decltype(group)::value>,
             row_blocks(n.rows, group.value, stays), stream, n);
    });
  });
  return done;
}

namespace {
constexpr int grad_stays = 2;
}
int64_t fast_norm_grad_blocks(const NormGrad& n) {
  const Type type = n.x.type;
  if (!whole(n.width, type) || n.rows >= most_units || n.rows == 0) return 0;
  int64_t blocks = 0;
  with_row(n.width * size_of(type) / vector_bytes,
           [&](auto, auto group) { blocks = row_blocks(n.rows, group.value, grad_stays); });
  return blocks;
}
bool fast_norm_grad(const NormGrad& n, float* partial, cudaStream_t stream) {
  const Type type = n.x.type;
  const int64_t blocks = fast_norm_grad_blocks(n);
  if (blocks == 0 || !alike(type, {n.dy, n.x, n.gamma, n.dx}) || !aligned(partial)) return false;
  with_type(type, [&](auto of) {
    using T = decltype(of);
    with_row(n.width / per_vector<T>, [&](auto vectors, auto group) {
      launch(norm_grad_vectors<T, decltype(vectors)::value, decltype(group)::value>,
             static_cast<unsigned>(blocks), stream, n, partial);
    });
  });
  return true;
}

bool fast_softmax(const Softmax& s, cudaStream_t stream) {
  const Type type = s.x.type;
  const int64_t most = int64_t{1} << 30;
  if (!whole(s.width, type) || !alike(type, {s.x, s.y}) || s.rows >= most_units || s.width >= most ||
      s.queries >= most || s.offset >= most || s.offset <= -most || s.window >= most)
    return false;
  bool done = false;
  with_type(type, [&](auto of) {
    using T = decltype(of);
    done = with_row(s.width / per_vector<T>, [&](auto vectors, auto group) {
      launch(softmax_vectors<T, decltype(vectors)::value, decltype(group)::value>,
             row_blocks(s.rows, group.value, 1 << 9), stream, s);
    });
  });
  return done;
}
bool fast_softmax_grad(Array dy, Array y, Array dx, int64_t rows, int64_t width, double scale,
                       cudaStream_t stream) {
  const Type type = y.type;
  if (!whole(width, type) || !alike(type, {dy, y, dx}) || rows >= most_units) return false;
  bool done = false;
  with_type(type, [&](auto of) {
    using T = decltype(of);
    done = with_row(width / per_vector<T>, [&](auto vectors, auto group) {
      launch(softmax_grad_vectors<T, decltype(vectors)::value, decltype(group)::value>,
             row_blocks(rows, group.value, 1 << 9), stream, dy, y, dx, static_cast<unsigned>(rows),
             static_cast<unsigned>(width), static_cast<float>(scale));
    });
  });
  return done;
}

namespace {
bool for_losses(const Loss& l) {
  return whole(l.width, l.logits.type) && aligned(l.logits) && l.width < (int64_t{1} << 30);
}
}  // namespace
bool fast_cross_entropy(const Loss& l, cudaStream_t stream) {
  return for_losses(l) && with_type(l.logits.type, [&](auto of) {
           launch(loss_vectors<decltype(of)>, blocks_for(l.rows, 1), stream, l);
         });
}
bool fast_sum_exp(const Loss& l, cudaStream_t stream) {
  return for_losses(l) && with_type(l.logits.type, [&](auto of) {
           launch(exp_sum_vectors<decltype(of)>, blocks_for(l.rows, 1), stream, l);
         });
}
bool fast_cross_entropy_grad(const Loss& l, cudaStream_t stream) {
  return for_losses(l) && alike(l.logits.type, {l.out}) && with_type(l.logits.type, [&](auto of) {
           launch(loss_grad_vectors<decltype(of)>, blocks_for(l.rows, 1), stream, l);
         });
}

bool fast_rotary(const Rotary& r, cudaStream_t stream) {
  const int64_t half = r.width / 2, most = int64_t{1} << 30;
  if (r.width % 2 != 0 || half > rotary_pairs || !whole(half, r.x.type) || !alike(r.x.type, {r.x, r.y}) ||
      r.rows >= most || r.sequence * half >= most || r.rows % r.sequence != 0)
    return false;
  Turns t;
  t.x = r.x, t.y = r.y, t.offset = r.offset, t.inverse = r.inverse;
  t.heads = static_cast<unsigned>(r.rows / r.sequence);
  t.sequence = static_cast<unsigned>(r.sequence), t.width = static_cast<unsigned>(r.width);
  for (int64_t i = 0; i < half; ++i)
    t.per_position[i] = std::pow(r.base, -static_cast<double>(2 * i) / static_cast<double>(r.width)) /
                        (2 * 3.14159265358979323846);
  const unsigned parts = (t.heads + rotary_heads - 1) / rotary_heads;
  if (parts >= 65536) return false;
  return with_type(r.x.type, [&](auto of) {
    using T = decltype(of);
    const Divisor vectors(half / per_vector<T>);
    launch(rotate_vectors<T>, dim3(blocks_for(r.sequence * vectors.by, threads, most), parts), stream, t,
           vectors);
  });
}

}  // namespace boxcar::backends::cuda

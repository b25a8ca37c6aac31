// Reductions on vectors: over rows whose elements are neighbours, and over columns if the results are. A
// block for each stretch; stretches are then combined in their order.
#include "backends/cuda/kernels/combine.cuh"
#include "backends/cuda/kernels/fast.cuh"

namespace boxcar::backends::cuda {
namespace {

// out [outer, columns] of in [outer, rows, columns], strides of in in elements. Rows: columns is 1, and the
// reduced elements are neighbours.
struct Plan {
  bool works = false, by_rows = false;
  int64_t outer = 1, rows = 1, columns = 1, outer_stride = 0, row_stride = 0;
  int64_t stretch = 0, stretches = 1;  // of rows
  int lines = 1;                       // by columns: rows that a block adds at a time, threads / lanes
};

struct Axis {
  int64_t extent, stride;
};
int collapse(int dims, const int64_t* extent, const int64_t* stride, Axis* axes) {
  int n = 0;
  for (int d = 0; d < dims; ++d) {
    if (extent[d] == 1) continue;
    if (n > 0 && axes[n - 1].stride == extent[d] * stride[d])
      axes[n - 1] = {axes[n - 1].extent * extent[d], stride[d]};
    else
      axes[n++] = {extent[d], stride[d]};
  }
  return n;
}

constexpr int many_lines = threads / 32;
constexpr int64_t few_rows = 64;                                // which a thread adds alone
constexpr int64_t least_bytes = 1 << 14, most_bytes = 1 << 17;  // of a row, for a block
constexpr int64_t wanted_blocks = multiprocessors * 4;

Plan plan_of(const Reduce& r) {
  Plan p;
  const Type type = r.in.type;
  if (!is_fast(type) || r.kept == 0 || r.reduced == 0) return p;
  const int64_t each = vector_bytes / size_of(type);
  Axis keep[max_dims], over[max_dims];
  const int kept = collapse(r.keep_dims, r.keep_extent, r.keep_stride, keep);
  const int reduced = collapse(r.reduce_dims, r.reduce_extent, r.reduce_stride, over);
  if (reduced != 1) return p;
  p.rows = over[0].extent, p.row_stride = over[0].stride;
  if (p.row_stride == 1 && kept <= 1) {
    p.by_rows = true;
    if (kept == 1) p.outer = keep[0].extent, p.outer_stride = keep[0].stride;
    if (p.outer_stride % each != 0) return p;
    p.stretch = p.rows;
    if (p.outer < wanted_blocks) {
      const int64_t least = least_bytes / size_of(type), wanted = (wanted_blocks + p.outer - 1) / p.outer;
      const int64_t even = (p.rows + wanted - 1) / wanted, most = most_bytes / size_of(type);
      p.stretch = even < least ? least : even > most ? most : (even + least - 1) / least * least;
    }
  } else if (kept >= 1 && kept <= 2 && keep[kept - 1].stride == 1) {
    p.columns = keep[kept - 1].extent;
    if (kept == 2) p.outer = keep[0].extent, p.outer_stride = keep[0].stride;
    if (p.columns % each != 0 || p.outer_stride % each != 0 || p.row_stride % each != 0) return p;
    p.lines = p.rows <= few_rows ? 1 : many_lines;
    const int64_t lanes = threads / p.lines, across = (p.columns / each + lanes - 1) / lanes * p.outer;
    const int64_t wanted = (wanted_blocks + across - 1) / across, least = 4 * p.lines;
    p.stretch = (p.rows + wanted - 1) / wanted;
    if (p.stretch < least) p.stretch = least;
    if (p.lines == 1) p.stretch = p.rows;
    p.stretch = (p.stretch + p.lines - 1) / p.lines * p.lines;
  } else {
    return p;
  }
  p.stretches = (p.rows + p.stretch - 1) / p.stretch;
  p.works = p.rows / each < most_units && p.columns / each < most_units && p.outer * p.stretches < 65536;
  if (p.by_rows) p.works = p.rows / each < most_units && p.outer * p.stretches < most_units;
  return p;
}

// sum[i] = the combination with x[i]; the way of combining is looked up once for a vector.
template <int n>
__device__ void combine_all(Combine combine, float (&sum)[n], const float (&x)[n]) {
#define BOXCAR_EACH(value)                                      \
  _Pragma("unroll") for (int i = 0; i < n; ++i) sum[i] = value; \
  return;
  switch (combine) {
    case Combine::sum:
      BOXCAR_EACH(sum[i] + x[i])
    case Combine::square_sum:
      BOXCAR_EACH(sum[i] + x[i] * x[i])
    default:
      BOXCAR_EACH(combined(combine, sum[i], prepared(combine, x[i])))
  }
#undef BOXCAR_EACH
}

constexpr int ahead = 4;  // vectors that a thread loads before it uses the first

template <class T>
__global__ void __launch_bounds__(threads)
    reduce_rows(const __grid_constant__ Reduce r, const __grid_constant__ Plan p, float* partial) {
  constexpr int each = per_vector<T>;
  const unsigned stretches = static_cast<unsigned>(p.stretches), k = blockIdx.x / stretches,
                 s = blockIdx.x % stretches;
  const T* const from = pointer<T>(r.in) + k * p.outer_stride + s * p.stretch;
  const int64_t left = p.rows - s * p.stretch;
  const unsigned count = static_cast<unsigned>(left < p.stretch ? left : p.stretch), vectors = count / each;
  float sum[each];
#pragma unroll
  for (int i = 0; i < each; ++i) sum[i] = nothing<float>(r.combine);
  unsigned at = threadIdx.x;
  for (; at + (ahead - 1) * threads < vectors; at += ahead * threads) {
    uint4 raw[ahead];
#pragma unroll
    for (int a = 0; a < ahead; ++a) raw[a] = vector_at(from, at + a * threads);
#pragma unroll
    for (int a = 0; a < ahead; ++a) {
      float x[each];
      unpack<T>(raw[a], x);
      combine_all(r.combine, sum, x);
    }
  }
  for (; at < vectors; at += threads) {
    float x[each];
    unpack<T>(vector_at(from, at), x);
    combine_all(r.combine, sum, x);
  }
  if (const unsigned rest = vectors * each + threadIdx.x; rest < count)
    sum[0] = combined(r.combine, sum[0], prepared(r.combine, element(from[rest])));
#pragma unroll
  for (int i = 1; i < each; ++i) sum[0] = combined(r.combine, sum[0], sum[i]);
  const float all = over_block(sum[0], [&r](float a, float b) { return combined(r.combine, a, b); });
  if (threadIdx.x != 0) return;
  if (partial)
    partial[blockIdx.x] = all;
  else
    store(r.out, k, static_cast<float>(r.factor) * all);
}

// Block (x, y): threads / lines vectors of columns, stretch y % stretches of outer y / stretches. partial:
// [outer, stretch, column].
template <class T, int lines>
__global__ void __launch_bounds__(threads)
    reduce_columns(const __grid_constant__ Reduce r, const __grid_constant__ Plan p, float* partial) {
  constexpr int each = per_vector<T>, lanes = threads / lines;
  __shared__ float sums[lines][lanes * each];
  const unsigned stretches = static_cast<unsigned>(p.stretches), o = blockIdx.y / stretches,
                 s = blockIdx.y % stretches;
  const unsigned lane = threadIdx.x % lanes, line = threadIdx.x / lanes;
  const unsigned vector = blockIdx.x * lanes + lane, vectors = static_cast<unsigned>(p.columns / each);
  const int64_t first = s * p.stretch + line;
  const int64_t end = (s + 1) * p.stretch < p.rows ? (s + 1) * p.stretch : p.rows;
  float sum[each];
#pragma unroll
  for (int i = 0; i < each; ++i) sum[i] = nothing<float>(r.combine);
  if (vector < vectors) {
    const T* from = pointer<T>(r.in) + o * p.outer_stride + first * p.row_stride;
    const int64_t step = lines * p.row_stride;
    int rows = first < end ? static_cast<int>((end - first + lines - 1) / lines) : 0;
    for (; rows >= ahead; rows -= ahead, from += ahead * step) {
      uint4 raw[ahead];
#pragma unroll
      for (int a = 0; a < ahead; ++a) raw[a] = vector_at(from + a * step, vector);
#pragma unroll
      for (int a = 0; a < ahead; ++a) {
        float x[each];
        unpack<T>(raw[a], x);
        combine_all(r.combine, sum, x);
      }
    }
    for (; rows > 0; --rows, from += step) {
      float x[each];
      unpack<T>(vector_at(from, vector), x);
      combine_all(r.combine, sum, x);
    }
  }
#pragma unroll
  for (int i = 0; i < each; ++i) sums[line][i * lanes + lane] = sum[i];
  __syncthreads();
#pragma unroll
  for (unsigned c = threadIdx.x; c < lanes * each; c += threads) {
    const unsigned column = blockIdx.x * lanes * each + c;
    if (column >= p.columns) continue;
    const unsigned at = c % each * lanes + c / each;
    float all = sums[0][at];
    for (int l = 1; l < lines; ++l) all = combined(r.combine, all, sums[l][at]);
    if (partial)
      partial[(static_cast<int64_t>(o) * stretches + s) * p.columns + column] = all;
    else
      store(r.out, static_cast<int64_t>(o) * p.columns + column, static_cast<float>(r.factor) * all);
  }
}

// Combines partial [outer, stretch, column]: a block for 8 results, in which each thread takes every n-th
// stretch.
__global__ void __launch_bounds__(threads)
    reduce_stretches(const __grid_constant__ Reduce r, const float* partial, int stretches, Divisor columns,
                     unsigned results) {
  constexpr int own = 8, parts = threads / own;
  __shared__ float sums[threads];
  const int part = static_cast<int>(threadIdx.x) / own;
  const unsigned k = blockIdx.x * own + threadIdx.x % own;
  float sum = nothing<float>(r.combine);
  if (k < results) {
    const unsigned o = k / columns;
    const float* const from =
        partial + (static_cast<int64_t>(o) * stretches) * columns.by + (k - o * columns.by);
#pragma unroll 8
    for (int s = part; s < stretches; s += parts)
      sum = combined(r.combine, sum, from[static_cast<int64_t>(s) * columns.by]);
  }
  sums[threadIdx.x] = sum;
  __syncthreads();
  if (part > 0 || k >= results) return;
  for (int p = 1; p < parts; ++p) sum = combined(r.combine, sum, sums[p * own + threadIdx.x]);
  store(r.out, k, static_cast<float>(r.factor) * sum);
}

}  // namespace

int64_t fast_reduce_scratch(const Reduce& r) {
  const Plan p = plan_of(r);
  return p.works && p.stretches > 1 ? p.outer * p.stretches * p.columns * 4 : 0;
}

bool fast_reduce(const Reduce& r, void* scratch, cudaStream_t stream) {
  const Plan p = plan_of(r);
  if (!p.works || !aligned(r.in)) return false;
  float* const partial = p.stretches > 1 ? static_cast<float*>(scratch) : nullptr;
  with_type(r.in.type, [&](auto of) {
    using T = decltype(of);
    const auto parts = static_cast<unsigned>(p.outer * p.stretches);
    if (p.by_rows) {
      launch(reduce_rows<T>, parts, stream, r, p, partial);
    } else {
      const int64_t vectors = p.columns / per_vector<T>;
      launch(p.lines == 1 ? reduce_columns<T, 1> : reduce_columns<T, many_lines>,
             dim3(blocks_for(vectors, threads / p.lines, most_units), parts), stream, r, p, partial);
    }
  });
  const int64_t results = p.outer * p.columns;
  if (partial)
    launch(reduce_stretches, blocks_for(results, 8, most_units), stream, r,
           static_cast<const float*>(partial), static_cast<int>(p.stretches), Divisor(p.columns),
           static_cast<unsigned>(results));
  return true;
}

}  // namespace boxcar::backends::cuda

// Elements that move in units of 16 bytes, and transposes through tiles in shared memory.
#include "backends/cuda/kernels/fast.cuh"

namespace boxcar::backends::cuda {
namespace {

// Strides in units of the kernel.
struct Dim {
  int64_t extent = 1, from = 0, to = 0;
};
// Drops extents of 1 and joins neighbours that both sides have in a row. Returns the number left.
int collapse(const Move& move, Dim* dims) {
  int n = 0;
  for (int d = 0; d < move.dims; ++d) {
    const Dim here{move.extent[d], move.from[d], move.to[d]};
    if (here.extent == 1) continue;
    if (n > 0 && dims[n - 1].from == here.extent * here.from && dims[n - 1].to == here.extent * here.to)
      dims[n - 1] = {dims[n - 1].extent * here.extent, here.from, here.to};
    else
      dims[n++] = here;
  }
  return n;
}

constexpr int most_unit_dims = 4;
struct Units {
  const uint4* in = nullptr;
  uint4* out = nullptr;
  unsigned count = 0;
  Divisor extent[most_unit_dims];
  int64_t from[most_unit_dims] = {}, to[most_unit_dims] = {};
};

template <int dims>
__global__ void __launch_bounds__(threads) move_units(const __grid_constant__ Units u) {
  constexpr int unroll = 2;
  const unsigned all = gridDim.x * threads;
  for (unsigned begin = blockIdx.x * threads + threadIdx.x; begin < u.count; begin += unroll * all) {
    uint4 raw[unroll];
    int64_t to[unroll];
#pragma unroll
    for (int i = 0; i < unroll; ++i) {
      unsigned rest = begin + i * all;
      if (rest >= u.count) continue;
      int64_t from = 0;
      to[i] = 0;
#pragma unroll
      for (int d = dims; d-- > 0;) {
        const unsigned left = d > 0 ? rest / u.extent[d] : 0, at = rest - left * u.extent[d].by;
        from += at * u.from[d];
        to[i] += at * u.to[d];
        rest = left;
      }
      raw[i] = u.in[from];
    }
#pragma unroll
    for (int i = 0; i < unroll; ++i)
      if (begin + i * all < u.count) u.out[to[i]] = raw[i];
  }
}

bool move_as_units(const Move& move, const Dim* dims, int n, cudaStream_t stream) {
  if (n < 1 || n > most_unit_dims || !aligned(move.in) || !aligned(move.out)) return false;
  const Dim& last = dims[n - 1];
  if (last.from != 1 || last.to != 1 || last.extent * move.bytes % vector_bytes != 0) return false;
  Units u;
  u.in = static_cast<const uint4*>(move.in), u.out = static_cast<uint4*>(move.out);
  int64_t count = 1;
  for (int d = 0; d < n; ++d) {
    const bool inner = d == n - 1;
    if (!inner &&
        (dims[d].from * move.bytes % vector_bytes != 0 || dims[d].to * move.bytes % vector_bytes != 0))
      return false;
    const int64_t extent = inner ? last.extent * move.bytes / vector_bytes : dims[d].extent;
    count *= extent;
    if (count >= most_units) return false;
    u.extent[d] = Divisor(extent);
    u.from[d] = inner ? 1 : dims[d].from * move.bytes / vector_bytes;
    u.to[d] = inner ? 1 : dims[d].to * move.bytes / vector_bytes;
  }
  u.count = static_cast<unsigned>(count);
  const unsigned blocks = blocks_for(count, 2 * threads, multiprocessors * 64);
  switch (n) {
    case 1:
      launch(move_units<1>, blocks, stream, u);
      break;
    case 2:
      launch(move_units<2>, blocks, stream, u);
      break;
    case 3:
      launch(move_units<3>, blocks, stream, u);
      break;
    default:
      launch(move_units<4>, blocks, stream, u);
  }
  return true;
}

// A tile of a x b elements, which are neighbours along a in the source and along b in the result: read and
// written in runs.
constexpr int tile_elements = 1024, tile_room = tile_elements + tile_elements / 32 + 32;
struct Tiles {
  const void* in = nullptr;
  void* out = nullptr;
  unsigned a = 1, b = 1;          // of a tile
  unsigned all_a = 1, all_b = 1;  // of the tensor
  Divisor by_a, by_b, tiles_a, tiles_b, outer;
  int64_t from_b = 0, to_a = 0, outer_from[2] = {}, outer_to[2] = {};
};

template <class Element>
__global__ void __launch_bounds__(threads) move_tiles(const __grid_constant__ Tiles t) {
  __shared__ Element tile[tile_room];
  unsigned rest = blockIdx.x, left = rest / t.tiles_a;
  const unsigned first_a = (rest - left * t.tiles_a.by) * t.a;
  rest = left, left = rest / t.tiles_b;
  const unsigned first_b = (rest - left * t.tiles_b.by) * t.b;
  const unsigned outer0 = left / t.outer, outer1 = left - outer0 * t.outer.by;
  const auto* const in =
      static_cast<const Element*>(t.in) + outer0 * t.outer_from[0] + outer1 * t.outer_from[1];
  auto* const out = static_cast<Element*>(t.out) + outer0 * t.outer_to[0] + outer1 * t.outer_to[1];
  constexpr int own = tile_elements / threads;
  Element raw[own];
#pragma unroll
  for (int n = 0; n < own; ++n) {
    const unsigned i = threadIdx.x + n * threads, b = i / t.by_a, a = i - b * t.a;
    const bool inside = b < t.b && first_a + a < t.all_a && first_b + b < t.all_b;
    raw[n] = inside ? in[first_a + a + (first_b + b) * t.from_b] : Element(0);
  }
#pragma unroll
  for (int n = 0; n < own; ++n) {
    const unsigned i = threadIdx.x + n * threads, b = i / t.by_a, a = i - b * t.a;
    if (b < t.b) tile[b * (t.a + 1) + a] = raw[n];
  }
  __syncthreads();
#pragma unroll 4
  for (unsigned i = threadIdx.x; i < t.a * t.b; i += threads) {
    const unsigned a = i / t.by_b, b = i - a * t.b;
    if (first_a + a < t.all_a && first_b + b < t.all_b)
      out[first_b + b + (first_a + a) * t.to_a] = tile[b * (t.a + 1) + a];
  }
}

bool move_as_tiles(const Move& move, const Dim* dims, int n, cudaStream_t stream) {
  if (n < 2 || n > 4 || move.count >= most_units || dims[n - 1].to != 1) return false;
  int along = -1;
  for (int d = 0; d < n - 1; ++d)
    if (dims[d].from == 1) along = d;
  if (along < 0) return false;
  const Dim &a = dims[along], &b = dims[n - 1];
  Tiles t;
  t.in = move.in, t.out = move.out;
  t.all_a = static_cast<unsigned>(a.extent), t.all_b = static_cast<unsigned>(b.extent);
  t.b = t.all_b < 32 ? t.all_b : 32;
  static_assert(tile_elements % threads == 0, "a thread has so many elements of a tile");
  const unsigned room = t.b < 32 ? tile_elements / t.b / 32 * 32 : 32;
  t.a = t.all_a < room ? t.all_a : room;
  if ((t.a + 1) * t.b > static_cast<unsigned>(tile_room)) return false;
  t.by_a = Divisor(t.a), t.by_b = Divisor(t.b);
  const int64_t tiles_a = (a.extent + t.a - 1) / t.a, tiles_b = (b.extent + t.b - 1) / t.b;
  t.tiles_a = Divisor(tiles_a), t.tiles_b = Divisor(tiles_b);
  t.from_b = b.from, t.to_a = a.to;
  int64_t outer[2] = {1, 1};
  int found = 2;
  for (int d = n; d-- > 0;) {
    if (d == along || d == n - 1) continue;
    --found;
    outer[found] = dims[d].extent, t.outer_from[found] = dims[d].from, t.outer_to[found] = dims[d].to;
  }
  t.outer = Divisor(outer[1]);
  const auto blocks = static_cast<unsigned>(tiles_a * tiles_b * outer[0] * outer[1]);
  switch (move.bytes) {
    case 1:
      launch(move_tiles<uint8_t>, blocks, stream, t);
      break;
    case 2:
      launch(move_tiles<uint16_t>, blocks, stream, t);
      break;
    case 4:
      launch(move_tiles<uint32_t>, blocks, stream, t);
      break;
    default:
      launch(move_tiles<uint64_t>, blocks, stream, t);
  }
  return true;
}

struct Rows {
  const uint4* table = nullptr;
  uint4* out = nullptr;
  Array index;
  Divisor units, indices;  // of a row; of all of them
  int64_t extent = 0, offset = 0;
  unsigned count = 0;
};
__global__ void __launch_bounds__(threads) gather_units(const __grid_constant__ Rows g) {
  constexpr int unroll = 2;
  const unsigned all = gridDim.x * threads;
  for (unsigned begin = blockIdx.x * threads + threadIdx.x; begin < g.count; begin += unroll * all) {
    int64_t from[unroll];
    uint4 raw[unroll];
#pragma unroll
    for (int i = 0; i < unroll; ++i) {
      const unsigned at = begin + i * all;
      from[i] = -1;
      if (at >= g.count) continue;
      const unsigned line = at / g.units, outer = line / g.indices;
      const int64_t row = load_index(g.index, line - outer * g.indices.by) - g.offset;
      if (row >= 0 && row < g.extent)
        from[i] = (outer * g.extent + row) * g.units.by + (at - line * g.units.by);
    }
#pragma unroll
    for (int i = 0; i < unroll; ++i) raw[i] = from[i] >= 0 ? g.table[from[i]] : make_uint4(0, 0, 0, 0);
#pragma unroll
    for (int i = 0; i < unroll; ++i)
      if (begin + i * all < g.count) g.out[begin + i * all] = raw[i];
  }
}

}  // namespace

bool fast_move(const Move& move, cudaStream_t stream) {
  Dim dims[max_dims];
  const int n = collapse(move, dims);
  return move_as_units(move, dims, n, stream) || move_as_tiles(move, dims, n, stream);
}

bool fast_gather(const Gather& g, cudaStream_t stream) {
  const int64_t bytes = g.inner * size_of(g.out.type);
  if (g.table.type != g.out.type || bytes % vector_bytes != 0 || !aligned(g.table) || !aligned(g.out))
    return false;
  const int64_t units = bytes / vector_bytes, count = g.outer * g.indices * units;
  if (count >= most_units || g.extent >= most_units) return false;
  Rows r;
  r.table = pointer<const uint4>(g.table), r.out = pointer<uint4>(g.out), r.index = g.index;
  r.units = Divisor(units), r.indices = Divisor(g.indices);
  r.extent = g.extent, r.offset = g.offset, r.count = static_cast<unsigned>(count);
  launch(gather_units, blocks_for(count, 2 * threads, multiprocessors * 64), stream, r);
  return true;
}

}  // namespace boxcar::backends::cuda

// Elements that move, of any size and place: strided copies, tables by index, running sums. Launchers take
// units and tiles (moves_fast.cu) if operands are suited to them.
#include "backends/cuda/kernels/fast.cuh"

namespace boxcar::backends::cuda {
namespace {

__device__ int64_t first() { return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; }
__device__ int64_t all() { return static_cast<int64_t>(gridDim.x) * blockDim.x; }

template <class Element>
__global__ void move_elements(const __grid_constant__ Move move) {
  for (int64_t i = first(); i < move.count; i += all()) {
    int64_t from = 0, to = 0, rest = i;
    for (int d = move.dims; d-- > 0; rest /= move.extent[d]) {
      const int64_t at = rest % move.extent[d];
      from += at * move.from[d];
      to += at * move.to[d];
    }
    static_cast<Element*>(move.out)[to] = static_cast<const Element*>(move.in)[from];
  }
}

template <class A>
__global__ void gather_rows(const __grid_constant__ Gather g) {
  const int64_t count = g.outer * g.indices * g.inner;
  for (int64_t i = first(); i < count; i += all()) {
    const int64_t k = i % g.inner, j = i / g.inner % g.indices, o = i / g.inner / g.indices;
    const int64_t row = load_index(g.index, j) - g.offset;
    const bool inside = row >= 0 && row < g.extent;
    store(g.out, i, inside ? load<A>(g.table, (o * g.extent + row) * g.inner + k) : A(0));
  }
}

__global__ void classes_of(const __grid_constant__ Gather g) {
  for (int64_t i = first(); i < g.indices * g.extent; i += all())
    store(g.out, i, load_index(g.index, i / g.extent) - g.offset == i % g.extent ? 1.0f : 0.0f);
}

template <class A>
__global__ void running_sums(Array in, Array out, int64_t outer, int64_t extent, int64_t inner) {
  for (int64_t line = first(); line < outer * inner; line += all()) {
    int64_t at = line / inner * extent * inner + line % inner;
    A sum = A(0);
    for (int64_t j = 0; j < extent; ++j, at += inner) {
      sum += load<A>(in, at);
      store(out, at, sum);
    }
  }
}

}  // namespace

void launch_move(const Move& move, Stream stream) {
  if (move.count == 0 || fast_move(move, of(stream))) return;
  const unsigned blocks = blocks_for(move.count);
  if (move.bytes == 1) launch(move_elements<uint8_t>, blocks, of(stream), move);
  if (move.bytes == 2) launch(move_elements<uint16_t>, blocks, of(stream), move);
  if (move.bytes == 4) launch(move_elements<uint32_t>, blocks, of(stream), move);
  if (move.bytes == 8) launch(move_elements<uint64_t>, blocks, of(stream), move);
}

void launch_gather(const Gather& g, bool wide, Stream stream) {
  const int64_t count = g.outer * g.indices * g.inner;
  if (count == 0 || fast_gather(g, of(stream))) return;
  launch(wide ? gather_rows<double> : gather_rows<float>, blocks_for(count), of(stream), g);
}

void launch_one_hot(const Gather& g, Stream stream) {
  if (g.indices * g.extent > 0) launch(classes_of, blocks_for(g.indices * g.extent), of(stream), g);
}

void launch_cumsum(Array in, Array out, int64_t outer, int64_t extent, int64_t inner, bool wide,
                   Stream stream) {
  if (outer * extent * inner == 0) return;
  const unsigned blocks = blocks_for(outer * inner);
  launch(wide ? running_sums<double> : running_sums<float>, blocks, of(stream), in, out, outer, extent,
         inner);
}

}  // namespace boxcar::backends::cuda

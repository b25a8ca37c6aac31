// Elements that move: strided copies, tables by index, running sums.
#include "backends/cuda/kernels/common.cuh"

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

// The first index that names each row.
__global__ void first_of_rows(const __grid_constant__ Gather g, int* firsts) {
  for (int64_t j = first(); j < g.indices; j += all()) {
    const int64_t row = load_index(g.index, j) - g.offset;
    if (row >= 0 && row < g.extent) atomicMin(firsts + row, static_cast<int>(j));
  }
}

// A block for each index that is its row's first: it lists the later indices that name the row, as many at a
// time as a block has threads and in order, and adds up their elements. Sums do not depend on timing: the
// only atomic operation is a minimum of whole numbers.
template <class A>
__global__ void gather_rows_grad(const __grid_constant__ Gather g, const int* firsts) {
  constexpr int columns = 4;  // of a thread at a time
  __shared__ int64_t hits[threads];
  __shared__ int counts[threads / 32];
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  for (int64_t block = blockIdx.x; block < g.outer * g.indices; block += gridDim.x) {
    const int64_t o = block / g.indices, mine = block % g.indices, row = load_index(g.index, mine) - g.offset;
    if (row < 0 || row >= g.extent || firsts[row] != mine) continue;
    for (int64_t left = 0; left < g.inner; left += columns * threads) {
      A sums[columns];
      for (A& sum : sums) sum = A(0);
      for (int64_t begin = mine; begin < g.indices; begin += threads) {
        const int64_t j = begin + threadIdx.x;
        const bool hit = j < g.indices && load_index(g.index, j) - g.offset == row;
        const unsigned votes = __ballot_sync(0xffffffffu, hit);
        if (lane == 0) counts[warp] = __popc(votes);
        __syncthreads();
        int before = 0, found = 0;
        for (int w = 0; w < threads / 32; ++w) {
          if (w < warp) before += counts[w];
          found += counts[w];
        }
        if (hit) hits[before + __popc(votes & ((1u << lane) - 1))] = j;
        __syncthreads();
        for (int c = 0; c < columns; ++c) {
          const int64_t k = left + c * threads + threadIdx.x;
          if (k < g.inner)
            for (int h = 0; h < found; ++h)
              sums[c] += load<A>(g.out, (o * g.indices + hits[h]) * g.inner + k);
        }
        __syncthreads();
      }
      for (int c = 0; c < columns; ++c) {
        const int64_t k = left + c * threads + threadIdx.x;
        if (k < g.inner) store(g.table, (o * g.extent + row) * g.inner + k, sums[c]);
      }
    }
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
  if (move.count == 0) return;
  const unsigned blocks = blocks_for(move.count);
  if (move.bytes == 1) launch(move_elements<uint8_t>, blocks, of(stream), move);
  if (move.bytes == 2) launch(move_elements<uint16_t>, blocks, of(stream), move);
  if (move.bytes == 4) launch(move_elements<uint32_t>, blocks, of(stream), move);
  if (move.bytes == 8) launch(move_elements<uint64_t>, blocks, of(stream), move);
}

void launch_gather(const Gather& g, bool wide, Stream stream) {
  const int64_t count = g.outer * g.indices * g.inner;
  if (count == 0) return;
  launch(wide ? gather_rows<double> : gather_rows<float>, blocks_for(count), of(stream), g);
}

int64_t scratch_of(const Gather& g) { return g.extent * static_cast<int64_t>(sizeof(int)); }
void launch_gather_grad(const Gather& g, int64_t bytes, void* scratch, bool wide, Stream stream) {
  if (bytes == 0) return;
  cudaMemsetAsync(g.table.data, 0, static_cast<size_t>(bytes), of(stream));
  if (g.indices == 0) return;
  auto* const firsts = static_cast<int*>(scratch);
  cudaMemsetAsync(firsts, 0x7f, static_cast<size_t>(scratch_of(g)), of(stream));  // after all
  launch(first_of_rows, blocks_for(g.indices), of(stream), g, firsts);
  launch(wide ? gather_rows_grad<double> : gather_rows_grad<float>, blocks_for(g.outer * g.indices, 1),
         of(stream), g, static_cast<const int*>(firsts));
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

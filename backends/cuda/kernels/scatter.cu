// Gradients of tables by index, and updates of the rows that indices name. Rows that occur are listed, each
// with its indices in their order, and a block adds up each row. Atomic operations count only whole numbers.
// They decide the place of a list and the order in which rows are taken, which show in no result.
//
// A row has a slot: its number or, for the update of a table that is large beside the indices, a place by its
// hash, so that neither scratch memory nor time grows with the table.
#include "backends/cuda/kernels/fast.cuh"
#include "backends/cuda/kernels/update.cuh"
#include "backends/cuda/kernels/update_rows.h"

namespace boxcar::backends::cuda {
namespace {

constexpr int sorted = 1024;  // indices of a row that a block puts in order itself

// In scratch memory. counts, starts, filled and keys: by slot; taken: slots of the rows that occur; list:
// indices, by row.
struct Lists {
  int* occur;  // how many rows
  int* used;   // of the list
  int *counts, *starts, *filled, *taken, *list;
  int* keys;       // by slot: its row + 1, 0 if it is free; null if a row's slot is its number
  unsigned slots;  // a power of two if there are keys

  __device__ int row(int slot) const { return keys ? keys[slot] - 1 : slot; }
  // The slot of a row, which gets one if it has none.
  __device__ int slot(int row) const {
    if (!keys) return row;
    unsigned at = static_cast<unsigned>(row) * 2654435769u;  // 2^32 over the golden ratio
    at ^= at >> 15;
    for (;; ++at) {
      at &= slots - 1;
      const int before = atomicCAS(keys + at, 0, row + 1);
      if (before == 0 || before == row + 1) return static_cast<int>(at);
    }
  }
};

// The slots for an update: at least twice its indices, so that a free slot is near.
int64_t hashed_slots(const Gather& g) {
  constexpr int64_t large = 16;  // rows for each slot
  int64_t slots = 1;
  while (slots < 2 * g.indices) slots *= 2;
  return g.extent >= large * slots ? slots : g.extent;
}
int64_t zeroed(const Gather& g, int64_t slots) {
  return (2 + (slots == g.extent ? 2 : 3) * slots) * static_cast<int64_t>(sizeof(int));
}
int64_t scratch_of(const Gather& g, int64_t slots) {
  return zeroed(g, slots) + (slots + 2 * g.indices) * static_cast<int64_t>(sizeof(int));
}
Lists lists_of(const Gather& g, int64_t slots, void* scratch) {
  int* const at = static_cast<int*>(scratch);
  Lists l{};
  l.slots = static_cast<unsigned>(slots);
  l.occur = at, l.used = at + 1, l.counts = at + 2, l.filled = l.counts + slots;
  if (slots != g.extent) l.keys = l.filled + slots;
  l.starts = at + zeroed(g, slots) / static_cast<int64_t>(sizeof(int));
  l.taken = l.starts + slots, l.list = l.taken + g.indices;
  return l;
}

__device__ int64_t row_of(const Gather& g, int64_t j) {
  const int64_t row = load_index(g.index, j) - g.offset;
  return row >= 0 && row < g.extent ? row : -1;
}
__device__ int64_t first() { return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; }
__device__ int64_t all() { return static_cast<int64_t>(gridDim.x) * blockDim.x; }

__global__ void count_rows(const __grid_constant__ Gather g, Lists l) {
  for (int64_t j = first(); j < g.indices; j += all())
    if (const int64_t row = row_of(g, j); row >= 0) atomicAdd(l.counts + l.slot(static_cast<int>(row)), 1);
}
__global__ void place_rows(Lists l) {
  for (int64_t slot = first(); slot < l.slots; slot += all()) {
    const int count = l.counts[slot];
    if (count == 0) continue;
    l.starts[slot] = atomicAdd(l.used, count);
    l.taken[atomicAdd(l.occur, 1)] = static_cast<int>(slot);
  }
}
__global__ void fill_lists(const __grid_constant__ Gather g, Lists l) {
  for (int64_t j = first(); j < g.indices; j += all())
    if (const int64_t row = row_of(g, j); row >= 0) {
      const int slot = l.slot(static_cast<int>(row));
      l.list[l.starts[slot] + atomicAdd(l.filled + slot, 1)] = static_cast<int>(j);
    }
}

// Calls body(hits, how many) with the indices of the slot's row in their order: once or, if there are too
// many to sort, once for every `threads` of all indices.
template <class Body>
__device__ void over_hits(const Gather& g, const Lists& l, int slot, int row, Body body) {
  __shared__ int given[sorted], hits[sorted];
  __shared__ int counts[threads / 32];
  const int count = l.counts[slot];
  if (count <= sorted) {
    for (int i = threadIdx.x; i < count; i += threads) given[i] = l.list[l.starts[slot] + i];
    __syncthreads();
    for (int i = threadIdx.x; i < count; i += threads) {
      int before = 0;
      for (int other = 0; other < count; ++other) before += given[other] < given[i] ? 1 : 0;
      hits[before] = given[i];
    }
    __syncthreads();
    body(hits, count);
    __syncthreads();
    return;
  }
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  for (int64_t begin = 0; begin < g.indices; begin += threads) {
    const int64_t j = begin + threadIdx.x;
    const bool hit = j < g.indices && row_of(g, j) == row;
    const unsigned votes = __ballot_sync(0xffffffffu, hit);
    if (lane == 0) counts[warp] = __popc(votes);
    __syncthreads();
    int before = 0, found = 0;
    for (int w = 0; w < threads / 32; ++w) {
      if (w < warp) before += counts[w];
      found += counts[w];
    }
    if (hit) hits[before + __popc(votes & ((1u << lane) - 1))] = static_cast<int>(j);
    __syncthreads();
    body(hits, found);
    __syncthreads();
  }
}

// Calls done(element of the table, sum) for each element of the rows that occur. Elements of any type:
// `columns` of them per thread at a time.
template <class A, class Done>
__device__ void each_sum(const Gather& g, const Lists& l, Done done) {
  constexpr int columns = 4;
  const int occur = *l.occur;
  for (int at = blockIdx.x; at < occur; at += gridDim.x) {
    const int slot = l.taken[at], row = l.row(slot);
    for (int64_t o = 0; o < g.outer; ++o)
      for (int64_t left = 0; left < g.inner; left += columns * threads) {
        A sums[columns];
        for (A& sum : sums) sum = A(0);
        over_hits(g, l, slot, row, [&](const int* hits, int found) {
          for (int c = 0; c < columns; ++c) {
            const int64_t k = left + c * threads + threadIdx.x;
            if (k < g.inner)
              for (int h = 0; h < found; ++h)
                sums[c] += load<A>(g.out, (o * g.indices + hits[h]) * g.inner + k);
          }
        });
        for (int c = 0; c < columns; ++c) {
          const int64_t k = left + c * threads + threadIdx.x;
          if (k < g.inner) done((o * g.extent + row) * g.inner + k, sums[c]);
        }
      }
  }
}

template <class A>
__global__ void sum_rows(const __grid_constant__ Gather g, Lists l) {
  each_sum<A>(g, l, [&](int64_t at, A sum) { store(g.table, at, sum); });
}

template <class A>
__global__ void update_rows(const __grid_constant__ RowsUpdate u, Lists l) {
  const ir::Rates<A> rates = rates_of<A>(u, u.table);
  const Array w = array_of(u.table, Update::new_w), m = array_of(u.table, Update::new_m),
              v = array_of(u.table, Update::new_v);
  each_sum<A>(u.read, l, [&](int64_t at, A sum) {
    A state[3] = {load<A>(w, at), m.data ? load<A>(m, at) : A(0), v.data ? load<A>(v, at) : A(0)};
    apply(u.rule, rates, sum, state);
    store(w, at, state[0]);
    if (m.data) store(m, at, state[1]);
    if (v.data) store(v, at, state[2]);
  });
}

// Vectors: a block has as many slices as rows of `vectors` fit into it. Each slice adds every n-th index for
// n slices, and the slices' sums are added in their order.
template <class T>
__global__ void __launch_bounds__(threads)
    sum_row_vectors(const __grid_constant__ Gather g, Lists l, unsigned vectors, Divisor seats) {
  constexpr int each = per_vector<T>, ahead = 4;
  __shared__ float partial[threads * each];
  const unsigned slice = threadIdx.x / seats, seat = threadIdx.x - slice * seats.by, slices = threads / seats;
  const int occur = *l.occur;
  for (int at = blockIdx.x; at < occur; at += gridDim.x) {
    const int row = l.taken[at];
    for (int64_t o = 0; o < g.outer; ++o)
      for (unsigned left = 0; left < vectors; left += seats.by) {
        const unsigned vector = left + seat;
        float sum[each];
#pragma unroll
        for (int i = 0; i < each; ++i) sum[i] = 0;
        over_hits(g, l, row, row, [&](const int* hits, int found) {
          if (vector >= vectors || slice >= slices) return;
          const T* const from = pointer<T>(g.out) + o * g.indices * g.inner;
          int h = static_cast<int>(slice);
          for (; h + static_cast<int>((ahead - 1) * slices) < found; h += static_cast<int>(ahead * slices)) {
            uint4 raw[ahead];
#pragma unroll
            for (int a = 0; a < ahead; ++a)
              raw[a] = vector_at(from + hits[h + a * static_cast<int>(slices)] * g.inner, vector);
#pragma unroll
            for (int a = 0; a < ahead; ++a) {
              float x[each];
              unpack<T>(raw[a], x);
#pragma unroll
              for (int i = 0; i < each; ++i) sum[i] += x[i];
            }
          }
          for (; h < found; h += static_cast<int>(slices)) {
            float x[each];
            unpack<T>(vector_at(from + hits[h] * g.inner, vector), x);
#pragma unroll
            for (int i = 0; i < each; ++i) sum[i] += x[i];
          }
        });
        if (slices > 1) {
#pragma unroll
          for (int i = 0; i < each; ++i) partial[i * threads + threadIdx.x] = sum[i];
          __syncthreads();
          for (unsigned s = 1; slice == 0 && s < slices; ++s) {
#pragma unroll
            for (int i = 0; i < each; ++i) sum[i] += partial[i * threads + s * seats.by + seat];
          }
          __syncthreads();
        }
        if (slice == 0 && vector < vectors)
          put_vector(pointer<T>(g.table) + (o * g.extent + row) * g.inner, vector, pack<T>(sum));
      }
  }
}

// Lists the rows that occur. Returns the number of blocks that take one each.
unsigned list_rows(const Gather& g, const Lists& l, void* scratch, cudaStream_t stream) {
  cudaMemsetAsync(scratch, 0, static_cast<size_t>(zeroed(g, l.slots)), stream);
  launch(count_rows, blocks_for(g.indices), stream, g, l);
  launch(place_rows, blocks_for(l.slots), stream, l);
  launch(fill_lists, blocks_for(g.indices), stream, g, l);
  return blocks_for(g.indices < g.extent ? g.indices : g.extent, 1);
}

bool sums_vectors(const Gather& g, const Lists& l, unsigned blocks, cudaStream_t stream) {
  const Type type = g.table.type;
  if (!is_fast(type) || g.out.type != type || !aligned(g.out) || !aligned(g.table) ||
      g.inner * size_of(type) % vector_bytes != 0)
    return false;
  const int64_t vectors = g.inner * size_of(type) / vector_bytes;
  if (vectors == 0 || vectors >= most_units) return false;
  return with_type(type, [&](auto of) {
    launch(sum_row_vectors<decltype(of)>, blocks, stream, g, l, static_cast<unsigned>(vectors),
           Divisor(vectors < threads ? vectors : threads));
  });
}

}  // namespace

int64_t scratch_of(const Gather& g) { return scratch_of(g, g.extent); }
int64_t scratch_of_update(const Gather& g) { return scratch_of(g, hashed_slots(g)); }

void launch_gather_grad(const Gather& g, int64_t bytes, void* scratch, bool wide, Stream stream) {
  if (bytes == 0) return;
  cudaMemsetAsync(g.table.data, 0, static_cast<size_t>(bytes), of(stream));
  if (g.indices == 0 || g.extent == 0) return;
  const Lists l = lists_of(g, g.extent, scratch);
  const unsigned blocks = list_rows(g, l, scratch, of(stream));
  if (!wide && sums_vectors(g, l, blocks, of(stream))) return;
  launch(wide ? sum_rows<double> : sum_rows<float>, blocks, of(stream), g, l);
}

void launch_update_rows(const RowsUpdate& u, void* scratch, bool wide, Stream stream) {
  const Gather& g = u.read;
  for (const auto& [from, to] : {std::pair(Update::w, Update::new_w), std::pair(Update::m, Update::new_m),
                                 std::pair(Update::v, Update::new_v)}) {
    const int64_t bytes = g.extent * g.inner * size_of(static_cast<Type>(u.table.type[to]));
    if (bytes > 0 && u.table.data[to] && u.table.data[from] != u.table.data[to])
      cudaMemcpyAsync(u.table.data[to], u.table.data[from], static_cast<size_t>(bytes), cudaMemcpyDefault,
                      of(stream));
  }
  if (g.indices == 0 || g.extent == 0 || g.inner == 0) return;
  const Lists l = lists_of(g, hashed_slots(g), scratch);
  const unsigned blocks = list_rows(g, l, scratch, of(stream));
  launch(wide ? update_rows<double> : update_rows<float>, blocks, of(stream), u, l);
}

}  // namespace boxcar::backends::cuda

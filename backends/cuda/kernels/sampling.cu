// Classes drawn at random. A block for each part looks for the key below which there are as many classes as
// the part draws, and counts those up to it in the order of their rows.
#include "backends/cuda/kernels/common.cuh"
#include "backends/cuda/kernels/sampling.h"

namespace boxcar::backends::cuda {
namespace {

// In scratch memory: a place for each class, and how many classes of labels were left out.
int* left_out_of(const Sampling& s, void* scratch) { return static_cast<int*>(scratch) + s.classes; }

__device__ int64_t row_of(const Sampling& s, int64_t label) {
  const int64_t row = load_index(s.labels, label) - s.first;
  return row >= 0 && row < s.classes ? row : -1;
}
__device__ int64_t first() { return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; }
__device__ int64_t all() { return static_cast<int64_t>(gridDim.x) * blockDim.x; }

constexpr int has_label = 1;  // in the place of a class until it has one

__global__ void mark_labels(const __grid_constant__ Sampling s, int* places) {
  for (int64_t i = first(); i < s.label_count; i += all())
    if (const int64_t row = row_of(s, i); row >= 0) places[row] = has_label;
}

// The order in which classes are drawn, as in backends/cpu/kernels_sampling.cpp: no two keys are equal.
__device__ int64_t key_of(const Sampling& s, const int* places, uint64_t key, int64_t row, int row_bits) {
  if (places[row] == has_label) return row;
  const auto draw = static_cast<int64_t>(mixed(key ^ static_cast<uint64_t>(s.first + row)) >> 40);
  return (draw + 1) << row_bits | row;
}

// Part `index` of `parts` of `extent`, as sbp::part_range has it.
__device__ int64_t begin_of(int64_t extent, int64_t parts, int64_t index) {
  const int64_t more = extent % parts;
  return index * (extent / parts) + (index < more ? index : more);
}

__global__ void draw_part(const __grid_constant__ Sampling s, int* places, int* left_out, int row_bits) {
  __shared__ int counts[threads / 32];
  const uint64_t key = s.key_at ? *s.key_at : s.key;
  const int64_t begin = begin_of(s.classes, s.parts, blockIdx.x),
                end = begin_of(s.classes, s.parts, blockIdx.x + 1);
  int64_t place = begin_of(s.samples, s.parts, blockIdx.x);
  const int64_t share = begin_of(s.samples, s.parts, blockIdx.x + 1) - place;
  int64_t low = 0, high = (int64_t{1} << (25 + row_bits)) - 1;  // the last key that is drawn lies between
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    int count = 0;
    for (int64_t row = begin + threadIdx.x; row < end; row += threads)
      count += key_of(s, places, key, row, row_bits) <= middle ? 1 : 0;
    if (block_sum(count) >= share)
      high = middle;
    else
      low = middle + 1;
  }
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  for (int64_t from = begin; from < end; from += threads) {
    const int64_t row = from + threadIdx.x;
    const bool drawn = row < end && key_of(s, places, key, row, row_bits) <= low;
    if (row < end && !drawn && places[row] == has_label) {
      atomicAdd(left_out, 1);
      *s.found = 1 + static_cast<int64_t>(blockIdx.x);
    }
    const unsigned votes = __ballot_sync(0xffffffffu, drawn);
    if (lane == 0) counts[warp] = __popc(votes);
    __syncthreads();
    int before = __popc(votes & ((1u << lane) - 1)), found = 0;
    for (int w = 0; w < threads / 32; ++w) {
      if (w < warp) before += counts[w];
      found += counts[w];
    }
    if (row < end) places[row] = drawn ? static_cast<int>(place + before) : -1;
    place += found;
    __syncthreads();
  }
}

// A block for each row of the table.
__global__ void take_rows(const __grid_constant__ Sampling s, Array table, Array rows, int64_t width,
                          const int* places, const int* left_out) {
  const double poison = *left_out > 0 ? nan("") : 0.0;
  for (int64_t row = blockIdx.x; row < s.classes; row += gridDim.x) {
    if (places[row] < 0) continue;
    for (int64_t i = threadIdx.x; i < width; i += threads)
      store(rows, places[row] * width + i, load<double>(table, row * width + i) + poison);
  }
}
__global__ void give_rows(const __grid_constant__ Sampling s, Array rows, Array table, int64_t width,
                          const int* places, const int* left_out) {
  const double poison = *left_out > 0 ? nan("") : 0.0;
  for (int64_t row = blockIdx.x; row < s.classes; row += gridDim.x)
    for (int64_t i = threadIdx.x; i < width; i += threads)
      store(table, row * width + i,
            places[row] < 0 ? poison : load<double>(rows, places[row] * width + i) + poison);
}
__global__ void take_places(const __grid_constant__ Sampling s, Array out, const int* places) {
  for (int64_t i = first(); i < s.label_count; i += all()) {
    const int64_t row = row_of(s, i);
    store(out, i, row < 0 || places[row] < 0 ? 0.0 : static_cast<double>(places[row]));
  }
}

}  // namespace

int64_t scratch_of(const Sampling& s) { return (s.classes + 1) * static_cast<int64_t>(sizeof(int)); }

void launch_draw(const Sampling& s, void* scratch, Stream stream) {
  cudaMemsetAsync(scratch, 0, static_cast<size_t>(scratch_of(s)), of(stream));
  int* const places = static_cast<int*>(scratch);
  if (s.label_count > 0) launch(mark_labels, blocks_for(s.label_count), of(stream), s, places);
  int row_bits = 0;
  while ((int64_t{1} << row_bits) < s.classes) ++row_bits;
  launch(draw_part, static_cast<unsigned>(s.parts), of(stream), s, places, left_out_of(s, scratch), row_bits);
}

void launch_sample_rows(const Sampling& s, Array table, Array rows, int64_t width, void* scratch,
                        Stream stream) {
  launch(take_rows, blocks_for(s.classes, 1), of(stream), s, table, rows, width,
         static_cast<const int*>(scratch), left_out_of(s, scratch));
}
void launch_sample_rows_grad(const Sampling& s, Array rows, Array table, int64_t width, void* scratch,
                             Stream stream) {
  launch(give_rows, blocks_for(s.classes, 1), of(stream), s, rows, table, width,
         static_cast<const int*>(scratch), left_out_of(s, scratch));
}
void launch_sample_labels(const Sampling& s, Array places, void* scratch, Stream stream) {
  if (s.label_count > 0)
    launch(take_places, blocks_for(s.label_count), of(stream), s, places, static_cast<const int*>(scratch));
}

}  // namespace boxcar::backends::cuda

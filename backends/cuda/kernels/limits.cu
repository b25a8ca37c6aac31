// Indices that a graph computes, looked at before another kernel reads them.
#include "backends/cuda/kernels/common.cuh"

namespace boxcar::backends::cuda {
namespace {

__global__ void check_limit(Array index, int64_t count, int64_t below, int64_t* found) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step)
    if (const int64_t at = load_index(index, i); at < 0 || at >= below) *found = at;
}

}  // namespace

void launch_check_limit(Array index, int64_t count, int64_t below, int64_t* found, Stream stream) {
  if (count > 0) launch(check_limit, blocks_for(count), of(stream), index, count, below, found);
}

}  // namespace boxcar::backends::cuda

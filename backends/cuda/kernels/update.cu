// Optimizers, on elements of any type; launchers take those on vectors (update_fast.cu) where states are for
// them.
#include "backends/cuda/kernels/fast.cuh"
#include "backends/cuda/kernels/update.cuh"

namespace boxcar::backends::cuda {
namespace {

// A stretch of one tensor to each block.
template <class A>
__global__ void update(const __grid_constant__ Update u) {
  const Update::Tensor& t = u.tensor[tensor_of(u, blockIdx.x)];
  const bool keeps = u.finite.data && load<A>(u.finite, 0) == A(0);
  const A scale = u.scale.data ? load<A>(u.scale, 0) : A(1);
  const ir::Rates<A> rates = rates_of<A>(u);
  const int64_t begin = static_cast<int64_t>(blockIdx.x - t.first) * blockDim.x * update_per_thread;
  const int64_t beyond = begin + static_cast<int64_t>(blockDim.x) * update_per_thread;
  const int64_t end = beyond < t.count ? beyond : t.count;
  for (int64_t i = begin + threadIdx.x; i < end; i += blockDim.x) update_one<A>(u, t, rates, keeps, scale, i);
}

__global__ void clip(Array norm2, Array factor, double loss_scale, double most) {
  if (threadIdx.x != 0) return;
  const double norm = sqrt(load<double>(norm2, 0)) / loss_scale, share = most / (norm + 1e-6);
  store(factor, 0, (most > 0 && share < 1.0 ? share : 1.0) / loss_scale);
}

}  // namespace

void launch_update(Update& u, bool wide, Stream stream) {
  unsigned blocks = 0;
  for (int t = 0; t < u.tensors; ++t) {
    u.tensor[t].first = blocks;
    const int64_t stretch = threads * update_per_thread;
    blocks += static_cast<unsigned>((u.tensor[t].count + stretch - 1) / stretch);
  }
  if (blocks == 0 || (!wide && fast_update(u, blocks, of(stream)))) return;
  launch(wide ? update<double> : update<float>, blocks, of(stream), u);
}

void launch_clip_scale(Array norm2, Array factor, double loss_scale, double max_norm, Stream stream) {
  launch(clip, 1, of(stream), norm2, factor, loss_scale, max_norm);
}

}  // namespace boxcar::backends::cuda

// Optimizers, on elements of any type; launchers take the kernels on vectors (update_fast.cu) if states are
// suited to them.
#include "backends/cuda/kernels/fast.cuh"
#include "backends/cuda/kernels/update.cuh"

namespace boxcar::backends::cuda {
namespace {

// A block for each stretch of one tensor.
template <class A>
__global__ void update(const __grid_constant__ Update u) {
  const Update::Tensor& t = u.tensor[tensor_of(u, blockIdx.x)];
  const bool keeps = u.finite.data && load<A>(u.finite, 0) == A(0);
  const A scale = u.scale.data ? load<A>(u.scale, 0) : A(1);
  const ir::Rates<A> rates = rates_of<A>(u, t);
  const int64_t begin = static_cast<int64_t>(blockIdx.x - t.first) * blockDim.x * update_per_thread;
  const int64_t beyond = begin + static_cast<int64_t>(blockDim.x) * update_per_thread;
  const int64_t end = beyond < t.count ? beyond : t.count;
  for (int64_t i = begin + threadIdx.x; i < end; i += blockDim.x) update_one<A>(u, t, rates, keeps, scale, i);
}

constexpr int64_t measured_per_thread = 32;

// A block for each stretch; then all blocks' sums, in the same order every time.
template <class A>
__global__ void measure(const __grid_constant__ Update u, A* partial) {
  const Update::Tensor& t = u.tensor[0];
  const Array w = array_of(t, Update::w), g = array_of(t, Update::g), m = array_of(t, Update::m),
              v = array_of(t, Update::v);
  const A scale = u.scale.data ? load<A>(u.scale, 0) : A(1);
  const ir::Rates<A> rates = rates_of<A>(u, t);
  const int64_t begin = static_cast<int64_t>(blockIdx.x) * blockDim.x * measured_per_thread;
  const int64_t beyond = begin + static_cast<int64_t>(blockDim.x) * measured_per_thread;
  const int64_t end = beyond < t.count ? beyond : t.count;
  A weights = 0, others = 0;
  for (int64_t i = begin + threadIdx.x; i < end; i += blockDim.x) {
    const A state[3] = {load<A>(w, i), m.data ? load<A>(m, i) : A(0), v.data ? load<A>(v, i) : A(0)};
    const A value = measured(u.rule, rates, scale * load<A>(g, i), state);
    weights += state[0] * state[0];
    others += value * value;
  }
  weights = block_sum(weights);
  others = block_sum(others);
  if (threadIdx.x == 0) partial[2 * blockIdx.x] = weights, partial[2 * blockIdx.x + 1] = others;
}

template <class A>
__global__ void add_measured(const A* partial, unsigned blocks, Array sums) {
  A weights = 0, others = 0;
  for (unsigned b = threadIdx.x; b < blocks; b += blockDim.x)
    weights += partial[2 * b], others += partial[2 * b + 1];
  weights = block_sum(weights);
  others = block_sum(others);
  if (threadIdx.x == 0) store(sums, 0, weights), store(sums, 1, others);
}

unsigned measuring_blocks(int64_t elements) {
  const int64_t stretch = threads * measured_per_thread;
  return static_cast<unsigned>((elements + stretch - 1) / stretch);
}

template <class A>
void run_norms(const Update& u, Array sums, void* scratch, cudaStream_t stream) {
  const unsigned blocks = measuring_blocks(u.tensor[0].count);
  A* const partial = static_cast<A*>(scratch);
  if (blocks > 0) launch(measure<A>, blocks, stream, u, partial);
  launch(add_measured<A>, 1, stream, partial, blocks, sums);
}

template <class A>
__global__ void second_moments(const __grid_constant__ SecondMoment m) {
  const bool keeps = m.finite.data && load<A>(m.finite, 0) == A(0);
  const double new_part = m.step_part ? *m.step_part : m.part;
  const A part = static_cast<A>(new_part), rest = static_cast<A>(1 - new_part), eps = static_cast<A>(m.eps);
  const int64_t step = static_cast<int64_t>(blockDim.x) * gridDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < m.count; i += step) {
    const A old = load<A>(m.old, i);
    store(m.next, i, keeps ? old : rest * old + part * (load<A>(m.fresh, i) + eps));
  }
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

int64_t scratch_of_norms(int64_t elements) { return int64_t{16} * measuring_blocks(elements); }

void launch_norms(const Update& u, Array sums, void* scratch, bool wide, Stream stream) {
  if (wide)
    run_norms<double>(u, sums, scratch, of(stream));
  else
    run_norms<float>(u, sums, scratch, of(stream));
}

void launch_second_moment(const SecondMoment& m, bool wide, Stream stream) {
  if (m.count == 0) return;
  launch(wide ? second_moments<double> : second_moments<float>, blocks_for(m.count), of(stream), m);
}

void launch_clip_scale(Array norm2, Array factor, double loss_scale, double max_norm, Stream stream) {
  launch(clip, 1, of(stream), norm2, factor, loss_scale, max_norm);
}

}  // namespace boxcar::backends::cuda

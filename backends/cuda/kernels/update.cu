// Optimizers.
#include "backends/cuda/kernels/common.cuh"

namespace boxcar::backends::cuda {
namespace {

constexpr int64_t per_thread = 8;  // elements of a tensor

__device__ Array array_of(const Update::Tensor& t, Update::What what) {
  return {t.data[what], static_cast<Type>(t.type[what])};
}

template <class A>
__device__ void apply(ir::Optimizer rule, const ir::Rates<A>& rates, A g, A* state) {
#define BOXCAR_CASE(op)   \
  case ir::Optimizer::op: \
    return ir::optimizers::op::update<DeviceMath>(rates, g, state);
  switch (rule) { BOXCAR_OPTIMIZERS(BOXCAR_CASE) }
#undef BOXCAR_CASE
}

// A stretch of one tensor to each block. Where gradients are not finite, the state stays as it was.
template <class A>
__global__ void update(const __grid_constant__ Update u) {
  int which = 0;
  while (which + 1 < u.tensors && blockIdx.x >= u.tensor[which + 1].first) ++which;
  const Update::Tensor& t = u.tensor[which];
  const Array w_at = array_of(t, Update::w), g_at = array_of(t, Update::g), m_at = array_of(t, Update::m),
              v_at = array_of(t, Update::v), new_w_at = array_of(t, Update::new_w),
              new_m_at = array_of(t, Update::new_m), new_v_at = array_of(t, Update::new_v),
              copy_at = array_of(t, Update::copy);
  const bool keeps = u.finite.data && load<A>(u.finite, 0) == A(0);
  const A scale = u.scale.data ? load<A>(u.scale, 0) : A(1);
  const double* const step = u.step_values;
  ir::Rates<A> rates;
  rates.lr = static_cast<A>(step ? step[0] : u.lr), rates.decay = static_cast<A>(u.weight_decay);
  for (int n = 0; n < ir::Rates<A>::most; ++n) {
    rates.number[n] = static_cast<A>(u.number[n]), rates.rest[n] = static_cast<A>(1 - u.number[n]);
    rates.left[n] = static_cast<A>(step ? step[1 + n] : u.left[n]);
  }
  const int64_t begin = static_cast<int64_t>(blockIdx.x - t.first) * blockDim.x * per_thread;
  const int64_t beyond = begin + static_cast<int64_t>(blockDim.x) * per_thread;
  const int64_t end = beyond < t.count ? beyond : t.count;
  for (int64_t i = begin + threadIdx.x; i < end; i += blockDim.x) {
    const A w = load<A>(w_at, i), g = scale * load<A>(g_at, i);
    const A m = m_at.data ? load<A>(m_at, i) : A(0), v = v_at.data ? load<A>(v_at, i) : A(0);
    A state[3] = {w, m, v};
    if (!keeps) apply(u.rule, rates, g, state);
    store(new_w_at, i, state[0]);
    if (new_m_at.data) store(new_m_at, i, state[1]);
    if (new_v_at.data) store(new_v_at, i, state[2]);
    if (copy_at.data) store(copy_at, i, load<A>(new_w_at, i));
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
    const int64_t stretch = threads * per_thread;
    blocks += static_cast<unsigned>((u.tensor[t].count + stretch - 1) / stretch);
  }
  if (blocks == 0) return;
  launch(wide ? update<double> : update<float>, blocks, of(stream), u);
}

void launch_clip_scale(Array norm2, Array factor, double loss_scale, double max_norm, Stream stream) {
  launch(clip, 1, of(stream), norm2, factor, loss_scale, max_norm);
}

}  // namespace boxcar::backends::cuda

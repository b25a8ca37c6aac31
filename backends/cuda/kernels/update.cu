// Optimizers.
#include "backends/cuda/kernels/common.cuh"

namespace boxcar::backends::cuda {
namespace {

// Where gradients are not finite, the state stays as it was.
template <class A>
__global__ void update(const __grid_constant__ Update u) {
  const bool keeps = u.finite.data && load<A>(u.finite, 0) == A(0);
  const A scale = u.scale.data ? load<A>(u.scale, 0) : A(1);
  const double* const step = u.step_values;
  const A lr = static_cast<A>(step ? step[0] : u.lr), decay = static_cast<A>(u.weight_decay);
  const A correct1 = static_cast<A>(step ? step[1] : u.correct1),
          correct2 = static_cast<A>(step ? step[2] : u.correct2);
  const int64_t all = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < u.count; i += all) {
    const A w = load<A>(u.w, i), g = scale * load<A>(u.g, i);
    const A m = u.m.data ? load<A>(u.m, i) : A(0), v = u.v.data ? load<A>(u.v, i) : A(0);
    A new_w = w, new_m = m, new_v = v;
    if (!keeps && u.rule == Update::sgd) new_w = w - lr * (g + decay * w);
    if (!keeps && u.rule == Update::momentum) {
      new_m = static_cast<A>(u.mu) * m + g + decay * w;
      new_w = w - lr * new_m;
    }
    if (!keeps && u.rule == Update::adam) {
      new_m = static_cast<A>(u.beta1) * m + static_cast<A>(1 - u.beta1) * g;
      new_v = static_cast<A>(u.beta2) * v + static_cast<A>(1 - u.beta2) * g * g;
      const A direction = new_m / correct1 / (sqrt_of(new_v / correct2) + static_cast<A>(u.eps));
      new_w = w - lr * (direction + decay * w);
    }
    store(u.new_w, i, new_w);
    if (u.new_m.data) store(u.new_m, i, new_m);
    if (u.new_v.data) store(u.new_v, i, new_v);
  }
}

__global__ void clip(Array norm2, Array factor, double loss_scale, double most) {
  if (threadIdx.x != 0) return;
  const double norm = sqrt(load<double>(norm2, 0)) / loss_scale, share = most / (norm + 1e-6);
  store(factor, 0, (most > 0 && share < 1.0 ? share : 1.0) / loss_scale);
}

}  // namespace

void launch_update(const Update& u, bool wide, Stream stream) {
  if (u.count == 0) return;
  launch(wide ? update<double> : update<float>, blocks_for(u.count), of(stream), u);
}

void launch_clip_scale(Array norm2, Array factor, double loss_scale, double max_norm, Stream stream) {
  launch(clip, 1, of(stream), norm2, factor, loss_scale, max_norm);
}

}  // namespace boxcar::backends::cuda

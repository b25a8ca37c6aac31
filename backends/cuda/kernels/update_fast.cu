// Optimizers on vectors: float32 states, eight elements for each thread of a block's stretch of one tensor.
#include "backends/cuda/kernels/fast.cuh"
#include "backends/cuda/kernels/update.cuh"

namespace boxcar::backends::cuda {
namespace {

template <class T>
__device__ Eight<T> eight_at(const void* from, unsigned group) {
  Eight<T> raw{};
  if (from) raw.load(static_cast<const T*>(from), group);
  return raw;
}
template <class T>
__device__ void put_eight(void* to, unsigned group, const float (&x)[eight]) {
  if (!to) return;
  Eight<T> raw;
  raw.pack_from(x);
  raw.store(static_cast<T*>(to), group);
}

// The rule is looked up once for eight elements.
__device__ void apply_eight(ir::Optimizer rule, const ir::Rates<float>& rates, const float (&g)[eight],
                            float (&w)[eight], float (&m)[eight], float (&v)[eight]) {
#define BOXCAR_CASE(op)                                           \
  case ir::Optimizer::op:                                         \
    _Pragma("unroll") for (int e = 0; e < eight; ++e) {           \
      float state[3] = {w[e], m[e], v[e]};                        \
      ir::optimizers::op::update<DeviceMath>(rates, g[e], state); \
      w[e] = state[0], m[e] = state[1], v[e] = state[2];          \
    }                                                             \
    return;
  switch (rule) { BOXCAR_OPTIMIZERS(BOXCAR_CASE) }
#undef BOXCAR_CASE
}

// Gradients of G, copies of C.
template <class G, class C>
__global__ void __launch_bounds__(threads) update_eights(const __grid_constant__ Update u) {
  const Update::Tensor& t = u.tensor[tensor_of(u, blockIdx.x)];
  const unsigned group = (blockIdx.x - t.first) * threads + threadIdx.x;
  const int64_t begin = static_cast<int64_t>(group) * eight;
  if (begin >= t.count) return;
  const bool keeps = u.finite.data && load<float>(u.finite, 0) == 0.0f;
  const float scale = u.scale.data ? load<float>(u.scale, 0) : 1.0f;
  if (begin + eight <= t.count) {
    const Eight<G> raw_g = eight_at<G>(t.data[Update::g], group);
    const Eight<float> raw_w = eight_at<float>(t.data[Update::w], group),
                       raw_m = eight_at<float>(t.data[Update::m], group),
                       raw_v = eight_at<float>(t.data[Update::v], group);
    const ir::Rates<float> rates = rates_of<float>(u, t);
    float g[eight], w[eight], m[eight], v[eight];
    raw_g.unpack_to(g);
    raw_w.unpack_to(w);
    raw_m.unpack_to(m);
    raw_v.unpack_to(v);
#pragma unroll
    for (float& each : g) each *= scale;
    if (!keeps) apply_eight(u.rule, rates, g, w, m, v);
    put_eight<float>(t.data[Update::new_w], group, w);
    put_eight<float>(t.data[Update::new_m], group, m);
    put_eight<float>(t.data[Update::new_v], group, v);
    put_eight<C>(t.data[Update::copy], group, w);
    return;
  }
  const ir::Rates<float> rates = rates_of<float>(u, t);
  for (int64_t i = begin; i < t.count; ++i) update_one<float>(u, t, rates, keeps, scale, i);
}

}  // namespace

bool fast_update(const Update& u, unsigned blocks, cudaStream_t stream) {
  Type gradient = Type::float32, copy = Type::float32;
  for (int n = 0; n < u.tensors; ++n) {
    const Update::Tensor& t = u.tensor[n];
    for (int what = 0; what < Update::whats; ++what) {
      if (!t.data[what] || what == Update::norms) continue;
      const auto type = static_cast<Type>(t.type[what]);
      if (!aligned(t.data[what])) return false;
      if (what == Update::g) {
        if (n > 0 && type != gradient) return false;
        gradient = type;
      } else if (what == Update::copy) {
        if (copy != Type::float32 && type != copy) return false;
        copy = type;
      } else if (type != Type::float32) {
        return false;
      }
    }
    if (t.count / eight >= most_units) return false;
  }
  const auto start = [&](auto g, auto c) {
    launch(update_eights<decltype(g), decltype(c)>, blocks, stream, u);
    return true;
  };
  if (copy == Type::float32)
    copy = gradient == Type::float16 ? Type::float16 : Type::bfloat16;  // none, or a float's
  for (int n = 0; n < u.tensors; ++n)
    if (u.tensor[n].data[Update::copy] && static_cast<Type>(u.tensor[n].type[Update::copy]) != copy)
      return false;
  const __half half{};
  const __nv_bfloat16 bfloat{};
  if (gradient == Type::float32)
    return copy == Type::float16 ? start(0.0f, half) : copy == Type::bfloat16 && start(0.0f, bfloat);
  if (gradient == Type::bfloat16 && copy == Type::bfloat16) return start(bfloat, bfloat);
  if (gradient == Type::float16 && copy == Type::float16) return start(half, half);
  return false;
}

}  // namespace boxcar::backends::cuda

// The parts of an update that kernels of optimizers ask for: its tensor, its rates, one element.
#pragma once

#include "backends/cuda/kernels/common.cuh"

namespace boxcar::backends::cuda {

constexpr int64_t update_per_thread = 8;  // elements of a tensor

// The tensor that a block works on.
__device__ inline int tensor_of(const Update& u, unsigned block) {
  int first = 0, beyond = u.tensors;
  while (beyond - first > 1) {
    const int middle = (first + beyond) / 2;
    if (u.tensor[middle].first <= block)
      first = middle;
    else
      beyond = middle;
  }
  return first;
}

__device__ inline Array array_of(const Update::Tensor& t, Update::What what) {
  return {t.data[what], static_cast<Type>(t.type[what])};
}

// For a rule without a trust ratio: 1, and nothing is measured.
template <class Op, class A>
__device__ A trust_of(const ir::Rates<A>& rates, A weights, A measured) {
  if constexpr (Op::row.of_vectors != nullptr)
    return Op::template trust<A>(rates, weights, measured);
  else
    return A(1);
}
template <class Op, class A>
__device__ A measured_of(const ir::Rates<A>& rates, A g, const A* state) {
  if constexpr (Op::row.of_vectors != nullptr)
    return Op::template measured<DeviceMath>(rates, g, state);
  else
    return A(0);
}

template <class A>
__device__ A trust(ir::Optimizer rule, const ir::Rates<A>& rates, A weights, A measured) {
#define BOXCAR_CASE(op)   \
  case ir::Optimizer::op: \
    return trust_of<ir::optimizers::op>(rates, weights, measured);
  switch (rule) { BOXCAR_OPTIMIZERS(BOXCAR_CASE) }
#undef BOXCAR_CASE
  return A(1);
}

template <class A>
__device__ ir::Rates<A> rates_of(const UpdateRule& u, const Update::Tensor& t) {
  const double* const step = u.step_values;
  ir::Rates<A> rates;
  rates.lr = static_cast<A>(step ? step[0] : u.lr), rates.decay = static_cast<A>(u.weight_decay);
  for (int n = 0; n < ir::Rates<A>::most; ++n) {
    rates.number[n] = static_cast<A>(u.number[n]), rates.rest[n] = static_cast<A>(1 - u.number[n]);
    rates.left[n] = static_cast<A>(step ? step[1 + n] : u.left[n]);
  }
  const Array norms = array_of(t, Update::norms);
  if (norms.data) rates.trust = trust(u.rule, rates, sqrt_of(load<A>(norms, 0)), sqrt_of(load<A>(norms, 1)));
  return rates;
}

template <class A>
__device__ void apply(ir::Optimizer rule, const ir::Rates<A>& rates, A g, A* state) {
#define BOXCAR_CASE(op)   \
  case ir::Optimizer::op: \
    return ir::optimizers::op::update<DeviceMath>(rates, g, state);
  switch (rule) { BOXCAR_OPTIMIZERS(BOXCAR_CASE) }
#undef BOXCAR_CASE
}

template <class A>
__device__ A measured(ir::Optimizer rule, const ir::Rates<A>& rates, A g, const A* state) {
#define BOXCAR_CASE(op)   \
  case ir::Optimizer::op: \
    return measured_of<ir::optimizers::op>(rates, g, state);
  switch (rule) { BOXCAR_OPTIMIZERS(BOXCAR_CASE) }
#undef BOXCAR_CASE
  return A(0);
}

// If gradients are not finite (`keeps`), the state is unchanged.
template <class A>
__device__ void update_one(const Update& u, const Update::Tensor& t, const ir::Rates<A>& rates, bool keeps,
                           A scale, int64_t i) {
  const Array m_at = array_of(t, Update::m), v_at = array_of(t, Update::v),
              new_w_at = array_of(t, Update::new_w), new_m_at = array_of(t, Update::new_m),
              new_v_at = array_of(t, Update::new_v), copy_at = array_of(t, Update::copy);
  const A w = load<A>(array_of(t, Update::w), i), g = scale * load<A>(array_of(t, Update::g), i);
  const A m = m_at.data ? load<A>(m_at, i) : A(0), v = v_at.data ? load<A>(v_at, i) : A(0);
  A state[3] = {w, m, v};
  if (!keeps) apply(u.rule, rates, g, state);
  store(new_w_at, i, state[0]);
  if (new_m_at.data) store(new_m_at, i, state[1]);
  if (new_v_at.data) store(new_v_at, i, state[2]);
  if (copy_at.data) store(copy_at, i, load<A>(new_w_at, i));
}

}  // namespace boxcar::backends::cuda

// How elements combine, in reductions of any kind.
#pragma once

#include "backends/cuda/kernels/common.cuh"

namespace boxcar::backends::cuda {

template <class A>
__device__ A nothing(Combine combine) {
  switch (combine) {
    case Combine::max:
      return static_cast<A>(-INFINITY);
    case Combine::min:
      return static_cast<A>(INFINITY);
    case Combine::all_finite:
      return A(1);
    default:
      return A(0);
  }
}
template <class A>
__device__ A prepared(Combine combine, A x) {
  if (combine == Combine::square_sum) return x * x;
  if (combine == Combine::all_finite) return isfinite(x) ? A(1) : A(0);
  return x;
}
// A NaN among the elements is the result.
template <class A>
__device__ A combined(Combine combine, A a, A b) {
  if (combine == Combine::max) return b > a || b != b ? b : a;
  if (combine == Combine::min || combine == Combine::all_finite) return b < a || b != b ? b : a;
  return a + b;
}

}  // namespace boxcar::backends::cuda

// Code shared by all kernels: elements of any type as float or double, sums over a block, launches.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "backends/cuda/kernels/launch.h"

namespace boxcar::backends::cuda {

#ifndef BOXCAR_BLOCK
#define BOXCAR_BLOCK 256
#endif
constexpr int threads = BOXCAR_BLOCK;  // of a block: whole warps

inline cudaStream_t of(Stream stream) { return static_cast<cudaStream_t>(stream); }
inline unsigned blocks_for(int64_t count, int64_t per_block = threads, int64_t most = 1 << 16) {
  const int64_t blocks = (count + per_block - 1) / per_block;
  return static_cast<unsigned>(blocks < most ? blocks : most);
}

// kernel<<<blocks, threads, 0, stream>>>(arguments...), in syntax that every C++ compiler reads.
template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), dim3 blocks, cudaStream_t stream, const Arguments&... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = blocks;
  config.blockDim = dim3(threads);
  config.stream = stream;
  cudaLaunchKernelEx(&config, kernel, arguments...);
}

template <class A>
__device__ A load(const Array& array, int64_t i) {
  switch (array.type) {
    case Type::float64:
      return static_cast<A>(static_cast<const double*>(array.data)[i]);
    case Type::float32:
      return static_cast<A>(static_cast<const float*>(array.data)[i]);
    case Type::float16:
      return static_cast<A>(__half2float(static_cast<const __half*>(array.data)[i]));
    case Type::bfloat16:
      return static_cast<A>(__bfloat162float(static_cast<const __nv_bfloat16*>(array.data)[i]));
    case Type::int64:
      return static_cast<A>(static_cast<const long long*>(array.data)[i]);
    case Type::int32:
      return static_cast<A>(static_cast<const int*>(array.data)[i]);
    case Type::int8:
      return static_cast<A>(static_cast<const signed char*>(array.data)[i]);
    default:
      return static_cast<A>(static_cast<const unsigned char*>(array.data)[i]);
  }
}

// Whole numbers are truncated, 16-bit floats rounded to nearest even.
template <class A>
__device__ void store(const Array& array, int64_t i, A value) {
  switch (array.type) {
    case Type::float64:
      static_cast<double*>(array.data)[i] = static_cast<double>(value);
      break;
    case Type::float32:
      static_cast<float*>(array.data)[i] = static_cast<float>(value);
      break;
    case Type::float16:
      static_cast<__half*>(array.data)[i] = sizeof(A) == 8 ? __double2half(static_cast<double>(value))
                                                           : __float2half_rn(static_cast<float>(value));
      break;
    case Type::bfloat16:
      static_cast<__nv_bfloat16*>(array.data)[i] = sizeof(A) == 8
                                                       ? __double2bfloat16(static_cast<double>(value))
                                                       : __float2bfloat16_rn(static_cast<float>(value));
      break;
    case Type::int64:
      static_cast<long long*>(array.data)[i] = static_cast<long long>(value);
      break;
    case Type::int32:
      static_cast<int*>(array.data)[i] = static_cast<int>(value);
      break;
    case Type::int8:
      static_cast<signed char*>(array.data)[i] = static_cast<signed char>(value);
      break;
    default:
      static_cast<unsigned char*>(array.data)[i] = value != A(0) ? 1 : 0;
  }
}

__device__ inline int64_t load_index(const Array& array, int64_t i) {
  return array.type == Type::int64 ? static_cast<const long long*>(array.data)[i]
                                   : static_cast<const int*>(array.data)[i];
}

// backends/random.h, on the device.
__device__ inline uint64_t mixed(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// The factor on element `flat` of the part.
template <class A>
__device__ A drop_factor(const Drop& drop, int64_t flat) {
  if (drop.least == 0) return A(1);
  int64_t element = drop.first + (drop.dims == 0 ? flat : 0);
  for (int i = drop.dims; i-- > 0;) {
    element += (drop.start[i] + flat % drop.local[i]) * drop.stride[i];
    flat /= drop.local[i];
  }
  const uint64_t key = drop.key_at ? *drop.key_at : drop.key;
  const auto draw = static_cast<int64_t>(mixed(key ^ static_cast<uint64_t>(element)) >> 40);
  return draw >= drop.least ? static_cast<A>(drop.kept) : A(0);
}

// The block's combination of every thread's value, in every thread; the order follows from the block's size.
template <class A, class Combine2>
__device__ A over_block(A value, Combine2 combine) {
  __shared__ A shared[32];
  for (int apart = 16; apart > 0; apart /= 2)
    value = combine(value, __shfl_xor_sync(0xffffffffu, value, apart));
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  if (lane == 0) shared[warp] = value;
  __syncthreads();
  value = shared[0];
  for (int w = 1; w < static_cast<int>(blockDim.x) / 32; ++w) value = combine(value, shared[w]);
  __syncthreads();
  return value;
}
template <class A>
__device__ A block_sum(A value) {
  return over_block(value, [](A a, A b) { return a + b; });
}
template <class A>
__device__ A block_max(A value) {
  return over_block(value, [](A a, A b) { return b > a || b != b ? b : a; });
}

__device__ inline float exp_of(float x) { return expf(x); }
__device__ inline double exp_of(double x) { return exp(x); }
__device__ inline float log_of(float x) { return logf(x); }
__device__ inline double log_of(double x) { return log(x); }
__device__ inline float log1p_of(float x) { return log1pf(x); }
__device__ inline double log1p_of(double x) { return log1p(x); }
__device__ inline float sqrt_of(float x) { return sqrtf(x); }
__device__ inline double sqrt_of(double x) { return sqrt(x); }
__device__ inline float tanh_of(float x) { return tanhf(x); }
__device__ inline double tanh_of(double x) { return tanh(x); }
// With the two functions that the hardware has; relative error 1e-6 for |x| up to 10.
__device__ inline float sigmoid_of(float x) { return __fdividef(1.0f, 1.0f + __expf(-x)); }
__device__ inline double sigmoid_of(double x) { return 1 / (1 + exp(-x)); }
// sinf and cosf keep an array in memory for large x. Here whole turns are subtracted first, with 2 pi as the
// sum of two floats; absolute error 5e-7 for |x| up to 1e5.
__device__ inline float half_turns(float x) {
  const float turns = rintf(x * 0.15915494309189534f);
  return fmaf(turns, 1.7484555e-7f, fmaf(turns, -6.2831855f, x)) * 0.31830988618379067f;
}
__device__ inline float sin_of(float x) { return sinpif(half_turns(x)); }
__device__ inline double sin_of(double x) { return sin(x); }
__device__ inline float cos_of(float x) { return cospif(half_turns(x)); }
__device__ inline double cos_of(double x) { return cos(x); }
__device__ inline float erfc_of(float x) { return erfcf(x); }
__device__ inline double erfc_of(double x) { return erfc(x); }

template <class A>
__device__ A normal_cdf(A x) {
  return A(0.5) * erfc_of(-x * A(0.70710678118654752440));
}

// Functions that the rows of pointwise_rows.h and optimizer_rows.h call.
struct DeviceMath {
  template <class A>
  __device__ static A exp(A x) {
    return exp_of(x);
  }
  template <class A>
  __device__ static A log(A x) {
    return log_of(x);
  }
  template <class A>
  __device__ static A log1p(A x) {
    return log1p_of(x);
  }
  template <class A>
  __device__ static A sqrt(A x) {
    return sqrt_of(x);
  }
  template <class A>
  __device__ static A sin(A x) {
    return sin_of(x);
  }
  template <class A>
  __device__ static A cos(A x) {
    return cos_of(x);
  }
  template <class A>
  __device__ static A tanh(A x) {
    return tanh_of(x);
  }
  template <class A>
  __device__ static A sigmoid(A x) {
    return sigmoid_of(x);
  }
  template <class A>
  __device__ static A gelu(A x) {
    return x * normal_cdf(x);
  }
  template <class A>
  __device__ static A gelu_slope(A x) {
    return normal_cdf(x) + x * exp_of(A(-0.5) * x * x) * A(0.39894228040143267794);
  }
  template <class A>
  __device__ static A gelu_tanh_share(A x) {
    return sigmoid(A(1.5957691216057308) * (x + A(0.044715) * x * x * x));
  }
  template <class A>
  __device__ static A gelu_tanh(A x) {
    return x * gelu_tanh_share(x);
  }
  template <class A>
  __device__ static A gelu_tanh_slope(A x) {
    const A s = gelu_tanh_share(x);
    return s + x * s * (A(1) - s) * A(1.5957691216057308) * (A(1) + A(3 * 0.044715) * x * x);
  }
  template <class A>
  __device__ static A silu_grad(A dy, A x) {
    const A s = sigmoid(x);
    return dy * s * (A(1) + x * (A(1) - s));
  }
  template <class A>
  __device__ static A corrected(A moment, A left) {
    return moment / left;
  }
};

}  // namespace boxcar::backends::cuda

// CUDA's language, as far as Boxcar's kernels use it, as C++: a kernel is a function that is called once by
// each thread, and the threads of a block are fibers (threads.cpp) that switch when they wait for each other.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "cuda_runtime_api.h"

#define __global__
#define __device__
#define __host__
#define __shared__ static  // one block runs at a time
#define __grid_constant__
#define __launch_bounds__(...)

extern dim3 threadIdx, blockIdx, blockDim, gridDim;

struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  size_t dynamicSmemBytes = 0;
  cudaStream_t stream = nullptr;
};

namespace cuda_on_cpu {

// `thread` is called once for each thread of the grid, when the stream comes to it. `kernel` is its address,
// `arguments` the bytes of each of its parameters.
cudaError_t launch(const cudaLaunchConfig_t& config, const void* kernel, std::function<void()> thread,
                   const std::function<std::vector<std::string>()>& arguments);
// Both wait for the warp's other lanes, which call them too: the value that the lane at exclusive or `apart`
// gave; and bit i, whether lane i gave true.
uint64_t exchange(unsigned mask, uint64_t given, unsigned apart);
unsigned vote(unsigned mask, bool given);

}  // namespace cuda_on_cpu

template <class... Parameters, class... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               Arguments&&... arguments) {
  const std::tuple<Parameters...> values(arguments...);
  const auto bytes = [&values] {
    return std::apply(
        [](const auto&... each) {
          return std::vector<std::string>{
              std::string(reinterpret_cast<const char*>(std::addressof(each)), sizeof each)...};
        },
        values);
  };
  return cuda_on_cpu::launch(
      *config, reinterpret_cast<const void*>(kernel), [kernel, values] { std::apply(kernel, values); },
      bytes);
}

void __syncthreads();

template <class T>
T __shfl_xor_sync(unsigned mask, T value, int apart) {
  static_assert(sizeof(T) <= 8);
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  bits = cuda_on_cpu::exchange(mask, bits, static_cast<unsigned>(apart));
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
inline unsigned __ballot_sync(unsigned mask, bool given) { return cuda_on_cpu::vote(mask, given); }
inline int atomicMin(int* at, int value) {
  const int before = *at;
  *at = value < before ? value : before;
  return before;
}
inline int atomicAdd(int* at, int value) {
  const int before = *at;
  *at += value;
  return before;
}
inline int atomicCAS(int* at, int expected, int value) {
  const int before = *at;
  if (before == expected) *at = value;
  return before;
}
// 16 bytes in one access; of any memory.
struct __attribute__((may_alias, aligned(16))) uint4 {
  unsigned x, y, z, w;
};
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
inline unsigned __umulhi(unsigned a, unsigned b) { return static_cast<unsigned>(uint64_t{a} * b >> 32); }
inline float __uint_as_float(unsigned bits) {
  float x = 0;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}
inline unsigned __float_as_uint(float x) {
  unsigned bits = 0;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}
inline void sincospif(float x, float* s, float* c) {
  *s = static_cast<float>(std::sin(x * 3.14159265358979323846));
  *c = static_cast<float>(std::cos(x * 3.14159265358979323846));
}
inline float sinpif(float x) { return static_cast<float>(std::sin(x * 3.14159265358979323846)); }
inline float cospif(float x) { return static_cast<float>(std::cos(x * 3.14159265358979323846)); }
inline float __expf(float x) { return std::exp(x); }
inline float __fdividef(float a, float b) { return a / b; }
inline int __popc(unsigned bits) { return __builtin_popcount(bits); }

using std::isfinite;
using std::isnan;

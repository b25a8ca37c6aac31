// Vectors of 16 bytes: how kernels read and write rows and stretches of one type at the memory's speed.
//
//   with_type(array.type, [&](auto of) {                      // once for each launch; false for other types
//     using T = decltype(of);                                 // float, __half or __nv_bfloat16
//     launch(kernel<T>, ...);
//   });
//   uint4 raw = vector_at(x, i);    // elements i .. i + per_vector<T> - 1, in one access
//   float values[per_vector<T>];
//   unpack<T>(raw, values);         // all that are needed are loaded before the first is unpacked
//
// Kernels on vectors index with 32 bits and divide by Divisor. If a pointer is not aligned, a width is not a
// whole number of vectors or a type is another, launchers take the kernels on elements (common.cuh).
#pragma once

#include <cstring>

#include "backends/cuda/kernels/common.cuh"

namespace boxcar::backends::cuda {

constexpr int vector_bytes = 16;
template <class T>
constexpr int per_vector = vector_bytes / static_cast<int>(sizeof(T));
constexpr int multiprocessors = 132;  // of an H100 or H200: grids that stay are whole multiples of it

// The units below are fewer than this, so that 32 bits hold them.
constexpr int64_t most_units = int64_t{1} << 31;

inline bool aligned(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer) % vector_bytes == 0; }
inline bool aligned(const Array& array) { return aligned(array.data); }

template <class Body>
bool with_type(Type type, Body body) {
  if (type == Type::float32) return body(float()), true;
  if (type == Type::float16) return body(__half()), true;
  if (type == Type::bfloat16) return body(__nv_bfloat16()), true;
  return false;
}
inline int64_t size_of(Type type) {
  switch (type) {
    case Type::float64:
    case Type::int64:
      return 8;
    case Type::float32:
    case Type::int32:
      return 4;
    case Type::float16:
    case Type::bfloat16:
      return 2;
    default:
      return 1;
  }
}
inline bool is_fast(Type type) {
  return type == Type::float32 || type == Type::float16 || type == Type::bfloat16;
}

template <class T>
__host__ __device__ T* pointer(const Array& array) {
  return static_cast<T*>(array.data);
}

// n / by for n below 2^31, as a multiplication (Granlund, Montgomery 1994: Division by invariant integers).
__device__ inline unsigned operator/(unsigned n, const Divisor& d) {
  return d.by == 1 ? n : __umulhi(n, d.multiplier) >> d.shift;
}

template <class T>
__device__ uint4 vector_at(const T* from, unsigned vector) {
  return reinterpret_cast<const uint4*>(from)[vector];
}
template <class T>
__device__ void put_vector(T* to, unsigned vector, const uint4& raw) {
  reinterpret_cast<uint4*>(to)[vector] = raw;
}

__device__ inline void unpack_pair(unsigned raw, float* to, float) { to[0] = __uint_as_float(raw); }
__device__ inline void unpack_pair(unsigned raw, float* to, __nv_bfloat16) {
  to[0] = __uint_as_float(raw << 16);
  to[1] = __uint_as_float(raw & 0xffff0000u);
}
__device__ inline void unpack_pair(unsigned raw, float* to, __half) {
  to[0] = __half2float(__ushort_as_half(static_cast<unsigned short>(raw)));
  to[1] = __half2float(__ushort_as_half(static_cast<unsigned short>(raw >> 16)));
}
template <class Pair>
__device__ unsigned bits_of(const Pair& pair) {
  unsigned bits = 0;
  memcpy(&bits, &pair, sizeof bits);
  return bits;
}
__device__ inline unsigned pack_pair(const float* from, float) { return __float_as_uint(from[0]); }
__device__ inline unsigned pack_pair(const float* from, __nv_bfloat16) {
  return bits_of(__floats2bfloat162_rn(from[0], from[1]));
}
__device__ inline unsigned pack_pair(const float* from, __half) {
  return bits_of(__floats2half2_rn(from[0], from[1]));
}

template <class T>
__device__ void unpack(const uint4& raw, float* to) {
  constexpr int n = per_vector<T> / 4;
  unpack_pair(raw.x, to, T());
  unpack_pair(raw.y, to + n, T());
  unpack_pair(raw.z, to + 2 * n, T());
  unpack_pair(raw.w, to + 3 * n, T());
}
template <class T>
__device__ uint4 pack(const float* from) {
  constexpr int n = per_vector<T> / 4;
  return make_uint4(pack_pair(from, T()), pack_pair(from + n, T()), pack_pair(from + 2 * n, T()),
                    pack_pair(from + 3 * n, T()));
}

__device__ inline float element(float x) { return x; }
__device__ inline float element(__half x) { return __half2float(x); }
__device__ inline float element(__nv_bfloat16 x) { return __bfloat162float(x); }
template <class T>
__device__ T rounded(float x);
template <>
__device__ inline float rounded(float x) {
  return x;
}
template <>
__device__ inline __half rounded(float x) {
  return __float2half_rn(x);
}
template <>
__device__ inline __nv_bfloat16 rounded(float x) {
  return __float2bfloat16_rn(x);
}

// Eight elements, as one vector or two: `group` counts eights.
constexpr int eight = 8;
template <class T>
struct Eight {
  static constexpr int vectors = eight / per_vector<T>;
  uint4 raw[vectors];

  __device__ void load(const T* from, unsigned group) {
#pragma unroll
    for (int v = 0; v < vectors; ++v) raw[v] = vector_at(from, group * vectors + v);
  }
  __device__ void store(T* to, unsigned group) const {
#pragma unroll
    for (int v = 0; v < vectors; ++v) put_vector(to, group * vectors + v, raw[v]);
  }
  __device__ void unpack_to(float* to) const {
#pragma unroll
    for (int v = 0; v < vectors; ++v) unpack<T>(raw[v], to + v * per_vector<T>);
  }
  __device__ void pack_from(const float* from) {
#pragma unroll
    for (int v = 0; v < vectors; ++v) raw[v] = pack<T>(from + v * per_vector<T>);
  }
};

// The sum, or maximum, of a row's threads: a warp, or a block (then every thread of it calls this).
template <int group>
__device__ float row_sum(float value) {
  if constexpr (group == 32) {
#pragma unroll
    for (int apart = 16; apart > 0; apart /= 2) value += __shfl_xor_sync(0xffffffffu, value, apart);
    return value;
  } else {
    return block_sum(value);
  }
}
// A NaN among them is the maximum.
template <int group>
__device__ float row_max(float value) {
  if constexpr (group == 32) {
#pragma unroll
    for (int apart = 16; apart > 0; apart /= 2) {
      const float other = __shfl_xor_sync(0xffffffffu, value, apart);
      value = other > value || other != other ? other : value;
    }
    return value;
  } else {
    return block_max(value);
  }
}

// Rows that fit into registers: a warp for each row of up to 4 vectors per lane, otherwise a block. Calls
// body(vectors of a thread, threads of a row) with both as constants; false if a row is longer.
template <int n>
struct Constant {
  static constexpr int value = n;
};
template <class Body>
bool with_row(int64_t vectors, Body body) {
  if (vectors <= 32) return body(Constant<1>(), Constant<32>()), true;
  if (vectors <= 96) return body(Constant<3>(), Constant<32>()), true;
  if (vectors <= 128) return body(Constant<4>(), Constant<32>()), true;
  if (vectors <= threads) return body(Constant<1>(), Constant<threads>()), true;
  if (vectors <= 2 * threads) return body(Constant<2>(), Constant<threads>()), true;
  if (vectors <= 4 * threads) return body(Constant<4>(), Constant<threads>()), true;
  return false;
}
// Blocks of a kernel whose blocks stay, with `group` threads per row, limited per multiprocessor.
inline unsigned row_blocks(int64_t rows, int group, int per_multiprocessor) {
  return blocks_for(rows, threads / group, multiprocessors * per_multiprocessor);
}

}  // namespace boxcar::backends::cuda

// CUDA's __nv_bfloat16: the upper half of a float.
#pragma once

#include <cstdint>

struct __nv_bfloat16 {
  uint16_t bits;
  __nv_bfloat16() = default;
  explicit __nv_bfloat16(float x);
  explicit operator float() const;
};

float __bfloat162float(__nv_bfloat16 x);
__nv_bfloat16 __float2bfloat16_rn(float x);
__nv_bfloat16 __double2bfloat16(double x);

inline __nv_bfloat16::__nv_bfloat16(float x) : __nv_bfloat16(__float2bfloat16_rn(x)) {}
inline __nv_bfloat16::operator float() const { return __bfloat162float(*this); }

struct __nv_bfloat162 {
  __nv_bfloat16 x, y;
};
inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y) {
  return {__float2bfloat16_rn(x), __float2bfloat16_rn(y)};
}

// CUDA's __half: one sign, five exponent and ten fraction bits.
#pragma once

#include <cstdint>

struct __half {
  uint16_t bits;
  __half() = default;
  explicit __half(float x);
  explicit operator float() const;
};

float __half2float(__half x);
__half __float2half_rn(float x);
__half __double2half(double x);

inline __half::__half(float x) : __half(__float2half_rn(x)) {}
inline __half::operator float() const { return __half2float(*this); }

struct __half2 {
  __half x, y;
};
inline __half2 __floats2half2_rn(float x, float y) { return {__float2half_rn(x), __float2half_rn(y)}; }
inline __half __ushort_as_half(unsigned short bits) {
  __half x;
  x.bits = bits;
  return x;
}

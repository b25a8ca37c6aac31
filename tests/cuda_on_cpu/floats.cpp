// Conversions of 16-bit floats, rounded to nearest even from the bits of a double, so that nothing rounds
// twice.
#include <cmath>
#include <cstring>

#include "cuda_bf16.h"
#include "cuda_fp16.h"

namespace {

// A float with `exponent` and `fraction` bits. Steps between neighbours are powers of two: x is counted in
// them, and nearbyint rounds the count.
template <int exponent, int fraction>
uint16_t narrowed(double x) {
  constexpr int bias = (1 << (exponent - 1)) - 1;
  constexpr uint16_t infinity = ((1 << exponent) - 1) << fraction;
  const uint16_t sign = std::signbit(x) ? 0x8000 : 0;
  if (std::isnan(x)) return sign | infinity | (1 << (fraction - 1));
  x = std::fabs(x);
  const int power = x < std::ldexp(1.0, 1 - bias) ? 1 - bias : std::ilogb(x);
  if (power > bias) return sign | infinity;
  const double steps = std::nearbyint(std::ldexp(x, fraction - power));
  // A count of 2^(fraction + 1) carries into the exponent, and past the largest exponent into infinity.
  return static_cast<uint16_t>(sign + ((power + bias - 1) << fraction) + static_cast<int>(steps));
}

__half half_of(double x) {
  __half result;
  result.bits = narrowed<5, 10>(x);
  return result;
}
__nv_bfloat16 bfloat16_of(double x) {
  __nv_bfloat16 result;
  result.bits = narrowed<8, 7>(x);
  return result;
}

}  // namespace

float __half2float(__half x) {
  const int power = x.bits >> 10 & 31, rest = x.bits & 1023;
  float result =
      std::ldexp(static_cast<float>(power == 0 ? rest : rest + 1024), (power == 0 ? 1 : power) - 25);
  if (power == 31) result = rest == 0 ? INFINITY : NAN;
  return x.bits & 0x8000 ? -result : result;
}
__half __float2half_rn(float x) { return half_of(x); }
__half __double2half(double x) { return half_of(x); }
float __bfloat162float(__nv_bfloat16 x) {
  const uint32_t bits = uint32_t{x.bits} << 16;
  float result = 0;
  std::memcpy(&result, &bits, sizeof result);
  return result;
}
__nv_bfloat16 __float2bfloat16_rn(float x) { return bfloat16_of(x); }
__nv_bfloat16 __double2bfloat16(double x) { return bfloat16_of(x); }

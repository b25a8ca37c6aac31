// Activations for kernels. In float they are polynomials without branches, so that loops over them become
// vector code; relative error below 1e-6. In double they are the reference's.
//
//   fast_exp(1.0f) == 2.7182817f     fast_gelu(-5.0f) == -1.4332584e-06f
//
// exp is 0 below 1.7e-38 and infinite above the largest float; NaN stays NaN. Coefficients were fitted for
// the least relative error: exp on |r| <= ln(2) / 2, tanh on |x| <= 0.625, and the normal distribution's tail
// Q(a) exp(a^2 / 2), a >= 0, as a polynomial in t = 1 / (1 + 0.26 a).
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "backends/cpu/reference_math.h"

namespace boxcar::backends::cpu {

// exp(high + low), low small compared with high: for arguments more precise than a float.
inline float fast_exp(float high, float low) {
  constexpr float kRound = 12582912.0F;  // 1.5 * 2^23: adding it rounds to an integer, in the low bits
  high = high < -88.0F ? -88.0F : high;  // NaN passes
  high = high > 89.0F ? 89.0F : high;
  const float shifted = high * 1.44269504F + kRound;
  const float n = shifted - kRound;
  const float r = ((high - n * 0.693359375F) + n * 2.12194440e-4F) + low;
  float p = 1.97892615e-4F;
  p = p * r + 1.39457523e-3F;
  p = p * r + 8.33350376e-3F;
  p = p * r + 4.16662803e-2F;
  p = p * r + 0.166666658F;
  p = p * r + 0.500000007F;
  p = p * (r * r) + r + 1.0F;
  // 2^(n - 1), then twice that, as n reaches 128. Its exponent bits, and so it, are 0 if n is -126 or less.
  const int32_t exponent = std::bit_cast<int32_t>(shifted) - std::bit_cast<int32_t>(kRound) + 126;
  const int32_t bits = (exponent < 0 ? 0 : exponent) << 23;
  return p * std::bit_cast<float>(bits) * 2.0F;
}

inline float fast_exp(float x) { return fast_exp(x, 0.0F); }
inline double fast_exp(double x) { return std::exp(x); }

inline float fast_sigmoid(float x) { return 1.0F / (1.0F + fast_exp(-x)); }
inline double fast_sigmoid(double x) { return sigmoid(x); }

inline float fast_tanh(float x) {
  const float a = std::abs(x), z = x * x;
  float p = -5.70498632e-3F;
  p = p * z + 2.06390866e-2F;
  p = p * z - 5.37397148e-2F;
  p = p * z + 0.133314422F;
  p = p * z - 0.333332819F;
  const float near = x + x * z * p;
  const float far = std::copysign(1.0F - 2.0F / (fast_exp(2.0F * a) + 1.0F), x);
  return a < 0.625F ? near : far;
}
inline double fast_tanh(double x) { return std::tanh(x); }

// The normal distribution: its cumulative probability and its density at x.
template <class A>
struct Normal {
  A below, density;
};

inline Normal<float> fast_normal(float x) {
  const float a = std::abs(x), t = 1.0F / (1.0F + 0.26F * a);
  // a^2 more precise than a float: the square of its upper 12 bits is exact.
  const float upper = std::bit_cast<float>(std::bit_cast<uint32_t>(a) & 0xfffff000U), lower = a - upper;
  const float e = fast_exp(-0.5F * upper * upper, -0.5F * lower * (a + upper));
  float p = 3.05048043e-2F;
  p = p * t - 0.15282847F;
  p = p * t + 0.251490631F;
  p = p * t - 0.150948293F;
  p = p * t + 0.160947444F;
  p = p * t + 5.10278378e-2F;
  p = p * t + 0.103030218F;
  p = p * t + 0.103016755F;
  p = p * t + 0.10375906F;
  const float tail = e * t * p;
  return {x < 0.0F ? tail : 1.0F - tail, 0.398942280F * e};
}
inline Normal<double> fast_normal(double x) { return {normal_cdf(x), normal_pdf(x)}; }

template <class A>
A fast_gelu(A x) {
  return x * fast_normal(x).below;
}

template <class A>
A fast_gelu_slope(A x) {
  const Normal<A> normal = fast_normal(x);
  return normal.below + x * normal.density;
}

template <class A>
A fast_gelu_tanh(A x) {
  return x * fast_sigmoid(A(gelu_steep) * (x + A(gelu_cubic) * x * x * x));
}

template <class A>
A fast_gelu_tanh_slope(A x) {
  const A s = fast_sigmoid(A(gelu_steep) * (x + A(gelu_cubic) * x * x * x));
  return s + x * s * (A(1) - s) * A(gelu_steep) * (A(1) + A(3 * gelu_cubic) * x * x);
}

template <class A>
A fast_silu(A x) {
  return x * fast_sigmoid(x);
}

template <class A>
A fast_silu_slope(A x) {
  const A s = fast_sigmoid(x);
  return s * (A(1) + x * (A(1) - s));
}

// Functions that the rows of ir/ops/pointwise_rows.h and optimizer_rows.h call.
struct FastMath {
  template <class A>
  static A exp(A x) {
    return fast_exp(x);
  }
  template <class A>
  static A log(A x) {
    return std::log(x);
  }
  template <class A>
  static A log1p(A x) {
    return std::log1p(x);
  }
  template <class A>
  static A sqrt(A x) {
    return std::sqrt(x);
  }
  template <class A>
  static A sin(A x) {
    return std::sin(x);
  }
  template <class A>
  static A cos(A x) {
    return std::cos(x);
  }
  template <class A>
  static A sigmoid(A x) {
    return fast_sigmoid(x);
  }
  template <class A>
  static A tanh(A x) {
    return fast_tanh(x);
  }
  template <class A>
  static A gelu(A x) {
    return fast_gelu(x);
  }
  template <class A>
  static A gelu_slope(A x) {
    return fast_gelu_slope(x);
  }
  template <class A>
  static A gelu_tanh(A x) {
    return fast_gelu_tanh(x);
  }
  template <class A>
  static A gelu_tanh_slope(A x) {
    return fast_gelu_tanh_slope(x);
  }
  template <class A>
  static A silu_grad(A dy, A x) {
    return dy * fast_silu_slope(x);
  }
  template <class A>
  static A corrected(A moment, A one_over_left) {
    return moment * one_over_left;
  }
};

}  // namespace boxcar::backends::cpu

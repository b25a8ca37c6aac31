// Activations and their slopes in double, for reference kernels. gelu is exact: x times the normal
// distribution function. gelu_tanh is x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2, computed as x
// sigmoid(2 sqrt(2 / pi) (x + 0.044715 x^3)).
//
//   gelu(1) == 0.8413..., gelu_tanh(1) == 0.8411..., silu(1) == 0.7310...
//
// Plain C++17 without other headers of Boxcar, because nvcc reads it too.
#pragma once

#include <cmath>

namespace boxcar::ir::exact {

inline double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
inline double silu(double x) { return x * sigmoid(x); }
inline double silu_slope(double x) { return sigmoid(x) * (1 + x * (1 - sigmoid(x))); }
inline double normal_cdf(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }
inline double normal_pdf(double x) { return std::exp(-0.5 * x * x) / std::sqrt(2 * M_PI); }
inline double gelu(double x) { return x * normal_cdf(x); }
constexpr double gelu_steep = 1.5957691216057308, gelu_cubic = 0.044715;  // 2 sqrt(2 / pi)
inline double gelu_tanh(double x) { return x * sigmoid(gelu_steep * (x + gelu_cubic * x * x * x)); }
inline double gelu_tanh_slope(double x) {
  const double s = sigmoid(gelu_steep * (x + gelu_cubic * x * x * x));
  return s + x * s * (1 - s) * gelu_steep * (1 + 3 * gelu_cubic * x * x);
}
inline double gelu_slope(double x) { return normal_cdf(x) + x * normal_pdf(x); }

}  // namespace boxcar::ir::exact

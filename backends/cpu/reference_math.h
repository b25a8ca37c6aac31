// Activations and their slopes, as more than one group of kernels needs them. gelu is the exact one, x times
// the normal distribution function, without the tanh approximation.
//
//   gelu(1) == 0.8413..., silu(1) == 0.7310...
#pragma once

#include <cmath>

namespace boxcar::backends::cpu {

inline double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
inline double silu(double x) { return x * sigmoid(x); }
inline double silu_slope(double x) { return sigmoid(x) * (1 + x * (1 - sigmoid(x))); }
inline double normal_cdf(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }
inline double normal_pdf(double x) { return std::exp(-0.5 * x * x) / std::sqrt(2 * M_PI); }
inline double gelu(double x) { return x * normal_cdf(x); }
inline double gelu_slope(double x) { return normal_cdf(x) + x * normal_pdf(x); }

}  // namespace boxcar::backends::cpu

// Pointwise ops of one operand, one row each. The row defines the registry's entries of the op and of its
// gradient, the gradient rule, whether the op may be a step of a fused op, the reference kernels, and the
// kernels and fused steps of the CPU and of CUDA (pointwise.h).
//
//   struct relu {
//     static constexpr PointwiseRow row = PointwiseRow("relu", Trend::increasing).costs(1, 1).reads_y();
//     static double exact(double x, double) { return x > 0 ? x : 0; }
//     static double exact_grad(double dy, double y, double) { return y > 0 ? dy : 0; }
//     BOXCAR_FORWARD(A x, P) { return x > A(0) ? x : A(0); }
//     BOXCAR_BACKWARD(A dy, A y, P) { return y > A(0) ? dy : A(0); }
//   };
//
// exact and exact_grad are the reference, in double. Kernels are compared with it, so it is written apart
// from FORWARD and BACKWARD, from which kernels are made. These compute in A, float or double, with functions
// of M: exp, log, log1p, sqrt, sin, cos, tanh, sigmoid, and faster forms of some rows here (FastMath of the
// CPU, DeviceMath of CUDA). On the CPU they become vector code, so they must have no loops, and no branches
// except a choice by value. The last argument is the op's parameter: a number or, for a choice, a value that
// converts to bool.
//
// Plain C++17 that includes only headers of the same kind, because nvcc reads it too.
#pragma once

#include <cmath>

#include "ir/ops/device_code.h"
#include "ir/ops/exact.h"

namespace boxcar::ir {

enum class Trend : char { neither, increasing, decreasing };

struct Multiples {  // values in a sample, as in ir::Domain
  double low = -4, high = 4, step = 1;
};

struct PointwiseRow {
  enum Reads : char { nothing, x, y };        // operand of the gradient besides dy
  enum Kind : char { none, choice, number };  // of parameter

  const char* name;
  Trend trend;
  bool linear = false;
  double flops = 1, grad_flops = 1;  // per element
  double tolerance = 0;              // law 1: relative; 0 if op and gradient are exact on small integers
  Reads grad_reads = nothing;
  bool has_grad_op = true;                  // false: ir/grad/elementwise.cpp makes the gradient of other ops
  Multiples values = {}, grad_values = {};  // in samples: of x, and of the tensor that the gradient reads
  Kind kind = none;
  const char* parameter = "";   // the name of its attribute; the op has no trend if its value is below 0
  double usual = 0, other = 0;  // its default, and another value for samples

  constexpr PointwiseRow(const char* op, Trend which) : name(op), trend(which) {}
  constexpr PointwiseRow is_linear() const {
    PointwiseRow r = *this;
    return r.linear = true, r;
  }
  constexpr PointwiseRow costs(double forward, double backward) const {
    PointwiseRow r = *this;
    return r.flops = forward, r.grad_flops = backward, r;
  }
  // The results are rounded. Samples hold multiples of `step`.
  constexpr PointwiseRow rounds(Multiples of_x) const {
    PointwiseRow r = *this;
    return r.tolerance = 1e-12, r.values = of_x, r;
  }
  constexpr PointwiseRow reads_x() const {
    PointwiseRow r = *this;
    return r.grad_reads = x, r.grad_values = values, r;
  }
  constexpr PointwiseRow reads_y(Multiples of_y = {}) const {
    PointwiseRow r = *this;
    return r.grad_reads = y, r.grad_values = of_y, r;
  }
  constexpr PointwiseRow without_grad_op() const {
    PointwiseRow r = *this;
    return r.has_grad_op = false, r;
  }
  constexpr PointwiseRow with_choice(const char* attr) const {
    PointwiseRow r = *this;
    return r.kind = choice, r.parameter = attr, r.other = 1, r;
  }
  constexpr PointwiseRow with_number(const char* attr, double by_default, double in_samples) const {
    PointwiseRow r = *this;
    return r.kind = number, r.parameter = attr, r.usual = by_default, r.other = in_samples, r;
  }
  constexpr Trend trend_at(double value) const { return value < 0 ? Trend::neither : trend; }
};

namespace pointwise {

constexpr Multiples fine{-4, 4, 0.25}, positive{0.5, 8, 0.5}, unit{0, 1, 0.125}, signed_unit{-1, 1, 0.125};

#define BOXCAR_FORWARD                 \
  template <class M, class A, class P> \
  BOXCAR_DEVICE static A forward
#define BOXCAR_BACKWARD                \
  template <class M, class A, class P> \
  BOXCAR_DEVICE static A backward

struct neg {
  static constexpr PointwiseRow row = PointwiseRow("neg", Trend::decreasing).is_linear().without_grad_op();
  static double exact(double x, double) { return -x; }
  BOXCAR_FORWARD(A x, P) { return -x; }
  BOXCAR_BACKWARD(A dy, A, P) { return -dy; }
};

struct exp {
  static constexpr PointwiseRow row =
      PointwiseRow("exp", Trend::increasing).costs(4, 1).rounds(fine).reads_y().without_grad_op();
  static double exact(double x, double) { return std::exp(x); }
  BOXCAR_FORWARD(A x, P) { return M::exp(x); }
  BOXCAR_BACKWARD(A dy, A y, P) { return dy * y; }
};

struct log {
  static constexpr PointwiseRow row =
      PointwiseRow("log", Trend::increasing).costs(4, 1).rounds(positive).reads_x().without_grad_op();
  static double exact(double x, double) { return std::log(x); }
  BOXCAR_FORWARD(A x, P) { return M::log(x); }
  BOXCAR_BACKWARD(A dy, A x, P) { return dy / x; }
};

struct sqrt {
  static constexpr PointwiseRow row =
      PointwiseRow("sqrt", Trend::increasing).costs(4, 2).rounds(positive).reads_y().without_grad_op();
  static double exact(double x, double) { return std::sqrt(x); }
  BOXCAR_FORWARD(A x, P) { return M::sqrt(x); }
  BOXCAR_BACKWARD(A dy, A y, P) { return A(0.5) * dy / y; }
};

struct sin {
  static constexpr PointwiseRow row = PointwiseRow("sin", Trend::neither).costs(8, 9).rounds(fine).reads_x();
  static double exact(double x, double) { return std::sin(x); }
  static double exact_grad(double dy, double x, double) { return dy * std::cos(x); }
  BOXCAR_FORWARD(A x, P) { return M::sin(x); }
  BOXCAR_BACKWARD(A dy, A x, P) { return dy * M::cos(x); }
};

struct cos {
  static constexpr PointwiseRow row = PointwiseRow("cos", Trend::neither).costs(8, 9).rounds(fine).reads_x();
  static double exact(double x, double) { return std::cos(x); }
  static double exact_grad(double dy, double x, double) { return -dy * std::sin(x); }
  BOXCAR_FORWARD(A x, P) { return M::cos(x); }
  BOXCAR_BACKWARD(A dy, A x, P) { return -dy * M::sin(x); }
};

struct relu {
  static constexpr PointwiseRow row = PointwiseRow("relu", Trend::increasing).reads_y();
  static double exact(double x, double) { return x < 0 ? 0 : x; }  // NaN stays
  static double exact_grad(double dy, double y, double) { return y > 0 ? dy : 0; }
  BOXCAR_FORWARD(A x, P) { return x < A(0) ? A(0) : x; }
  BOXCAR_BACKWARD(A dy, A y, P) { return y > A(0) ? dy : A(0); }
};

// The slope at the limit is 1, as in PyTorch.
struct clamp_min {
  static constexpr PointwiseRow row =
      PointwiseRow("clamp_min", Trend::increasing).with_number("min", 0, 1).reads_x();
  static double exact(double x, double min) { return x < min ? min : x; }
  static double exact_grad(double dy, double x, double min) { return x >= min ? dy : 0; }
  BOXCAR_FORWARD(A x, P min) { return x < A(min) ? A(min) : x; }
  BOXCAR_BACKWARD(A dy, A x, P min) { return x >= A(min) ? dy : A(0); }
};

struct clamp_max {
  static constexpr PointwiseRow row =
      PointwiseRow("clamp_max", Trend::increasing).with_number("max", 0, 2).reads_x();
  static double exact(double x, double max) { return x > max ? max : x; }
  static double exact_grad(double dy, double x, double max) { return x <= max ? dy : 0; }
  BOXCAR_FORWARD(A x, P max) { return x > A(max) ? A(max) : x; }
  BOXCAR_BACKWARD(A dy, A x, P max) { return x <= A(max) ? dy : A(0); }
};

// Left of zero alpha (exp(x) - 1), from t = tanh(x / 2) as alpha 2 t / (1 - t): exp(x) - 1 would lose small
// x. The slope at zero is alpha, as in PyTorch.
struct elu {
  static constexpr PointwiseRow row = PointwiseRow("elu", Trend::increasing)
                                          .costs(10, 6)
                                          .rounds(fine)
                                          .reads_x()
                                          .with_number("alpha", 1, 0.25);
  static double exact(double x, double alpha) { return x > 0 ? x : alpha * std::expm1(x); }
  static double exact_grad(double dy, double x, double alpha) {
    return x > 0 ? dy : dy * alpha * std::exp(x);
  }
  BOXCAR_FORWARD(A x, P alpha) {
    const A t = M::tanh(A(0.5) * (x > A(0) ? A(0) : x));
    return x > A(0) ? x : A(alpha) * A(2) * t / (A(1) - t);
  }
  BOXCAR_BACKWARD(A dy, A x, P alpha) { return x > A(0) ? dy : dy * A(alpha) * M::exp(x); }
};

// log(1 + exp(x)), without exponentials above 1.
struct softplus {
  static constexpr PointwiseRow row =
      PointwiseRow("softplus", Trend::increasing).costs(10, 7).rounds(fine).reads_x();
  static double exact(double x, double) { return std::fmax(x, 0) + std::log1p(std::exp(-std::fabs(x))); }
  static double exact_grad(double dy, double x, double) { return dy * exact::sigmoid(x); }
  BOXCAR_FORWARD(A x, P) { return (x < A(0) ? A(0) : x) + M::log1p(M::exp(x < A(0) ? x : -x)); }
  BOXCAR_BACKWARD(A dy, A x, P) { return dy * M::sigmoid(x); }
};

// gelu and silu are not monotone: both have a minimum left of zero. tanh: x (1 + tanh(sqrt(2 / pi) (x +
// 0.044715 x^3))) / 2 in place of gelu.
struct gelu {
  static constexpr PointwiseRow row =
      PointwiseRow("gelu", Trend::neither).costs(10, 15).rounds(fine).reads_x().with_choice("tanh");
  static double exact(double x, double tanh) { return tanh != 0 ? exact::gelu_tanh(x) : exact::gelu(x); }
  static double exact_grad(double dy, double x, double tanh) {
    return dy * (tanh != 0 ? exact::gelu_tanh_slope(x) : exact::gelu_slope(x));
  }
  BOXCAR_FORWARD(A x, P tanh) { return tanh ? M::gelu_tanh(x) : M::gelu(x); }
  BOXCAR_BACKWARD(A dy, A x, P tanh) { return dy * (tanh ? M::gelu_tanh_slope(x) : M::gelu_slope(x)); }
};

struct silu {
  static constexpr PointwiseRow row =
      PointwiseRow("silu", Trend::neither).costs(7, 10).rounds(fine).reads_x();
  static double exact(double x, double) { return exact::silu(x); }
  static double exact_grad(double dy, double x, double) { return dy * exact::silu_slope(x); }
  BOXCAR_FORWARD(A x, P) { return x * M::sigmoid(x); }
  BOXCAR_BACKWARD(A dy, A x, P) { return M::silu_grad(dy, x); }
};

struct tanh {
  static constexpr PointwiseRow row =
      PointwiseRow("tanh", Trend::increasing).costs(6, 3).rounds(fine).reads_y(signed_unit);
  static double exact(double x, double) { return std::tanh(x); }
  static double exact_grad(double dy, double y, double) { return dy * (1 - y * y); }
  BOXCAR_FORWARD(A x, P) { return M::tanh(x); }
  BOXCAR_BACKWARD(A dy, A y, P) { return dy * (A(1) - y * y); }
};

struct sigmoid {
  static constexpr PointwiseRow row =
      PointwiseRow("sigmoid", Trend::increasing).costs(6, 3).rounds(fine).reads_y(unit);
  static double exact(double x, double) { return exact::sigmoid(x); }
  static double exact_grad(double dy, double y, double) { return dy * y * (1 - y); }
  BOXCAR_FORWARD(A x, P) { return M::sigmoid(x); }
  BOXCAR_BACKWARD(A dy, A y, P) { return dy * y * (A(1) - y); }
};

#undef BOXCAR_FORWARD
#undef BOXCAR_BACKWARD

}  // namespace pointwise

// Every row, in the order in which messages list them.
#define BOXCAR_POINTWISE(ROW) \
  ROW(neg)                    \
  ROW(exp)                    \
  ROW(log)                    \
  ROW(sqrt)                   \
  ROW(sin)                    \
  ROW(cos)                    \
  ROW(relu)                   \
  ROW(clamp_min)              \
  ROW(clamp_max)              \
  ROW(elu)                    \
  ROW(softplus)               \
  ROW(gelu)                   \
  ROW(silu)                   \
  ROW(tanh)                   \
  ROW(sigmoid)

}  // namespace boxcar::ir

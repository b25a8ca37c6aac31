// Optimizers, one row each. The row defines the ops for one tensor and for many, the ops that the pass adds
// to a graph and the state that it keeps, the word in a job, and the kernels of the CPU and of CUDA
// (optimizers.h).
//
//   struct momentum {
//     static constexpr OptimizerRow row = OptimizerRow("momentum", 1).costs(4).with("momentum", 0.9);
//     static void exact(const Rates<double>& r, double g, double* s) {
//       s[1] = r.number[0] * s[1] + g + r.decay * s[0];
//       s[0] = s[0] - r.lr * s[1];
//     }
//     BOXCAR_UPDATE(const Rates<A>& r, A g, A* s) { ... the same ... }
//   };
//
// The state s of an element is its weight, then the moments; g is its gradient, times the factor for clipping
// and the loss scale. exact is the reference that kernels are compared with, so it is written apart from
// UPDATE, from which kernels are made. UPDATE computes in A, float or double, with functions of M (sqrt,
// corrected). On the CPU it becomes vector code, so it must have no loops, and no branches except a choice by
// value.
//
// A row with a trust ratio scales the step of a tensor by norms over the whole tensor. A device may hold only
// a part of it. So an op before the update sums squares of weights and of the other value that the row
// measures:
//
//   w (3, 4), lr 0.5, direction (6, 8)          on two devices, one element each
//   lamb_norms(w, g, m, v, scale?) -> norms     (9, 36) and (16, 64), of the layout P
//   all-reduce                                  (25, 100): norms 5 and 10, their ratio 1/2
//   lamb(w, g, m, v, norms, scale?, finite?)    r.trust = 1/2: w = (3, 4) - 0.5 * 1/2 * (6, 8)
//
// The direction is computed twice, from the same state, so no tensor of it is kept. Vectors (biases, the
// weights of norms) have no ratio and no decay; the row named in trusts() updates them. The code of LAMB's
// authors does the same (google-research/albert, lamb_optimizer.py: exclude_from_layer_adaptation defaults to
// the parameters excluded from decay, LayerNorm and biases). apex and timm also leave out parameters that do
// not decay.
//
// A factored row (adafactor) keeps moments of other shapes. Other ops make the direction of a step from them
// (ir/passes/factored.cpp), so the row takes a direction in place of a gradient.
//
// Plain C++17 that includes only headers of the same kind, because nvcc reads it too.
#pragma once

#include <cmath>
#include <cstdint>

#include "ir/ops/device_code.h"

namespace boxcar::ir {

struct OptimizerRow {
  static constexpr int most_moments = 2, most_numbers = 4;
  struct Number {  // an attribute and its default, also a job's if TrainOptions has a field of that name
    const char* name = "";
    double value = 0;
  };

  const char* name;
  int moments;          // tensors of the weight's shape (TrainOptions::moments): m, then v
  bool linear = false;  // linear in weight, gradient and moments together
  double flops = 1;     // per element, including decay
  double rate = 0.01;   // learning rate of an op by itself, as in tests; a job always gives its own
  bool counts = false;  // counts steps, to correct moments that began at zero
  int positive = 0;     // the moment that is never negative, counted from 1; 0: none
  const char* of_vectors = nullptr;  // with a trust ratio: the row that updates vectors,
  int measured_moments = 0;          // and how many moments the ratio depends on
  bool factored = false;             // takes a direction
  int numbers = 0;
  Number number[most_numbers] = {};

  constexpr OptimizerRow(const char* op, int state) : name(op), moments(state) {}
  constexpr OptimizerRow is_linear() const {
    OptimizerRow r = *this;
    return r.linear = true, r;
  }
  constexpr OptimizerRow costs(double of_element) const {
    OptimizerRow r = *this;
    return r.flops = of_element, r;
  }
  constexpr OptimizerRow at_rate(double lr) const {
    OptimizerRow r = *this;
    return r.rate = lr, r;
  }
  constexpr OptimizerRow counts_steps() const {
    OptimizerRow r = *this;
    return r.counts = true, r;
  }
  constexpr OptimizerRow never_negative(int moment) const {
    OptimizerRow r = *this;
    return r.positive = moment, r;
  }
  constexpr OptimizerRow trusts(const char* row_of_vectors, int moments_measured) const {
    OptimizerRow r = *this;
    return r.of_vectors = row_of_vectors, r.measured_moments = moments_measured, r;
  }
  constexpr bool has_trust() const { return of_vectors != nullptr; }
  constexpr OptimizerRow is_factored() const {
    OptimizerRow r = *this;
    return r.factored = true, r;
  }
  // Whether it can update some rows of a table alone.
  constexpr bool takes_rows() const { return !has_trust() && !factored; }
  constexpr OptimizerRow with(const char* attr, double by_default) const {
    OptimizerRow r = *this;
    return r.number[r.numbers].name = attr, r.number[r.numbers++].value = by_default, r;
  }
};

// The numbers of one step, the same for all elements. `left` of a row that counts steps is 1 - number^steps:
// dividing a moment that began at zero by it corrects the moment.
template <class A>
struct Rates {
  static constexpr int most = OptimizerRow::most_numbers;
  A lr, decay;
  A number[most], rest[most];  // of the row; 1 minus that
  A left[most];                // in UPDATE: the argument of M::corrected, on the CPU its reciprocal
  A trust = 1;                 // of a tensor, from its norms
};

namespace optimizers {

#define BOXCAR_UPDATE         \
  template <class M, class A> \
  BOXCAR_DEVICE static void update

struct sgd {
  static constexpr OptimizerRow row = OptimizerRow("sgd", 0).is_linear().costs(2);
  static void exact(const Rates<double>& r, double g, double* s) {
    s[0] = s[0] - r.lr * (g + r.decay * s[0]);
  }
  BOXCAR_UPDATE(const Rates<A>& r, A g, A* s) { s[0] = s[0] - r.lr * (g + r.decay * s[0]); }
};

struct momentum {
  static constexpr OptimizerRow row = OptimizerRow("momentum", 1).is_linear().costs(4).with("momentum", 0.9);
  static void exact(const Rates<double>& r, double g, double* s) {
    s[1] = r.number[0] * s[1] + g + r.decay * s[0];
    s[0] = s[0] - r.lr * s[1];
  }
  BOXCAR_UPDATE(const Rates<A>& r, A g, A* s) {
    s[1] = r.number[0] * s[1] + g + r.decay * s[0];
    s[0] = s[0] - r.lr * s[1];
  }
};

// Decoupled weight decay (AdamW), bias-corrected.
struct adam {
  static constexpr OptimizerRow row = OptimizerRow("adam", 2)
                                          .costs(14)
                                          .at_rate(1e-4)
                                          .with("beta1", 0.9)
                                          .with("beta2", 0.999)
                                          .with("eps", 1e-8)
                                          .counts_steps()
                                          .never_negative(2);
  static void exact(const Rates<double>& r, double g, double* s) {
    s[1] = r.number[0] * s[1] + r.rest[0] * g;
    s[2] = r.number[1] * s[2] + r.rest[1] * g * g;
    const double direction = s[1] / r.left[0] / (std::sqrt(s[2] / r.left[1]) + r.number[2]);
    s[0] = s[0] - r.lr * (direction + r.decay * s[0]);
  }
  BOXCAR_UPDATE(const Rates<A>& r, A g, A* s) {
    s[1] = r.number[0] * s[1] + r.rest[0] * g;
    s[2] = r.number[1] * s[2] + r.rest[1] * g * g;
    const A direction =
        M::corrected(s[1], r.left[0]) / (M::sqrt(M::corrected(s[2], r.left[1])) + r.number[2]);
    s[0] = s[0] - r.lr * (direction + r.decay * s[0]);
  }
};

// Adagrad (Duchi, Hazan and Singer 2011) as in PyTorch and DeepSpeed: squares of gradients accumulate from
// zero, and weight decay is part of the gradient.
struct adagrad {
  static constexpr OptimizerRow row =
      OptimizerRow("adagrad", 1).costs(8).with("eps", 1e-10).never_negative(1);
  static void exact(const Rates<double>& r, double g, double* s) {
    const double slope = g + r.decay * s[0];
    s[1] = s[1] + slope * slope;
    s[0] = s[0] - r.lr * slope / (std::sqrt(s[1]) + r.number[0]);
  }
  BOXCAR_UPDATE(const Rates<A>& r, A g, A* s) {
    const A slope = g + r.decay * s[0];
    s[1] = s[1] + slope * slope;
    s[0] = s[0] - r.lr * slope / (M::sqrt(s[1]) + r.number[0]);
  }
};

// Lion (Chen et al. 2023, arXiv:2302.06675): the sign of a blend of moment and gradient, decoupled weight
// decay. The blend takes beta1, and the moment that is kept takes beta2. Where the two cancel to a millionth,
// rounding alone decides the sign; then there is no step.
struct lion {
  static constexpr OptimizerRow row =
      OptimizerRow("lion", 1).costs(14).at_rate(1e-4).with("beta1", 0.9).with("beta2", 0.99);
  static void exact(const Rates<double>& r, double g, double* s) {
    const double kept = r.number[0] * s[1], fresh = r.rest[0] * g, blend = kept + fresh;
    const bool cancels = std::abs(blend) <= 1e-6 * (std::abs(kept) + std::abs(fresh));
    const double sign = cancels ? 0 : std::isnan(blend) ? blend : std::copysign(1.0, blend);
    s[0] = s[0] - r.lr * (sign + r.decay * s[0]);
    s[1] = r.number[1] * s[1] + r.rest[1] * g;
  }
  BOXCAR_UPDATE(const Rates<A>& r, A g, A* s) {
    const A kept = r.number[0] * s[1], fresh = r.rest[0] * g, blend = kept + fresh;
    const A noise = A(1e-6) * ((kept < 0 ? -kept : kept) + (fresh < 0 ? -fresh : fresh));
    const A sign = blend > noise ? A(1) : blend < -noise ? A(-1) : blend - blend;  // of NaN: NaN
    s[0] = s[0] - r.lr * (sign + r.decay * s[0]);
    s[1] = r.number[1] * s[1] + r.rest[1] * g;
  }
};

// For a trust ratio: the measured value of an element, and the ratio from the norms of the weights and of
// those values.
#define BOXCAR_MEASURED       \
  template <class M, class A> \
  BOXCAR_DEVICE static A measured
#define BOXCAR_TRUST \
  template <class A> \
  BOXCAR_DEVICE static A trust

// LARS (You et al. 2017, arXiv:1708.03888): momentum, with steps whose length is the coefficient (0.001 in
// the paper) times the weights' norm. The learning rate is not part of the moment, as in apex's LARC and
// timm, and eps is theirs. A tensor whose weights or gradients are zero has a ratio of 1, as there.
struct lars {
  static constexpr OptimizerRow row = OptimizerRow("lars", 1)
                                          .is_linear()
                                          .costs(6)
                                          .with("momentum", 0.9)
                                          .with("trust_coefficient", 0.001)
                                          .with("eps", 1e-8)
                                          .trusts("momentum", 0);
  static double exact_measured(const Rates<double>&, double g, const double*) { return g; }
  static void exact(const Rates<double>& r, double g, double* s) {
    s[1] = r.number[0] * s[1] + r.trust * (g + r.decay * s[0]);
    s[0] = s[0] - r.lr * s[1];
  }
  BOXCAR_MEASURED(const Rates<A>&, A g, const A*) { return g; }
  BOXCAR_TRUST(const Rates<A>& r, A w, A g) {
    return w > 0 && g > 0 ? r.number[1] * w / (g + r.decay * w + r.number[2]) : A(1);
  }
  BOXCAR_UPDATE(const Rates<A>& r, A g, A* s) {
    s[1] = r.number[0] * s[1] + r.trust * (g + r.decay * s[0]);
    s[0] = s[0] - r.lr * s[1];
  }
};

// LAMB (You et al. 2019, arXiv:1904.00962): Adam's direction plus the decay, scaled to the weights' norm. eps
// is the authors', apex's and timm's. A tensor of zeros, or one whose direction is zero, has a ratio of 1.
struct lamb {
  static constexpr OptimizerRow row = OptimizerRow("lamb", 2)
                                          .costs(16)
                                          .at_rate(1e-3)
                                          .with("beta1", 0.9)
                                          .with("beta2", 0.999)
                                          .with("eps", 1e-6)
                                          .counts_steps()
                                          .never_negative(2)
                                          .trusts("adam", 2);
  static double exact_measured(const Rates<double>& r, double g, const double* s) {
    const double m = r.number[0] * s[1] + r.rest[0] * g, v = r.number[1] * s[2] + r.rest[1] * g * g;
    return m / r.left[0] / (std::sqrt(v / r.left[1]) + r.number[2]) + r.decay * s[0];
  }
  static void exact(const Rates<double>& r, double g, double* s) {
    const double direction = exact_measured(r, g, s);
    s[1] = r.number[0] * s[1] + r.rest[0] * g;
    s[2] = r.number[1] * s[2] + r.rest[1] * g * g;
    s[0] = s[0] - r.lr * r.trust * direction;
  }
  BOXCAR_MEASURED(const Rates<A>& r, A g, const A* s) {
    const A m = r.number[0] * s[1] + r.rest[0] * g, v = r.number[1] * s[2] + r.rest[1] * g * g;
    return M::corrected(m, r.left[0]) / (M::sqrt(M::corrected(v, r.left[1])) + r.number[2]) + r.decay * s[0];
  }
  BOXCAR_TRUST(const Rates<A>&, A w, A direction) { return w > 0 && direction > 0 ? w / direction : A(1); }
  BOXCAR_UPDATE(const Rates<A>& r, A g, A* s) {
    const A direction = measured<M>(r, g, s);
    s[1] = r.number[0] * s[1] + r.rest[0] * g;
    s[2] = r.number[1] * s[2] + r.rest[1] * g * g;
    s[0] = s[0] - r.lr * r.trust * direction;
  }
};

// Adafactor (Shazeer and Stern 2018, arXiv:1804.04235) with a given learning rate, without a first moment,
// and with decoupled weight decay, as transformers' Adafactor(scale_parameter=False, relative_step=False).
struct adafactor {
  static constexpr OptimizerRow row =
      OptimizerRow("adafactor", 0).is_linear().costs(3).at_rate(1e-3).is_factored();
  static void exact(const Rates<double>& r, double direction, double* s) {
    s[0] = s[0] - r.lr * (direction + r.decay * s[0]);
  }
  BOXCAR_UPDATE(const Rates<A>& r, A direction, A* s) { s[0] = s[0] - r.lr * (direction + r.decay * s[0]); }
};

#undef BOXCAR_TRUST
#undef BOXCAR_MEASURED
#undef BOXCAR_UPDATE

}  // namespace optimizers

// Every row, in the order in which messages list them.
#define BOXCAR_OPTIMIZERS(ROW) \
  ROW(sgd)                     \
  ROW(momentum)                \
  ROW(adam)                    \
  ROW(adagrad)                 \
  ROW(lion)                    \
  ROW(lars)                    \
  ROW(lamb)                    \
  ROW(adafactor)

#define BOXCAR_NAME(optimizer) optimizer,
enum class Optimizer : uint8_t { BOXCAR_OPTIMIZERS(BOXCAR_NAME) };
#undef BOXCAR_NAME

}  // namespace boxcar::ir

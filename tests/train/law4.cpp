#include "law4.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "ir/ops/optimizers.h"

namespace boxcar::tests {
namespace {

constexpr int steps = 20;
constexpr double of_float64 = 1e-9, of_float32 = 1e-5, of_16_bits = 1e-3, of_rounding = 8;

ir::TrainOptions options_of(ir::Optimizer optimizer, ir::Precision precision) {
  ir::TrainOptions options;
  ir::set_optimizer(options, optimizer);
  options.precision = precision;
  const std::map<ir::Optimizer, double> rates = {{ir::Optimizer::sgd, 0.5},   {ir::Optimizer::momentum, 0.1},
                                                 {ir::Optimizer::adam, 0.01}, {ir::Optimizer::adagrad, 0.01},
                                                 {ir::Optimizer::lars, 5},    {ir::Optimizer::lamb, 0.01}};
  options.learning_rate = rates.at(optimizer);
  options.weight_decay = 0.01;
  options.clip_norm = 0.5;
  return options;
}

double largest(const std::vector<double>& values) {
  double most = 0;
  for (double value : values) most = std::max(most, std::abs(value));
  return most;
}

double mean(const std::vector<double>& values, int begin, int end) {
  return std::accumulate(values.begin() + begin, values.begin() + end, 0.0) / (end - begin);
}

void expect_rounding(const Outcome& got, const Outcome& alone, const Outcome& exact, double tolerance,
                     bool weights) {
  const auto allowed = [&](double moved, const std::vector<double>& values) {
    return of_rounding * moved + tolerance * largest(values);
  };
  EXPECT_LE(loss_distance(got, exact), allowed(loss_distance(alone, exact), exact.losses)) << "losses";
  if (!weights) return;
  for (const auto& [name, tensor] : exact.state)
    EXPECT_LE(distance(got.state.at(name), tensor),
              allowed(distance(alone.state.at(name), tensor), tensor.data))
        << name;
}

// One device's outcome in float64, from a run that must learn something.
Outcome exact_outcome(const Laying& alone, const Start& start, ir::Optimizer optimizer) {
  Outcome exact = train(alone(options_of(optimizer, ir::Precision::fp64)), start, steps);
  EXPECT_LT(mean(exact.losses, steps / 2, steps), mean(exact.losses, 0, steps / 2)) << "nothing is learned";
  return exact;
}

}  // namespace

void expect_law_4(const Laying& plan, const Laying& alone, const Start& start, const Optimizers& optimizers) {
  for (const ir::Optimizer optimizer : optimizers) {
    const bool divides = ir::row_of(optimizer).positive > 0;
    SCOPED_TRACE(ir::row_of(optimizer).name);
    const ir::TrainOptions wide = options_of(optimizer, ir::Precision::fp64);
    const ir::TrainOptions narrow = options_of(optimizer, ir::Precision::fp32);
    const Outcome exact = exact_outcome(alone, start, optimizer);
    {
      SCOPED_TRACE("float64");
      expect_same(train(plan(wide), start, steps), exact, of_float64);
    }
    SCOPED_TRACE("float32");
    expect_rounding(train(plan(narrow), start, steps), train(alone(narrow), start, steps), exact, of_float32,
                    !divides);
  }
}

void expect_law_4_in_16_bits(ir::Precision precision, const Laying& plan, const Laying& alone,
                             const Start& start) {
  const ir::TrainOptions options = options_of(ir::Optimizer::adam, precision);
  const Outcome exact = exact_outcome(alone, start, ir::Optimizer::adam);
  expect_rounding(train(plan(options), start, steps), train(alone(options), start, steps), exact, of_16_bits,
                  false);
}

}  // namespace boxcar::tests

// float activations against the reference's in double.
#include "backends/cpu/fast_math.h"

#include <gtest/gtest.h>

#include <limits>

#include "ir/ops/pointwise_rows.h"

namespace boxcar::backends::cpu {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity(),
                kNaN = std::numeric_limits<float>::quiet_NaN();

// The largest relative error over floats of both signs between `least` and `most` whose results are normal
// numbers.
template <class Fast, class Exact>
double worst(float least, float most, Fast fast, Exact exact) {
  double worst = 0;
  for (float a = least; a < most; a *= 1.0003F) {
    for (const float x : {a, -a}) {
      const double want = exact(static_cast<double>(x)), got = static_cast<double>(fast(x));
      if (std::abs(want) < 1e-36 || std::abs(want) > 3e38) continue;
      worst = std::max(worst, std::abs(got - want) / std::abs(want));
    }
  }
  return worst;
}

double exact_exp(double x) { return std::exp(x); }
double exact_tanh(double x) { return std::tanh(x); }

TEST(FastMath, IsWithinAMillionth) {
  const auto fast_exp_of = [](float x) { return fast_exp(x); };
  EXPECT_LT(worst(1e-20F, 100, fast_exp_of, exact_exp), 3e-7);
  EXPECT_LT(worst(
                1e-20F, 100, [](float x) { return fast_tanh(x); }, exact_tanh),
            5e-7);
  EXPECT_LT(worst(
                1e-20F, 80, [](float x) { return fast_sigmoid(x); }, sigmoid),
            5e-7);
  EXPECT_LT(worst(
                1e-20F, 80, [](float x) { return fast_silu(x); }, silu),
            5e-7);
  EXPECT_LT(worst(
                1e-20F, 12.5F, [](float x) { return fast_gelu(x); }, gelu),
            1e-6);
  EXPECT_LT(worst(
                1e-20F, 1e20F, [](float x) { return ir::pointwise::elu::forward<FastMath>(x, 1.0F); },
                [](double x) { return ir::pointwise::elu::exact(x, 1); }),
            1e-6);
  EXPECT_LT(worst(
                1e-20F, 80, [](float x) { return ir::pointwise::softplus::forward<FastMath>(x, false); },
                [](double x) { return ir::pointwise::softplus::exact(x, 0); }),
            1e-6);
}

// A slope near zero is the difference of two numbers: its error is relative to those.
TEST(FastMath, SlopesAreWithinAMillionthOfTheirTerms) {
  for (float x = -12; x < 12; x += 0.001F) {
    const double v = static_cast<double>(x);
    ASSERT_NEAR(static_cast<double>(fast_gelu_slope(x)), gelu_slope(v),
                1e-6 * (normal_cdf(v) + std::abs(v) * normal_pdf(v)));
    ASSERT_NEAR(static_cast<double>(fast_silu_slope(x)), silu_slope(v),
                1e-6 * sigmoid(v) * (1 + std::abs(v)));
  }
}

TEST(FastMath, KeepsWhatIsNoNumber) {
  EXPECT_EQ(fast_exp(-kInfinity), 0.0F);
  EXPECT_EQ(fast_exp(kInfinity), kInfinity);
  EXPECT_EQ(fast_exp(-200.0F), 0.0F);
  EXPECT_EQ(fast_exp(89.0F), kInfinity);
  EXPECT_EQ(fast_exp(0.0F), 1.0F);
  EXPECT_EQ(fast_tanh(kInfinity), 1.0F);
  EXPECT_EQ(fast_tanh(-kInfinity), -1.0F);
  EXPECT_EQ(fast_sigmoid(-kInfinity), 0.0F);
  EXPECT_EQ(fast_sigmoid(kInfinity), 1.0F);
  EXPECT_EQ(fast_gelu(0.0F), 0.0F);
  EXPECT_EQ(fast_gelu(50.0F), 50.0F);
  for (const auto function :
       {+[](float x) { return fast_exp(x); }, +[](float x) { return fast_tanh(x); },
        +[](float x) { return fast_sigmoid(x); }, +[](float x) { return fast_gelu(x); },
        +[](float x) { return fast_silu_slope(x); }, +[](float x) { return fast_gelu_slope(x); }})
    EXPECT_TRUE(std::isnan(function(kNaN)));
}

}  // namespace
}  // namespace boxcar::backends::cpu

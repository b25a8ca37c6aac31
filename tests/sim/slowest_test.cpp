#include "sim/models/slowest.h"

#include <gtest/gtest.h>

namespace boxcar::sim {
namespace {

// Means of normal order statistics, from tables: Harter 1961, Biometrika 48; 1 / sqrt(pi) for two.
TEST(Slowest, IsTheMeanOfTheLargestOfNormalDraws) {
  EXPECT_NEAR(slowest_of(1), 0, 1e-4);
  EXPECT_NEAR(slowest_of(2), 0.56419, 1e-4);
  EXPECT_NEAR(slowest_of(8), 1.42360, 1e-4);
  EXPECT_NEAR(slowest_of(100), 2.50759, 1e-4);
  EXPECT_NEAR(slowest_of(1000), 3.24144, 1e-4);
}

TEST(Slowest, GrowsWithTheCount) {
  for (int count = 1; count <= 1 << 20; count *= 2) EXPECT_GT(slowest_of(2 * count), slowest_of(count));
}

}  // namespace
}  // namespace boxcar::sim

#include "cli/train_log.h"

#include <gtest/gtest.h>

namespace boxcar::cli {
namespace {

TEST(LossChart, FallsFromLeftToRight) {
  EXPECT_EQ(loss_chart({{1, 4.0}, {2, 3.0}, {3, 2.0}, {4, 1.0}}, 64, 4),
            "   4.000 |*\n"
            "         | *\n"
            "         |  *\n"
            "   1.000 |   *\n"
            "    step  1  4\n");
  EXPECT_EQ(loss_chart({{1, 4.0}}), "");
}

TEST(Duration, ReadsAsOnAClock) {
  EXPECT_EQ(format_duration(4.6), "5 s");
  EXPECT_EQ(format_duration(125), "2:05");
  EXPECT_EQ(format_duration(3725), "1:02:05");
}

}  // namespace
}  // namespace boxcar::cli

// A command's time budget: shares of it, and the part kept for its end. The test sets the clock.
#include "cli/time_budget.h"

#include <gtest/gtest.h>

#include <limits>

namespace boxcar::cli {
namespace {

TEST(TimeBudget, KeepsWhatTheEndTakes) {
  double now = 0;
  TimeBudget budget(5, [&] { return now; });
  now = 4.9;
  EXPECT_FALSE(budget.is_spent());
  EXPECT_TRUE(budget.is_spent(0.5));
  budget.keep(0.2);
  EXPECT_TRUE(budget.is_spent());
  budget.keep(0.05);  // the largest counts
  EXPECT_TRUE(budget.is_spent());
  now = 4.7;
  EXPECT_FALSE(budget.is_spent());
}

TEST(TimeBudget, IsSharedByWhatIsLeftToDo) {
  double now = 1;
  TimeBudget budget(9, [&] { return now; });
  budget.begin_share(2);  // from 1 to 5
  now = 2.9;
  EXPECT_FALSE(budget.is_spent(0.5));
  now = 3;
  EXPECT_TRUE(budget.is_spent(0.5));
  EXPECT_FALSE(budget.is_spent());
  now = 5;
  EXPECT_TRUE(budget.is_spent());
  budget.begin_share(1);  // from 5 to 9
  EXPECT_FALSE(budget.is_spent(0.5));
  now = 8;
  EXPECT_TRUE(budget.is_spent(0.5));
  EXPECT_FALSE(budget.is_spent());
}

TEST(TimeBudget, MayHaveNoEnd) {
  TimeBudget budget(std::numeric_limits<double>::infinity(), [] { return 1e9; });
  budget.begin_share(2);
  budget.keep(1e9);
  EXPECT_FALSE(budget.is_spent());
  EXPECT_FALSE(budget.is_spent(0.5));
}

}  // namespace
}  // namespace boxcar::cli

// docs/examples/train_plan.cpp trains: its losses are numbers and fall.
#include <gtest/gtest.h>

#include <cstdio>
#include <vector>

namespace boxcar {
namespace {

TEST(Example, TrainsWithoutTheCommandLine) {
  FILE* pipe = popen("'" BOXCAR_EXAMPLES "/train_plan' '" BOXCAR_SOURCE_DIR "/README.md'", "r");
  ASSERT_NE(pipe, nullptr);
  std::vector<double> losses;
  int step = 0;
  for (double loss = 0; fscanf(pipe, "step %d: loss %lf\n", &step, &loss) == 2;) losses.push_back(loss);
  EXPECT_EQ(pclose(pipe), 0);
  ASSERT_EQ(losses.size(), 20u);
  EXPECT_EQ(step, 20);
  EXPECT_LT(losses.back(), losses.front() - 1);
}

}  // namespace
}  // namespace boxcar

#include "sim/explain/step_profile.h"

#include <gtest/gtest.h>

#include <random>

namespace boxcar::explain {
namespace {

double of(const StepProfile& profile, WorkClass work) { return profile.seconds[static_cast<size_t>(work)]; }

TEST(StepProfile, ExposesWhatNoKernelHides) {
  const StepProfile p = profile_of({{0, 3, WorkClass::products}, {2, 4, WorkClass::collectives}}, 0, 5, 1);
  EXPECT_DOUBLE_EQ(p.step, 5);
  EXPECT_DOUBLE_EQ(of(p, WorkClass::products), 3);
  EXPECT_DOUBLE_EQ(of(p, WorkClass::collectives), 2);
  EXPECT_DOUBLE_EQ(p.exposed, 1);
  EXPECT_DOUBLE_EQ(p.idle, 1);
}

// Kernels that any kernel covers, exposed communication and idle time are the whole step.
TEST(StepProfile, PartsAreTheStep) {
  std::mt19937 random(3);
  std::uniform_real_distribution<double> time(-1, 11);
  for (int i = 0; i < 200; ++i) {
    std::vector<Span> spans, kernels;
    for (int n = static_cast<int>(random() % 20); n >= 0; --n) {
      const double a = time(random), b = time(random);
      spans.push_back({std::min(a, b), std::max(a, b), static_cast<WorkClass>(random() % work_classes)});
      if (spans.back().work <= WorkClass::kernels) kernels.push_back(spans.back());
    }
    const StepProfile all = profile_of(spans, 0, 10, 2), alone = profile_of(kernels, 0, 10, 2);
    EXPECT_NEAR(all.step, 5, 1e-12);
    EXPECT_GE(all.exposed, -1e-12);
    EXPECT_GE(all.idle, -1e-12);
    EXPECT_NEAR(alone.idle, all.idle + all.exposed, 1e-9);
  }
}

}  // namespace
}  // namespace boxcar::explain

// Labels of the plans that a search simulated.
#include "cli/simulated_plans.h"

#include <gtest/gtest.h>

#include "sbp/error.h"

namespace boxcar::tests {
namespace {

TEST(SimulatedPlans, LabelsReadBack) {
  const std::vector<cli::SimulatedPlan> plans{
      {8.87, 66'200'000'000, 512, false, "--dp 32 --tp 8 --pp 2"},
      {0.1 + 0.2, 1, 8, true, "--mesh-order pp,dp,cp,tp: odd, s, bytes"}};
  std::map<std::string, std::string> labels{{"search.runner_up.1", "no such plan"}};
  add_labels(plans, labels);
  EXPECT_EQ(labels["search.simulated.00"],
            "8.87 s, 66200000000 bytes, 512 GPUs, layouts by hints: --dp 32 --tp 8 --pp 2");
  EXPECT_EQ(cli::simulated_plans(labels), plans);
}

TEST(SimulatedPlans, KeepTheirOrderAndAreNotTooMany) {
  std::vector<cli::SimulatedPlan> plans;
  for (int i = 0; i < 50; ++i) plans.push_back({1.0 + i, 1, 1, false, ""});
  std::map<std::string, std::string> labels;
  add_labels(plans, labels);
  plans.resize(cli::most_simulated_plans);
  EXPECT_EQ(cli::simulated_plans(labels), plans);
}

TEST(SimulatedPlans, RefuseOtherLabels) {
  for (const char* text :
       {"8.87 s", "x s, 1 bytes, 1 GPUs, layouts found: ", "1 s, 1.5 bytes, 1 GPUs, layouts found: "})
    try {
      cli::simulated_plans({{"search.simulated.00", text}});
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.what(),
                std::string("label search.simulated.00: got \"") + text +
                    "\", expected \"8.87 s, 66200000000 bytes, 512 GPUs, layouts by hints: --dp 32\"");
    }
}

}  // namespace
}  // namespace boxcar::tests

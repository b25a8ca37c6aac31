// The errors of steps behind the ranges of `boxcar campaign` are those of the pinned predictions.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

#include "run_experiment.h"
#include "sim/campaign/step_error.h"

namespace boxcar::cli {
namespace {

using ::testing::HasSubstr;

std::string line_of(const campaign::StepError& e) {
  return fmt::format("    {{\"{}\", \"{}\", {}, {}, {:.3f}}},\n", e.framework, e.device, e.least_gpus,
                     e.steps, e.share);
}

// The table of errors is what the pinned predictions give.
TEST(Campaign, StepErrorsAreThoseOfThePredictions) {
  std::string table;
  for (const campaign::StepError& e : campaign::step_errors())
    if (e.framework != "boxcar") table += line_of(e);
  EXPECT_EQ(table, experiment("step_errors", ""));
}

TEST(Campaign, TheTableOfFidelityIsThatOfThePredictions) {
  std::ifstream page(BOXCAR_SOURCE_DIR "/docs/fidelity.md");
  const std::string text{std::istreambuf_iterator<char>(page), {}};
  const std::string table = experiment("step_errors", "--table");
  ASSERT_GT(table.size(), 1000u);
  EXPECT_THAT(text, HasSubstr(table));
}

// As docs/campaign.md tells it: ratios of two steps are no closer than the steps.
TEST(Campaign, TwoStepsDoNotShareTheirError) {
  EXPECT_EQ(experiment("step_errors", "--pairs"), "1847 0.177 0.158\n");
}

TEST(Campaign, LongStepErrorsAsBoxcarAreThoseOfTheSimulator) {
  std::string table;
  for (const campaign::StepError& e : campaign::step_errors())
    if (e.framework == "boxcar") table += line_of(e);
  EXPECT_EQ(table, experiment("step_errors", "--boxcar"));
}

}  // namespace
}  // namespace boxcar::cli

// boxcar search --sensitivity, and the same question to explain.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "support/run_program.h"

namespace boxcar::tests {
namespace {

using nlohmann::json;
using Words = std::vector<std::string>;

// A search of four points.
Words searching(Words more) {
  Words all{"search",
            "--model=gpt",
            "--layers=2",
            "--hidden=2048",
            "--heads=16",
            "--seq=1024",
            "--vocab=128",
            "--gpus=16",
            "--cluster=dgx-a100-80g",
            "--precision=fp16",
            "--dropout=0",
            "--tp=1",
            "--pp=1",
            "--context-parallel=1",
            "--recompute=none",
            "--micro-batch=2",
            "--global-batch=32",
            "--simulate=2"};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

std::string change_to(const json& row, const char* factor) {
  return row["name"].get<std::string>() + "=" + factor;
}

// Each row against the same search on the changed cluster, and against the plan simulated there.
TEST(SearchSensitivity, IsThatOfSearchesOnChangedClusters) {
  const TemporaryFile plan("best.txt", "");
  const Output output = run_program(searching({"--sensitivity", "--json", "-o", plan.path()}));
  ASSERT_EQ(output.exit_code, 0) << output.err;
  const json doc = json::parse(output.out);
  size_t better = 0;
  for (const json& row : doc["sensitivity"])
    for (const auto& [end, factor, limit] :
         {std::tuple{"half", "0.5x", 0.5}, std::tuple{"double", "2x", 2.0}}) {
      const json& at = row[end];
      if (at.is_null()) continue;
      EXPECT_GE(std::max(at["factor"].get<double>(), 1 / at["factor"].get<double>()), 1);
      if (at["better"].is_null()) {
        EXPECT_EQ(at["factor"], limit);
        continue;
      }
      ++better;
      const json found =
          json::parse(run_program(searching({"--json", "--what-if", change_to(row, factor)})).out);
      const json ours = json::parse(
          run_program({"simulate", "--json", "--plan", plan.path(), "--what-if", change_to(row, factor)})
              .out);
      EXPECT_THAT(at["better"].get<std::string>(), testing::StartsWith(found["flags"].get<std::string>()));
      EXPECT_NEAR(at["better_part"].get<double>(),
                  1 - found["step_time_s"].get<double>() / ours["step_time_s"].get<double>(), 1e-9);
    }
  EXPECT_GT(better, 0) << doc["sensitivity"].dump(2);
}

// The rates of a plan's step with each constant halved and doubled.
TEST(SearchSensitivity, OfAPlanIsInItsExplanation) {
  const TemporaryFile plan("plan.txt", "");
  const Output saved = run_program({"simulate", "--model=gpt", "--layers=2", "--hidden=64", "--heads=4",
                                    "--seq=32", "--vocab=128", "--cluster=dgx-a100-80g", "--gpus=4",
                                    "--global-batch=8", "--save-plan", plan.path()});
  ASSERT_EQ(saved.exit_code, 0) << saved.err;
  const json doc = json::parse(run_program({"explain", plan.path(), "--json"}).out);
  const json row = doc["sensitivity"][0];
  const json changed = json::parse(
      run_program({"simulate", "--json", "--plan", plan.path(), "--what-if", change_to(row, "2x")}).out);
  EXPECT_EQ(row["double_step_s"], changed["step_time_s"]);
  const Output text = run_program({"explain", plan.path()});
  EXPECT_THAT(text.out, testing::HasSubstr("\nsensitivity, the step with one constant halved and doubled\n"
                                           "  constant                         half             double\n"));
  EXPECT_THAT(run_program({"explain", plan.path(), "--no-sensitivity"}).out,
              testing::Not(testing::HasSubstr("sensitivity")));
}

}  // namespace
}  // namespace boxcar::tests

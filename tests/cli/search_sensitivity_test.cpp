// boxcar search --sensitivity, and the same question of explain.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "support/run_program.h"

namespace boxcar::tests {
namespace {

using nlohmann::json;
using Words = std::vector<std::string>;

// A search of four points.
Words searching(const Words& more) {
  Words all{"search",
            "--model=gpt",
            "--layers=2",
            "--hidden=2048",
            "--heads=16",
            "--seq=1024",
            "--vocab=128",
            "--gpus=16",
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

std::string change_to(const json& row, double factor) {
  return fmt::format("{}={}x", row["name"].get<std::string>(), factor);
}

// A search and what it found, on a changed cluster too.
class Found {
 public:
  explicit Found(Words words) {
    words.insert(words.end(), {"--json", "-o", plan_.path()});
    const Output output = run_program(words);
    EXPECT_EQ(output.exit_code, 0) << output.err;
    document = json::parse(output.out);
  }
  // GPU seconds or seconds of the plan, whichever the search made least; infinite where it is too slow.
  double value(const json& row, double factor) const {
    const Output output =
        run_program({"simulate", "--json", "--plan", plan_.path(), "--what-if", change_to(row, factor)});
    EXPECT_EQ(output.exit_code, 0) << output.err;
    const json simulated = json::parse(output.out);
    const double seconds = simulated["step_time_s"];
    const double infinity = std::numeric_limits<double>::infinity();
    if (seconds > document.value("max_step_time_s", infinity)) return infinity;
    if (document["objective"] != "cost") return seconds;
    return seconds * std::stod(simulated["configuration"]["cluster.gpus"].get<std::string>());
  }
  json document;

 private:
  TemporaryFile plan_{"plan.txt", ""};
};

// Each row against the same search on the changed cluster, and against the plans simulated there. Returns the
// number of ends with a better plan.
size_t expect_rows_of(const std::function<Words(const Words&)>& words) {
  constexpr double one_step = 1.022;  // 2^(1/32): to there the factor is found
  const Found ours(words({"--sensitivity"}));
  size_t better = 0;
  for (const json& row : ours.document["sensitivity"])
    for (const auto& [end, factor] : {std::pair{"half", 0.5}, std::pair{"double", 2.0}}) {
      const json& at = row[end];
      if (at.is_null()) continue;
      if (at["better"].is_null()) {
        EXPECT_EQ(at["factor"], factor);
        continue;
      }
      ++better;
      const Found other(words({"--what-if", change_to(row, factor)}));
      EXPECT_THAT(at["better"].get<std::string>(),
                  testing::StartsWith(other.document["flags"].get<std::string>()));
      const double now = ours.value(row, factor);
      EXPECT_EQ(at["better_part"].is_null(), std::isinf(now)) << row;
      if (std::isfinite(now)) {
        EXPECT_NEAR(at["better_part"].get<double>(), 1 - other.value(row, factor) / now, 1e-9);
      }
      const double last = at["factor"], next = factor > 1 ? last * one_step : last / one_step;
      EXPECT_LE(ours.value(row, last), other.value(row, last)) << row;
      EXPECT_GT(ours.value(row, next), other.value(row, next)) << row;
    }
  return better;
}

TEST(SearchSensitivity, IsThatOfSearchesOnChangedClusters) {
  const auto fastest = [](Words more) {
    more.push_back("--cluster=p3-16xlarge");
    Words all = searching(more);
    std::replace(all.begin(), all.end(), std::string("--hidden=2048"), std::string("--hidden=4096"));
    return all;
  };
  EXPECT_GT(expect_rows_of(fastest), 0);
}

// A slower device takes the plan over the limit, and another one has other numbers of GPUs.
TEST(SearchSensitivity, KeepsToTheLimitOfTime) {
  std::ifstream preset(BOXCAR_SOURCE_DIR "/backends/presets/clusters/dgx-a100-80g.yaml");
  std::stringstream text;
  text << preset.rdbuf() << "price_per_gpu_hour: 2\n";
  const TemporaryFile cluster("priced.yaml", text.str());
  const auto cheapest = [&](Words more) {
    more.insert(more.begin(), {"--cluster", cluster.path(), "--objective=cost", "--max-step-time=100ms"});
    return searching(more);
  };
  EXPECT_GT(expect_rows_of(cheapest), 0);
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
      run_program({"simulate", "--json", "--plan", plan.path(), "--what-if", change_to(row, 2)}).out);
  EXPECT_EQ(row["double_step_s"], changed["step_time_s"]);
  const Output text = run_program({"explain", plan.path()});
  EXPECT_THAT(text.out, testing::HasSubstr("\nsensitivity, the step with one constant halved and doubled\n"
                                           "  constant                         half             double\n"));
  EXPECT_THAT(run_program({"explain", plan.path(), "--no-sensitivity"}).out,
              testing::Not(testing::HasSubstr("sensitivity")));
}

// Hosts compute with parameter servers alone here.
TEST(SearchSensitivity, IsOfTheHostsMemoryWhereHostsCompute) {
  for (const bool serve : {false, true}) {
    Words flags = searching({"--cluster=dgx-1-v100-32g", "--zero=0", "--sensitivity"});
    if (serve) flags.emplace_back("--servers=2");
    EXPECT_EQ(run_program(flags).out.find("bandwidth.host") != std::string::npos, serve);
  }
}

}  // namespace
}  // namespace boxcar::tests

// The text and the document of a search's report, from reports made by hand.
#include "cli/search_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "backends/machines/cluster.h"
#include "backends/machines/framework.h"
#include "cli/alike.h"

namespace boxcar::tests {
namespace {

using nlohmann::json;
using testing::HasSubstr;

cli::SearchReport example() {
  cli::SearchReport r;
  search::Candidate best;
  best.job.model = ir::models::defaults("gpt");
  best.job.model->layers = 2;
  best.job.parallel.stage_layers = {2};
  best.job.parallel.dp = 1;
  best.seconds = 2, best.estimated_seconds = 1.9, best.peak_bytes = 1'000'000'000;
  r.outcome.best = {best};
  r.outcome.points = 7, r.outcome.compiled = 1;
  r.outcome.least = 1.5;
  r.memory_limit_bytes = r.best.memory_limit_bytes = 2'000'000'000;
  r.best.stages.resize(1);
  r.wall_seconds = 0.5;
  return r;
}

std::string beginning(const cli::SearchReport& r) {
  const std::string text = to_table(r);
  const size_t from = text.find("searched\n");
  return text.substr(from, text.find("\ncommunication\n") - from);
}

// Beside --stack, a key that is not given has the framework's default.
TEST(SearchReport, FlagsSayWhatDiffersFromTheDefaultsOfTheFramework) {
  planner::Job job = example().outcome.best[0].job;
  job.parallel.dp = 2;
  EXPECT_EQ(cli::flags_of(job), "--dp 2 --tp 1 --pp 1");
  job.parallel.zero = 3;
  EXPECT_EQ(cli::flags_of(job), "--dp 2 --tp 1 --pp 1 --zero 3");
  job.cluster = backends::load_cluster("dgx-a100-80g", 2);
  backends::put_framework(job.cluster, backends::load_framework("fsdp"));  // ZeRO 3
  EXPECT_EQ(cli::flags_of(job), "--dp 2 --tp 1 --pp 1");
  job.parallel.zero = 0;
  EXPECT_EQ(cli::flags_of(job), "--dp 2 --tp 1 --pp 1 --zero 0");
}

TEST(SearchReport, ReadsAsWritten) {
  cli::SearchReport r = example();
  EXPECT_EQ(beginning(r), R"(searched
  7 points, 0 of them over 2 GB of memory by estimate; 1 compiled, 1 simulated, 500 ms

       step  estimate      peak layouts  plan
        2 s     1.9 s      1 GB hints    --dp 1 --tp 1 --pp 1

best
  --dp 1 --tp 1 --pp 1
  degrees: with whole backward passes and the layouts of its degrees, no other point that fits by estimate is more than 25 % better (bound: kernels and the collectives between them)
)");
  r.outcome.least = search::infinity;
  EXPECT_NE(
      beginning(r).find("layouts of its degrees, no other point that fits by estimate is better (bound: "
                        "kernels and the collectives between them)\n"),
      std::string::npos)
      << beginning(r);
  r.outcome.ended = false, r.outcome.spent = true;
  EXPECT_NE(beginning(r).find("1 simulated, 500 ms; ended by --effort\n"), std::string::npos) << beginning(r);
}

// JSON has every reason; the text shows the first three.
TEST(SearchReport, SaysWhatWasLeftOutAndWhy) {
  cli::SearchReport r = example();
  r.outcome.dropped = {{"h0.mlp.fc1: no signature fits", 12}};
  r.outcome.unmade = {{"a: one", 1}, {"b: two", 2}, {"c: three", 3}, {"d: four", 4}, {"e: five", 5}};
  EXPECT_EQ(beginning(r).substr(0, beginning(r).find("\n       step")), R"(searched
  7 points, 0 of them over 2 GB of memory by estimate; 1 compiled, 1 simulated, 500 ms
  12 of the points without an estimate: h0.mlp.fc1: no signature fits
  1 of those compiled without a plan: a: one
  2 of those compiled without a plan: b: two
  3 of those compiled without a plan: c: three
  9 of those compiled without a plan, for 2 other reasons
)");
  const json doc = json::parse(to_json(r))["search"];
  EXPECT_EQ(doc["without_estimate"].dump(), R"([{"count":12,"why":"h0.mlp.fc1: no signature fits"}])");
  EXPECT_EQ(doc["without_plan"].size(), 5u);
  EXPECT_EQ(json::parse(to_json(r, "nothing fits"))["search"]["without_estimate"], doc["without_estimate"]);
}

TEST(SearchReport, SaysWhichDimensionsWereOpen) {
  cli::SearchReport r = example();
  search::Candidate& best = r.outcome.best.front();
  best.job.gpus = 8, best.job.parallel.dp = best.job.parallel.cp = best.job.parallel.tp = 2;
  best.layouts.emplace();
  best.found.value = best.found.lower = 1;
  best.found.found = true;
  EXPECT_THAT(beginning(r),
              HasSubstr("\n  the flags alone do not give these layouts; -o FILE keeps the plan\n"));
  const auto says = [&](const std::string& open) {
    const std::string line = "\n  layout of every op: optimal within this space by the time models" + open;
    EXPECT_NE(beginning(r).find(line + "; kernels "), std::string::npos) << beginning(r);
  };
  says("");
  best.found.dimension = 2;
  says(", tp open, dp and cp as degrees have them");
  best.found.dimension.reset();
  best.found.apart = true;
  says(", each of dp and cp and tp given the others");
  best.job.parallel.cp = 1;
  says(", each of dp and tp given the other");
}

TEST(SearchReport, ShowsWhatCosts) {
  cli::SearchReport r = example();
  r.goal = search::Goal::cost;
  r.outcome.best.front().job.gpus = 1;
  r.outcome.best.front().job.cluster.price_per_gpu_hour = 3.6;
  const std::string text = beginning(r);
  EXPECT_NE(text.find(R"(
     $/step  GPUs      step  estimate      peak layouts  plan
      0.002     1       2 s     1.9 s      1 GB hints    --dp 1 --tp 1 --pp 1
)"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("\n  least cost: $0.002 a step, on 1 GPU at $3.6 an hour\n"), std::string::npos)
      << text;
}

// Found twice with different weights, the second with fewer slots too; and once from hints.
TEST(SearchReport, TellsRowsApartThatHaveTheSameFlags) {
  cli::SearchReport r = example();
  search::Candidate& hints = r.outcome.best.front();
  hints.job.model->hidden = 64, hints.job.model->heads = 4, hints.job.model->seq = 32,
  hints.job.model->vocab = 128;
  hints.job.gpus = hints.job.parallel.tp = 2, hints.job.cluster = backends::load_cluster("dgx-a100-80g", 2);
  hints.job.parallel.stage_layers.clear();
  hints.job = planner::resolve(hints.job);
  const auto pinned = [&](const char* pin) {
    search::Candidate found = hints;
    found.layouts = search::LayoutRequest{.pins = {search::parse_pin(pin)}};
    return found;
  };
  r.outcome.best = {pinned("h*.mlp.fc1.weight=S(0)"), pinned("h*.mlp.fc1.weight=S(1)"), hints, hints};
  r.outcome.best.back().slots.changes.resize(3);
  const std::vector<std::string> apart = cli::differences(r.outcome.best);
  EXPECT_EQ(apart, (std::vector<std::string>{"h*.mlp.fc1.weight.half S(0), h*.mlp.fc2.weight.half B, ...",
                                             "h*.mlp.fc1.weight.half S(1), h*.mlp.fc2.weight.half S(0), ...",
                                             "", "3 registers with fewer slots"}));
  r.outcome.best[1].seconds = 2.1;
  const std::string text = beginning(r);
  EXPECT_NE(text.find(" --tp 2 --pp 1 (h*.mlp.fc1.weight.half S(0), h*.mlp.fc2.weight.half B, ...)\n"),
            std::string::npos)
      << text;
  EXPECT_EQ(text.find("3 registers"), std::string::npos) << "the same flags, step and memory as the first\n"
                                                         << text;
}

// A list's length in text depends on its repeats; a short list stays as it is.
TEST(SearchReport, ShortensListsOfStages) {
  cli::SearchReport r = example();
  r.best.configuration = {{"parallel.stage_layers", "[4, 4, 3]"}};
  EXPECT_NE(to_table(r).find("stage_layers [4, 4, 3]\n"), std::string::npos);
  std::string many = "[3";
  for (int i = 0; i < 30; ++i) many += i < 20 ? ", 2" : ", 1";
  r.best.configuration = {{"parallel.stage_layers", many + "]"}};
  EXPECT_NE(to_table(r).find("stage_layers [3, 20 x 2, 10 x 1]\n"), std::string::npos);
}

TEST(SearchReport, SaysWhatItEndedWith) {
  cli::SearchReport r = example();
  r.outcome.ended = false;
  r.outcome.least.reset();
  r.outcome.unknown_least = "the search ended early";
  EXPECT_NE(beginning(r).find(" 500 ms; ended early\n"), std::string::npos);
  EXPECT_NE(beginning(r).find("\n  degrees: no bound, for the search ended early\n"), std::string::npos);
  r.outcome.by_estimate = true;
  EXPECT_NE(beginning(r).find(" 500 ms; ended before any was simulated: the best by estimate\n"),
            std::string::npos);
  const json doc = json::parse(to_json(r));
  EXPECT_EQ(doc["search"]["by_estimate"], true);
  EXPECT_EQ(doc["search"]["gap_of_degrees"], nullptr);
  EXPECT_EQ(doc["search"]["gap_unknown"], "the search ended early");
}

TEST(SearchReport, SaysThatItsFrontOrSensitivityIsIncomplete) {
  cli::SearchReport r = example();
  r.front_goals = {search::Goal::time, search::Goal::memory};
  r.front = r.outcome.best;
  EXPECT_EQ(json::parse(to_json(r))["search"]["ended"], true);
  EXPECT_EQ(to_table(r).find("ended early"), std::string::npos);
  r.front_ended = false;
  EXPECT_NE(
      to_table(r).find("in time and memory without losing in another; ended early, so better ones may be "
                       "missing\n"),
      std::string::npos);
  EXPECT_EQ(json::parse(to_json(r))["search"]["ended"], false);
  r.front_ended = true;
  r.sensitivity_ended = false;
  EXPECT_NE(to_table(r).find("stays the best; ended early, so constants are missing\n"), std::string::npos);
  EXPECT_EQ(json::parse(to_json(r))["search"]["ended"], false);
}

}  // namespace
}  // namespace boxcar::tests

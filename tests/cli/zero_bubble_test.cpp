// Zero-bubble schedules compared with 1F1B, as in Qi et al. 2023 (arXiv:2401.10241): smaller bubbles, with
// about the same memory or about twice the activations.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/run_program.h"

namespace boxcar::tests {
namespace {

using nlohmann::json;
using Words = std::vector<std::string>;

json simulated(const Words& words) {
  Words all{"simulate", "--json"};
  all.insert(all.end(), words.begin(), words.end());
  const Output run = run_program(all);
  EXPECT_EQ(run.exit_code, 0) << run.err;
  return json::parse(run.out);
}

json pipeline(const std::string& schedule, const Words& more = {}) {
  Words words{"--model=gpt",
              "--layers=8",
              "--hidden=4096",
              "--heads=32",
              "--seq=1024",
              "--vocab=512",
              "--gpus=8",
              "--pp=8",
              "--micro-batch=1",
              "--global-batch=24",
              "--cluster=dgx-a100-80g",
              "--schedule=" + schedule};
  words.insert(words.end(), more.begin(), more.end());
  return simulated(words);
}

double seconds(const json& d) { return d.at("step_time_s"); }
double bubble(const json& d) { return d.at("bubble_fraction"); }
double most_memory(const json& d) { return d.at("peak_memory_bytes").get<std::vector<double>>().front(); }

// With passes of 1 : 1 : 1, zb-h1's bubble is a third of 1F1B's.
TEST(ZeroBubble, HasSmallerBubblesThan1F1BForItsMemory) {
  const json ordinary = pipeline("1f1b"), h1 = pipeline("zb-h1"), h2 = pipeline("zb-h2");
  EXPECT_GT(bubble(ordinary), 0.2);
  EXPECT_LT(bubble(h1), 0.6 * bubble(ordinary));
  EXPECT_LE(bubble(h2), bubble(h1));
  EXPECT_LT(seconds(h1), seconds(ordinary));
  EXPECT_LE(seconds(h2), seconds(h1));
  EXPECT_LT(most_memory(h1), 1.1 * most_memory(ordinary));
  EXPECT_GT(most_memory(h2), most_memory(h1));
}

// Where no stage waits for a norm or overflows at a step's end, stages continue one after the other.
TEST(ZeroBubble, H2GainsMostWhereStagesDoNotMeet) {
  const Words apart{"--precision=bf16", "--clip-norm=0"};
  EXPECT_LT(bubble(pipeline("zb-h2", apart)), 0.75 * bubble(pipeline("zb-h1", apart)));
  EXPECT_LT(bubble(pipeline("zb-h2", apart)), bubble(pipeline("zb-h2")));
}

TEST(ZeroBubble, PlansReadBack) {
  const TemporaryFile plan("plan.txt", "");
  const json d = pipeline("zb-h1", {"--save-plan=" + plan.path()});
  EXPECT_EQ(seconds(simulated({"--plan=" + plan.path(), "--cluster=dgx-a100-80g"})), seconds(d));
}

}  // namespace
}  // namespace boxcar::tests

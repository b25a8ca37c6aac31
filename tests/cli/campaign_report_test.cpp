// The table and the document of `boxcar campaign`.
#include "cli/campaign_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "cli/quantities.h"

namespace boxcar::cli {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

CampaignRow campaign_row(const std::string& name, int gpus, double step_seconds) {
  CampaignRow row;
  row.name = name, row.gpus = row.run.gpus = gpus;
  row.configuration = {{"model.family", "gpt"}};
  row.run.steps = 100'000, row.run.step_seconds = step_seconds;
  row.run.checkpoint_seconds = 12, row.run.restart_seconds = 600;
  row.run.mtbf_seconds = campaign::mtbf_of(10'800, 1024, gpus);
  row.run.price_per_gpu_hour = 2.5, row.run.watts_per_gpu = 700, row.run.pue = 1.1;
  row.price_from = "--price";
  row.error = {{"megatron", "a100-sxm-80g", 9, 51, 0.095}, "a100-sxm-80g", 331, false};
  const auto [least, most] = campaign::step_range(step_seconds, row.error.error.share);
  row.cost = campaign::cost_range(row.run, least, most);
  row.amount_per_step = 3e6, row.checkpoint_bytes = 2.4e12;
  return row;
}

CampaignReport campaign_example() {
  CampaignReport r;
  r.amount = 300e9, r.checkpoint_bandwidth = 200e9;
  r.mtbf_seconds = 10'800, r.mtbf_gpus = 1024, r.restart_seconds = 588, r.watts = 700, r.pue = 1.1;
  r.rows = {campaign_row("a.yaml", 512, 11.5), campaign_row("a.yaml", 1024, 6)};
  CampaignRow small;
  small.name = "small.yaml", small.gpus = 64,
  small.why_not = "does not fit: needs 97.7 GB on a GPU that has 85.1 GB";
  r.rows.push_back(small);
  return r;
}

CampaignReport campaign_with_nothing_given() {
  CampaignReport r;
  r.amount = 300e9;
  CampaignRow only = campaign_row("gpt3-175b", 1024, 6);
  only.run.mtbf_seconds = std::numeric_limits<double>::infinity();
  only.run.price_per_gpu_hour.reset(), only.run.watts_per_gpu.reset();
  const auto [least, most] = campaign::step_range(6, only.error.error.share);
  only.cost = campaign::cost_range(only.run, least, most);
  r.rows = {only};
  return r;
}

TEST(Campaign, TableReadsAsWritten) {
  EXPECT_EQ(to_table(campaign_example()),
            R"(training on 300B tokens; below each estimate its range, from low to high

job         GPUs              step            days       lost days     GPU hours         dollars         MWh  goodput      save every
a.yaml       512           11.50 s           14.15           0.841          174k           $435k         134   94.1 %        62 steps  cheapest
                  10.50 to 12.71 s  12.92 to 15.64  0.768 to 0.930  159k to 192k  $397k to $480k  122 to 148   94.1 %  56 to 68 steps
a.yaml      1024            6.00 s            7.70           0.754          189k           $473k         146   90.2 %        84 steps  fastest
                    5.48 to 6.63 s    7.03 to 8.51  0.689 to 0.833  173k to 209k  $432k to $523k  133 to 161   90.2 %  76 to 91 steps
small.yaml    64  does not fit: needs 97.7 GB on a GPU that has 85.1 GB

  steps      100000 of 3M tokens
  range      9 of 10 steps of megatron on more than 8 a100-sxm-80g were simulated within 9.5 % of their published time (51 steps)
  order      fastest and cheapest by the estimates, equal within 1 %; where ranges overlap, it may be another row
  checkpoint 2.4 TB of weights and moments; all GPUs wait 12 s for it, at 200 GB/s
  failures   one in 3 h on 1024 GPUs; twice the GPUs fail twice as often
             each failure costs 9.8 m and the reading of the checkpoint before the next step
             expected: 56.6 (a.yaml on 512 GPUs), 61.6 (a.yaml on 1024 GPUs)
  interval   11.9 m (a.yaml on 512 GPUs), 8.4 m (a.yaml on 1024 GPUs) between checkpoints
  price      $2.50 per GPU hour (--price)
  energy     700 W for one GPU and its share of the node, all the time; PUE 1.1
)");
}

TEST(Campaign, NamesWhatItLeavesOut) {
  EXPECT_EQ(to_table(campaign_with_nothing_given()),
            R"(training on 300B tokens; below each estimate its range, from low to high

job        GPUs            step          days     GPU hours
gpt3-175b  1024          6.00 s          6.94          171k
                 5.48 to 6.63 s  6.34 to 7.67  156k to 189k

  steps      100000 of 3M tokens
  range      9 of 10 steps of megatron on more than 8 a100-sxm-80g were simulated within 9.5 % of their published time (51 steps)

not counted
  no failures, and no checkpoints against them: every number is of the steps alone (give --mtbf and --checkpoint-bandwidth)
  no dollars without a price (give --price)
  no energy without power (give --watts)
)");
}

TEST(Campaign, DocumentHasUnitsInItsKeys) {
  const json doc = json::parse(to_json(campaign_example()));
  EXPECT_EQ(doc["schema_version"], 1);
  EXPECT_EQ(doc["tokens"], 300e9);
  EXPECT_EQ(doc["checkpoint_bandwidth_bytes_per_s"], 200e9);
  EXPECT_EQ(doc["given_mtbf_s"], 10'800);
  EXPECT_EQ(doc["given_mtbf_gpus"], 1024);
  EXPECT_EQ(doc["given_restart_s"], 588);
  EXPECT_EQ(doc["watts_per_gpu"], 700);
  EXPECT_EQ(doc["pue"], 1.1);
  const json& large = doc["rows"][1];
  EXPECT_EQ(large["gpus"], 1024);
  EXPECT_EQ(large["fastest"], true);
  EXPECT_EQ(large["cheapest"], false);
  EXPECT_EQ(large["steps"], 100'000);
  EXPECT_EQ(large["tokens_per_step"], 3e6);
  EXPECT_EQ(large["checkpoint_bytes"], 2.4e12);
  EXPECT_EQ(large["checkpoint_s"], 12);
  EXPECT_EQ(large["mtbf_s"], 10'800);
  EXPECT_EQ(large["restart_s"], 600);
  EXPECT_EQ(large["dollars_per_gpu_hour"], 2.5);
  EXPECT_EQ(large["price_from"], "--price");
  EXPECT_EQ(large["step_error"]["share"], 0.095);
  EXPECT_EQ(large["step_error"]["device"], "a100-sxm-80g");
  EXPECT_EQ(large["step_error"]["of_other_device"], false);
  EXPECT_NEAR(large["estimate"]["dollars"], 472'989, 1);
  EXPECT_NEAR(large["estimate"]["gpu_hours"], 189'196, 1);
  EXPECT_NEAR(large["estimate"]["days"], 7.698, 1e-3);
  EXPECT_EQ(large["estimate"]["checkpoint_interval_steps"], 84);
  EXPECT_EQ(large["estimate"]["checkpoint_interval_s"], 504);
  for (const char* key : {"step_time_s", "time_s", "lost_s", "energy_mwh", "goodput", "failures"}) {
    EXPECT_LT(large["low"][key], large["high"][key]) << key;
    EXPECT_LE(large["low"][key], large["estimate"][key]) << key;
    EXPECT_LE(large["estimate"][key], large["high"][key]) << key;
  }
  EXPECT_EQ(doc["rows"][2]["fits"], false);
  EXPECT_EQ(doc["rows"][2]["why"], "does not fit: needs 97.7 GB on a GPU that has 85.1 GB");
  EXPECT_FALSE(doc["rows"][2].contains("estimate"));
}

TEST(Campaign, DocumentHasTheConditionsWhateverFits) {
  CampaignReport r = campaign_example();
  std::swap(r.rows[0], r.rows[2]);
  const json doc = json::parse(to_json(r));
  EXPECT_EQ(doc["watts_per_gpu"], 700);
  EXPECT_EQ(doc["pue"], 1.1);
}

TEST(Campaign, DocumentHasNoGuesses) {
  const json doc = json::parse(to_json(campaign_with_nothing_given()));
  const json& estimate = doc["rows"][0]["estimate"];
  for (const char* key : {"dollars", "energy_mwh", "failures", "checkpoint_interval_s", "goodput", "lost_s"})
    EXPECT_FALSE(estimate.contains(key)) << key;
  EXPECT_EQ(estimate["time_s"], 600'000);
  EXPECT_EQ(doc["rows"][0]["fastest"], false);  // of one row nothing is said
}

TEST(Campaign, NoneIsCheapestWhereAPriceIsUnknown) {
  CampaignReport r = campaign_example();
  EXPECT_TRUE(is_cheapest(r, r.rows[0]));
  EXPECT_FALSE(is_cheapest(r, r.rows[1]));
  EXPECT_TRUE(is_fastest(r, r.rows[1]));
  EXPECT_FALSE(is_fastest(r, r.rows[2]));  // does not fit
  r.rows[1].cost.estimate.price.reset();
  EXPECT_FALSE(is_cheapest(r, r.rows[0]));
}

TEST(Campaign, RowsWithinOnePercentAreEqual) {
  CampaignReport r;
  r.rows = {campaign_row("a.yaml", 1024, 6), campaign_row("b.yaml", 1024, 6.03),
            campaign_row("c.yaml", 1024, 6.2)};
  EXPECT_TRUE(is_fastest(r, r.rows[0]) && is_cheapest(r, r.rows[0]));
  EXPECT_TRUE(is_fastest(r, r.rows[1]) && is_cheapest(r, r.rows[1]));
  EXPECT_FALSE(is_fastest(r, r.rows[2]) || is_cheapest(r, r.rows[2]));
}

CampaignReport two_jobs() {
  CampaignReport r = campaign_example();
  r.rows = {campaign_row("a.yaml", 8, 6), campaign_row("b.yaml", 1, 6)};
  r.rows[1].run.price_per_gpu_hour.reset();
  r.rows[1].cost = campaign::cost_range(r.rows[1].run, 5, 7);
  r.rows[1].checkpoint_bytes = 1.2e12, r.rows[1].has_moments = false, r.rows[1].amount_per_step = 4e6;
  r.rows[0].price_from = "cluster priced.yaml";
  r.rows[1].error = campaign::error_bar("megatron", "none", 1);
  r.default_restart = r.default_pue = true, r.pue = 1;
  return r;
}

TEST(Campaign, LinesNameTheJobs) {
  const std::string table = to_table(two_jobs());
  for (const char* line :
       {"  steps      a.yaml: 100000 of 3M tokens\n", "  steps      b.yaml: 100000 of 4M tokens\n",
        "  range      b.yaml: no published step on up to 8 none was compared",
        "  checkpoint a.yaml: 2.4 TB of weights and moments; ", "  checkpoint b.yaml: 1.2 TB of weights; ",
        " each failure costs 9.8 m (default) and the reading",
        "  price      a.yaml: $2.50 per GPU hour "
        "(cluster priced.yaml)\n",
        "  b.yaml: no dollars without a price (give --price)\n", "all the time; PUE 1 (default)\n"})
    EXPECT_THAT(table, HasSubstr(line));
  EXPECT_THAT(table, ::testing::ContainsRegex("expected: [0-9.]+ \\(a.yaml\\), [0-9.]+ \\(b.yaml\\)"));
  CampaignReport r = two_jobs();
  r.rows.push_back(campaign_row("b.yaml", 8, 6));
  EXPECT_THAT(to_table(r), HasSubstr("(b.yaml on 1 GPU)"));
}

TEST(Campaign, ColumnsHaveFixedDigitsAndUnits) {
  CampaignReport r = campaign_example();
  for (CampaignRow& row : r.rows)
    if (row.why_not.empty()) {
      row.run.steps *= 1000;
      row.cost = campaign::cost_range(row.run, 0.9 * row.run.step_seconds, 1.1 * row.run.step_seconds);
    }
  const std::string table = to_table(r);
  EXPECT_THAT(table, HasSubstr("GWh"));
  EXPECT_THAT(table, ::testing::Not(HasSubstr("e+")));
}

TEST(Campaign, WithoutARowThatFitsAllRowsAreShown) {
  CampaignReport r = campaign_example();
  r.rows[0].why_not = "--tp: wrong", r.rows[0].gpus = 0, r.rows[1].why_not = "too large";
  EXPECT_EQ(to_table(r), R"(job         GPUs
a.yaml         -  --tp: wrong
a.yaml      1024  too large
small.yaml    64  does not fit: needs 97.7 GB on a GPU that has 85.1 GB
)");
}

TEST(Campaign, ARunWithoutFailuresNeedsNoCheckpoint) {
  CampaignReport r = campaign_example();
  CampaignRow row = campaign_row("a.yaml", 1, 6);
  row.run.mtbf_seconds = 1e300;
  row.cost = campaign::cost_range(row.run, 5, 7);
  r.rows = {row};
  EXPECT_THAT(to_table(r), HasSubstr("  never\n"));
  EXPECT_THAT(to_table(r), HasSubstr("  interval   never between checkpoints\n"));
}

}  // namespace
}  // namespace boxcar::cli

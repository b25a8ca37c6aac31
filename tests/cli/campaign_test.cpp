// `boxcar campaign`: the printed table and document, refusals, and what rows are made of.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "bad_input.h"
#include "cli/campaign_report.h"
#include "run_experiment.h"

namespace boxcar::cli {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using tests::Output;
using tests::Words;

CampaignRow campaign_row(const std::string& name, int gpus, double step_seconds) {
  CampaignRow row;
  row.name = name, row.gpus = row.run.gpus = gpus;
  row.configuration = {{"model.family", "gpt"}};
  row.run.steps = 100'000, row.run.step_seconds = step_seconds;
  row.run.checkpoint_seconds = 12, row.run.restart_seconds = 600;
  row.run.mtbf_seconds = campaign::mtbf_of(10'800, 1024, gpus);
  row.run.price_per_gpu_hour = 2.5, row.run.watts_per_gpu = 700, row.run.pue = 1.1;
  row.error = {"megatron", 9, 51, 0.095};
  const auto [least, most] = campaign::step_range(step_seconds, row.error);
  row.cost = campaign::cost_range(row.run, least, most);
  row.amount_per_step = 3e6, row.checkpoint_bytes = 2.4e12;
  return row;
}

CampaignReport campaign_example() {
  CampaignReport r;
  r.amount = 300e9, r.checkpoint_bandwidth = 200e9;
  r.mtbf_seconds = 10'800, r.mtbf_gpus = 1024, r.restart_seconds = 600, r.pue = 1.1;
  r.rows = {campaign_row("a.yaml", 512, 11.5), campaign_row("a.yaml", 1024, 6)};
  CampaignRow small;
  small.name = "small.yaml", small.gpus = 64, small.why_not = "does not fit: stage0 needs 97.7 GB of 85.1 GB";
  r.rows.push_back(small);
  return r;
}

CampaignReport campaign_with_nothing_given() {
  CampaignReport r;
  r.amount = 300e9;
  CampaignRow only = campaign_row("gpt3-175b", 1024, 6);
  only.run.mtbf_seconds = std::numeric_limits<double>::infinity();
  only.run.price_per_gpu_hour.reset(), only.run.watts_per_gpu.reset();
  const auto [least, most] = campaign::step_range(6, only.error);
  only.cost = campaign::cost_range(only.run, least, most);
  r.rows = {only};
  return r;
}

TEST(Campaign, TableReadsAsWritten) {
  EXPECT_EQ(to_table(campaign_example()),
            R"(training on 300B tokens; below each estimate its range, from low to high

job         GPUs    step          days     GPU hours       dollars         MWh  goodput      save every
a.yaml       512  11.5 s          14.2          174k          435k         134   94.1 %        62 steps  cheapest
                          12.9 to 15.6  159k to 192k  397k to 480k  122 to 148   94.1 %  56 to 68 steps
a.yaml      1024     6 s           7.7          189k          473k         146   90.2 %        84 steps  fastest
                          7.03 to 8.51  173k to 209k  432k to 523k  133 to 161   90.2 %  76 to 91 steps
small.yaml    64  does not fit: stage0 needs 97.7 GB of 85.1 GB

  steps      100000 of 3M tokens
  range      9 of 10 published steps of megatron on more than 8 GPUs are within 9.5 % of the simulated ones (51 steps)
  checkpoint 2.4 TB of weights and moments; all GPUs wait 12 s for it, at 200 GB/s
  failures   one in 3 h on 1024 GPUs, in proportion to the GPUs; 10 m from each to the next step
             expected: 56.6 on 512 GPUs, 61.6 on 1024 GPUs
  interval   11.9 m on 512 GPUs, 8.4 m on 1024 GPUs between checkpoints
  energy     700 W per GPU all the time, PUE 1.1
)");
}

TEST(Campaign, NamesWhatItLeavesOut) {
  EXPECT_EQ(to_table(campaign_with_nothing_given()),
            R"(training on 300B tokens; below each estimate its range, from low to high

job        GPUs  step          days     GPU hours  goodput
gpt3-175b  1024   6 s          6.94          171k  100.0 %
                       6.34 to 7.67  156k to 189k  100.0 %

  steps      100000 of 3M tokens
  range      9 of 10 published steps of megatron on more than 8 GPUs are within 9.5 % of the simulated ones (51 steps)

not counted
  goodput leaves out failures and the checkpoints against them (give --mtbf and --checkpoint-bandwidth)
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
  EXPECT_EQ(doc["restart_s"], 600);
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
  EXPECT_EQ(large["step_error"]["share"], 0.095);
  EXPECT_NEAR(large["estimate"]["dollars"], 472'989, 1);
  EXPECT_NEAR(large["estimate"]["gpu_hours"], 189'196, 1);
  EXPECT_NEAR(large["estimate"]["days"], 7.698, 1e-3);
  EXPECT_EQ(large["estimate"]["checkpoint_interval_steps"], 84);
  EXPECT_EQ(large["estimate"]["checkpoint_interval_s"], 504);
  for (const char* key : {"time_s", "energy_mwh", "goodput", "failures"}) {
    EXPECT_LT(large["low"][key], large["high"][key]) << key;
    EXPECT_LE(large["low"][key], large["estimate"][key]) << key;
    EXPECT_LE(large["estimate"][key], large["high"][key]) << key;
  }
  EXPECT_EQ(doc["rows"][2]["fits"], false);
  EXPECT_EQ(doc["rows"][2]["why"], "does not fit: stage0 needs 97.7 GB of 85.1 GB");
  EXPECT_FALSE(doc["rows"][2].contains("estimate"));
}

TEST(Campaign, DocumentHasNoGuesses) {
  const json doc = json::parse(to_json(campaign_with_nothing_given()));
  const json& estimate = doc["rows"][0]["estimate"];
  for (const char* key : {"dollars", "energy_mwh", "failures", "checkpoint_interval_s"})
    EXPECT_FALSE(estimate.contains(key)) << key;
  EXPECT_EQ(estimate["goodput"], 1);
  EXPECT_EQ(estimate["time_s"], 600'000);
  EXPECT_EQ(doc["rows"][0]["fastest"], false);  // of one row nothing is said
}

TEST(Campaign, NoneIsCheapestWhereAPriceIsUnknown) {
  CampaignReport r = campaign_example();
  EXPECT_EQ(cheapest(r), &r.rows[0]);
  EXPECT_EQ(fastest(r), &r.rows[1]);
  r.rows[1].cost.estimate.price.reset();
  EXPECT_EQ(cheapest(r), nullptr);
}

// The table of errors is what the pinned predictions give.
TEST(Campaign, StepErrorsAreThoseOfThePredictions) {
  std::string table;
  for (const campaign::StepError& e : campaign::step_errors())
    if (e.framework != "boxcar")
      table += fmt::format("    {{\"{}\", {}, {}, {:.3f}}},\n", e.framework, e.least_gpus, e.steps, e.share);
  EXPECT_EQ(table, experiment("step_errors", ""));
}

TEST(Campaign, LongStepErrorsAsBoxcarAreThoseOfTheSimulator) {
  std::string table;
  for (const campaign::StepError& e : campaign::step_errors())
    if (e.framework == "boxcar")
      table += fmt::format("    {{\"{}\", {}, {}, {:.3f}}},\n", e.framework, e.least_gpus, e.steps, e.share);
  EXPECT_EQ(table, experiment("step_errors", "--boxcar"));
}

// A run as a user starts it.
Words campaign_words(const Words& more) {
  Words all{"campaign"};
  all.insert(all.end(), tests::job_flags.begin(), tests::job_flags.end());
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

json campaign_document(const Words& more) {
  Words all = campaign_words(more);
  all.push_back("--json");
  const Output output = tests::run_program(all);
  EXPECT_EQ(output.exit_code, 0) << output.err;
  return json::parse(output.out);
}

const Words all_conditions{"--tokens=100M", "--price=2.50", "--mtbf=3h/1024", "--checkpoint-bandwidth=2GB/s",
                           "--restart=5m",  "--watts=700",  "--pue=1.2",      "--stack=megatron"};

TEST(CampaignCommand, CostsTheSimulatedStep) {
  const json doc = campaign_document({"--tokens=100M"});
  Words simulate = campaign_words({"--json"});
  simulate[0] = "simulate";
  const json step = json::parse(tests::run_program(simulate).out);
  const json& row = doc["rows"][0];
  EXPECT_EQ(row["step_time_s"], step["step_time_s"]);
  EXPECT_EQ(row["tokens_per_step"], 8 * 128);
  EXPECT_EQ(row["steps"], 97'657);  // 100e6 / 1024, rounded up
  EXPECT_DOUBLE_EQ(row["estimate"]["time_s"], 97'657 * step["step_time_s"].get<double>());
  EXPECT_EQ(row["configuration"], step["configuration"]);
}

TEST(CampaignCommand, ComparesNumbersOfGpus) {
  Words more = all_conditions;
  more.insert(more.end(), {"--gpus=8,16,32", "--global-batch=64"});
  const json doc = campaign_document(more);
  ASSERT_EQ(doc["rows"].size(), 3u);
  double last = 1;
  int fastest = 0, cheapest = 0;
  for (const json& row : doc["rows"]) {
    EXPECT_EQ(row["steps"], doc["rows"][0]["steps"]);
    EXPECT_NEAR(row["mtbf_s"].get<double>() * row["gpus"].get<int>(), 10'800 * 1024, 1e-3);
    EXPECT_LT(row["estimate"]["goodput"], last);
    fastest += row["fastest"].get<bool>(), cheapest += row["cheapest"].get<bool>();
    last = row["estimate"]["goodput"];
  }
  EXPECT_EQ(fastest, 1);
  EXPECT_EQ(cheapest, 1);
}

TEST(CampaignCommand, ComparesFilesAndPlans) {
  const tests::TemporaryFile file("job.yaml", tests::job_file), plan("plan.txt", "");
  Words simulate = campaign_words({"--save-plan", plan.path(), "--stack=megatron"});
  simulate[0] = "simulate";
  EXPECT_EQ(tests::run_program(simulate).exit_code, 0);
  const Output output =
      tests::run_program({"campaign", file.path(), file.path(), "--plan", plan.path(), "--tokens=1M",
                          "--mtbf=1d/8", "--checkpoint-bandwidth=1GB/s", "--json"});
  ASSERT_EQ(output.exit_code, 0) << output.err;
  const json rows = json::parse(output.out)["rows"];
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0]["job"], file.path());
  EXPECT_EQ(rows[0]["estimate"], rows[1]["estimate"]);
  EXPECT_EQ(rows[2]["job"], plan.path());
  EXPECT_EQ(rows[2]["checkpoint_bytes"], rows[0]["checkpoint_bytes"]);
  EXPECT_EQ(rows[0]["step_error"]["framework"], "boxcar");
  EXPECT_EQ(rows[2]["step_error"]["framework"], "megatron");
}

// An empty row is no reason to leave out the others.
TEST(CampaignCommand, ARowThatDoesNotFitSaysSo) {
  const Output output =
      tests::run_program({"campaign", "--model=gpt3-175b", "--cluster=dgx-a100-80g", "--tp=8", "--gpus=8,64",
                          "--zero=3", "--recompute=full", "--tokens=1B"});
  EXPECT_EQ(output.exit_code, 0) << output.err;
  EXPECT_THAT(output.out, HasSubstr("does not fit: stage0 needs "));
  EXPECT_THAT(output.out, ::testing::ContainsRegex("gpt3-175b +64 "));
}

TEST(CampaignCommand, SearchesThePlanOfEachRow) {
  const Words more{"--tokens=1M", "--gpus=8,16", "--global-batch=64", "--search",
                   "--checkpoint-bandwidth=1GB/s"};
  const json searched = campaign_document(more)["rows"];
  ASSERT_EQ(searched.size(), 2u);
  for (const json& row : searched) {
    Words plain =
        campaign_words({"--json", "--tokens=1M", "--global-batch=64", "--checkpoint-bandwidth=1GB/s",
                        "--gpus=" + std::to_string(row["gpus"].get<int>())});
    const json given = json::parse(tests::run_program(plain).out)["rows"][0];
    EXPECT_LE(row["step_time_s"], given["step_time_s"]);
    EXPECT_EQ(row["steps"], given["steps"]);
    EXPECT_TRUE(row["flags"].get<std::string>().starts_with("--dp "));
    EXPECT_EQ(row["configuration"]["cluster.gpus"], std::to_string(row["gpus"].get<int>()));
  }
}

TEST(CampaignCommand, APriceOfTheClusterCounts) {
  const tests::TemporaryFile cluster("priced.yaml", R"(name: priced
device: a100-sxm-80g
nodes: 1
node: {gpus: 8, link: nvswitch, link_bandwidth: 300e9, link_latency: 0.6e-6, pcie_bandwidth: 31e9, nics: 8, nic_bandwidth: 25e9, nic_latency: 2.7e-6}
fabric: {kind: single-switch, hop_latency: 0.5e-6}
price_per_gpu_hour: 3
)");
  EXPECT_EQ(
      campaign_document({"--tokens=1M", "--cluster=" + cluster.path()})["rows"][0]["dollars_per_gpu_hour"],
      3);
  EXPECT_EQ(campaign_document({"--tokens=1M", "--price=2",
                               "--cluster=" + cluster.path()})["rows"][0]["dollars_per_gpu_hour"],
            2);
}

// `boxcar train` writes as many bytes, and headers.
TEST(CampaignCommand, ACheckpointIsWhatTrainWrites) {
  const std::string folder = tests::temporary_folder();
  const tests::TemporaryFile text("text.txt", std::string(4096, 'b'));
  const Words job{"--model=gpt", "--layers=2",  "--hidden=64", "--heads=4",
                  "--seq=16",    "--vocab=256", "--dp=1"};
  Words train{"train", "--steps=1", "--data=" + text.path(), "--checkpoint-dir=" + folder + "/out"};
  train.insert(train.end(), job.begin(), job.end());
  ASSERT_EQ(tests::run_program(train).exit_code, 0);
  Words campaign{"campaign", "--cluster=local", "--tokens=1M", "--checkpoint-bandwidth=1GB/s", "--json"};
  campaign.insert(campaign.end(), job.begin(), job.end());
  const json doc = json::parse(tests::run_program(campaign).out);
  const double bytes = doc["rows"][0]["checkpoint_bytes"];
  double written = 0;
  for (const char* name : {"model.safetensors", "optimizer.safetensors"})
    written += static_cast<double>(std::filesystem::file_size(folder + "/out/step-000001/" + name));
  EXPECT_GE(written, bytes);
  EXPECT_LE(written, bytes + 16'384);
  std::filesystem::remove_all(folder);
}

// docs/campaign.md begins with a command and its output, each a block of lines that are set in.
TEST(CampaignCommand, ThePageShowsWhatItPrints) {
  std::ifstream page(BOXCAR_SOURCE_DIR "/docs/campaign.md");
  std::string blocks[2], line;
  for (std::string& block : blocks) {
    while (std::getline(page, line) && !line.starts_with("    ")) {
    }
    for (; line.starts_with("    ") || (line.empty() && &block == &blocks[1]); std::getline(page, line))
      block += (line.empty() ? "" : line.substr(4)) + "\n";
  }
  Words shown;
  std::istringstream in(blocks[0]);
  for (std::string word; in >> word;)
    if (word != "\\") shown.push_back(word);
  ASSERT_FALSE(shown.empty());
  shown.erase(shown.begin());
  EXPECT_EQ(tests::run_program(shown).out + "\n", blocks[1])
      << "put what the command prints into docs/campaign.md";
}

TEST(CampaignCommand, ADocumentSaysThatNothingFits) {
  const Output output = tests::run_program(
      {"campaign", "--model=gpt3-175b", "--cluster=dgx-a100-80g", "--gpus=8", "--tokens=1B", "--json"});
  EXPECT_EQ(output.exit_code, 1);
  EXPECT_EQ(json::parse(output.out)["rows"][0]["fits"], false);
}

const tests::CommandCase campaign_flags[] = {
    {{}, 2, "--tokens: missing; give the tokens of the whole run, such as 300B, or --samples"},
    {{"--tokens=15Q"}, 2, "--tokens: got \"15Q\", expected a number such as 15T, 300B or 4M"},
    {{"--tokens="}, 2, "--tokens: needs a value"},
    {{"--tokens=15T", "--samples=3M"}, 2, "--samples: --tokens is given too; give one of them"},
    {{"--tokens=1e300"},
     2,
     "--tokens: 1e+288T are 9.77e+284T steps, more than 1T (use a larger global_batch)"},
    {{"--tokens=1B", "--mtbf=3h/1024"},
     2,
     "--mtbf: has no effect without --checkpoint-bandwidth: the time of a checkpoint decides how much work a "
     "failure loses"},
    {{"--tokens=1B", "--checkpoint-bandwidth=200GB/s", "--mtbf=3h"},
     2,
     "--mtbf: got \"3h\", expected a time and the GPUs among which it passes from one failure to the next, "
     "such "
     "as 3h/1024 or 50000h/1"},
    {{"--tokens=1B", "--checkpoint-bandwidth=200GB/s", "--mtbf=3h/0"},
     2,
     "--mtbf: got \"3h/0\", expected a time and the GPUs among which it passes from one failure to the next, "
     "such as 3h/1024 or 50000h/1"},
    {{"--tokens=1B", "--checkpoint-bandwidth=200GB/s", "--mtbf=often/8"},
     2,
     "--mtbf: got \"often\", expected a time such as 3h in 3h/1024"},
    {{"--tokens=1B", "--checkpoint-bandwidth=200GB"},
     2,
     "--checkpoint-bandwidth: got \"200GB\", expected a rate such as 200GB/s or 5TB/s"},
    {{"--tokens=1B", "--restart=10m"}, 2, "--restart: has no effect without --mtbf"},
    {{"--tokens=1B", "--checkpoint-bandwidth=1GB/s", "--mtbf=3h/8", "--restart=soon"},
     2,
     "--restart: got \"soon\", expected a time such as 10m or 90s"},
    {{"--tokens=1B", "--pue=1.2"}, 2, "--pue: has no effect without --watts"},
    {{"--tokens=1B", "--watts=700", "--pue=0.9"}, 2, "--pue: got \"0.9\", expected a number from 1 to 10"},
    {{"--tokens=1B", "--watts=hot"}, 2, "--watts: got \"hot\", expected a number from 0 to 1e+06"},
    {{"--tokens=1B", "--price=free"}, 2, "--price: got \"free\", expected a number from 0 to 1e+06"},
    {{"--tokens=1B", "--gpus=8,12"},
     2,
     "--gpus: 12 is not a multiple of the 8 GPUs of a node of dgx-a100-80g (use 8 or 16)"},
    {{"--tokens=1B", "--gpus=8,many"}, 2, "--gpus: got \"many\", expected a whole number from 1 to 1000000"},
    {{"--tokens=1B", "--mtbf=1s/8", "--checkpoint-bandwidth=1MB/s"},
     1,
     "--mtbf: less than 0.1 % of the time goes into steps that are kept: 8 GPUs fail every 1 s, a checkpoint "
     "takes 41.5 s and a restart 10 m (use more bandwidth or a shorter --restart)"},
    {{"--tokens=1B", "--plan=none.txt"}, 2, "none.txt: cannot be read; check the path"},
    {{"--tokens=1B", "--search"},
     2,
     "train.global_batch: missing; give it in the job file or as --global-batch"},
    {{"--tokens=1B", "--search", "--plan=none.txt"}, 2, "--search: has no effect on a saved plan"},
    {{"--tokens=1B", "--token=3"},
     2,
     "--token: unknown flag (did you mean --tokens?); `boxcar campaign --help` lists all"},
};

TEST(BadCampaign, Flags) {
  for (const tests::CommandCase& c : campaign_flags)
    tests::expect_refused(campaign_words(c.arguments), c.exit_code, c.message);
}

const tests::CommandCase campaign_jobs[] = {
    {{"--model=resnet50", "--cluster=dgx-a100-80g", "--gpus=8", "--tokens=1B"},
     2,
     "--tokens: a step of resnet50 has none; give --samples"},
    {{"--model=gpt3-175b", "--cluster=dgx-a100-80g", "--gpus=8", "--tokens=1B"},
     1,
     "does not fit: stage0 needs 3.38 TB of 85.1 GB (`boxcar simulate` on the same job says what would "
     "help)"},
    {{"--model=gpt3-175b", "--cluster=dgx-a100-80g", "--gpus=8,16", "--tokens=1B"},
     1,
     "gpt3-175b on 8 GPUs: does not fit: stage0 needs 3.38 TB of 85.1 GB (`boxcar simulate` on the same job "
     "says "
     "what would help)"},
    {{"--model=gpt3-175b", "--cluster=dgx-a100-80g", "--gpus=8", "--tokens=1B", "--global-batch=8",
      "--search"},
     1,
     "does not fit: none of 648 plans (`boxcar search` on the same job says what would help)"},
};

TEST(BadCampaign, Jobs) { tests::expect_refused({"campaign"}, campaign_jobs); }

}  // namespace
}  // namespace boxcar::cli

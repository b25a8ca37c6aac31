// `boxcar campaign` as a user starts it: the contents of rows, and refusals.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "bad_input.h"
#include "cli/campaign_fleet.h"
#include "cli/campaign_report.h"
#include "cli/quantities.h"

namespace boxcar::cli {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using tests::Output;
using tests::Words;

// A run as a user starts it.
Words campaign_words(const Words& more) {
  Words all{"campaign", "--global-batch=8"};
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
  EXPECT_GE(cheapest, 1);
}

TEST(CampaignCommand, ComparesFilesAndPlans) {
  const tests::TemporaryFile file("job.yaml", tests::job_file + "train: {global_batch: 8}\n"),
      plan("plan.txt", "");
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

// Flags beside a file are the file's; each --plan takes one file, whatever follows.
TEST(CampaignCommand, FlagsBesideFilesAndPlansAreTheFiles) {
  const tests::TemporaryFile file("job.yaml", tests::job_file), plan("plan.txt", "");
  Words simulate = campaign_words({"--save-plan", plan.path()});
  simulate[0] = "simulate";
  ASSERT_EQ(tests::run_program(simulate).exit_code, 0);
  const Output output = tests::run_program({"campaign", "--plan", plan.path(), file.path(), "--tokens=1M",
                                            "--gpus=16", "--global-batch=32", "--json"});
  ASSERT_EQ(output.exit_code, 0) << output.err;
  const json rows = json::parse(output.out)["rows"];
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0]["gpus"], 16);
  EXPECT_EQ(rows[1]["gpus"], 8);
  tests::expect_refused({"campaign", plan.path(), "--tokens=1M"}, 2,
                        "PLAN: is a saved plan; give it as --plan PLAN", "PLAN", plan.path());
}

// The rows beside it keep their numbers.
TEST(CampaignCommand, ARowThatCannotBeRunSaysWhy) {
  const auto whys = [](const Words& more) {
    std::vector<std::string> texts;
    const json doc = campaign_document(more);
    for (const json& row : doc["rows"])
      texts.push_back(row.contains("why") ? row["why"].get<std::string>() : "");
    return texts;
  };
  using ::testing::ElementsAre;
  EXPECT_THAT(whys({"--tokens=1B", "--gpus=8,12"}),
              ElementsAre("",
                          "--gpus: 12 is not a multiple of the 8 GPUs of a node of dgx-a100-80g (use 8 or "
                          "16)"));
  EXPECT_THAT(whys({"--tokens=1B", "--gpus=480,512", "--global-batch=512"}),
              ElementsAre(HasSubstr("480"), ""));
  EXPECT_THAT(whys({"--tokens=1B", "--gpus=8,1024", "--global-batch=1024", "--mtbf=30s/1024",
                    "--checkpoint-bandwidth=20MB/s", "--restart=4m"}),
              ElementsAre("", HasSubstr("--mtbf: goodput is below 0.1 %: "
                                        "1024 GPUs fail every 30 s")));
}

TEST(CampaignCommand, WithoutARowThatCanBeRunEachSaysWhy) {
  const Output output = tests::run_program(campaign_words({"--tokens=1B", "--gpus=12,20"}));
  EXPECT_EQ(output.exit_code, 1);
  EXPECT_THAT(output.out, HasSubstr("12  --gpus: 12 is not a multiple"));
  EXPECT_THAT(output.out, HasSubstr("20  --gpus: 20 is not a multiple"));
  EXPECT_EQ(output.err, "boxcar: no row can be run; each says why\n");
}

TEST(CampaignCommand, ARestartReadsTheCheckpoint) {
  const auto row = [&](const std::string& bandwidth) {
    return campaign_document(
        {"--tokens=100M", "--mtbf=3h/8", "--restart=0s", "--checkpoint-bandwidth=" + bandwidth})["rows"][0];
  };
  const json fast = row("1GB/s"), slow = row("10MB/s");
  EXPECT_EQ(fast["restart_s"], fast["checkpoint_s"]);
  EXPECT_LT(fast["estimate"]["lost_s"], slow["estimate"]["lost_s"]);
}

TEST(CampaignCommand, TheRangeNamesTheDevice) {
  const auto error = [](const Words& more) {
    Words all{"--tokens=1M", "--stack=megatron", "--gpus=16", "--global-batch=16"};
    all.insert(all.end(), more.begin(), more.end());
    return campaign_document(all)["rows"][0]["step_error"];
  };
  const json a100 = error({}), h100 = error({"--cluster=dgx-h100"}), b200 = error({"--cluster=hgx-b200"});
  EXPECT_EQ(a100["framework"], "megatron");
  EXPECT_EQ(a100["device"], "a100-sxm-80g");
  EXPECT_EQ(h100["framework"], "all");
  EXPECT_EQ(h100["device"], "h100-sxm");
  EXPECT_EQ(error({"--cluster=dgx-h100", "--precision=fp8"})["device"], "h100-sxm in fp8");
  EXPECT_EQ(error({"--cluster=hgx-b200", "--precision=fp8"})["of_other_device"], true);
  EXPECT_EQ(b200["of_other_device"], true);
  EXPECT_EQ(a100["of_other_device"], false);
  EXPECT_EQ(error({"--experts=4"})["of_other_device"], true);  // no mixture on 16 A100s was compared
  EXPECT_GT(b200["share"], h100["share"]);
}

TEST(CampaignCommand, NotesOnKeysNameTheNumberOfGpus) {
  const Output output = tests::run_program(
      campaign_words({"--tokens=1B", "--gpus=8,16", "--tp=8", "--zero=1", "--global-batch=16"}));
  EXPECT_EQ(output.exit_code, 0);
  EXPECT_EQ(output.err,
            "boxcar: --zero: has no effect unless dp or context_parallel is 2 or more (gpt on 8 GPUs)\n");
}

// An empty row is no reason to leave out the others.
TEST(CampaignCommand, ARowThatDoesNotFitSaysSo) {
  const Output output =
      tests::run_program({"campaign", "--model=gpt3-175b", "--cluster=dgx-a100-80g", "--tp=8", "--gpus=8,64",
                          "--zero=3", "--recompute=full", "--tokens=1B", "--global-batch=64"});
  EXPECT_EQ(output.exit_code, 0) << output.err;
  EXPECT_THAT(output.out, HasSubstr("does not fit: needs "));
  EXPECT_THAT(output.out, ::testing::ContainsRegex("gpt3-175b +64 "));
}

TEST(CampaignCommand, SearchesThePlanOfEachRow) {
  const Words more{
      "--tokens=1M", "--gpus=8,16", "--global-batch=64", "--search", "--checkpoint-bandwidth=1GB/s",
      "--mtbf=3h/8"};
  const json searched = campaign_document(more)["rows"];
  ASSERT_EQ(searched.size(), 2u);
  for (const json& row : searched) {
    Words plain =
        campaign_words({"--json", "--tokens=1M", "--global-batch=64", "--checkpoint-bandwidth=1GB/s",
                        "--mtbf=3h/8", "--gpus=" + std::to_string(row["gpus"].get<int>())});
    const json given = json::parse(tests::run_program(plain).out)["rows"][0];
    EXPECT_LE(row["step_time_s"], given["step_time_s"]);
    EXPECT_EQ(row["steps"], given["steps"]);
    EXPECT_TRUE(row["flags"].get<std::string>().starts_with("--dp "));
    EXPECT_EQ(row["configuration"]["cluster.gpus"], std::to_string(row["gpus"].get<int>()));
  }
}

TEST(CampaignCommand, SearchesWithinWhatAFrameworkRuns) {
  const Words within{"--tokens=1M",      "--gpus=8,16",          "--global-batch=64", "--search",
                     "--stack=megatron", "--max-stack=megatron", "--zero=0..1"};
  for (const json& row : campaign_document(within)["rows"]) {
    Words search{"search", "--json", "--max-stack=megatron", "--stack=megatron"};
    search.insert(search.end(), tests::job_flags.begin(), tests::job_flags.end());
    search.push_back("--global-batch=64");
    search.push_back("--gpus=" + std::to_string(row["gpus"].get<int>()));
    const json alone = json::parse(tests::run_program(search).out);
    EXPECT_EQ(row["step_time_s"], alone["step_time_s"]);
    EXPECT_EQ(row["flags"], alone["flags"]);
    EXPECT_LE(row["configuration"]["parallel.zero"], "1");
  }
  const tests::Output output = tests::run_program(campaign_words(
      {"--tokens=1M", "--gpus=8,16", "--global-batch=64", "--search", "--max-stack=megatron"}));
  EXPECT_EQ(
      output.err,
      "boxcar: --max-stack: steps are simulated as boxcar runs them; --stack megatron simulates them as "
      "megatron does\n");
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
  EXPECT_EQ(campaign_document({"--tokens=1M", "--cluster=" + cluster.path()})["rows"][0]["price_from"],
            "cluster " + cluster.path());
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
  Words campaign{"campaign",    "--cluster=local", "--global-batch=8",
                 "--tokens=1M", "--mtbf=3h/8",     "--checkpoint-bandwidth=1GB/s",
                 "--json"};
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
  const Output output = tests::run_program({"campaign", "--model=gpt3-175b", "--cluster=dgx-a100-80g",
                                            "--gpus=8", "--global-batch=8", "--tokens=1B", "--json"});
  EXPECT_EQ(output.exit_code, 1);
  EXPECT_EQ(json::parse(output.out)["rows"][0]["fits"], false);
}

// Four nodes, one of which fails every day and is away for one.
const Words failing{"--tokens=100M", "--gpus=32",   "--global-batch=96",
                    "--mtbf=1d/32",  "--repair=1d", "--checkpoint-bandwidth=2GB/s"};

TEST(CampaignCommand, DrawsWeeksOfNodesThatFail) {
  const auto weeks = [&](Words more) {
    more.insert(more.begin(), failing.begin(), failing.end());
    return campaign_document(more)["rows"][0]["weeks"];
  };
  const json waits = weeks({}), spare = weeks({"--spares=2"}), replans = weeks({"--replan"}),
             beside = weeks({"--spares=2", "--async-checkpoints"});
  EXPECT_EQ(waits["nodes"], 4);
  EXPECT_EQ(waits["plans"].size(), 0u);
  EXPECT_NEAR(waits["waiting"].get<double>(), 0.5, 0.02);
  EXPECT_GT(spare["goodput"], waits["goodput"]);
  EXPECT_GT(beside["goodput"], spare["goodput"]);
  EXPECT_GT(replans["goodput"], waits["goodput"]);
  EXPECT_GT(replans["on_fewer_nodes"], 0.3);
  ASSERT_EQ(replans["plans"].size(), 3u);  // 96 samples on 24, 16 and 8 GPUs
  for (int i = 0; i < 3; ++i) {
    const json& plan = replans["plans"][static_cast<size_t>(i)];
    EXPECT_EQ(plan["nodes"], 3 - i);
    const json on_fewer =
        campaign_document({"--tokens=100M", "--global-batch=96", "--gpus=" + std::to_string(8 * (3 - i))});
    EXPECT_EQ(plan["step_time_s"], on_fewer["rows"][0]["step_time_s"]);
  }
}

TEST(CampaignCommand, LeavesOutPlansThatFewerNodesBeat) {
  std::map<int, double> plans{{8, 3}, {16, 2}, {24, 2.5}, {32, 2}, {40, 1}};
  leave_out_slower(plans);
  EXPECT_EQ(plans, (std::map<int, double>{{8, 3}, {16, 2}, {40, 1}}));
}

// Not again for each plan for fewer nodes.
TEST(CampaignCommand, TellsWhatHasNoEffectOnceForEachRow) {
  Words words = campaign_words(failing);
  words.insert(words.end(), {"--replan", "--sequence-parallel=true"});
  EXPECT_EQ(tests::run_program(words).err,
            "boxcar: --sequence-parallel: has no effect unless tp is 2 or more (gpt on 32 GPUs)\n");
}

TEST(CampaignCommand, SaysHowWeeksAreDrawn) {
  const auto table = [&](Words more) {
    more.insert(more.begin(), failing.begin(), failing.end());
    return tests::run_program(campaign_words(more)).out;
  };
  EXPECT_THAT(
      table({"--replan"}),
      AllOf(HasSubstr("\n  weeks      drawn at random; a node that failed is back after 1 d; the run goes on "
                      "with a plan for the nodes that are left\n             goodput "),
            HasSubstr(" % in 9 of 10 weeks, "), HasSubstr(" for the run; saves every "),
            HasSubstr("; waits for nodes "), HasSubstr(", runs on fewer "),
            HasSubstr(" (a step on 3 nodes ")));
  EXPECT_THAT(
      table({"--spares=1", "--async-checkpoints"}),
      HasSubstr("back after 1 d; 1 spare node stands by; checkpoints are written beside the steps\n"));
  EXPECT_THAT(table({"--spares=3", "--replan", "--dp=32"}),
              AllOf(HasSubstr("; 3 spare nodes stand by; "),
                    HasSubstr(", since no plan for fewer nodes was found\n")));
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
     "--mtbf: got \"3h\", expected TIME/GPUS: 3h/1024 is one failure in 3 h on 1024 GPUs"},
    {{"--tokens=1B", "--checkpoint-bandwidth=200GB/s", "--mtbf=3h/0"},
     2,
     "--mtbf: got \"3h/0\", expected TIME/GPUS: 3h/1024 is one failure in 3 h on 1024 GPUs"},
    {{"--tokens=1B", "--checkpoint-bandwidth=200GB/s", "--mtbf=often/8"},
     2,
     "--mtbf: got \"often\", expected a time such as 3h in 3h/1024"},
    {{"--tokens=1B", "--mtbf=3h/8", "--checkpoint-bandwidth=200GB"},
     2,
     "--checkpoint-bandwidth: got \"200GB\", expected a rate such as 200GB/s or 5TB/s"},
    {{"--tokens=1B", "--checkpoint-bandwidth=200GB/s"},
     2,
     "--checkpoint-bandwidth: has no effect without --mtbf"},
    {{"--tokens=1B", "--checkpoint-bandwidth=1GB/s", "--mtbf=3/8"},
     2,
     "--mtbf: got \"3\", expected a time such as 3h in 3h/1024"},
    {{"--tokens=1B", "--checkpoint-bandwidth=1GB/s", "--mtbf=3h/8", "--restart=10"},
     2,
     "--restart: got \"10\", expected a time such as 10m or 90s"},
    {{"--tokens=0.1"}, 2, "--tokens: 0.1 is less than one step, which takes 1.02k"},
    {{"--tokens=1B", "--gpus=8,16,8"}, 2, "--gpus: 8 is given twice"},
    {{"--tokens=1B", "--restart=10m"}, 2, "--restart: has no effect without --mtbf"},
    {{"--tokens=1B", "--checkpoint-bandwidth=1GB/s", "--mtbf=3h/8", "--restart=soon"},
     2,
     "--restart: got \"soon\", expected a time such as 10m or 90s"},
    {{"--tokens=1B", "--repair=12h"}, 2, "--repair: has no effect without --mtbf"},
    {{"--tokens=1B", "--async-checkpoints"}, 2, "--async-checkpoints: has no effect without --mtbf"},
    {{"--tokens=1B", "--checkpoint-bandwidth=1GB/s", "--mtbf=3h/8", "--spares=2"},
     2,
     "--spares: has no effect without --repair"},
    {{"--tokens=1B", "--checkpoint-bandwidth=1GB/s", "--mtbf=3h/8", "--replan"},
     2,
     "--replan: has no effect without --repair"},
    {{"--tokens=1B", "--checkpoint-bandwidth=1GB/s", "--mtbf=3h/8", "--repair=12"},
     2,
     "--repair: got \"12\", expected a time such as 12h or 2d"},
    {{"--tokens=1B", "--checkpoint-bandwidth=1GB/s", "--mtbf=3h/8", "--repair=12h", "--spares=some"},
     2,
     "--spares: got \"some\", expected a whole number from 0 to 10000"},
    {{"--tokens=1B", "--checkpoint-bandwidth=1GB/s", "--mtbf=3h/8", "--repair=12h", "--replan",
      "--plan=none.txt"},
     2,
     "--replan: a saved plan is for its nodes alone (give the job in place of --plan)"},
    {{"--tokens=1B", "--checkpoint-bandwidth=1GB/s", "--mtbf=3h/8", "--repair=1000d"},
     1,
     "--repair: goodput is below 0.1 %: 8 GPUs on 1 node, a node fails "
     "every 3 h and is back after 1000 d (use --spares or --replan)"},
    {{"--tokens=1B", "--pue=1.2"}, 2, "--pue: has no effect without --watts"},
    {{"--tokens=1B", "--watts=700", "--pue=0.9"}, 2, "--pue: got \"0.9\", expected a number from 1 to 10"},
    {{"--tokens=1B", "--watts=hot"}, 2, "--watts: got \"hot\", expected a number from 0 to 1e+06"},
    {{"--tokens=1B", "--price=free"}, 2, "--price: got \"free\", expected a number from 0 to 1e+06"},
    {{"--tokens=1B", "--gpus=8,many"}, 2, "--gpus: got \"many\", expected numbers of GPUs, as in 256,512"},
    {{"--tokens=1B", "--mtbf=1s/8", "--checkpoint-bandwidth=1MB/s"},
     1,
     "--mtbf: goodput is below 0.1 %: 8 GPUs fail every 1 s, a checkpoint "
     "takes 41.4 s and a restart 10.7 m (use more bandwidth or a shorter --restart)"},
    {{"--tokens=1B", "--plan=none.txt"}, 2, "none.txt: cannot be read; check the path"},
    {{"--tokens=1B", "--search", "--plan=none.txt"}, 2, "--search: has no effect on a saved plan"},
    {{"--tokens=1B", "--max-stack=megatron"}, 2, "--max-stack: has no effect without --search"},
    {{"--tokens=1B", "--search", "--max-stack=megatron", "--zero=2", "--global-batch=8"},
     2,
     "--zero: megatron runs zero 0..1 alone (--max-stack megatron)"},
    {{"--tokens=1B", "--token=3"},
     2,
     "--token: unknown flag (did you mean --tokens?); `boxcar campaign --help` lists all"},
};

TEST(BadCampaign, Flags) {
  for (const tests::CommandCase& c : campaign_flags)
    tests::expect_refused(campaign_words(c.arguments), c.exit_code, c.message);
}

const tests::CommandCase campaign_jobs[] = {
    {{"--model=gpt2", "--cluster=dgx-a100-80g", "--gpus=8", "--tokens=1B"},
     2,
     "train.global_batch: missing; give it in the job file or as --global-batch"},
    {{"--model=resnet50", "--cluster=dgx-a100-80g", "--gpus=8", "--global-batch=8", "--tokens=1B"},
     2,
     "--tokens: a step of resnet50 has none; give --samples"},
    {{"--model=gpt3-175b", "--cluster=dgx-a100-80g", "--gpus=8", "--global-batch=8", "--tokens=1B"},
     1,
     "does not fit: needs 3.23 TB on a GPU that has 85.1 GB; it would fit with --pp 48 "
     "--gpus 192 --dp 4 (82.5 GB)"},
    {{"--model=gpt3-175b", "--cluster=dgx-a100-80g", "--gpus=1", "--tokens=1B", "--global-batch=1",
      "--search"},
     1,
     "does not fit: none of 2 plans (`boxcar search` on the same job says what would help)"},
    {{"--model=gpt2", "--cluster=dgx-a100-80g", "--gpus=8,16", "--tokens=1B", "--global-batch=16",
      "--stack=nosuch.yaml"},
     2,
     "--stack: nosuch.yaml: cannot be read"},
};

TEST(BadCampaign, Jobs) { tests::expect_refused({"campaign"}, campaign_jobs); }

}  // namespace
}  // namespace boxcar::cli

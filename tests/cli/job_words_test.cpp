// A job as users write it: units, presets, and other programs' names.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "backends/machines/cluster.h"
#include "backends/machines/device_profile.h"
#include "backends/machines/framework.h"
#include "bad_input.h"
#include "cli/flag_synonyms.h"
#include "cli/job.h"
#include "cli/job_presets.h"
#include "cli/keys.h"
#include "cli/search_job.h"

namespace boxcar::cli {
namespace {

using tests::Output;
using tests::run_program;
using tests::TemporaryFile;
using tests::Words;

GivenKeys small_job(GivenKeys more = {}) {
  GivenKeys given{{"model.layers", {"2", ""}},         {"model.hidden", {"64", ""}},
                  {"model.heads", {"4", ""}},          {"model.seq", {"4k", "--seq"}},
                  {"model.vocab", {"1k", ""}},         {"cluster.gpus", {"8", ""}},
                  {"cluster.preset", {"dgx-h100", ""}}};
  for (auto& [path, value] : more) given[path] = std::move(value);
  return given;
}

std::string message(const GivenKeys& given) {
  try {
    resolve(given);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(JobWords, CountsInPowersOfTwo) {
  const Request r = resolve(small_job({{"train.global_batch", {"1k", ""}}})).request;
  EXPECT_EQ(r.job.model->seq, 4096);
  EXPECT_EQ(r.job.model->vocab, 1024);
  EXPECT_EQ(r.job.global_batch, 1024);
  EXPECT_EQ(
      message(small_job({{"model.seq", {"4kk", "--seq"}}})),
      "--seq: got \"4kk\", expected a whole number from 1 to 100000000; k behind it stands for 1,024 and M "
      "for 1,024 x 1,024, as in 8k");
  EXPECT_EQ(message(small_job({{"model.dropout", {"1k", "--dropout"}}})),
            "--dropout: got \"1k\", expected a number from 0 to 0.99");
}

TEST(JobWords, AGlobalBatchInTokens) {
  const auto batch = [](const char* text) {
    return resolve(small_job({{"train.global_batch", {text, "--global-batch"}}})).request.job.global_batch;
  };
  for (const char* text : {"4M-tokens", "4M tokens", "4Mtokens"}) EXPECT_EQ(batch(text), 1024);
  EXPECT_EQ(batch("32768-tokens"), 8);
  EXPECT_EQ(message(small_job({{"train.global_batch", {"40000-tokens", "--global-batch"}}})),
            "--global-batch: 40000 tokens are no whole number of sequences of 4096; use 36864-tokens");
  EXPECT_EQ(message(small_job({{"train.global_batch", {"x-tokens", "--global-batch"}}})),
            "--global-batch: got \"x\", expected a whole number from 1 to 1000000000");
  EXPECT_EQ(message(small_job({{"train.global_batch", {"4.2M-tokens", "--global-batch"}}})),
            "--global-batch: got \"4.2M\", expected a whole number from 1 to 1000000000; k behind it stands "
            "for 1,024 "
            "and M for 1,024 x 1,024, as in 8k");
  GivenKeys open = small_job({{"train.global_batch", {"4M-tokens", "--global-batch"}}});
  open.erase("model.seq");
  EXPECT_EQ(message(open), "--global-batch: counts tokens, which needs model.seq");
}

TEST(JobWords, AShareOfMemoryStaysFree) {
  const auto bytes = [](const char* margin) {
    return resolve(small_job({{"cluster.memory_margin", {margin, "--memory-margin"}}}))
        .request.job.cluster.device->memory_bytes;
  };
  const auto all = static_cast<double>(bytes("0"));
  EXPECT_NEAR(static_cast<double>(bytes("8%")), 0.92 * all, 1);
  EXPECT_EQ(bytes("0.08"), bytes("8%"));
  EXPECT_EQ(message(small_job({{"cluster.memory_margin", {"95%", "--memory-margin"}}})),
            "--memory-margin: got \"95%\", expected 0% to 90%");
  EXPECT_EQ(message(small_job({{"cluster.memory_margin", {"8", "--memory-margin"}}})),
            "--memory-margin: got \"8\", expected a number from 0 to 0.9; 8% is 0.08");
}

// The preset is the weakest word, and sets keys that exist to values that they have.
TEST(JobWords, APresetIsBelowTheFrameworkAndWhatIsGiven) {
  const GivenKeys modern = small_job({{"train.preset", {"modern", "--preset"}}});
  const auto labels = [](const GivenKeys& given) { return resolve(given).labels; };
  for (const auto& [path, value] : preset_values("modern")) EXPECT_EQ(labels(modern)[path], value) << path;
  EXPECT_FALSE(labels(modern).contains("train.preset"));
  GivenKeys given = modern;
  given["train.precision"] = {"fp16", ""};
  EXPECT_EQ(labels(given)["train.precision"], "fp16");
  EXPECT_EQ(labels(given)["parallel.attention"], "flash");
  GivenKeys framework = modern, plain = small_job({{"train.stack", {"megatron", ""}}});
  framework["train.stack"] = {"megatron", ""};
  const backends::Framework megatron = backends::load_framework("megatron");
  ASSERT_FALSE(megatron.defaults.empty());
  for (const auto& [path, value] : megatron.defaults)
    EXPECT_EQ(labels(framework)[path], labels(plain)[path]) << path;
  EXPECT_EQ(message(small_job({{"train.preset", {"modem", "--preset"}}})),
            "--preset: got \"modem\", expected none, modern (did you mean modern?)");
  EXPECT_EQ(message(small_job({{"train.preset", {"dgx-h100", "--preset"}}})),
            "--preset: dgx-h100 is a cluster: give --cluster dgx-h100");
  GivenKeys single = modern;
  single["train.precision"] = {"fp32", ""};
  EXPECT_EQ(labels(single)["train.logits"], "float32");
}

// Attention is one kernel if the device has one for operands of this type, and no one says otherwise.
TEST(JobWords, AttentionIsFusedWhereTheDeviceHasAKernel) {
  const auto attention = [](const char* cluster, GivenKeys more) {
    GivenKeys given = small_job(std::move(more));
    given["cluster.preset"] = {cluster, ""};
    return resolve(given).labels.at("parallel.attention");
  };
  for (const char* precision : {"fp16", "bf16"})
    EXPECT_EQ(attention("dgx-a100-80g", {{"train.precision", {precision, ""}}}), "flash") << precision;
  EXPECT_EQ(attention("dgx-h100", {{"train.precision", {"fp8", ""}}}), "flash");
  for (const char* precision : {"fp32", "tf32"})
    EXPECT_EQ(attention("dgx-a100-80g", {{"train.precision", {precision, ""}}}), "unfused") << precision;
  EXPECT_EQ(attention("p3-16xlarge", {{"train.precision", {"fp16", ""}}}), "unfused");
  EXPECT_EQ(attention("local", {{"train.precision", {"bf16", ""}}}), "unfused");
  const Given unfused{"unfused", ""};
  EXPECT_EQ(attention("dgx-a100-80g", {{"parallel.attention", unfused}}), "unfused");
  EXPECT_EQ(attention("p3-16xlarge", {{"train.precision", {"fp16", ""}}, {"train.preset", {"modern", ""}}}),
            "flash");
  const GivenKeys torchtitan{{"train.precision", {"fp32", ""}}, {"train.stack", {"torchtitan", ""}}};
  EXPECT_EQ(attention("dgx-h100", torchtitan), "flash");
}

TEST(JobWords, ModelsByTheNamesOfHuggingFace) {
  const auto layers = [](const char* name) {
    GivenKeys given{{"model.family", {name, "--model"}},
                    {"cluster.preset", {"dgx-h100", ""}},
                    {"cluster.gpus", {"512", ""}}};
    return resolve(given).request.job.model.layers();
  };
  EXPECT_EQ(layers("meta-llama/Meta-Llama-3-70B"), 80);
  EXPECT_EQ(layers("meta-llama/llama-3.1-405b-instruct"), 126);
  EXPECT_EQ(layers("openai-community/gpt2"), 12);
  EXPECT_EQ(layers("meta-llama/Llama-3.3-70B-Instruct"), 80);
  EXPECT_EQ(layers("Llama-3.3-70B-Instruct"), 80);
  EXPECT_EQ(layers("Llama-2-13b-chat-hf"), 40);
  EXPECT_EQ(
      message({{"model.family", {"someone/their-model", "--model"}}}),
      "--model: got \"someone/their-model\": there is no someone/their-model, and `boxcar models` lists no "
      "model of this name; give a path to its config.json");
}

TEST(JobWords, AClusterByItsGpu) {
  const auto meant = [](const char* name) {
    const std::string text = message(small_job({{"cluster.preset", {name, "--cluster"}}}));
    return text.substr(0, text.find(';'));
  };
  EXPECT_EQ(meant("h100"), "--cluster: no preset h100 (did you mean dgx-h100 or h100-80g-800g?)");
  EXPECT_EQ(meant("A100"),
            "--cluster: no preset A100 (did you mean dgx-a100-40g or dgx-a100-80g or a100-80g-400g?)");
  EXPECT_EQ(meant("dgx-h10O"), "--cluster: no preset dgx-h10O (did you mean dgx-h100?)");
}

// Each synonym leads to a flag that some command has.
TEST(JobWords, FlagsOfOtherFrameworks) {
  const auto unknown = [](const char* flag) {
    return run_program({"simulate", "--model=gpt2", "--cluster=dgx-h100", "--gpus=8", flag, "2"}).err;
  };
  EXPECT_EQ(
      unknown("--tensor-model-parallel-size"),
      "boxcar: --tensor-model-parallel-size: unknown flag (did you mean --tp?); `boxcar simulate --help` "
      "lists all\n");
  EXPECT_THAT(unknown("--use-distributed-optimizer"), testing::HasSubstr("(did you mean --zero 1?)"));
  EXPECT_THAT(unknown("--gpu"), testing::HasSubstr("(did you mean --gpus?)"));  // 2
  EXPECT_THAT(unknown("--num-nodes"), testing::HasSubstr("(did you mean --gpus, of all nodes together?)"));
  EXPECT_THAT(
      unknown("--num-microbatches"),
      testing::HasSubstr("(did you mean --global-batch, which is dp x micro_batch x micro-batches?)"));
  EXPECT_THAT(unknown("--price"),
              testing::HasSubstr("unknown flag (search, campaign, sweep and report have it);"));
  EXPECT_THAT(unknown("--pareto"), testing::HasSubstr("unknown flag (search and table have it);"));
  std::set<std::string> flags, keys_flags;
  for (const Key& key : keys()) flags.insert(key.flag), flags.insert(key.alias);
  keys_flags = flags;
  for (const char* command : {"search", "sweep", "campaign", "simulate"}) {
    const std::string help = run_program({command, "--help"}).out;
    const std::regex name("--[a-z][a-z0-9-]*");
    for (std::sregex_iterator at(help.begin(), help.end(), name), end; at != end; ++at)
      flags.insert(at->str());
  }
  for (std::string_view synonym : flag_synonyms()) {
    const std::string meant(flag_meant(synonym));
    EXPECT_TRUE(flags.contains(meant.substr(0, meant.find_first_of(" ,")))) << synonym;
    EXPECT_FALSE(keys_flags.contains(std::string(synonym))) << synonym;
  }
}

// As Megatron-LM, DeepSpeed, torchtitan and AIConfigurator spell them, and as people guess them.
TEST(JobWords, FlagsThatPeopleTry) {
  const auto said = [](const Words& words) { return run_program(words).err; };
  const auto expect = [&](const Words& words, const std::string& answer) {
    EXPECT_THAT(said(words), testing::HasSubstr("unknown flag (" + answer + ")")) << words.back();
  };
  const auto of_search = [&](const std::string& flag, const std::string& answer) {
    expect({"search", "--model=gpt2", "--cluster=dgx-h100", "--gpus=8", flag}, answer);
  };
  of_search("--total_gpus=8", "did you mean --gpus?");
  of_search("--system=h200_sxm", "did you mean --cluster?");
  of_search("--gpu=h100", "did you mean --cluster, or --device with it?");
  of_search("--gpu=8", "did you mean --gpus?");
  expect({"search", "--model=gpt2", "--cluster=dgx-h100", "--gpu", "8"}, "did you mean --gpus?");
  of_search("--parallelism.tensor_parallel_degree=2", "did you mean --tp?");
  of_search("--training.seq_len=2048", "did you mean --seq?");
  of_search("--training.local_batch_size=2", "did you mean --micro-batch?");
  of_search("--micro_batch=2", "did you mean --micro-batch?");
  of_search("--train_micro_batch_size_per_gpu=2", "did you mean --micro-batch?");
  of_search("--overlap-grad-reduce", "did you mean --overlap-grad?");
  of_search("--untie-embeddings-and-output-weights", "did you mean --tied false?");
  of_search("--verbose", "did you mean --json, which prints every number?");
  of_search("--timeout=5s", "did you mean --budget?");
  of_search("--memory-limit=70GB", "did you mean --memory?");
  of_search("--output-file=best.txt", "did you mean --output?");
  of_search("--config=job.yaml", "give the file first, without a flag");
  of_search("--ttft=1", "training alone is planned: nothing is generated");
  expect({"sweep", "s.yaml", "-o", "r.db", "--json"},
         "`boxcar table FILE --json` prints the rows that it wrote");
  expect({"sweep", "s.yaml", "-o", "r.db", "--search"}, "write search: true in SWEEP.yaml");
  expect({"explain", "p.txt", "--stack=megatron"},
         "the plan's job says it; --why-not \"--stack ...\" places the plan with another");
  expect({"explain", "p.txt", "--tensor-parallel-size=2"},
         "the plan's job says it; --why-not \"--tp ...\" places the plan with another");
  expect({"diff", "a.txt", "b.txt", "--tp=2"},
         "the plan's job says it; plan anew with `boxcar simulate` or `boxcar search` for another");
}

TEST(JobWords, ModelsThatPeopleMean) {
  const auto meant = [](const std::string& name) {
    const std::string text =
        run_program({"simulate", "--cluster=dgx-h100", "--gpus=8", "--model=" + name}).err;
    const size_t begin = text.find("did you mean ");
    return begin == std::string::npos ? text : text.substr(begin + 13, text.find('?') - begin - 13);
  };
  EXPECT_EQ(meant("llama-70b"), "llama2-70b or llama3-70b");
  EXPECT_EQ(meant("Llama_3_70B"), "llama3-70b");
  EXPECT_EQ(meant("llama-405b"), "llama3-405b");
  EXPECT_EQ(meant("gpt-3"), "gpt3-175b");
  EXPECT_EQ(meant("gtp"), "gpt");
}

TEST(JobWords, NamesTheLatencyOfFurtherSwitches) {
  TemporaryFile file(
      "mine.yaml",
      "name: mine\ndevice: h100-sxm\nnodes: 2\nnode: {gpus: 8, link: nvswitch, nics: 8, "
      "link_bandwidth: 450e9, nic_bandwidth: 50e9, link_latency: 1e-6, nic_latency: 1e-6, "
      "host_per_op: 1e-6}\nfabric: {kind: leaf-spine, nodes_per_leaf: 1, oversubscription: 1}\n");
  EXPECT_THAT(run_program({"simulate", "--model=gpt2", "--cluster", file.path(), "--gpus=16", "--json"}).err,
              testing::HasSubstr(
                  "leaves out latencies, which are then 0; dgx-h100 has fabric.hop_latency: 0.6 us\n"));
}

TEST(JobWords, LinksThatAreNotThereHaveNoLatency) {
  TemporaryFile file(
      "mine.yaml",
      "name: mine\ndevice: h100-sxm\nnodes: 1\nnode: {gpus: 4, link: none, pcie_bandwidth: 25e9}\n");
  const Output run =
      run_program({"simulate", "--model=gpt2", "--cluster", file.path(), "--gpus=4", "--json"});
  EXPECT_THAT(run.err, testing::HasSubstr("dgx-h100 has node.host_per_op: 50 us\n"));
}

TEST(JobWords, UnitsInDescriptionsOfClusters) {
  const auto simulate = [](const std::string& node) {
    TemporaryFile file("mine.yaml",
                       "name: mine\ndevice: h100-sxm\nnodes: 2\nnode: {gpus: 8, link: nvswitch, nics: 8, " +
                           node + "}\nfabric: {kind: single-switch}\n");
    return run_program({"simulate", "--model=gpt2", "--cluster", file.path(), "--gpus=16", "--json"});
  };
  const Output plain = simulate(
                   "link_bandwidth: 450e9, nic_bandwidth: 50e9, link_latency: 2e-6, nic_latency: 3e-6"),
               units = simulate(
                   "link_bandwidth: 450GB/s, nic_bandwidth: 400Gbit/s, link_latency: 2us, nic_latency: 3us");
  ASSERT_EQ(plain.exit_code, 0) << plain.err;
  ASSERT_EQ(units.exit_code, 0) << units.err;
  EXPECT_EQ(nlohmann::json::parse(plain.out)["step_time_s"], nlohmann::json::parse(units.out)["step_time_s"]);
  EXPECT_THAT(simulate("link_bandwidth: 450us, nic_bandwidth: 50e9").err,
              testing::HasSubstr("node.link_bandwidth: 450us is not a number, as 450GB/s is"));
  EXPECT_THAT(simulate("link_bandwidth: 450GB/s, nic_bandwidth: 400Gb/s").err,
              testing::HasSubstr(
                  "node.nic_bandwidth: 400Gb/s is not a number, as 450GB/s is; its unit may be MB/s, GB/s, "
                  "TB/s, MiB/s, GiB/s, Mbit/s, Gbit/s, Tbit/s"));
  const Output silent = simulate("link_bandwidth: 450e9, nic_bandwidth: 50e9");
  EXPECT_EQ(silent.exit_code, 0);
  EXPECT_THAT(
      silent.err,
      testing::HasSubstr("leaves out latencies, which are then 0; dgx-h100 has "
                         "node.link_latency: 0.6 us, node.nic_latency: 2.7 us, node.host_per_op: 50 us\n"));
}

// Where a framework's allocator hands out memory, a plan has no slots to spare.
TEST(JobWords, ASearchDropsNoSlotsWhereAnAllocatorGivesMemory) {
  const auto drops = [](GivenKeys more, const std::string& max_stack = "") {
    return !open_job(small_job(std::move(more)), max_stack).options.without_moves.contains("drop-slots");
  };
  EXPECT_TRUE(drops({}));
  EXPECT_FALSE(drops({{"train.stack", {"megatron", "--stack"}}}));
  EXPECT_TRUE(drops({{"train.stack", {"oneflow", "--stack"}}}));
  EXPECT_FALSE(drops({}, "megatron"));
}

}  // namespace
}  // namespace boxcar::cli

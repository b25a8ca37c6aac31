// boxcar export: its tables compared with our keys and the other frameworks' names, whole files, refusals.
// Laws: export_laws_test.cpp.
#include "cli/export/export.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <yaml-cpp/yaml.h>

#include <fstream>
#include <set>
#include <sstream>

#include "bad_input.h"
#include "cli/export_command.h"
#include "cli/keys.h"
#include "export_rows.h"
#include "sbp/error.h"

namespace boxcar::cli::export_tests {
namespace {

using exports::Framework;
using exports::Row;
using ::testing::HasSubstr;
using ::testing::Not;
using tests::Output;
using tests::TemporaryFile;
using tests::Words;

bool is_exported(const Key& key) { return key.section != run_section; }

TEST(ExportTables, HaveEveryKeyOnce) {
  for (const Framework& framework : exports::frameworks()) {
    std::multiset<std::string> paths;
    for (const Row* row : exports::rows_of(framework)) {
      paths.insert(row->keys.begin(), row->keys.end());
      EXPECT_TRUE(!row->names.empty() || !row->limits.empty())
          << framework.name << " neither exports " << row->keys.front() << " nor says why not";
      EXPECT_TRUE(row->write || row->names.empty()) << framework.name << " " << row->keys.front();
    }
    for (const Key& key : keys())
      EXPECT_EQ(paths.count(key.path()), is_exported(key) ? 1u : 0u) << framework.name << " " << key.path();
    for (const std::string& path : paths) {
      const size_t dot = path.find('.');
      EXPECT_TRUE(find_key(path.substr(0, dot), path.substr(dot + 1))) << framework.name << " " << path;
    }
  }
}

// By framework: each name with the commit where it was read.
std::map<std::string, std::map<std::string, std::string>> known_names() {
  std::map<std::string, std::map<std::string, std::string>> known;
  for (const auto& framework : YAML::LoadFile(BOXCAR_SOURCE_DIR "/cli/export/names.yaml"))
    for (const YAML::Node& source : framework.second)
      for (const YAML::Node& name : source["names"])
        known[framework.first.Scalar()][name.Scalar()] = source["commit"].Scalar();
  return known;
}

TEST(ExportTables, HaveNamesThatWereReadSomewhere) {
  const auto known = known_names();
  for (const Framework& framework : exports::frameworks()) {
    ASSERT_TRUE(known.contains(framework.name));
    std::set<std::string> names;
    for (const Row* row : exports::rows_of(framework))
      for (const std::string& name : row->names) {
        EXPECT_TRUE(known.at(framework.name).contains(name)) << framework.name << " " << name;
        EXPECT_TRUE(names.insert(name).second) << framework.name << " has two rows that write " << name;
      }
    for (const exports::NameSource& source : framework.sources) EXPECT_EQ(source.commit.size(), 40u);
  }
}

TEST(ExportTables, NamesHaveTheSourcesThatTheCodeGives) {
  const YAML::Node file = YAML::LoadFile(BOXCAR_SOURCE_DIR "/cli/export/names.yaml");
  for (const Framework& framework : exports::frameworks()) {
    std::set<std::string> places;
    for (const YAML::Node& source : file[framework.name])
      places.insert(source["where"].Scalar() + " " + source["commit"].Scalar());
    for (const exports::NameSource& source : framework.sources)
      // Some files say how names behave.
      if (source.where.find("api.py") == std::string::npos &&
          source.where.find("pipeline_parallel.py") == std::string::npos) {
        EXPECT_TRUE(places.contains(source.where + " " + source.commit)) << source.where;
      }
  }
}

// The cell of a key in docs/export.md.
std::string cell(const Framework& framework, const std::string& path) {
  const Row* row = row_of(framework, path);
  if (row->names.empty()) return "no: " + row->limits;
  return row->limits.empty() ? "yes" : "yes, except " + row->limits;
}

// In any order: where a key stands among the others says nothing of how it is written.
TEST(ExportTables, AreDocumented) {
  std::set<std::string> rows, documented;
  for (const Key& key : keys()) {
    if (!is_exported(key)) continue;
    std::string row = "| " + key.path();
    for (const Framework& framework : exports::frameworks()) row += " | " + cell(framework, key.path());
    rows.insert(row + " |");
  }
  std::ifstream in(BOXCAR_SOURCE_DIR "/docs/export.md");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("| cluster.") || line.starts_with("| model.") || line.starts_with("| parallel.") ||
        line.starts_with("| train."))
      documented.insert(line);
  EXPECT_THAT(documented, testing::ContainerEq(rows));
}

// GPT-3 175B on 1,024 A100s with unfused attention.
const Words gpt3{"--model=gpt",
                 "--layers=96",
                 "--hidden=12288",
                 "--heads=96",
                 "--seq=2048",
                 "--vocab=51200",
                 "--cluster=dgx-a100-80g",
                 "--gpus=1024",
                 "--dp=16",
                 "--tp=8",
                 "--pp=8",
                 "--micro-batch=1",
                 "--global-batch=1536",
                 "--precision=fp16",
                 "--recompute=full",
                 "--zero=1",
                 "--attention=unfused"};

Words with(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

Output run_export(const std::string& to, const Words& job, const Words& more = {}) {
  return tests::run_program(with(with({"export", "--to", to}, job), more));
}

std::string golden(const std::string& name) {
  std::ifstream in(BOXCAR_SOURCE_DIR "/tests/cli/export_golden/" + name);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

class ExportGolden : public ::testing::TestWithParam<const char*> {};

TEST_P(ExportGolden, Gpt3) {
  const Output output = run_export(GetParam(), gpt3);
  EXPECT_EQ(output.exit_code, 0) << output.err;
  EXPECT_EQ(output.out, golden(std::string("gpt3.") + GetParam()));
  // Each comment at the end stands on stderr too.
  std::istringstream lines(output.out);
  std::string notes;
  bool all_said = true;
  const std::string comment = exports::find_framework(GetParam())->comment + " ";
  for (std::string line; std::getline(lines, line);) {
    const bool left = line.starts_with(comment + "left to you: "),
               unsaid = line.starts_with(comment + "cannot be said in ");
    if (left || unsaid) notes += "boxcar: " + line.substr(comment.size()) + "\n";
    all_said = all_said && !unsaid;
  }
  EXPECT_EQ(output.err, notes);
  EXPECT_EQ(run_export(GetParam(), gpt3, {"--strict"}).exit_code, all_said ? 0 : 1);
}

TEST_P(ExportGolden, LlamaWithEverythingElse) {
  const Output output = run_export(GetParam(), {"--model=llama2-70b",
                                                "--cluster=dgx-h100",
                                                "--gpus=512",
                                                "--tp=8",
                                                "--pp=4",
                                                "--context-parallel=2",
                                                "--virtual-stages=2",
                                                "--stage-layers=9,10,10,10,10,10,10,11",
                                                "--zero=1",
                                                "--sequence-parallel",
                                                "--attention=flash",
                                                "--precision=bf16",
                                                "--fused-loss",
                                                "--logits=half",
                                                "--fused-optimizer",
                                                "--weight-decay=0.1",
                                                "--beta2=0.95",
                                                "--clip-norm=0",
                                                "--stack=megatron",
                                                "--overlap-grad",
                                                "--global-batch=256",
                                                "--memory-margin=8%"});
  EXPECT_EQ(output.exit_code, 0) << output.err;
  EXPECT_EQ(output.out, golden(std::string("llama.") + GetParam()));
}

INSTANTIATE_TEST_SUITE_P(To, ExportGolden, ::testing::Values("megatron", "nemo", "torchtitan", "deepspeed"),
                         [](const auto& named) { return std::string(named.param); });

TEST(ExportCommand, WritesAPlanAsItsJob) {
  const TemporaryFile plan("plan.txt", ""), job("job.yaml", tests::job_file + "parallel: {tp: 2, zero: 1}\n"),
      out("out.sh", "");
  ASSERT_EQ(tests::run_program({"simulate", job.path(), "--save-plan", plan.path()}).exit_code, 0);
  const Output of_job = tests::run_program({"export", job.path(), "--to", "megatron"});
  const Output of_plan = tests::run_program({"export", plan.path(), "--to", "megatron"});
  EXPECT_EQ(of_job.exit_code, 0) << of_job.err;
  EXPECT_GT(of_job.out.size(), 500u);
  EXPECT_EQ(of_plan.out, of_job.out);
  EXPECT_EQ(of_plan.err, of_job.err);
  const Output to_file = tests::run_program({"export", plan.path(), "--to", "megatron", "-o", out.path()});
  EXPECT_EQ(to_file.out, "");
  std::ifstream in(out.path());
  std::stringstream text;
  text << in.rdbuf();
  EXPECT_EQ(text.str(), of_job.out);
}

std::string text_of_file(const std::string& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

TEST(ExportCommand, SaysWhatTheSearchFoundBeyondKeys) {
  const TemporaryFile plan("plan.txt", ""), job("job.yaml", tests::job_file + "parallel: {tp: 2, pp: 2}\n");
  ASSERT_EQ(
      tests::run_program({"simulate", job.path(), "--global-batch=16", "--save-plan", plan.path()}).exit_code,
      0);
  const std::string text = text_of_file(plan.path());
  const std::string label = "label model.family = gpt\n";
  ASSERT_NE(text.find(label), std::string::npos) << text.substr(0, 2000);
  const TemporaryFile found("found.txt",
                            tests::replace_all(text, label, "label search.layouts.partial = true\n" + label));
  EXPECT_THAT(
      tests::run_program({"export", found.path(), "--to", "nemo"}).err,
      HasSubstr(
          "boxcar: cannot be said in nemo: layouts: the search chose them op by op, with the slots that "
          "go with them; there they are those of the framework's own code\n"));
}

// A flavor has sizes of its own, and the vocabulary of Llama 3.
TEST(ExportCommand, SaysWhichTokenizerAFlavorNeeds) {
  const Words llama{"--model=llama3-8b", "--cluster=dgx-h100", "--gpus=8", "--precision=bf16"};
  EXPECT_EQ(run_export("torchtitan", llama).err.find("tokenizer"), std::string::npos);
  EXPECT_THAT(run_export("torchtitan", llama, {"--vocab=64000"}).err,
              HasSubstr("the vocabulary is the tokenizer's; give one of 64000 words"));
}

TEST(ExportCommand, SaysTheNumbersOfNormsAndPositions) {
  const Words llama{"--model=llama3-8b", "--cluster=dgx-h100", "--gpus=8", "--precision=bf16"};
  const Output megatron = run_export("megatron", llama, {"--norm-epsilon=1e-6"});
  EXPECT_THAT(megatron.out, HasSubstr("    --norm-epsilon 1e-06 \\\n"));
  EXPECT_THAT(megatron.out, HasSubstr("    --rotary-base 500000 \\\n"));
  EXPECT_THAT(megatron.err, Not(HasSubstr("model.")));
  EXPECT_THAT(run_export("megatron", llama, {"--rotary-base=10000.5"}).err,
              HasSubstr("model.rotary_base 10000.5: --rotary-base is a whole number\n"));
  const Output nemo = run_export("nemo", llama, {"--norm-epsilon=1e-6"});
  EXPECT_THAT(nemo.out, HasSubstr("rotary_base=500000,"));
  EXPECT_THAT(nemo.out, HasSubstr("layernorm_epsilon=1e-06,"));
  EXPECT_THAT(run_export("torchtitan", llama).err, Not(HasSubstr("flavor is")));
  const std::string others =
      run_export("torchtitan", llama, {"--rotary-base=10000", "--norm-epsilon=1e-6"}).err;
  EXPECT_THAT(others, HasSubstr("model.rotary_base 10000: rope_theta of the flavor is 500,000\n"));
  EXPECT_THAT(others, HasSubstr("model.norm_epsilon 1e-06: norm_eps of the flavor is 1e-5\n"));
  EXPECT_THAT(run_export("torchtitan", llama, {"--layers=16", "--norm-epsilon=1e-6"}).err,
              HasSubstr("norm_eps=1e-06, rope_theta=500000, "));
}

TEST(ExportCommand, SaysWhatModelsOfTodayHave) {
  const Words machine{"--cluster=dgx-h100", "--gpus=8", "--precision=bf16", "--attention=flash"};
  const Words oss = with({"--model=gpt-oss-20b", "--experts=8", "--weigh-inside"}, machine);
  const Output megatron = run_export("megatron", oss);
  for (const char* line : {"--kv-channels 64", "--window-size '(127,0)'", "--window-attn-skip-freq 2"})
    EXPECT_THAT(megatron.out, HasSubstr(fmt::format("    {} \\\n", line)));
  EXPECT_THAT(megatron.err, Not(HasSubstr("model.")));
  const std::string nemo = run_export("nemo", oss).out;
  for (const char* text : {"kv_channels=64,", "window_size=(127, 0),", "window_attn_skip_freq=2,"})
    EXPECT_THAT(nemo, HasSubstr(text));
  const std::string torchtitan = run_export("torchtitan", oss).err;
  for (const char* key : {"head_dim 64", "attention_window 128", "full_attention_every 2"})
    EXPECT_THAT(torchtitan, HasSubstr(fmt::format("model.{}: ", key)));
  const Words deepseek = with({"--model=deepseek-v3", "--layers=4", "--experts=16"}, machine);
  const std::string latents = run_export("megatron", deepseek).out;
  for (const char* line :
       {"--multi-latent-attention", "--q-lora-rank 1536", "--kv-lora-rank 512", "--qk-head-dim 128",
        "--qk-pos-emb-head-dim 64", "--v-head-dim 128", "--qk-layernorm", "--moe-layer-freq '[0]*3+[1]*1'",
        "--moe-shared-expert-intermediate-size 2048", "--moe-router-num-groups 8",
        "--moe-router-group-topk 4", "--moe-router-score-function sigmoid",
        "--moe-router-topk-scaling-factor 2.5"})
    EXPECT_THAT(latents, HasSubstr(fmt::format("    {} \\\n", line)));
  EXPECT_THAT(latents, Not(HasSubstr("--kv-channels")));
  const Output recipe_of_latents = run_export("nemo", deepseek);
  EXPECT_THAT(recipe_of_latents.out, HasSubstr("moe_layer_freq=[0] * 3 + [1] * 1,"));
  for (const char* text : {"moe_router_num_groups=8,", "moe_router_group_topk=4,",
                           "moe_router_score_function=\"sigmoid\",", "moe_router_topk_scaling_factor=2.5,"})
    EXPECT_THAT(recipe_of_latents.out, HasSubstr(text));
  EXPECT_THAT(run_export("megatron", with(deepseek, {"--top-k=4"})).err,
              HasSubstr("model.expert_groups 8: groups are chosen there by the sum of"));
  EXPECT_THAT(recipe_of_latents.err, HasSubstr("model.kv_lora_rank 512: "));
  EXPECT_THAT(run_export("torchtitan", deepseek).err, HasSubstr("model.kv_lora_rank 512: "));
  const Words qwen3 = with({"--model=qwen3-30b-a3b", "--layers=2", "--experts=8"}, machine);
  const std::string mixture = run_export("megatron", qwen3).out;
  for (const char* line :
       {"--qk-layernorm", "--kv-channels 128", "--moe-ffn-hidden-size 768", "--rotary-base 1000000"})
    EXPECT_THAT(mixture, HasSubstr(fmt::format("    {} \\\n", line)));
  const Words modules = with(qwen3, {"--recompute=selective", "--recompute-modules=moe_act,layernorm"});
  EXPECT_THAT(run_export("megatron", modules).out,
              HasSubstr("    --recompute-modules layernorm moe_act \\\n"));
  EXPECT_THAT(run_export("nemo", modules).out, HasSubstr("recompute_modules=[\"layernorm\",\"moe_act\"],"));
  const std::string recipe = run_export("nemo", qwen3).out;
  for (const char* text : {"qk_layernorm=True,", "moe_ffn_hidden_size=768,"})
    EXPECT_THAT(recipe, HasSubstr(text));
}

TEST(ExportCommand, WritesAdagradWhereAFrameworkHasIt) {
  const Words adagrad = with({"--optimizer=adagrad"}, gpt3);
  const auto doc =
      nlohmann::json::parse(run_export("deepspeed", adagrad).out, nullptr, true, /*ignore_comments=*/true);
  EXPECT_EQ(doc["optimizer"]["type"], "Adagrad");
  EXPECT_EQ(doc["optimizer"]["params"]["eps"], 1e-10);
  EXPECT_FALSE(doc["optimizer"]["params"].contains("betas"));
  for (const char* framework : {"megatron", "nemo", "torchtitan"})
    EXPECT_THAT(run_export(framework, adagrad).err, HasSubstr("train.optimizer adagrad: ")) << framework;
}

TEST(ExportCommand, SaysThatTrustRatiosDiffer) {
  const Words lamb = with({"--optimizer=lamb"}, gpt3);
  const auto doc =
      nlohmann::json::parse(run_export("deepspeed", lamb).out, nullptr, true, /*ignore_comments=*/true);
  EXPECT_EQ(doc["optimizer"]["type"], "Lamb");
  EXPECT_EQ(doc["optimizer"]["params"]["eps"], 1e-6);
  for (const Framework& framework : exports::frameworks())
    for (const std::string optimizer : {"lars", "lamb"})
      EXPECT_THAT(run_export(framework.name, with({"--optimizer=" + optimizer}, gpt3)).err,
                  HasSubstr("train.optimizer " + optimizer + ": "))
          << framework.name;
}

TEST(ExportCommand, WritesLionWhereAFrameworkHasIt) {
  const Words lion = with({"--optimizer=lion"}, gpt3);
  const auto doc =
      nlohmann::json::parse(run_export("deepspeed", lion).out, nullptr, true, /*ignore_comments=*/true);
  EXPECT_EQ(doc["optimizer"]["type"], "Lion");
  EXPECT_EQ(doc["optimizer"]["params"]["betas"], nlohmann::json::array({0.9, 0.99}));
  EXPECT_FALSE(doc["optimizer"]["params"].contains("eps"));
  for (const char* framework : {"megatron", "nemo", "torchtitan"})
    EXPECT_THAT(run_export(framework, lion).err, HasSubstr("train.optimizer lion: ")) << framework;
}

TEST(ExportCommand, WritesMomentsOfSixteenBitsWhereAFrameworkHasThem) {
  const Words half = with({"--moments=bf16", "--zero=1"}, gpt3);
  EXPECT_THAT(run_export("megatron", half).out,
              HasSubstr("    --use-precision-aware-optimizer \\\n    --exp-avg-dtype bf16 \\\n"));
  EXPECT_THAT(run_export("nemo", half).out, HasSubstr("exp_avg_sq_dtype=torch.bfloat16,"));
  for (const char* framework : {"torchtitan", "deepspeed"})
    EXPECT_THAT(run_export(framework, half).err, HasSubstr("train.moments bf16: moments are float32"));
  for (const char* framework : {"megatron", "nemo"})
    EXPECT_THAT(run_export(framework, with({"--moments=bf16", "--optimizer=momentum"}, gpt3)).err,
                HasSubstr("train.moments bf16: moments of 16 bits need adam, "))
        << framework;
}

TEST(ExportCommand, LetsFilesBeRead) {
  const Output json = run_export("deepspeed", gpt3);
  const auto doc = nlohmann::json::parse(json.out, nullptr, true, /*ignore_comments=*/true);
  EXPECT_EQ(doc["train_batch_size"], 1536);
  EXPECT_EQ(doc["optimizer"]["params"]["betas"], nlohmann::json::array({0.9, 0.999}));
  const TemporaryFile script("run.sh", run_export("megatron", gpt3).out);
  EXPECT_EQ(tests::run_another("/bin/sh", {"-n", script.path()}).exit_code, 0);
#ifdef BOXCAR_PYTHON
  const TemporaryFile recipe("recipe.py", run_export("nemo", gpt3).out),
      toml("job.toml", run_export("torchtitan", gpt3, {"--clip-norm=0"}).out);
  const Output parsed = tests::run_another(
      BOXCAR_PYTHON,
      {"-c",
       "import ast, sys\nast.parse(open(sys.argv[1]).read())\n"
       "try:\n    import tomllib\nexcept ImportError:\n    sys.exit(0)\n"
       "print(tomllib.load(open(sys.argv[2], 'rb'))['parallelism']['pipeline_parallel_degree'])",
       recipe.path(), toml.path()});
  EXPECT_EQ(parsed.exit_code, 0) << parsed.err;
  EXPECT_THAT(parsed.out, ::testing::AnyOf("8\n", ""));
#endif
}

TEST(BadInput, Exports) {
  const TemporaryFile bare("bare.txt", "plan bare\ndevices 1\nmicro_batches 1\n");
  const tests::CommandCase cases[] = {
      {{}, 2, "--to: missing; it is the framework to write for (or give --chakra, for traces)"},
      {{"--chakra"}, 2, "--output: missing; it is the folder of the traces"},
      {{"--chakra", "--to=nemo", "-o", "x"}, 2, "--to: cannot be given with --chakra"},
      {{"--to=nemo", "--ranks=0"}, 2, "--ranks: has no effect without --chakra"},
      {{"--chakra", "-o", "x", "--ranks=9", "--model=gpt2", "--cluster=dgx-a100-80g", "--gpus=8"},
       2,
       "--ranks: expected a number from 0 to 7, got \"9\" (ranks are as in 0-7,16)"},
      {{"--to"}, 2, "--to: needs a value"},
      {{"--to=nemmo"},
       2,
       "--to: no framework is named \"nemmo\" (did you mean nemo?); known are megatron, nemo, torchtitan, "
       "deepspeed"},
      {{"--to=megatron", "--model=resnet50", "--cluster=dgx-a100-80g", "--gpus=8"},
       2,
       "--to: megatron trains models of family gpt, bert, llama, t5, not resnet (deepspeed takes any model)"},
      {{"--to=nemo", "--model=bert-large", "--cluster=dgx-a100-80g", "--gpus=8"},
       2,
       "--to: nemo trains models of family gpt, llama, not bert (deepspeed takes any model)"},
      {{"--to=megatron", "--model=gpt2", "--cluster=dgx-a100-80g", "--gpus=8", "-o", "no/such/folder/x"},
       2,
       "no/such/folder/x: cannot be written: No such file or directory"},
      {{"--to=megatron", "--strct"},
       2,
       "--strct: unknown flag (did you mean --strict?); `boxcar export --help` lists all"},
      {{"--to=megatron", "--gpus=8"},
       2,
       "--model: missing; name a model (`boxcar models` lists them) or give a job file"},
  };
  tests::expect_refused({"export"}, cases);
}

TEST(ExportCommand, RefusesAPlanWithoutAJob) {
  const TemporaryFile plan("plan.txt", ""), job("job.yaml", tests::job_file);
  ASSERT_EQ(tests::run_program({"simulate", job.path(), "--save-plan", plan.path()}).exit_code, 0);
  std::istringstream lines(text_of_file(plan.path()));
  std::string without;
  for (std::string line; std::getline(lines, line);)
    if (!line.starts_with("label ") || line.starts_with("label cluster.preset ")) without += line + "\n";
  const TemporaryFile bare("bare.txt", without);
  tests::expect_refused(
      {"export", "--to=nemo", bare.path()}, 2,
      "FILE: has no labels that say which job it is for (export one that search -o or simulate "
      "--save-plan wrote)",
      "FILE", bare.path());
  tests::expect_refused({"export", "--to=nemo", plan.path(), "--tp=2"}, 2,
                        "--tp: has no effect on a saved plan; of a job's keys it takes --cluster, --device, "
                        "--attention-kernel and --routing-skew");
}

TEST(ExportCommand, SaysThatAJobDoesNotFit) {
  const Words job{"--model=gpt2", "--layers=2", "--cluster=dgx-a100-80g",
                  "--gpus=8",     "--dp=8",     "--micro-batch=256"};
  const TemporaryFile plan("plan.txt", "");
  const std::string refused = tests::run_program(with({"simulate", "--save-plan", plan.path()}, job)).err;
  const std::string why = refused.substr(0, refused.find(';'));  // and what would help
  ASSERT_THAT(why, ::testing::StartsWith("boxcar: does not fit: stage0 needs "));
  const std::string told = "boxcar: on dgx-a100-80g, the job " + why.substr(8) + "\n";
  const Output output = run_export("megatron", job);
  EXPECT_EQ(output.exit_code, 0);
  EXPECT_EQ(output.err, told);
  EXPECT_EQ(tests::run_program({"export", plan.path(), "--to=megatron"}).err, told);
}

TEST(ExportCommand, SaysWhereRecomputationFindsNothing) {
  const Words job{"--model=gpt2", "--cluster=dgx-a100-80g", "--gpus=8", "--recompute=selective"};
  for (const Framework& framework : exports::frameworks()) {
    const Output fused = run_export(framework.name, with(job, {"--attention=flash"})),
                 unfused = run_export(framework.name, with(job, {"--attention=unfused"}));
    EXPECT_EQ(fused.exit_code, 0) << fused.err;
    const std::string line =
        framework.comment +
        " recompute selective finds nothing to compute again in this plan; none is written\n";
    EXPECT_THAT(fused.out, HasSubstr(line));
    EXPECT_THAT(fused.err, HasSubstr("--recompute: has no effect unless attention is unfused"));
    EXPECT_THAT(unfused.out, Not(HasSubstr("finds nothing")));
  }
}

TEST(ExportCommand, DealsExpertsOutAsMegatronDoes) {
  const Words mixture{"--model=gpt2", "--experts=8", "--cluster=dgx-a100-80g", "--gpus=8",
                      "--tp=2",       "--ep=4",      "--sequence-parallel",    "--precision=bf16"};
  const Output whole = run_export("megatron", with(mixture, {"--etp=1"}));
  EXPECT_THAT(whole.out, HasSubstr("    --expert-model-parallel-size 4 \\\n"));
  EXPECT_THAT(whole.out, HasSubstr("    --expert-tensor-parallel-size 1 \\\n"));
  EXPECT_THAT(whole.out, HasSubstr(", ep 4 inside dp x tp"));
  EXPECT_THAT(run_export("megatron", mixture).out, Not(HasSubstr("--expert-tensor-parallel-size")));
  EXPECT_THAT(run_export("nemo", with(mixture, {"--etp=1"})).out,
              HasSubstr("expert_tensor_parallel_size=1,"));
  EXPECT_THAT(run_export("nemo", mixture).out, Not(HasSubstr("expert_tensor_parallel_size")));
}

TEST(ExportCommand, SaysHowExpertsAreBalanced) {
  const Words dense{"--model=gpt2", "--cluster=dgx-a100-80g", "--gpus=8"};
  for (const auto& [name, coefficient] : {std::pair("megatron", "aux_loss with --moe-aux-loss-coeff"),
                                          {"nemo", "aux_loss with moe_aux_loss_coeff"}}) {
    EXPECT_THAT(run_export(name, with(dense, {"--experts=8"})).out, HasSubstr(coefficient));
    EXPECT_THAT(run_export(name, dense).out, Not(HasSubstr("Experts are balanced")));
  }
}

// The export lists the decisions of the user's own program, and does not count them against the framework.
TEST(ExportCommand, LeavesToTheUserWhatIsTheirs) {
  const Words job{"--model=gpt2", "--cluster=dgx-a100-80g", "--gpus=8", "--dp=2",
                  "--pp=4",       "--overlap-param=false",  "--zero=1"};
  const Output output = run_export("deepspeed", job, {"--strict"});
  EXPECT_EQ(output.exit_code, 0);
  EXPECT_THAT(
      output.err,
      HasSubstr("boxcar: left to you: parallel.pp 4: the program builds PipelineModule(num_stages=4)\n"));
  const Output strict = run_export("deepspeed", job, {"--strict", "--virtual-stages=3"});
  EXPECT_EQ(strict.exit_code, 1);
  EXPECT_THAT(strict.err, HasSubstr("boxcar: --strict: 1 thing cannot be said in deepspeed"));
}

// The export writes or tells in what form stages send tensors, and in which buckets gradients are reduced.
TEST(ExportCommand, SaysWhatStagesSendToDeepSpeed) {
  const Words job{"--model=llama3-8b", "--cluster=dgx-h100", "--gpus=16", "--dp=2", "--tp=4", "--pp=2"};
  EXPECT_THAT(run_export("deepspeed", job, {"--scatter-gather=true"}).out,
              HasSubstr("\"pipe_partitioned\": true,\n    \"grad_partitioned\": true"));
  const std::string whole = run_export("deepspeed", job).out;
  EXPECT_THAT(whole, HasSubstr("\"pipe_partitioned\": false,\n    \"grad_partitioned\": false"));
  EXPECT_THAT(
      whole,
      HasSubstr("// Without ZeRO buckets of gradients have a size of their own; the plan's have 25 MB.\n"));
  EXPECT_THAT(run_export("torchtitan", job, {"--zero=2"}).out,
              HasSubstr("# Gradients are reduced layer by layer; the plan has buckets of 25 MB.\n"));
}

// torch.compile compiles the loss too, with the cast of its logits.
TEST(ExportCommand, SaysWhichPipelinesTorchtitanHas) {
  const Words job{
      "--model=llama2-7b", "--stack=torchtitan", "--cluster=dgx-a100-80g", "--pp=4", "--gpus=8", "--dp=2",
      "--global-batch=16", "--virtual-stages=2", "--precision=bf16"};
  const Output zb = run_export("torchtitan", job, {"--schedule=zb-v"});
  EXPECT_THAT(zb.out, HasSubstr("ZBVZeroBubble"));
  EXPECT_THAT(zb.err, Not(HasSubstr("parallel.schedule")));
  const std::string few = "DualPipeV takes a micro-batch for each of 2 x pp stages at least";
  const Output dualpipe = run_export("torchtitan", job, {"--schedule=dualpipe-v"});  // 8 micro-batches
  EXPECT_THAT(dualpipe.out, HasSubstr("DualPipeV"));
  EXPECT_THAT(dualpipe.err, Not(HasSubstr(few)));
  EXPECT_THAT(run_export("torchtitan", job, {"--schedule=dualpipe-v", "--micro-batch=2"}).err,
              HasSubstr(few));
}

TEST(ExportCommand, KnowsWhatTorchCompileFuses) {
  const Words job{"--model=llama3-8b", "--cluster=dgx-h100", "--gpus=8", "--zero=3", "--preset=modern"};
  EXPECT_THAT(run_export("torchtitan", job).err, Not(HasSubstr("train.")));
  const std::string eager = run_export("torchtitan", job, {"--off=fuse_patterns,fuse_elementwise"}).err;
  EXPECT_THAT(eager, HasSubstr("train.logits half: the loss reads float32 unless"));
  EXPECT_THAT(eager, HasSubstr("train.fused_loss true: the loss is fused only where"));
  EXPECT_THAT(
      run_export("torchtitan", job, {"--logits=float32", "--fused-loss=false"}).out,
      HasSubstr(
          "# torch.compile fuses the loss, and the cast of its logits; the plan has logits in float32 and "
          "single kernels.\n"));
}

TEST(ExportCommand, IsStrict) {
  const Words job{"--model=gpt2", "--cluster=dgx-a100-80g", "--gpus=8",   "--dp=1", "--pp=4",
                  "--tp=2",       "--schedule=zb-h1",       "--gelu=tanh"};
  const TemporaryFile out("out.sh", "before");
  const Output output = run_export("megatron", job, {"--strict", "-o", out.path()});
  EXPECT_EQ(output.exit_code, 1);
  EXPECT_EQ(output.out, "");
  EXPECT_EQ(text_of_file(out.path()), "before");
  EXPECT_EQ(output.err,
            "boxcar: cannot be said in megatron: parallel.schedule zb-h1: pipelines run 1F1B there, which is "
            "written\nboxcar: --strict: 1 thing cannot be said in megatron (without --strict the rest is "
            "written)\n");
  Words sayable = job;
  sayable[6] = "--schedule=1f1b";
  const Output all = run_export("megatron", sayable, {"--strict"});
  EXPECT_EQ(all.exit_code, 0) << all.err;
  EXPECT_EQ(all.err, "");
  EXPECT_THAT(all.out, Not(HasSubstr("cannot be said")));
}

}  // namespace
}  // namespace boxcar::cli::export_tests

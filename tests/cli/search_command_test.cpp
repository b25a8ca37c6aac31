// boxcar search, as run by a user and by a program.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

#include "cli/search_report.h"
#include "support/run_program.h"

namespace boxcar::tests {
namespace {

using nlohmann::json;

using Words = std::vector<std::string>;

Output search(Words more) {
  Words arguments{"search",    "--model=gpt",      "--layers=2",  "--hidden=64",
                  "--heads=4", "--seq=32",         "--vocab=128", "--cluster=dgx-a100-80g",
                  "--gpus=2",  "--global-batch=8", "--json"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return run_program(arguments);
}

TEST(SearchCommand, WritesDegreesAsWhatTheyAre) {
  const json doc = json::parse(search({"--simulate=3"}).out);
  EXPECT_EQ(doc["fits"], true);
  const json& best = doc["candidates"][0];
  for (const char* degree :
       {"dp", "tp", "pp", "context_parallel", "ep", "virtual_stages", "micro_batch", "zero"})
    EXPECT_TRUE(best[degree].is_number_integer()) << degree;
  EXPECT_EQ(best["dp"].get<int>() * best["tp"].get<int>() * best["pp"].get<int>(), 2);
  EXPECT_TRUE(best["sequence_parallel"].is_boolean());
  EXPECT_TRUE(best["stage_layers"].is_array());
  EXPECT_TRUE(best["schedule"].is_string());
  EXPECT_GE(doc["search"]["gap_of_degrees"], 0);
  EXPECT_LT(doc["search"]["gap_of_degrees"], 1);
  EXPECT_EQ(doc["search"]["ended"], true);
}

// With a fast link to the host, offloading beats the plans that fit without it.
TEST(SearchCommand, TriesBothValuesOfASwitchThatIsAny) {
  const auto best = [](const std::string& offload) {
    const Output found = run_program({"search", "--model=llama-2-7b", "--cluster=dgx-a100-40g", "--gpus=8",
                                      "--global-batch=32", "--what-if=bandwidth.pcie=10x", "--simulate=3",
                                      "--offload-activations=" + offload, "--json"});
    EXPECT_EQ(found.exit_code, 0) << found.err;
    return json::parse(found.out)["candidates"][0];
  };
  const json device = best("false"), host = best("true"), any = best("any");
  EXPECT_EQ(any, host);
  EXPECT_EQ(any["offload_activations"], true);
  EXPECT_LT(any["step_time_s"], device["step_time_s"]);
}

// More effort simulates more plans, and leaves a smaller gap.
TEST(SearchCommand, TakesAnEffort) {
  const auto with = [](const Words& words) { return json::parse(search(words).out); };
  const json quick = with({"--effort=quick"}), normal = with({}), near = with({"--gap=10%"}),
             thorough = with({"--effort=thorough"}), proved = with({"--prove"}), six = with({"--effort=6"});
  EXPECT_EQ(quick["search"]["simulated"], 4);
  EXPECT_EQ(quick["search"]["ended"], false);
  EXPECT_EQ(six["search"]["simulated"], 6);
  EXPECT_EQ(thorough["search"]["ended"], true);
  EXPECT_LE(near["search"]["gap_of_degrees"], 0.1);
  EXPECT_EQ(thorough["search"]["gap_of_degrees"], 0);
  EXPECT_EQ(proved["search"]["gap_of_degrees"], 0);
  EXPECT_GT(thorough["search"]["simulated"], normal["search"]["simulated"]);
  double last = 1e9;
  for (const json* doc : {&quick, &six, &normal, &near, &thorough}) {
    EXPECT_LE((*doc)["step_time_s"].get<double>(), last * 1.001);
    last = (*doc)["step_time_s"];
  }
}

// Searches each precision and takes the best of all.
TEST(SearchCommand, SearchesSeveralPrecisions) {
  const auto step = [](const json& doc) { return doc["step_time_s"].get<double>(); };
  const Words rest{"--hidden=1024", "--seq=512", "--tp=1"};
  const auto with = [&](const std::string& precision) {
    Words words = rest;
    words.push_back("--precision=" + precision);
    return json::parse(search(words).out);
  };
  const json fp32 = with("fp32"), bf16 = with("bf16"), both = with("fp32,bf16");
  EXPECT_LT(step(bf16), step(fp32));
  EXPECT_EQ(step(both), step(bf16));
  EXPECT_EQ(both["candidates"][0]["precision"], "bf16");
  EXPECT_TRUE(both["flags"].get<std::string>().ends_with(" --precision bf16"));
  EXPECT_EQ(both["best"]["configuration"]["train.precision"], "bf16");
  EXPECT_EQ(both["search"]["points"].get<int>(),
            fp32["search"]["points"].get<int>() + bf16["search"]["points"].get<int>());
  EXPECT_EQ(both["candidates"].size(), fp32["candidates"].size() + bf16["candidates"].size());
  const Output wrong = search({"--precision=fp32,fp9"});
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_EQ(
      wrong.err,
      "boxcar: --precision: got \"fp9\", expected fp32, tf32, fp16, bf16, fp64, fp8 (did you mean fp8?)\n");
}

// The front begins with the fastest plan and ends with the smallest.
TEST(SearchCommand, SearchesForTheFrontOfTwoObjectives) {
  const Words rest{"--hidden=1024", "--seq=512"};
  const auto with = [&](const Words& more) {
    Words words = rest;
    words.insert(words.end(), more.begin(), more.end());
    return json::parse(search(words).out);
  };
  const json doc = with({"--pareto=time,memory"}), smallest = with({"--objective=memory"});
  const json& front = doc["pareto"];
  ASSERT_GE(front.size(), 3u);  // also between the ends
  EXPECT_EQ(front.front()["step_time_s"], doc["step_time_s"]);
  EXPECT_EQ(front.back()["peak_memory_bytes"], smallest["candidates"][0]["peak_memory_bytes"]);
  for (size_t i = 1; i < front.size(); ++i)
    EXPECT_LT(front[i]["peak_memory_bytes"], front[i - 1]["peak_memory_bytes"]);
  EXPECT_EQ(search({"--pareto=time"}).err,
            "boxcar: --pareto: needs two objectives or more, as time,memory\n");
  EXPECT_EQ(search({"--pareto=time,time"}).err, "boxcar: --pareto: time is given twice\n");
  EXPECT_EQ(search({"--pareto=time,size"}).err,
            "boxcar: --pareto: got \"size\", expected time, memory or cost\n");
}

// Some kB of 9.6 GB are no reason for a slower step.
TEST(SearchCommand, DecidesNearTiesByTime) {
  const json doc = json::parse(
      run_program({"search", "--model=llama3-8b", "--layers=4", "--seq=2048", "--cluster=dgx-a100-80g",
                   "--gpus=4", "--global-batch=8", "--precision=bf16", "--objective=memory", "--json"})
          .out);
  const json& best = doc["candidates"][0];
  for (const json& c : doc["candidates"]) {
    EXPECT_GE(c["peak_memory_bytes"].get<double>(), 0.999 * best["peak_memory_bytes"].get<double>());
    if (c["peak_memory_bytes"].get<double>() <= 1.001 * best["peak_memory_bytes"].get<double>()) {
      EXPECT_GE(c["step_time_s"].get<double>(), 0.999 * best["step_time_s"].get<double>());
    }
  }
}

// As simulate refuses them.
TEST(SearchCommand, RefusesTypesThatTheDeviceHasNoRateFor) {
  EXPECT_EQ(
      search({"--cluster=dgx-1-v100-32g", "--precision=bf16"}).err,
      "boxcar: --precision: bf16: device v100-sxm2-32g has no bfloat16 rate (add one to peak_flops in its "
      "description, or use fp16)\n");
  EXPECT_EQ(search({"--cluster=dgx-1-v100-32g", "--preset=modern"}).exit_code, 2);
}

// A framework's limits bind the search; keys that are given have to agree.
TEST(SearchCommand, StaysWithinWhatAFrameworkRuns) {
  const json doc = json::parse(search({"--max-stack=megatron", "--gpus=8", "--layers=4"}).out);
  for (const json& c : doc["candidates"]) {
    EXPECT_LE(c["zero"], 1);
    EXPECT_EQ(c["schedule"], "1f1b");
    EXPECT_EQ(c["layouts"], "hints");
    EXPECT_EQ(c["mesh_order"], "pp,dp,cp,tp");
  }
  const json sharded =
      json::parse(search({"--max-stack=deepspeed", "--zero=3", "--gpus=8", "--layers=4"}).out);
  for (const json& c : sharded["candidates"]) EXPECT_EQ(c["zero"], 3);
  const json piped = json::parse(
      search({"--max-stack=deepspeed", "--pp=2", "--gpus=8", "--layers=4", "--precision=bf16"}).out);
  EXPECT_GE(piped["candidates"].size(), 2u);
  for (const json& c : piped["candidates"]) {
    EXPECT_LE(c["zero"], 1);
    EXPECT_EQ(c["sequence_parallel"], false);
  }
  EXPECT_EQ(search({"--max-stack=megatron", "--zero=1"}).exit_code, 0);
  // The last stage has the head, so level stages would be unequal.
  const json equal =
      json::parse(search({"--max-stack=megatron", "--pp=2", "--virtual-stages=1", "--layers=16",
                          "--hidden=1024", "--heads=8", "--seq=512", "--vocab=100000", "--global-batch=16"})
                      .out);
  for (const json& c : equal["candidates"]) {
    const auto layers = c["stage_layers"].get<std::vector<int>>();
    const auto [least, most] = std::minmax_element(layers.begin(), layers.end());
    EXPECT_LE(*most - *least, 1) << c;
  }
  const auto refused = [](const Words& flags) { return search(flags).err; };
  EXPECT_EQ(refused({"--max-stack=megatron", "--zero=2"}),
            "boxcar: --zero: megatron runs zero 0..1 alone (--max-stack megatron)\n");
  EXPECT_EQ(refused({"--max-stack=torchtitan", "--schedule=zb-h1"}),
            "boxcar: --schedule: torchtitan runs schedule 1f1b or gpipe or zb-v or dualpipe-v alone "
            "(--max-stack torchtitan)\n");
  EXPECT_EQ(run_program({"search", "--model=llama3-8b", "--layers=8", "--gpus=16", "--global-batch=16",
                         "--cluster=dgx-h100", "--stack=torchtitan", "--max-stack=torchtitan",
                         "--preset=modern", "--schedule=dualpipe-v", "--pp=4", "--dp=4"})
                .err,
            "boxcar: parallel: schedule dualpipe-v, pp 4, dp 4 contradict each other: torchtitan runs "
            "dualpipe-v with 2 x pp micro-batches or more alone (--max-stack torchtitan)\n");
  EXPECT_THAT(
      refused({"--max-stack=deepspeed", "--zero=2", "--pp=2", "--gpus=4"}),
      ::testing::HasSubstr("deepspeed runs zero 0..1 alone where pp is 2 or more (--max-stack deepspeed)"));
  EXPECT_EQ(refused({"--max-stack=torchtitan"}),
            "boxcar: --model: bias true; torchtitan runs false alone (--max-stack torchtitan)\n");
  const Words llama{"--max-stack=torchtitan", "--stack=torchtitan", "--family=llama",
                    "--kv-heads=4",           "--gpus=8",           "--layers=4"};
  const auto of_llama = [&](const Words& more) {
    Words words = llama;
    words.insert(words.end(), more.begin(), more.end());
    return search(words);
  };
  EXPECT_EQ(of_llama({}).err,
            "boxcar: train.precision: precision fp16 (its default); torchtitan runs bf16 or fp32 or fp8 "
            "alone (--max-stack "
            "torchtitan)\n");
  EXPECT_EQ(of_llama({"--precision=bf16", "--tied=true"}).err,
            "boxcar: --tied: tied true; torchtitan runs false alone (--max-stack torchtitan)\n");
  EXPECT_EQ(of_llama({"--precision=bf16", "--attention=unfused"}).err,
            "boxcar: --attention: attention unfused; torchtitan runs flash alone (--max-stack torchtitan)\n");
  EXPECT_EQ(of_llama({"--precision=bf16", "--overlap-tp=true"}).err,
            "boxcar: --overlap-tp: overlap_tp true; torchtitan runs false alone (--max-stack torchtitan)\n");
  EXPECT_EQ(of_llama({"--precision=bf16", "--stack=boxcar"}).err,
            "boxcar: model.pad_vocab: pad_vocab 128 (its default); torchtitan runs 1 alone (--max-stack "
            "torchtitan); --stack torchtitan has 1\n");
  EXPECT_THAT(
      of_llama({"--precision=bf16", "--dp=1", "--tp=4", "--pp=2", "--zero=3"}).err,
      ::testing::HasSubstr("alone where dp and context_parallel are 1 in 16 bits (--max-stack torchtitan)"));
  EXPECT_EQ(of_llama({"--precision=fp32", "--dp=1", "--tp=4", "--pp=2", "--zero=3"}).exit_code, 0);
  EXPECT_THAT(
      of_llama({"--precision=bf16", "--tp=2", "--sequence-parallel=false"}).err,
      ::testing::HasSubstr(
          "torchtitan runs sequence_parallel true alone where tp is 2 or more (--max-stack torchtitan)"));
  const json split = json::parse(of_llama({"--precision=bf16", "--tp=2"}).out);
  for (const json& c : split["candidates"]) EXPECT_EQ(c["sequence_parallel"], true);
  EXPECT_EQ(refused({"--max-stack=boxcar"}),
            "boxcar: --max-stack: framework boxcar does not say what it runs; those that do are deepspeed, "
            "megatron, "
            "megatron-fused-loss, megatron-nondeterministic, nemo, nemo-24, torchtitan\n");
  EXPECT_EQ(refused({"--max-stack=megatorn"}).substr(0, 80),
            "boxcar: --max-stack: no framework is named \"megatorn\" (did you mean megatron?); ");
}

// A plan that a framework runs is one that its export says whole. What DeepSpeed leaves to the user's program
// is not for its file to say.
TEST(SearchCommand, ExportsWhatItFindsWithinAFramework) {
  const Words small{"--model=llama3-8b", "--layers=8", "--gpus=16", "--global-batch=64",
                    "--cluster=dgx-h100"};
  const auto exported = [&](const std::string& stack, const Words& more) {
    const TemporaryFile plan("plan.txt", "");
    Words words{"search", "--simulate=3", "--max-stack=" + stack, "-o", plan.path()};
    words.insert(words.end(), small.begin(), small.end());
    words.insert(words.end(), more.begin(), more.end());
    const Output found = run_program(words);
    EXPECT_EQ(found.exit_code, 0) << stack << ": " << found.err;
    const Output output = run_program({"export", plan.path(), "--to", stack, "--strict"});
    EXPECT_EQ(output.exit_code, 0) << stack << ": " << output.err << found.out;
    return output.out;
  };
  for (const std::string stack : {"deepspeed", "megatron", "nemo", "torchtitan"}) {
    const std::string as = "--stack=" + stack;
    exported(stack, {as, "--preset=modern"});
    exported(stack, {as, "--preset=modern", "--dp=2", "--tp=2"});
    exported(stack, {as, "--preset=modern", "--pp=2", "--seq=32768", "--gpus=32", "--global-batch=16"});
    exported(stack, {as, "--precision=bf16", "--recompute=full", "--recompute-layers=all"});
  }
  for (const std::string stack : {"deepspeed", "megatron", "nemo"}) {
    exported(stack, {"--stack=" + stack, "--precision=fp16", "--gradients=float32"});
    exported(stack, {"--stack=" + stack, "--model=gpt2", "--precision=bf16", "--global-batch=8", "--gpus=8"});
  }
  const Words pipeline{"--stack=torchtitan", "--preset=modern", "--pp=4"};
  EXPECT_THAT(exported("torchtitan", pipeline), ::testing::HasSubstr("ZBVZeroBubble"));
  exported("torchtitan", {"--stack=torchtitan", "--preset=modern", "--pp=2", "--cluster=pcie-a100-80g",
                          "--gpus=8", "--global-batch=16", "--hidden=2048", "--heads=16"});  // not zb-h1
  const Words experts{"--model=mixtral-8x7b", "--seq=4096", "--precision=bf16", "--micro-batch=1", "--tp=2"};
  for (const std::string stack : {"megatron", "nemo"}) exported(stack, experts);
}

// Nobody asked for another framework's constants.
TEST(SearchCommand, SaysAsWhatItSimulates) {
  const std::string note =
      "boxcar: --max-stack: steps are simulated as boxcar runs them; --stack megatron simulates them as "
      "megatron "
      "does\n";
  EXPECT_EQ(search({"--max-stack=megatron", "--simulate=1"}).err, note);
  EXPECT_EQ(search({"--max-stack=megatron", "--stack=megatron", "--simulate=1"}).err, "");
  EXPECT_EQ(search({"--max-stack=megatron", "--stack=boxcar", "--simulate=1"}).err, "");
}

TEST(SearchCommand, TakesThePriceOfAGpu) {
  const json doc = json::parse(search({"--objective=cost", "--price=2.50", "--gpus=4"}).out);
  const json& best = doc["candidates"][0];
  EXPECT_NEAR(best["price_per_step"],
              2.5 * best["gpus"].get<double>() * best["step_time_s"].get<double>() / 3600, 1e-12);
}

// The lines of a search's table of plans.
std::vector<std::string> table_lines(const std::string& text) {
  std::istringstream lines(text.substr(text.find(" estimate ")));
  std::vector<std::string> all;
  for (std::string line; std::getline(lines, line) && !line.empty();) all.push_back(line);
  return all;
}

Words plain(const Words& more) {
  Words words{"search",    "--model=gpt",       "--layers=8",      "--hidden=512",
              "--heads=8", "--seq=256",         "--vocab=4096",    "--cluster=dgx-a100-80g",
              "--gpus=8",  "--global-batch=32", "--precision=bf16"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// Whatever the objective, dollars are shown where a price is known.
TEST(SearchCommand, ShowsDollarsWhereAPriceIsKnown) {
  const std::string priced = run_program(plain({"--price=2.50", "--simulate=3"})).out,
                    not_priced = run_program(plain({"--simulate=3"})).out;
  EXPECT_THAT(priced,
              ::testing::HasSubstr("\n     $/step  GPUs      step  estimate      peak layouts  plan\n"));
  EXPECT_THAT(not_priced, ::testing::HasSubstr("\n       step  estimate      peak layouts  plan\n"));
  const json best =
      json::parse(run_program(plain({"--price=2.50", "--simulate=3", "--json"})).out)["candidates"][0];
  EXPECT_THAT(table_lines(priced).at(1),
              ::testing::HasSubstr(fmt::format("{:.4g}     8", best["price_per_step"].get<double>())));
}

TEST(SearchCommand, ShowsEqualLinesOnce) {
  const std::vector<std::string> lines = table_lines(run_program(plain({})).out);
  EXPECT_GT(lines.size(), 4u);
  EXPECT_EQ(std::set(lines.begin(), lines.end()).size(), lines.size());
  explain::Report best;
  best.stages.resize(1);
  cli::SearchReport twice{{}, best};
  planner::Job job;
  job.model->layers = job.parallel.stage_layers.emplace_back(2);
  twice.outcome.best = {
      {.job = job, .seconds = 1}, {.job = job, .seconds = 1.00001}, {.job = job, .seconds = 2}};
  EXPECT_EQ(table_lines(to_table(twice)).size(), 3u);
}

// Reports say how far plans of other degrees are behind, not variations of one.
TEST(SearchCommand, RunnersUpAreOfOtherDegrees) {
  const TemporaryFile plan("best.txt", "");
  ASSERT_EQ(run_program(plain({"-o", plan.path()})).exit_code, 0);
  const std::string text = run_program({"explain", plan.path(), "--no-sensitivity"}).out;
  const json configuration =
      json::parse(run_program({"simulate", "--plan", plan.path(), "--json"}).out)["configuration"];
  const auto degree = [&](const char* name) {
    return configuration[fmt::format("parallel.{}", name)].get<std::string>();
  };
  std::set<std::string> degrees{
      fmt::format("--dp {} --tp {} --pp {}", degree("dp"), degree("tp"), degree("pp"))};
  const std::regex row("slower: (--dp [0-9]+ --tp [0-9]+ --pp [0-9]+)");
  int rows = 0;
  for (std::sregex_iterator at(text.begin(), text.end(), row), end; at != end; ++at, ++rows)
    EXPECT_TRUE(degrees.insert((*at)[1]).second) << text;
  EXPECT_EQ(rows, 3) << text;
}

// Where the degrees are given there are no others: variations are better than nothing.
TEST(SearchCommand, RunnersUpMayHaveTheDegreesThatAreGiven) {
  const TemporaryFile plan("best.txt", "");
  ASSERT_EQ(run_program(plain({"--dp=4", "--tp=2", "--pp=1", "-o", plan.path()})).exit_code, 0);
  EXPECT_THAT(run_program({"explain", plan.path(), "--no-sensitivity"}).out,
              ::testing::HasSubstr("\nrunners-up"));
}

// A framework's own switches are a search's to turn; simulate has its defaults.
TEST(SearchCommand, OverlapsWhereTheFrameworkCan) {
  const auto found = [&](const Words& more) {
    Words words = plain({"--json", "--simulate=3"});
    words.insert(words.end(), more.begin(), more.end());
    return json::parse(run_program(words).out);
  };
  const json megatron = found({"--stack=megatron", "--max-stack=megatron"});
  EXPECT_THAT(megatron["flags"], ::testing::EndsWith(" --overlap-grad true --overlap-param true"));
  EXPECT_EQ(megatron["best"]["configuration"]["parallel.overlap_grad"], "true");
  const json off =
      found({"--stack=megatron", "--max-stack=megatron", "--overlap-grad=false", "--overlap-param=false"});
  EXPECT_THAT(off["flags"], ::testing::Not(::testing::HasSubstr("overlap")));
  EXPECT_LE(megatron["step_time_s"], off["step_time_s"]);
  EXPECT_THAT(found({"--stack=nemo"})["flags"], ::testing::Not(::testing::HasSubstr("overlap")));
  Words simulate = plain({"--json", "--stack=megatron"});
  simulate[0] = "simulate";
  std::istringstream flags(megatron["flags"].get<std::string>());
  for (std::string word; flags >> word;) simulate.push_back(word);
  EXPECT_EQ(json::parse(run_program(simulate).out)["step_time_s"], megatron["step_time_s"]);
}

// `search --what-if` searches on the changed cluster.
TEST(SearchCommand, SearchesWithOtherConstants) {
  const auto step = [](const Words& more) {
    Words words{"--hidden=2048", "--seq=1024"};
    words.insert(words.end(), more.begin(), more.end());
    return json::parse(search(words).out)["step_time_s"].get<double>();
  };
  EXPECT_GT(step({"--what-if=flops=0.01x", "--what-if=node.link_latency=1ms"}), 2 * step({}));
}

// The table says which stages are slow.
TEST(SearchCommand, CutsStagesAroundStragglers) {
  const Words words{"search",
                    "--model=gpt",
                    "--layers=9",
                    "--hidden=1024",
                    "--heads=8",
                    "--seq=512",
                    "--vocab=128",
                    "--cluster=dgx-a100-80g",
                    "--gpus=3",
                    "--pp=3",
                    "--tp=1",
                    "--micro-batch=1",
                    "--global-batch=24",
                    "--stage-order=0,1,2",
                    "--attention=unfused",
                    "--simulate=3"};
  const auto table = [&](Words more) {
    more.insert(more.begin(), words.begin(), words.end());
    return run_program(more).out;
  };
  EXPECT_EQ(table({}).find("on slow devices"), std::string::npos);
  EXPECT_NE(
      table({"--straggler=rank=1,slowdown=1.9"})
          .find("\n  on slow devices: stage 1 with 2 layers (1.9 times as long); elsewhere 3 to 4 a stage\n"),
      std::string::npos);
  EXPECT_NE(
      table({"--straggler=rank=0,slowdown=2.5", "--straggler=rank=2,slowdown=2.5"})
          .find("\n  on slow devices: stage 0 with 2 layers (2.5 times as long), stage 2 with 2 layers (2.5 "
                "times as long); elsewhere 5 a stage\n"),
      std::string::npos);
  const Output wrong = search({"--straggler=rank=2,slowdown=2"});
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_EQ(wrong.err, "boxcar: --straggler: rank 2 is not there; ranks are 0 to 1\n");
}

TEST(SearchCommand, TellsOfDimensionsThatAreNotThere) {
  const Output output = search({"--tp=2", "--both-dimensions", "--precision=fp16,fp16"});
  EXPECT_EQ(
      output.err,
      "boxcar: --both-dimensions: has no effect unless a stage's mesh has two dimensions (it has tp)\n");
  const json doc = json::parse(output.out);  // a precision given twice is searched once
  EXPECT_EQ(doc["candidates"].size(),
            json::parse(search({"--tp=2", "--precision=fp16"}).out)["candidates"].size());
}

// Interrupted while it finds layouts, which takes seconds; a plan was simulated before.
TEST(SearchCommand, SavesTheBestSoFarWhenInterrupted) {
  const TemporaryFile plan("plan.txt", "");
  int terminal = -1;
  const pid_t child = forkpty(&terminal, nullptr, nullptr, nullptr);
  if (child == 0) {
    execl(BOXCAR_PROGRAM, "boxcar", "search", "--model=gpt", "--layers=6", "--hidden=8192", "--heads=64",
          "--seq=2048", "--vocab=51200", "--cluster=dgx-a100-80g", "--gpus=8", "--dp=2", "--tp=4", "--pp=1",
          "--micro-batch=1", "--global-batch=4", "--zero=0", "--both-dimensions", "-o", plan.path().c_str(),
          nullptr);
    _exit(127);
  }
  std::string text;
  char part[4096];
  bool told = false;
  for (ssize_t n = 0; (n = read(terminal, part, sizeof part)) > 0;) {
    text.append(part, static_cast<size_t>(n));
    if (!told && text.find("simulated, best ") != std::string::npos) told = kill(child, SIGINT) == 0;
  }
  close(terminal);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(told && WIFEXITED(status) && WEXITSTATUS(status) == 0) << text;
  EXPECT_NE(text.find("; ended early"), std::string::npos) << text;
  EXPECT_EQ(run_program({"simulate", "--plan", plan.path()}).exit_code, 0);
}

TEST(SearchCommand, HasADocumentWhereNothingFits) {
  const Output output = search({"--memory=2MB", "--micro-batch=8", "--gpus=1", "--recompute=none"});
  EXPECT_EQ(output.exit_code, 1);
  const json doc = json::parse(output.out);
  EXPECT_EQ(doc["schema_version"], 1);
  EXPECT_EQ(doc["fits"], false);
  EXPECT_EQ("boxcar: " + doc["why"].get<std::string>() + "\n", output.err);
  EXPECT_GT(doc["smallest"]["estimated_memory_bytes"], 2'000'000);
  EXPECT_EQ(doc["search"]["simulated"], 0);
  ASSERT_FALSE(doc["would_do"].empty());
  for (const json& change : doc["would_do"]) EXPECT_LE(change["estimated_memory_bytes"], 2'000'000);
}

// The memory that the message offers is enough. Where no device has as much, the message says so.
TEST(SearchCommand, OffersMemoryThatIsEnough) {
  const std::string why = json::parse(search({"--memory=1MB", "--gpus=1"}).out)["why"];
  const std::string offered = " with --memory ";
  const size_t at = why.rfind(offered);
  ASSERT_NE(at, std::string::npos) << why;
  const json enough = json::parse(search({"--gpus=1", "--memory=" + why.substr(at + offered.size())}).out);
  EXPECT_EQ(enough["fits"], true) << why;
  const std::string none = json::parse(
      search({"--layers=48", "--hidden=8192", "--heads=64", "--gpus=1", "--dp=1", "--global-batch=1"})
          .out)["why"];
  EXPECT_EQ(none.find("--memory"), std::string::npos) << none;
  EXPECT_TRUE(none.ends_with(" GB each for a plan (a100-sxm-80g has 85.1 GB)") ||
              none.ends_with(" TB each for a plan (a100-sxm-80g has 85.1 GB)"))
      << none;
}

TEST(SearchCommand, ShowsTheLimitOfMemoryThatWasAskedFor) {
  EXPECT_EQ(json::parse(search({"--memory=6GB", "--simulate=1"}).out)["best"]["memory_limit_bytes"][0],
            6'000'000'000);
  EXPECT_NE(run_program({"search", "--model=gpt2", "--cluster=dgx-a100-80g", "--gpus=1", "--global-batch=1",
                         "--memory=6GB", "--simulate=1"})
                .out.find("\nmemory, limit 6 GB per GPU"),
            std::string::npos);
}

// Halving reaches the same numbers of layers twice.
TEST(SearchCommand, ListsNoPlanTwice) {
  const json doc =
      json::parse(search({"--layers=8", "--hidden=1024", "--heads=16", "--seq=1024", "--vocab=50257",
                          "--gpus=8", "--dp=8", "--micro-batch=4", "--global-batch=64", "--precision=fp16",
                          "--objective=memory", "--max-step-time=100ms", "--attention=unfused"})
                      .out);
  std::set<std::string> plans;
  int some_layers = 0;
  for (json row : doc["candidates"]) {
    if (row["layouts"] == "found") continue;  // such rows differ in more than their flags
    some_layers += row.contains("recompute_layers") ? 1 : 0;
    EXPECT_TRUE(plans.insert(row.dump()).second) << row;
  }
  EXPECT_GE(some_layers, 1);
}

TEST(SearchCommand, HasADocumentWhereNoDegreesAreLegal) {
  const Output output = search({"--tp=3"});
  EXPECT_EQ(output.exit_code, 1);
  const json doc = json::parse(output.out);
  EXPECT_EQ(doc["fits"], false);
  EXPECT_EQ(doc["why"], "parallel: tp 3 contradicts heads 4: tp has to divide heads (use 1 or 2)");
  EXPECT_FALSE(doc.contains("smallest"));
}

// Where recomputation is asked for and memory is enough without: plans say that they have none.
TEST(SearchCommand, SaysThatNothingIsRecomputed) {
  const json doc = json::parse(search({"--recompute=full", "--simulate=2"}).out);
  EXPECT_THAT(doc["flags"], ::testing::EndsWith(" --recompute none"));
  EXPECT_THAT(run_program(plain({"--recompute=full", "--simulate=2"})).out,
              ::testing::HasSubstr("\n  recompute full: no layer has to for the plan to fit, so none does "
                                   "(--recompute-layers all makes all)\n"));
  for (const Words& other : {Words{"--simulate=2"}, Words{"--recompute=full", "--recompute-layers=all"}})
    EXPECT_THAT(run_program(plain(other)).out, ::testing::Not(::testing::HasSubstr("no layer has to")));
  EXPECT_THAT(json::parse(search({"--recompute=full", "--recompute-layers=1", "--simulate=2"}).out)["flags"],
              ::testing::HasSubstr("--recompute full --recompute-layers 1"));
}

// A value that the plan has anyway is accepted, and `simulate` agrees.
TEST(SearchCommand, SaysWhichKeysHaveNoEffect) {
  EXPECT_EQ(search({"--dp=1", "--zero=3", "--simulate=1"}).err,
            "boxcar: --zero: has no effect unless dp or context_parallel is 2 or more\n");
  EXPECT_EQ(search({"--tp=1", "--sequence-parallel=true", "--simulate=1"}).err,
            "boxcar: --sequence-parallel: has no effect unless tp is 2 or more\n");
  EXPECT_EQ(search({"--dp=2", "--zero=3", "--simulate=1"}).err, "");
  EXPECT_EQ(search({"--recompute=selective", "--simulate=1"}).err,
            "boxcar: --recompute: has no effect unless attention is unfused (attention as one kernel keeps "
            "nothing that "
            "selective could compute again)\n");
  EXPECT_EQ(search({"--recompute=selective", "--attention=unfused", "--simulate=1"}).err, "");
  const Words simulate{"simulate",  "--model=gpt", "--layers=2",  "--hidden=64",
                       "--heads=4", "--seq=32",    "--vocab=128", "--cluster=dgx-a100-80g",
                       "--gpus=2"};
  const auto simulated = [&](const Words& more) {
    Words words = simulate;
    words.insert(words.end(), more.begin(), more.end());
    return run_program(words).err;
  };
  EXPECT_EQ(simulated({"--dp=1", "--tp=2", "--zero=3"}),
            "boxcar: --zero: has no effect unless dp or context_parallel is 2 or more\n");
  EXPECT_EQ(simulated({"--zero=3", "--sequence-parallel"}),
            "boxcar: --sequence-parallel: has no effect unless tp is 2 or more\n");
}

TEST(SearchCommand, HasADocumentWhereItEndsBeforeAnyPoint) {
  const Output output = search({"--budget=0.001ms"});
  EXPECT_EQ(output.exit_code, 1);
  const json doc = json::parse(output.out);
  EXPECT_EQ(doc["fits"], false);
  EXPECT_EQ(doc["search"]["ended"], false);
  EXPECT_EQ(doc["why"], "ended before a point was found that fits; give it more time with --budget");
}

TEST(SearchCommand, SaysWhichKeysItSearches) {
  const std::string help = run_program({"search", "--help"}).out;
  for (const char* line :
       {"data parallelism [searched]", "tensor parallelism [searched]", "pipeline stages [searched]",
        "samples in a micro-batch of one data-parallel rank "
        "[searched]",
        "sequences in an optimizer step, or 4M-tokens [needed]"})
    EXPECT_NE(help.find(line), std::string::npos) << line << "\n" << help;
}

}  // namespace
}  // namespace boxcar::tests

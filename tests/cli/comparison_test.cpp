// `boxcar diff` and `boxcar explain --why-not`: numbers are those of `simulate` with the same flags.
#include "cli/comparison.h"

#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "bad_input.h"

namespace boxcar::tests {
namespace {

using nlohmann::json;
using testing::HasSubstr;

Words job(const Words& more) {
  Words words{"simulate",  "--model=gpt",       "--layers=8",      "--hidden=512",
              "--heads=8", "--seq=512",         "--vocab=4096",    "--cluster=dgx-a100-80g",
              "--gpus=8",  "--global-batch=32", "--precision=bf16"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

Words with(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

class Comparison : public testing::Test {
 protected:
  void save(const TemporaryFile& file, const Words& flags) {
    const Output output = run_program(with(job(flags), {"--save-plan", file.path()}));
    ASSERT_EQ(output.exit_code, 0) << output.err;
  }
  static double step(const Words& flags) {
    const Output output = run_program(with(job(flags), {"--json"}));
    EXPECT_EQ(output.exit_code, 0) << output.err;
    return json::parse(output.out)["step_time_s"];
  }
  static json document(const Words& words) {
    const Output output = run_program(with(words, {"--json"}));
    EXPECT_EQ(output.exit_code, 0) << output.err;
    return json::parse(output.out);
  }

  TemporaryFile a_{"a.txt", ""}, b_{"b.txt", ""};
};

TEST_F(Comparison, APlanBesideItself) {
  save(a_, {"--tp=2", "--pp=2"});
  const Output output = run_program({"diff", a_.path(), a_.path()});
  EXPECT_EQ(output.exit_code, 0) << output.err;
  EXPECT_THAT(output.out, HasSubstr("\nthe plans have the same keys\n"));
  EXPECT_THAT(output.out, HasSubstr(", as fast; "));
  EXPECT_TRUE(document({"diff", a_.path(), a_.path()})["differences"].empty());
}

// Degrees change together, each other key alone.
TEST_F(Comparison, EachDifferenceCostsWhatSimulateSays) {
  save(a_, {"--tp=2", "--pp=2", "--zero=1", "--stage-layers=3,5"});
  save(b_, {"--tp=4", "--recompute=full"});
  const json doc = document({"diff", a_.path(), b_.path()});
  EXPECT_NEAR(doc["a"]["step_time_s"], step({"--tp=2", "--pp=2", "--zero=1", "--stage-layers=3,5"}), 1e-12);
  EXPECT_NEAR(doc["b"]["step_time_s"], step({"--tp=4", "--recompute=full"}), 1e-12);
  const json& rows = doc["differences"];
  ASSERT_EQ(rows.size(), 3u) << rows;
  EXPECT_THAT(rows[0]["b"].get<std::string>(), HasSubstr("--tp 4"));
  EXPECT_THAT(rows[0]["a"].get<std::string>(), HasSubstr("--stage-layers 3,5"));
  EXPECT_NEAR(rows[0]["step_time_s"], step({"--tp=4", "--zero=1"}), 1e-12);
  EXPECT_EQ(rows[1]["b"], "--zero 0");
  EXPECT_NEAR(rows[1]["step_time_s"], step({"--tp=2", "--pp=2", "--stage-layers=3,5"}), 1e-12);
  EXPECT_EQ(rows[2]["b"], "--recompute full");
  EXPECT_NEAR(rows[2]["step_time_s"],
              step({"--tp=2", "--pp=2", "--zero=1", "--stage-layers=3,5", "--recompute=full"}), 1e-12);
}

// Torchtitan's own default of recompute_stop differs, which is nothing without recomputation.
TEST_F(Comparison, KeysWithoutEffectInBothAreNoDifference) {
  save(a_, {"--zero=1"});
  save(b_, {"--zero=1", "--stack=torchtitan", "--sequence-parallel=false"});
  for (const json& row : document({"diff", a_.path(), b_.path()})["differences"])
    EXPECT_EQ(row.dump().find("recompute-stop"), std::string::npos) << row;
}

// Layers of each stage to recompute are nothing without recomputation.
TEST_F(Comparison, RecomputationByStageGoesWithTheStages) {
  const Words with_layers{"--tp=2", "--pp=4", "--recompute=full", "--recompute-layers=2,1,0,0"};
  save(a_, {"--tp=4", "--pp=2"});
  save(b_, with_layers);
  const json there = document({"diff", a_.path(), b_.path()})["differences"];
  ASSERT_EQ(there.size(), 1u) << there;
  EXPECT_NEAR(there[0].value("step_time_s", 0.0), step(with_layers), 1e-12) << there;
  const json back = document({"diff", b_.path(), a_.path()})["differences"];
  ASSERT_EQ(back.size(), 1u) << back;
  EXPECT_NEAR(back[0].value("step_time_s", 0.0), step({"--tp=4", "--pp=2"}), 1e-12) << back;
}

// A model's keys hang together; steps of other batches compare by samples.
TEST_F(Comparison, ModelsAndBatchesAreComparedAsTheyCanBe) {
  save(a_, {"--tp=2"});
  save(b_, {"--tp=2", "--layers=4", "--heads=4"});
  const json models = document({"diff", a_.path(), b_.path()})["differences"];
  ASSERT_EQ(models.size(), 1u) << models;
  EXPECT_NEAR(models[0]["step_time_s"], step({"--tp=2", "--layers=4", "--heads=4"}), 1e-12);
  const json batch = document({"explain", a_.path(), "--why-not", "--global-batch 64"})["why_not"][0];
  EXPECT_NEAR(batch["slower"], step({"--tp=2", "--global-batch=64"}) / (2 * step({"--tp=2"})) - 1, 1e-9);
}

TEST_F(Comparison, APlanThatDoesNotFitIsRefused) {
  const std::string path = a_.path();
  run_program(
      {"simulate", "--model=llama3-70b", "--cluster=dgx-h100", "--gpus=8", "--tp=8", "--save-plan", path});
  for (const Words& words :
       {Words{"explain", path}, Words{"diff", path, path}, Words{"report", path, "-o", "r.html"}})
    EXPECT_THAT(
        run_program(words).err,
        testing::ContainsRegex("does not fit: stage0 needs [0-9.]+ GB of 84.9 GB, [0-9.]+ GB too much; "
                               "`boxcar simulate --plan` says more\n"));
}

// Layers that recompute in both plans do so in A with other stages too.
TEST_F(Comparison, KeepsTheRecomputedLayersThatBothPlansHave) {
  const Words both{"--recompute=full", "--recompute-layers=1"};
  save(a_, with(both, {"--pp=2"}));
  save(b_, with(both, {"--pp=4"}));
  const json differences = document({"diff", a_.path(), b_.path()})["differences"];
  ASSERT_EQ(differences.size(), 1u) << differences;
  EXPECT_NEAR(differences[0]["step_time_s"], step(with(both, {"--pp=4"})), 1e-12);
}

// The slowest device of a stage binds the step, not the mean of its devices.
TEST_F(Comparison, AStragglersKernelsBindTheStep) {
  const json bound = document(job({"--dp=8", "--straggler=rank=3,slowdown=20"}))["bound_by"];
  EXPECT_GT(bound["kernels"], 0.8);
}

TEST_F(Comparison, WhyNotPlacesAnotherPlan) {
  save(a_, {"--tp=2", "--pp=2", "--stage-layers=3,5"});
  const json doc = document({"explain", a_.path(), "--why-not", "--tp 8", "--why-not=--pp 4 --zero 1"});
  ASSERT_EQ(doc["why_not"].size(), 2u);
  EXPECT_EQ(
      doc["why_not"][0]["why"],
      "parallel: tp 8 x pp 2 x context_parallel 1 = 16 does not divide 8 gpus (use a multiple of 16 gpus, or "
      "other degrees)");
  EXPECT_NEAR(doc["why_not"][1]["step_time_s"], step({"--tp=2", "--pp=4", "--zero=1"}), 1e-12);
  save(b_, {"--tp=2", "--pp=2", "--virtual-stages=2"});
  const json flat = document({"explain", b_.path(), "--why-not=--pp 1"});
  EXPECT_NEAR(flat["why_not"][0]["step_time_s"], step({"--tp=2"}), 1e-12);
  const double base = step({"--tp=2", "--pp=2", "--stage-layers=3,5"});
  EXPECT_NEAR(doc["why_not"][1]["slower"], step({"--tp=2", "--pp=4", "--zero=1"}) / base - 1, 1e-9);
}

// A plan says all keys. Those that a name stood for, and those that need what is gone, do not stay.
TEST_F(Comparison, WhyNotLetsGoOfKeysThatFollowFromOthers) {
  save(a_, {"--tp=2", "--zero=1", "--recompute=full", "--recompute-layers=2", "--grad-bucket-mb=50"});
  const Words all{"--tp=2", "--zero=1", "--grad-bucket-mb=50"},
      recompute{"--recompute=full", "--recompute-layers=2"};
  const auto expect = [&](const std::string& flags, double seconds) {
    const json placed = document({"explain", a_.path(), "--why-not", flags})["why_not"][0];
    EXPECT_NEAR(placed.value("step_time_s", 0.0), seconds, 1e-12) << flags << ": " << placed;
  };
  expect("--zero 3", step(with({"--tp=2", "--zero=3"}, recompute)));
  expect("--recompute none", step(all));
  expect("--stack megatron", step(with(with(all, recompute), {"--stack=megatron"})));
  expect("--preset modern", step(with(with(all, recompute), {"--preset=modern"})));
  save(b_, {"--preset=modern"});
  const json plain =
      document({"explain", b_.path(), "--why-not", "--preset none --precision bf16"})["why_not"][0];
  EXPECT_NEAR(plain.value("step_time_s", 0.0), step({}), 1e-12);
  const json other =
      document({"simulate", "--model=gpt2", "--cluster=dgx-a100-80g", "--gpus=8", "--global-batch=32",
                "--precision=bf16", "--tp=2", "--zero=1", "--grad-bucket-mb=50"});  // all fits
  expect("--model gpt2", other["step_time_s"]);
}

// Which layers recompute goes by the plan's own stages and memory: under others, as few as fit.
TEST_F(Comparison, WhyNotRecomputesAsFewLayersAsFit) {
  const Words large{"--hidden=2048",       "--heads=16", "--seq=2048",         "--micro-batch=4",
                    "--memory-margin=0.8", "--zero=1",   "--attention=unfused"};
  save(a_, with(large, {"--pp=2", "--recompute=full", "--recompute-layers=4,1"}));
  const auto placed = [&](const std::string& flags) {
    return document({"explain", a_.path(), "--why-not", flags})["why_not"][0];
  };
  // The stages stay, and all fits: so do the layers.
  const json same = placed("--zero 2");
  EXPECT_FALSE(same.contains("chosen")) << same;
  // Other stages: no layer less fits.
  const json other = placed("--pp 4");
  ASSERT_TRUE(other["fits"]) << other;
  const std::string chosen = other["chosen"];
  ASSERT_THAT(chosen, testing::StartsWith("--recompute-layers ")) << other;
  const std::string layers = chosen.substr(chosen.find(' ') + 1);
  const auto of_these = [&](const std::string& counts) {
    Words words = with(large, {"--pp=4", "--recompute=full", "--recompute-layers=" + counts});
    return run_program(with(job(words), {"--json"}));
  };
  const json again = json::parse(of_these(layers).out);
  EXPECT_NEAR(other["step_time_s"], again["step_time_s"], 1e-12);
  EXPECT_LT(other["step_time_s"], json::parse(of_these("2").out)["step_time_s"]);  // all
  std::vector<int> counts;
  std::istringstream numbers(layers);
  for (std::string number; std::getline(numbers, number, ',');) counts.push_back(std::stoi(number));
  ASSERT_EQ(counts.size(), 4u);
  for (size_t s = 0; s < counts.size(); ++s) {
    if (counts[s] == 0) continue;
    std::vector<int> fewer = counts;
    --fewer[s];
    EXPECT_EQ(of_these(fmt::format("{}", fmt::join(fewer, ","))).exit_code, 1) << layers << " at " << s;
  }
  // The stages stay, but more has to recompute.
  const json more = placed("--micro-batch 8 --memory-margin 0.82");
  EXPECT_TRUE(more["fits"]) << more;
  EXPECT_TRUE(more.contains("chosen")) << more;
  EXPECT_THAT(run_program({"explain", a_.path(), "--why-not", "--pp 4"}).out,
              HasSubstr("\n  with      " + chosen + ", the fewest recomputed layers that fit\n"));
  // Recomputation that is asked for is not chosen; and nothing that fits is said to recompute all.
  EXPECT_FALSE(placed("--pp 4 --recompute-layers 1").contains("chosen"));
  const json none = placed("--seq 16384");
  EXPECT_FALSE(none["fits"]);
  EXPECT_EQ(none["chosen"], "--recompute-layers all");
}

TEST_F(Comparison, SaysOnHowManyGpusAnotherPlanIs) {
  save(a_, {"--dp=8"});
  const auto placed = [&](const char* flags) {
    return run_program({"explain", a_.path(), "--why-not", flags}).out;
  };
  EXPECT_THAT(placed("--dp 4"), testing::StartsWith("--dp 4\n  on 4 GPUs "));
  EXPECT_THAT(placed("--tp 2"), testing::Not(HasSubstr("GPUs")));
  const json doc =
      document({"explain", a_.path(), "--why-not=--dp 4", "--why-not=--tp 2", "--why-not=--tp 3"})["why_not"];
  EXPECT_EQ(doc[0]["gpus"], 4);
  EXPECT_EQ(doc[1]["gpus"], 8);
  EXPECT_FALSE(doc[2].contains("gpus"));
  save(b_, {"--tp=2"});
  const json differences = document({"diff", a_.path(), b_.path()})["differences"];
  ASSERT_EQ(differences.size(), 1u);
  EXPECT_EQ(differences[0]["gpus"], 8);
}

// A sample of half as many tokens takes half the time, and is no faster plan.
TEST_F(Comparison, PlacesOtherSequencesByTokens) {
  save(a_, {});
  const json placed = document({"explain", a_.path(), "--why-not", "--seq 256"})["why_not"][0];
  const double base = document({"simulate", "--plan", a_.path(), "--json"})["tokens_per_s"];
  EXPECT_NEAR(placed["slower"], base / placed["tokens_per_s"].get<double>() - 1, 1e-9) << placed;
  EXPECT_THAT(run_program({"explain", a_.path(), "--why-not", "--seq 256"}).out,
              HasSubstr("er by tokens per second; "));
}

// Whole layers of one plan recompute, none of the other's: one difference, from either side.
TEST_F(Comparison, ChangesAKindOfRecomputationWithItsLayers) {
  save(a_, {"--tp=2", "--zero=1"});
  save(b_, {"--tp=2", "--zero=2", "--recompute=full", "--recompute-layers=2"});
  for (const auto& [one, other] : {std::pair{&a_, &b_}, std::pair{&b_, &a_}}) {
    const json differences = document({"diff", one->path(), other->path()})["differences"];
    ASSERT_EQ(differences.size(), 2u) << differences;
    for (const json& each : differences) EXPECT_TRUE(each["fits"]) << each;
    const bool first = differences[0]["b"].get<std::string>().find("recompute") != std::string::npos;
    const json& recomputes = differences[first ? 0 : 1];
    EXPECT_THAT(recomputes["b"].get<std::string>() + recomputes["a"].get<std::string>(),
                AllOf(HasSubstr("--recompute full"), HasSubstr("--recompute-layers 2")));
  }
}

TEST_F(Comparison, SaysWhichPlanItPlacesAndWhatTheSearchKnows) {
  run_program({"search", "--model=gpt", "--layers=4", "--hidden=256", "--heads=4", "--seq=256", "--vocab=512",
               "--cluster=dgx-a100-80g", "--gpus=8", "--global-batch=16", "-o", a_.path()});
  const json doc = document({"explain", a_.path(), "--why-not=--dp 4 --pp 2 --micro-batch 4",
                             "--why-not=--pp 4 --tp 1", "--why-not=--tp 3"});
  const json& known = doc["why_not"][0];
  EXPECT_THAT(known["plan"].get<std::string>(), HasSubstr("--dp 4 --tp 1 --pp 2"));
  ASSERT_TRUE(known.contains("searched")) << known;
  EXPECT_THAT(known["searched"]["plan"].get<std::string>(), HasSubstr("--dp 4 --tp 1 --pp 2"));
  EXPECT_LE(known["searched"]["step_time_s"], known["step_time_s"].get<double>() * (1 + 1e-9));
  EXPECT_FALSE(doc["why_not"][2].contains("plan")) << "it is illegal";
  EXPECT_THAT(run_program({"explain", a_.path(), "--why-not=--dp 4 --pp 2 --micro-batch 4"}).out,
              AllOf(HasSubstr("\n  plan      --dp 4 --tp 1 --pp 2"), HasSubstr("\n  searched  "),
                    HasSubstr(", the best with these flags that the search simulated: --dp 4")));
}

TEST_F(Comparison, RefusesWhatIsNoFlagOfAJob) {
  save(a_, {});
  const auto refused = [&](const char* flags) {
    return run_program({"explain", a_.path(), "--why-not", flags}).err;
  };
  EXPECT_EQ(refused("--zero 1 --tp"), "boxcar: --why-not: --tp needs a value\n");
  EXPECT_EQ(refused("tp 4"), "boxcar: --why-not: got \"tp 4\", expected flags such as \"--tp 4\"\n");
  EXPECT_EQ(refused("tp"), "boxcar: --why-not: got \"tp\", expected flags such as \"--tp 4\"\n");
  EXPECT_EQ(refused("--what-if memory=2x"),
            "boxcar: --why-not: got \"--what-if memory=2x\": plans are placed on the plan's cluster; `boxcar "
            "simulate --plan PLAN --what-if` changes constants\n");
  EXPECT_EQ(refused(" "), "boxcar: --why-not: needs flags such as \"--tp 4\"\n");
  EXPECT_EQ(
      refused(" --tensor-parallel 4"),
      "boxcar: --tensor-parallel: unknown flag (did you mean --tp?); `boxcar simulate --help` lists all\n");
  for (const char* flag : {"--op=h0.ln1", "--tensor=h0.ln1"}) {
    const Output output = run_program({"explain", a_.path(), "--why-not=--tp 4", flag});
    EXPECT_EQ(output.exit_code, 2);
    EXPECT_EQ(output.err, "boxcar: --why-not: another plan is placed as a whole; leave " +
                              std::string(flag).substr(0, std::string(flag).find('=')) +
                              " out, or ask for it alone\n");
  }
  EXPECT_THAT(run_program({"diff", a_.path(), "/none"}).err, HasSubstr("/none"));
  EXPECT_EQ(run_program({"diff", a_.path()}).exit_code, 2);
}

// A report in words.
TEST(PlacedText, SaysByHowMuch) {
  explain::Report base;
  base.stages.resize(1);
  base.stages[0].name = "stage0", base.stages[0].peak_bytes = 50'000'000'000;
  base.step_seconds = 2;
  cli::Variation v{"", base};
  EXPECT_EQ(placed_text(base, v), "2 s, as fast; 50 GB on stage0, as much");
  v.report.step_seconds = 3, v.report.stages[0].peak_bytes = 40'000'000'000;
  EXPECT_EQ(placed_text(base, v), "3 s, 50.0 % slower; 40 GB on stage0, 10 GB less");
  v.why_not = "does not fit";
  EXPECT_EQ(placed_text(base, v), "does not fit");
}

}  // namespace
}  // namespace boxcar::tests

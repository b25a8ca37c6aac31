// `boxcar train --plan`: a saved plan trains like the keys it was made from, and refuses everything else.
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "host/temporary.h"
#include "ir/plan.h"
#include "planner/search/plan_slots.h"
#include "support/run_program.h"

namespace boxcar::tests {
namespace {

using Words = std::vector<std::string>;

const Words model{"--model=gpt", "--layers=2",  "--hidden=16",     "--heads=4",
                  "--seq=16",    "--vocab=256", "--cluster=local", "--global-batch=16"};

class TrainPlan : public ::testing::Test {
 protected:
  void SetUp() override {
    std::ofstream text(path("text.txt"));
    for (int i = 0; i < 60; ++i) text << "the trains run on time, line " << i << ", and so do the boxcars\n";
  }

  std::string path(const std::string& name) const { return folder_ / name; }
  std::string plan() const { return path("best.plan"); }

  static Output run_on_model(const std::string& command, const Words& more) {
    Words words{command};
    words.insert(words.end(), model.begin(), model.end());
    words.insert(words.end(), more.begin(), more.end());
    return run_program(words);
  }
  void save(Words keys) const {
    keys.insert(keys.begin(), {"--dp=1", "--save-plan=" + plan()});
    const Output output = run_on_model("simulate", keys);
    ASSERT_EQ(output.exit_code, 0) << output.err;
  }
  void rewrite(const std::function<std::string(const std::string&)>& change) const {
    const std::string text = tests::contents(plan());
    std::ofstream(plan()) << change(text);
  }
  void replace(const std::string& from, const std::string& to) const {
    rewrite([&](std::string text) {
      const size_t at = text.find(from);
      EXPECT_NE(at, std::string::npos) << from;
      return text.replace(at, from.size(), to);
    });
  }

  Words run_keys(const Words& more) const {
    Words words{"--data=" + path("text.txt"), "--steps=4", "--json"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  static std::map<int, double> losses(const Output& output) {
    EXPECT_EQ(output.exit_code, 0) << output.err;
    std::map<int, double> result;
    std::istringstream lines(output.out);
    for (std::string line; std::getline(lines, line);) {
      const auto event = nlohmann::json::parse(line);
      if (event.at("event") == "step") result[event.at("step")] = event.at("loss");
    }
    EXPECT_EQ(result.size(), 4U);
    return result;
  }
  Output train_plan(const Words& more = {}) const {
    Words words{"train", "--plan=" + plan()};
    const Words keys = run_keys(more);
    words.insert(words.end(), keys.begin(), keys.end());
    return run_program(words);
  }
  std::map<int, double> train_keys(Words keys) const {
    // Keys whose defaults differ between simulate and train.
    keys.insert(keys.begin(), {"--pad-vocab=128", "--learning-rate=0.0001"});
    return losses(run_on_model("train", run_keys(keys)));
  }
  void expect_plan_refused(const Words& more, const std::string& message) const {
    const Output output = train_plan(more);
    EXPECT_EQ(output.exit_code, 2);
    EXPECT_EQ(output.err, "boxcar: " + message + "\n");
  }

  tests::TemporaryFolder folder_;
};

TEST_F(TrainPlan, HasTheLossesOfItsKeys) {
  for (const Words& keys :
       {Words{"--precision=fp32"}, Words{"--precision=bf16", "--tp=2", "--pp=2", "--micro-batch=2"},
        Words{"--precision=fp32", "--dp=2", "--tp=2", "--zero=3", "--recompute=full", "--micro-batch=4"},
        Words{"--precision=fp32", "--pp=2", "--dp=2", "--zero=1", "--recompute=full", "--recompute-layers=0",
              "--stage-layers=1,1", "--schedule=zb-h1", "--optimizer=momentum", "--tied=false"},
        Words{"--precision=fp32", "--pp=2", "--recompute=full", "--recompute-layers=1,0",
              "--recompute-others=selective"}}) {
    SCOPED_TRACE(::testing::PrintToString(keys));
    save(keys);
    EXPECT_EQ(losses(train_plan()), train_keys(keys));
  }
}

TEST_F(TrainPlan, OfASearchHasTheLossesOfOneDevice) {
  const Output found =
      run_on_model("search", {"--gpus=4", "--tp=2", "--pp=2", "--precision=fp64", "-o", plan()});
  ASSERT_EQ(found.exit_code, 0) << found.err;
  const auto split = losses(train_plan());
  EXPECT_EQ(losses(train_plan({"--chaos=3"})), split);
  for (const auto& [step, loss] : train_keys({"--precision=fp64"}))
    EXPECT_NEAR(split.at(step), loss, 1e-9 * loss) << step;
}

// The learning rate is the run's: no kernel depends on the plan's.
TEST_F(TrainPlan, TakesAnotherLearningRate) {
  save({"--precision=fp32", "--tp=2"});
  const auto given = losses(train_plan({"--learning-rate=0.01"}));
  EXPECT_EQ(given, train_keys({"--tp=2", "--learning-rate=0.01"}));
  EXPECT_NE(given, losses(train_plan()));
}

TEST_F(TrainPlan, DrawsWhatItTrainsOnWhereNoDataIsGiven) {
  save({"--precision=fp32", "--tp=2"});
  const auto train = [&](Words more) {
    Words words{"train", "--plan=" + plan(), "--steps=4", "--json"};
    words.insert(words.end(), more.begin(), more.end());
    return run_program(words);
  };
  const Output none = train({});
  EXPECT_EQ(none.err, "boxcar: --data: none is given: what is trained on is drawn (--data random)\n");
  EXPECT_EQ(losses(none), losses(train({"--data=random"})));
}

TEST_F(TrainPlan, GoesOnFromItsCheckpoint) {
  save({"--precision=fp32", "--dp=2", "--zero=1"});
  const Words keys{"--checkpoint-dir=" + path("out"), "--checkpoint-every=2", "--resume"};
  const auto whole = losses(train_plan(keys));
  std::filesystem::remove_all(path("out/step-000004"));
  std::ofstream(path("out/latest")) << "step-000002\n";
  const Output rest = train_plan(keys);
  EXPECT_NE(rest.out.find("\"step\":4"), std::string::npos) << rest.err;
  EXPECT_EQ(rest.out.find("\"event\":\"step\",\"step\":2,"), std::string::npos);
  EXPECT_NE(rest.out.find(nlohmann::json(whole.at(4)).dump()), std::string::npos) << rest.out;
}

// A search may give registers other slots than a schedule does.
TEST_F(TrainPlan, MayHaveOtherSlots) {
  save({"--precision=fp32", "--pp=2", "--micro-batch=2"});
  const auto before = losses(train_plan());
  rewrite([](const std::string& text) {
    ir::Plan plan = ir::parse_plan(text);
    std::vector<search::Slots> slots;
    for (const ir::Program& program : plan.programs)
      for (const ir::Register& reg : program.registers)
        if (reg.count == 2) slots.push_back({program.name, reg.name, 3});
    EXPECT_FALSE(slots.empty());
    search::set_slots(plan, slots);
    return ir::to_text(plan);
  });
  EXPECT_EQ(losses(train_plan()), before);
}

// Megatron keeps masks of dropout beside results, and writes the loss's gradient over its operand.
TEST_F(TrainPlan, OfASimulatedFrameworkHasTheMemoryOfARunHere) {
  save({"--precision=fp32", "--pp=2", "--micro-batch=4"});
  const auto own = losses(train_plan());
  save({"--precision=fp32", "--pp=2", "--micro-batch=4", "--stack=megatron"});
  EXPECT_NE(tests::contents(plan()).find(" over "), std::string::npos);
  EXPECT_EQ(losses(train_plan()), own);
  replace("arena ", "arena 1");
  EXPECT_NE(train_plan().exit_code, 0);
}

// Megatron-LM sets the size of buckets, which ZeRO 3 does not have.
TEST_F(TrainPlan, MayHaveLabelsWithoutEffect) {
  save({"--precision=fp32", "--dp=2", "--micro-batch=4", "--zero=3"});
  const auto own = losses(train_plan());
  save({"--precision=fp32", "--dp=2", "--micro-batch=4", "--zero=3", "--stack=megatron"});
  EXPECT_NE(tests::contents(plan()).find("label parallel.grad_bucket_mb = 1000"), std::string::npos);
  EXPECT_EQ(losses(train_plan()), own);
}

TEST_F(TrainPlan, RefusesKeysThatSayOtherwise) {
  save({"--precision=fp32", "--tp=2", "--recompute=full"});
  const std::string is = plan() + " is a plan for ", mend = " (leave it out, or plan anew)";
  expect_plan_refused({"--tp=4"}, "--tp: asks for tp 4, " + is + "tp 2" + mend);
  expect_plan_refused({"--model=gpt2"}, "--model: model.heads: asks for heads 12, " + is + "heads 4" + mend);
  expect_plan_refused({"--recompute-layers=1"}, "--recompute-layers: asks for recompute_layers [1], " + is +
                                                    "recompute_layers all" + mend);
  std::ofstream(path("job.yaml")) << "train: {dropout: 0.2}\n";
  expect_plan_refused({path("job.yaml")}, path("job.yaml") +
                                              ":1:9: unknown key \"dropout\" under train; it belongs "
                                              "under model");
  std::ofstream(path("job.yaml")) << "model: {dropout: 0.2}\n";
  expect_plan_refused({path("job.yaml")}, path("job.yaml") + ":1:18: model.dropout: asks for dropout 0.2, " +
                                              is + "dropout 0.1" + mend);
  // Flags that agree with the plan are accepted.
  EXPECT_EQ(train_plan({"--tp=2", "--model=gpt", "--heads=4", "--optimizer=adamw", "--dp=1"}).exit_code, 0);
}

TEST_F(TrainPlan, RefusesWhatIsNoPlanOfItsJob) {
  save({"--precision=fp32", "--pp=2", "--micro-batch=4"});
  const std::string mend =
      " is not in the plan that its labels make (plan anew, and change its keys instead of "
      "its lines)";
  const std::string whole = tests::contents(plan());
  replace("label train.clip_norm = 1\n", "label train.clip_norm = 0\n");
  expect_plan_refused({}, plan() + ": \"comm pp: groups 1 by 1, ranks 2 by 1\"" + mend);
  std::ofstream(plan()) << whole;
  replace("eps=1e-05", "eps=1e-06");
  const std::string changed = tests::contents(plan());
  const size_t at = changed.find("eps=1e-06"), line = changed.rfind('\n', at) + 3;
  const std::string shown = changed.substr(line, changed.find('\n', at) - line);
  expect_plan_refused(
      {}, plan() + ": \"" + (shown.size() > 100 ? shown.substr(0, 100) + "..." : shown) + "\"" + mend);
  rewrite([](const std::string& all) {
    std::istringstream lines(all);
    std::string rest;
    for (std::string l; std::getline(lines, l);)
      if (!l.starts_with("label ")) rest += l + "\n";
    return rest;
  });
  expect_plan_refused(
      {}, plan() +
              ": has no labels that say which job it is for (train one that search -o or simulate "
              "--save-plan wrote)");
}

// Both commands refuse a plan that cannot be carried out.
TEST_F(TrainPlan, BothCommandsRefuseAPlanThatCannotBe) {
  save({"--precision=fp32", "--micro-batch=4"});
  const std::string whole = tests::contents(plan());
  const auto expect_both = [&](const std::string& from, const std::string& to, const std::string& message) {
    std::ofstream(plan()) << whole;
    replace(from, to);
    expect_plan_refused({}, plan() + ": " + message);
    const Output simulated = run_program({"simulate", "--plan=" + plan()});
    EXPECT_EQ(simulated.exit_code, 2);
    EXPECT_EQ(simulated.err, "boxcar: " + plan() + ": " + message + "\n");
  };
  expect_both("micro_batches 4\n", "micro_batches 8\n",
              "stage0: phase F0: runs 4 times in a step, expected once, or once for each of 8 micro-batches");
}

TEST_F(TrainPlan, RefusesLabelsAndFactsThatItsJobHasNot) {
  save({"--precision=fp32"});
  const std::string whole = tests::contents(plan());
  replace("label train.clip_norm = ", "label train.bogus = 1\nlabel train.clip_norm = ");
  expect_plan_refused({}, plan() + ": label train.bogus is no key of a job (leave it out, or plan anew)");
  std::ofstream(plan()) << whole;
  replace("label train.clip_norm = 1\n", "label train.clip_nrm = 1\n");
  expect_plan_refused({}, plan() +
                              ": label train.clip_nrm is no key of a job (did you mean clip_norm?) (leave it "
                              "out, or plan anew)");
  std::ofstream(plan()) << whole;
  // Somebody else may have made the plan: it must not choose where the reader's run writes.
  replace("label train.clip_norm = ", "label run.checkpoint_dir = /tmp/elsewhere\nlabel train.clip_norm = ");
  expect_plan_refused({}, plan() +
                              ": label run.checkpoint_dir is a key of a run, and a plan has none (leave "
                              "it out, and give the key beside the plan)");
  std::ofstream(plan()) << whole;
  const std::string mend = ", its labels make 256 (plan anew, and change its keys instead of its lines)";
  replace("fact tokens = 256\n", "");
  expect_plan_refused({}, plan() + ": fact tokens is missing" + mend);
  std::ofstream(plan()) << whole;
  replace("fact tokens = 256\n", "fact tokens = 255\n");
  expect_plan_refused({}, plan() + ": fact tokens is 255" + mend);
}

TEST_F(TrainPlan, RefusesWhatIsSimulatedAlone) {
  save({"--precision=fp8", "--cluster=dgx-h100"});
  expect_plan_refused({}, plan() + ": label train.precision: fp8 is simulated, not trained (use bf16)");
}

}  // namespace
}  // namespace boxcar::tests

// Checkpoints of `boxcar train`: runs that resume where they stopped, and invalid checkpoints.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "backends/host/checkpoint.h"
#include "train.h"

namespace boxcar::tests {
namespace {

TEST_F(Train, GoesOnBitForBit) {
  const std::string whole = path("whole"), halves = path("halves");
  const auto straight = train({"--checkpoint-dir=" + whole, "--dp=2", "--zero=1"});
  // The schedule's length is part of the job, so the first half is a run that its own checkpoint cuts short.
  const Words resume{"--checkpoint-dir=" + halves, "--dp=2",   "--zero=1",
                     "--checkpoint-every=2",       "--resume", "--keep-checkpoints=0"};
  train(resume);
  for (const char* step : {"step-000004", "step-000006"}) fs::remove_all(fs::path(halves) / step);
  std::ofstream(halves + "/latest") << "step-000002\n";
  const auto rest = train(resume);
  ASSERT_EQ(rest.size(), 4u);
  for (const auto& [step, loss] : rest) EXPECT_EQ(loss, straight.at(step)) << step;
  EXPECT_EQ(checkpoint(halves), checkpoint(whole));
}

// Experts in every other layer; a checkpoint names their weights like all others.
TEST_F(Train, GoesOnWithExpertsInSomeLayers) {
  const std::string whole = path("whole"), halves = path("halves");
  const Words experts{"--experts=4", "--expert-every=2", "--dp=2", "--ep=2"};
  const auto with = [&](Words more) {
    more.insert(more.end(), experts.begin(), experts.end());
    return train(more);
  };
  const auto straight = with({"--checkpoint-dir=" + whole});
  const Words resume{"--checkpoint-dir=" + halves, "--checkpoint-every=2", "--resume",
                     "--keep-checkpoints=0"};
  with(resume);
  for (const char* step : {"step-000004", "step-000006"}) fs::remove_all(fs::path(halves) / step);
  std::ofstream(halves + "/latest") << "step-000002\n";
  const auto rest = with(resume);
  ASSERT_EQ(rest.size(), 4u);
  for (const auto& [step, loss] : rest) EXPECT_EQ(loss, straight.at(step)) << step;
  EXPECT_EQ(checkpoint(halves), checkpoint(whole));
  const auto on = with({"--init-from=" + whole + "/step-000006/model.safetensors", "--steps=1"});
  EXPECT_LT(on.at(1), straight.at(1));
}

// B is zero at first, so that the adapted model is the one that it adapts.
TEST_F(Train, AdaptersBeginAtTheWeightsThatTheyAdapt) {
  const std::string whole = path("whole");
  train({"--checkpoint-dir=" + whole});
  Words words{"--init-from=" + whole + "/step-000006/model.safetensors", "--dropout=0", "--steps=3"};
  const auto all = train(words);
  words.insert(words.end(), {"--lora-rank=2", "--lora-mlp"});
  const auto adapted = train(words);
  EXPECT_EQ(adapted.at(1), all.at(1));
  EXPECT_NE(adapted.at(3), all.at(3));
  // A file with adapters is read with them.
  const std::string tuned = path("tuned");
  words.push_back("--checkpoint-dir=" + tuned);
  train(words);
  const auto first = [&](Words more) {  // the model's adapters are in its config.json
    more.insert(more.end(), {"--init-from=" + tuned + "/step-000003/model.safetensors", "--dropout=0"});
    return train(more).at(1);
  };
  EXPECT_EQ(first({}), first({"--lora-rank=2", "--lora-mlp"}));
  EXPECT_NE(first({}), all.at(1));
}

// Models whose parameters have our own names: of images, graphs of one's own, with encoders, with adapters.
TEST_F(Train, GoesOnWithOtherModels) {
  const Words images{"--model=resnet", "--layers=16", "--hidden=4",
                     "--image=32",     "--vocab=5",   "--global-batch=4"},
      graph{std::string("--graph=") + BOXCAR_SOURCE_DIR "/docs/examples/mlp.txt", "--global-batch=8"};
  const Words sizes{"--layers=2", "--hidden=16", "--heads=2", "--seq=16", "--vocab=32", "--global-batch=4"};
  Words bert{"--model=bert", "--masked=3"}, t5{"--model=t5", "--decoder-seq=6"},
      lora{"--model=llama", "--lora-rank=2", "--lora-dropout=0.1"},
      sparse{"--model=llama", "--sparse-tables", "--clip-norm=0", "--precision=fp32", "--micro-batch=2"};
  for (Words* with : {&bert, &t5, &lora, &sparse}) with->insert(with->end(), sizes.begin(), sizes.end());
  for (const Words& model : {images, graph, bert, t5, lora, sparse}) {
    const std::string whole = path("whole"), halves = path("halves");
    const auto run = [&](const std::string& folder, const Words& more) {
      Words words{"train", "--data=random", "--json", "--steps=4", "--dp=2", "--checkpoint-dir=" + folder};
      words.insert(words.end(), model.begin(), model.end());
      words.insert(words.end(), more.begin(), more.end());
      const Output output = run_program(words);
      EXPECT_EQ(output.exit_code, 0) << output.err;
      return losses(output.out);
    };
    const auto straight = run(whole, {});
    ASSERT_EQ(straight.size(), 4u);
    run(halves, {"--checkpoint-every=2", "--keep-checkpoints=0"});
    fs::remove_all(fs::path(halves) / "step-000004");
    std::ofstream(halves + "/latest") << "step-000002\n";
    const auto rest = run(halves, {"--resume"});
    ASSERT_EQ(rest.size(), 2u);
    for (const auto& [step, loss] : rest) EXPECT_EQ(loss, straight.at(step)) << model[0] << step;
    for (const char* file : {"model.safetensors", "optimizer.safetensors", "state.json"})
      EXPECT_EQ(bytes_of(halves + "/step-000004/" + file), bytes_of(whole + "/step-000004/" + file))
          << model[0];
    fs::remove_all(halves);
    fs::remove_all(whole);
  }
}

TEST_F(Train, RefusesTheCheckpointOfAnotherGraph) {
  const std::string folder = path("out"), mlp = BOXCAR_SOURCE_DIR "/docs/examples/mlp.txt";
  const auto run = [&](const Words& more) {
    Words words{
        "train", "--data=random", "--steps=1", "--global-batch=8", "--resume", "--checkpoint-dir=" + folder};
    words.insert(words.end(), more.begin(), more.end());
    const Output output = run_program(words);
    return replace_all(output.err, folder_.string(), "FOLDER");
  };
  run({"--graph=" + mlp});
  std::ofstream(path("other.txt")) << replace_all(bytes_of(mlp), "relu", "gelu");
  EXPECT_THAT(
      run({"--graph=" + path("other.txt")}),
      MatchesRegex("boxcar: FOLDER/out/step-000001: is of another model: fingerprint is \"[0-9a-f]+\", "
                   "expected \"[0-9a-f]+\" \\(use the model's own settings, or another folder\\)\n"));
  EXPECT_EQ(run({"--model=resnet", "--layers=16", "--hidden=4", "--image=32", "--vocab=5"}),
            "boxcar: FOLDER/out/step-000001: is of another model: family is \"graph\", expected \"resnet\" "
            "(use the "
            "model's "
            "own settings, or another folder)\n");
}

TEST_F(Train, SaysWhereItBegins) {
  const std::string folder = path("out");
  const auto begin = [&](const std::string& steps) {
    Words words = arguments({"--checkpoint-dir=" + folder, "--resume", steps});
    std::erase(words, "--json");
    return run_program(words).out;
  };
  EXPECT_THAT(begin("--steps=2"), HasSubstr("\nno checkpoint in " + folder + " yet: from the beginning\n"));
  EXPECT_THAT(begin("--steps=3"), HasSubstr("\ngoing on from " + folder + ", step 2\n"));
}

TEST_F(Train, GoesOnUnderAnotherPlan) {
  const std::string folder = path("out");
  const Words keep{"--checkpoint-dir=" + folder, "--checkpoint-every=3", "--precision=fp64",
                   "--global-batch=8",           "--keep-checkpoints=0", "--resume"};
  const auto with = [&](Words more) {
    more.insert(more.end(), keep.begin(), keep.end());
    return train(more);
  };
  const auto first = with({"--dp=2", "--zero=1"});
  fs::remove_all(fs::path(folder) / "step-000006");
  std::ofstream(folder + "/latest") << "step-000003\n";
  const auto rest = with({"--tp=2", "--pp=2"});
  ASSERT_EQ(rest.size(), 3u);
  for (const auto& [step, loss] : rest) EXPECT_NEAR(loss, first.at(step), 1e-9) << step;
}

// Tables of 257 words have 280 (a multiple of 40, or of 20 for each of two devices) or 400, of which the last
// of four devices has none that exists.
TEST_F(Train, PaddingOfTheVocabularyHasNoShareInTheLoss) {
  const std::string folder = path("out");
  const auto with = [&](Words more) {
    more.insert(more.end(), {"--vocab=257", "--tied=false", "--precision=fp64", "--global-batch=4",
                             "--validate-every=2", "--validation-fraction=0.2"});
    const Output output = run_program(arguments(more));
    EXPECT_EQ(output.exit_code, 0) << output.err;
    auto all = losses(output.out);
    for (const auto& [step, loss] : losses(output.out, "validation")) all[-step] = loss;
    return all;
  };
  const auto expect_same = [](const std::map<int, double>& got, const std::map<int, double>& wanted,
                              size_t count) {
    EXPECT_EQ(got.size(), count);
    for (const auto& [step, loss] : got) EXPECT_NEAR(loss, wanted.at(step), 1e-7) << step;
  };
  const auto alone = with({"--pad-vocab=1"});
  for (const Words& padded :
       {Words{"--pad-vocab=40"}, Words{"--tp=4", "--pad-vocab=100", "--fused-loss"},
        Words{"--tp=4", "--pad-vocab=100", "--dp=2", "--zero=3"}, Words{"--pad-vocab=512", "--fused-loss"},
        Words{"--tp=2", "--pad-vocab=128", "--gather-logits"}})
    expect_same(with(padded), alone, 9);
  const Words lamb{"--optimizer=lamb", "--tied=true"};
  const auto of_norms = [&](Words more) {
    more.insert(more.end(), lamb.begin(), lamb.end());
    return with(more);
  };
  expect_same(of_norms({"--tp=2", "--pad-vocab=100"}), of_norms({"--pad-vocab=1"}), 9);
  expect_same(with({"--tp=2", "--pad-vocab=20", "--checkpoint-dir=" + folder, "--checkpoint-every=3",
                    "--keep-checkpoints=0"}),
              alone, 9);
  fs::remove_all(fs::path(folder) / "step-000006");
  std::ofstream(folder + "/latest") << "step-000003\n";
  expect_same(with({"--pad-vocab=40", "--checkpoint-dir=" + folder, "--resume"}), alone, 5);
  const std::string weights = "--init-from=" + folder + "/step-000003/model.safetensors";
  expect_same(with({"--tp=2", "--pad-vocab=20", weights}), with({weights}), 9);
}

// Starts the program and kills it after `microseconds`.
void run_and_kill(const Words& words, int microseconds) {
  const pid_t child = fork();
  if (child == 0) run(words);
  std::this_thread::sleep_for(std::chrono::microseconds(microseconds));
  kill(child, SIGKILL);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status)) << "ended by itself with " << WEXITSTATUS(status);
}

// 50 kills at a random moment, many of them during a checkpoint write.
TEST_F(Train, LosesNothingWhenKilled) {
  const std::string folder = path("killed"), whole = path("whole");
  const Words job{"--lr-schedule=constant", "--dp=2", "--dropout=0.1"};
  const auto with = [&](const std::string& into, const Words& more) {
    Words words = job;
    words.push_back("--checkpoint-dir=" + into);
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  const Words endless = arguments(with(folder, {"--resume", "--checkpoint-every=1", "--steps=1000000"}));
  std::mt19937 random(11);
  int while_writing = 0, reached = 0;
  fs::create_directory(folder);
  for (int i = 0; i < 50 || (while_writing == 0 && i < 200); ++i) {
    const int most = 150000 + 20000 * std::max(0, i - 50);  // a busy machine starts more slowly
    run_and_kill(endless, std::uniform_int_distribution<int>(1000, most)(random));
    for (const auto& entry : fs::directory_iterator(folder))
      while_writing += entry.path().extension() == ".tmp";
    const std::string latest = fs::exists(folder + "/latest") ? bytes_of(folder + "/latest") : "step-0";
    const int step = std::stoi(latest.substr(5));
    EXPECT_GE(step, reached) << "lost";
    reached = step;
  }
  EXPECT_GT(while_writing, 0);
  const std::string steps = "--steps=" + std::to_string(reached + 1);
  train(with(folder, {"--resume", steps}));
  train(with(whole, {steps}));
  EXPECT_EQ(checkpoint(folder), checkpoint(whole));
}

// A NaN moment spoils the weights at once, and the loss only in the next step.
TEST_F(Train, WritesNoCheckpointThatIsNoNumber) {
  const std::string folder = path("out");
  train({"--checkpoint-dir=" + folder, "--steps=2"});
  const std::string moments = folder + "/step-000002/optimizer.safetensors";
  std::string bytes = bytes_of(moments);
  bytes.replace(bytes.size() - 4, 4, "\xff\xff\xff\x7f");
  std::ofstream(moments, std::ios::binary) << bytes;
  const auto before = checkpoint(folder);
  const Output output = run_program(arguments({"--checkpoint-dir=" + folder, "--resume", "--steps=3"}));
  EXPECT_EQ(output.exit_code, 3);
  EXPECT_EQ(replace_all(output.err, folder_.string(), "FOLDER"),
            "boxcar: step 3: ln_f.weight has a nan (use a lower learning_rate, warmup_steps or another "
            "precision); the last checkpoint is FOLDER/out/step-000002\n");
  EXPECT_EQ(checkpoint(folder), before);
}

// A run of fewer steps than the checkpoint has does nothing, and ends where it began.
TEST_F(Train, EndsAtTheStepThatItResumedFrom) {
  const std::string folder = path("out");
  train({"--checkpoint-dir=" + folder, "--steps=3"});
  const Output output =
      run_program(arguments({"--checkpoint-dir=" + folder, "--resume", "--steps=2", "--json"}));
  EXPECT_EQ(output.exit_code, 0) << output.err;
  EXPECT_THAT(output.out, HasSubstr("\"event\":\"resumed\",\"step\":3"));
  EXPECT_THAT(output.out, HasSubstr("\"event\":\"end\",\"step\":3"));
}

// Another run's checkpoints are neither replaced nor removed.
TEST_F(Train, BeginsInAFolderOfItsOwn) {
  const std::string folder = path("out");
  const Words words = arguments({"--checkpoint-dir=" + folder});
  const auto refusal = [&] {
    const Output output = run_program(words);
    EXPECT_EQ(output.exit_code, 2);
    EXPECT_EQ(output.out, "");
    return replace_all(output.err, folder_.string(), "FOLDER");
  };
  fs::create_directories(folder);
  {
    const backends::host::HeldFolder another(folder);
    EXPECT_THAT(refusal(), MatchesRegex("boxcar: FOLDER/out: process " + std::to_string(getpid()) +
                                        " on [^ ]+ writes its checkpoints there .wait until it ends, or use "
                                        "another folder.\n"));
  }
  EXPECT_EQ(run_program(words).exit_code, 0);
  const auto before = checkpoint(folder);
  EXPECT_EQ(refusal(),
            "boxcar: --checkpoint-dir: FOLDER/out has checkpoints already (go on with --resume, or use "
            "another folder)\n");
  EXPECT_EQ(checkpoint(folder), before);
}

// Contents of a checkpoint folder from which training cannot resume.
TEST_F(Train, RefusesABadCheckpointAndLeavesIt) {
  const std::string folder = path("out");
  const Words resume{"--checkpoint-dir=" + folder, "--resume", "--steps=3"};
  const auto refusal = [&](const Words& more) {
    Words words = resume;
    words.insert(words.end(), more.begin(), more.end());
    const auto before = checkpoint(folder);
    const Output output = run_program(arguments(words));
    EXPECT_EQ(output.exit_code, 2);
    EXPECT_EQ(output.out, "");
    EXPECT_EQ(checkpoint(folder), before);
    return replace_all(output.err, folder_.string(), "FOLDER");
  };
  train({"--checkpoint-dir=" + folder, "--steps=2"});
  EXPECT_EQ(refusal({"--hidden=32"}),
            "boxcar: FOLDER/out/step-000002: is of another model: hidden is 16, expected 32 (use the model's "
            "own settings, or another folder)\n");
  EXPECT_EQ(refusal({"--seed=9"}), "boxcar: --seed: is 9, the checkpoint was begun with 1\n");
  EXPECT_EQ(refusal({"--global-batch=4"}), "boxcar: --global-batch: is 4, the checkpoint was begun with 2\n");
  EXPECT_EQ(refusal({"--optimizer=sgd"}),
            "boxcar: --resume: is optimizer sgd, precision fp32, dropout 0.1, the checkpoint was begun with "
            "optimizer adam, precision fp32, dropout 0.1 (give the same optimizer, precision and dropout)\n");
  std::ofstream(path("other.txt")) << bytes_of(data()) << "and more";
  const std::string other = refusal({"--data=" + path("other.txt")});
  EXPECT_TRUE(other.starts_with("boxcar: --data: is ")) << other;
  EXPECT_NE(other.find(" tokens of fingerprint "), std::string::npos) << other;
  EXPECT_NE(other.find(", the checkpoint was begun with "), std::string::npos) << other;
  EXPECT_TRUE(
      other.ends_with(" (give the same files, validate_every, validation_fraction and document_end)\n"))
      << other;
  std::ofstream(path("same.txt")) << bytes_of(data());
  EXPECT_EQ(run_program(arguments({"--checkpoint-dir=" + folder, "--resume", "--steps=2",
                                   "--data=" + path("same.txt")}))
                .exit_code,
            0);
  const fs::path weights = fs::path(folder) / "step-000002" / "model.safetensors";
  fs::resize_file(weights, fs::file_size(weights) - 1);
  EXPECT_EQ(refusal({}),
            "boxcar: FOLDER/out/step-000002/model.safetensors: is not a safetensors file: tensor "
            "'transformer.wte.weight' ends at byte 43776 of the data, which has 43775\n");
  std::ofstream(folder + "/latest") << "step-000007\n";
  fs::create_directory(fs::path(folder) / "step-000007");
  EXPECT_EQ(refusal({}),
            "boxcar: FOLDER/out/step-000007/state.json: cannot be read: No such file or directory\n");
}

}  // namespace
}  // namespace boxcar::tests

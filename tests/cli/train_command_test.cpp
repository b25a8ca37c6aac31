// `boxcar train` as a user runs it: losses that fall, runs that go on where they stopped, whole messages.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <thread>

#include "support/run_program.h"

namespace boxcar::testing {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using Words = std::vector<std::string>;

// A folder with a text to train on.
class Train : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("boxcar-train-" + std::to_string(getpid()));
    fs::create_directories(folder_);
    std::ofstream text(data());
    for (int i = 0; i < 60; ++i) text << "the trains run on time, line " << i << ", and so do the boxcars\n";
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::string data() const { return path("text.txt"); }

  Words arguments(const Words& more) const {
    Words words{"train",       "--model=gpt", "--layers=2",       "--hidden=16", "--heads=4",      "--seq=16",
                "--vocab=256", "--steps=6",   "--data=" + data(), "--json",      "--micro-batch=2"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  // The losses by step.
  static std::map<int, double> losses(const std::string& out) {
    std::map<int, double> result;
    std::istringstream lines(out);
    for (std::string line; std::getline(lines, line);) {
      const json j = json::parse(line);
      if (j.at("event") == "step") result[j.at("step")] = j.at("loss");
    }
    return result;
  }

  std::map<int, double> train(const Words& more) const {
    const Output output = run_program(arguments(more));
    EXPECT_EQ(output.exit_code, 0) << output.err;
    return losses(output.out);
  }

  static std::string bytes_of(const fs::path& file) {
    std::ifstream in(file, std::ios::binary);
    std::stringstream text;
    text << in.rdbuf();
    return text.str();
  }
  // All files of the newest checkpoint.
  static std::map<std::string, std::string> checkpoint(const std::string& folder) {
    std::map<std::string, std::string> files;
    std::ifstream latest(folder + "/latest");
    std::string name;
    latest >> name;
    for (const auto& entry : fs::directory_iterator(fs::path(folder) / name))
      files[entry.path().filename()] = bytes_of(entry.path());
    return files;
  }

  fs::path folder_;
};

TEST_F(Train, EverySplitHasTheSingleDevicesLosses) {
  const Words job{"--global-batch=8", "--precision=fp64", "--dropout=0.1"};
  const auto with = [&](Words more) {
    more.insert(more.end(), job.begin(), job.end());
    return train(more);
  };
  const auto alone = with({});
  ASSERT_EQ(alone.size(), 6u);
  EXPECT_LT(alone.at(6), alone.at(1));
  for (const Words& plan : {Words{"--dp=4"}, Words{"--tp=2", "--pp=2"}, Words{"--dp=2", "--tp=2", "--zero=3"},
                            Words{"--dp=2", "--cp=2", "--zero=1", "--recompute=full"}}) {
    const auto split = with(plan);
    for (const auto& [step, loss] : alone)
      EXPECT_NEAR(split.at(step), loss, 1e-9 * loss) << plan[0] << " step " << step;
  }
}

TEST_F(Train, SaysHowItGoesOnInJson) {
  const Output output = run_program(arguments({"--validate-every=3", "--validation-fraction=0.2"}));
  ASSERT_EQ(output.exit_code, 0) << output.err;
  std::string events;
  json last;
  std::istringstream lines(output.out);
  for (std::string line; std::getline(lines, line);) {
    last = json::parse(line);
    events += last.at("event").get<std::string>() + " ";
    if (last.at("event") != "step") continue;
    for (const char* key : {"step", "loss", "learning_rate", "step_time_s", "samples", "tokens_per_s"})
      EXPECT_TRUE(last.contains(key)) << key;
  }
  EXPECT_EQ(events, "start step step step validation step step step validation end ");
  EXPECT_EQ(last.at("step"), 6);
}

TEST_F(Train, GoesOnBitForBit) {
  const std::string whole = path("whole"), halves = path("halves");
  const auto straight = train({"--checkpoint-dir=" + whole, "--dp=2", "--zero=1"});
  // The schedule's length is part of the job, so the first half is a run that is cut short by its own
  // checkpoint.
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

// Starts the program and kills it after so many microseconds; returns whether it ended by itself before.
bool run_and_kill(const Words& words, int microseconds) {
  const pid_t child = fork();
  if (child == 0) {
    std::vector<char*> argv{const_cast<char*>(BOXCAR_PROGRAM)};
    for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    if (!freopen("/dev/null", "w", stdout)) _exit(126);
    execv(BOXCAR_PROGRAM, argv.data());
    _exit(127);
  }
  std::this_thread::sleep_for(std::chrono::microseconds(microseconds));
  kill(child, SIGKILL);
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST_F(Train, LosesNothingWhenKilled) {
  const std::string folder = path("killed"), whole = path("whole");
  const Words more{"--steps=40", "--checkpoint-every=1", "--keep-checkpoints=2", "--resume", "--dp=2"};
  Words straight = more;
  straight.push_back("--checkpoint-dir=" + whole);
  train(straight);
  Words words = arguments(more);
  words.push_back("--checkpoint-dir=" + folder);
  std::mt19937 random(11);
  int kills = 0;
  for (; kills < 50; ++kills)
    if (run_and_kill(words, std::uniform_int_distribution<int>(1000, 150000)(random))) break;
  EXPECT_GT(kills, 0);
  Words last = more;
  last.push_back("--checkpoint-dir=" + folder);
  train(last);
  EXPECT_EQ(checkpoint(folder), checkpoint(whole));
}

struct Refusal {
  Words flags;
  int exit_code;
  std::string message;  // FOLDER stands for the test's folder
};

TEST_F(Train, RefusesWhatCannotBe) {
  std::ofstream(path("empty.txt")).close();
  std::ofstream(path("short.txt")) << "too short";
  std::ofstream(path("odd.bin")) << "odd";
  const Refusal cases[] = {
      {{"--data=FOLDER/none.txt"}, 2, "FOLDER/none.txt: cannot be read: No such file or directory"},
      {{"--data=FOLDER/empty.txt"}, 2, "FOLDER/empty.txt: is empty, expected tokens"},
      {{"--data=FOLDER/short.txt"},
       2,
       "data: has 9 tokens, expected at least seq + 1 = 17 (use more text or a shorter seq)"},
      {{"--data=FOLDER/odd.bin"},
       2,
       "FOLDER/odd.bin: has 3 bytes, expected an even number: two bytes a token"},
      {{"--vocab=100"},
       2,
       "FOLDER/text.txt: byte 0 is 116, expected less than vocab 100 (use a larger vocab, 256 takes any "
       "text)"},
      {{"--steps=0"}, 2, "--steps: got \"0\", expected a whole number from 1 to 1000000000"},
      {{"--warmup-steps=6"}, 2, "--warmup-steps: 6 of 6 steps (leave some for training)"},
      {{"--checkpoint-every=2"}, 2, "--checkpoint-every: needs checkpoint_dir"},
      {{"--resume"}, 2, "--resume: needs checkpoint_dir"},
      {{"--init-from=FOLDER/none.safetensors"},
       2,
       "FOLDER/config.json: cannot be read: No such file or directory"},
      {{"--backend=cuda"}, 2, "--backend: got \"cuda\", expected cpu"},
      {{"--tp=3"}, 2, "--tp: 3 does not divide heads 4 (use 1, 2 or 4)"},
  };
  for (const Refusal& refusal : cases) {
    Words flags;
    for (const std::string& flag : refusal.flags)
      flags.push_back(replace_all(flag, "FOLDER", folder_.string()));
    const Output output = run_program(arguments(flags));
    EXPECT_EQ(output.exit_code, refusal.exit_code) << flags[0];
    EXPECT_EQ(replace_all(output.err, folder_.string(), "FOLDER"), "boxcar: " + refusal.message + "\n");
    EXPECT_EQ(output.out, "") << flags[0];
  }
}

TEST_F(Train, EndsWhereTheLossIsNoNumber) {
  const Output output =
      run_program(arguments({"--learning-rate=1000000", "--optimizer=sgd", "--clip-norm=0", "--steps=60"}));
  EXPECT_EQ(output.exit_code, 3);
  EXPECT_NE(output.err.find("the loss is "), std::string::npos) << output.err;
  EXPECT_NE(output.err.find("(use a lower learning_rate, warmup_steps or another precision)"),
            std::string::npos)
      << output.err;
}

}  // namespace
}  // namespace boxcar::testing
